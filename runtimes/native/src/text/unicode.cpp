#include "text/unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace edgespec {
namespace {

#include "text/unicode_tables.inc"

using Table = std::span<const uint32_t>;

// Of ranges, in the order of Property: first and last character of each.
const Table kProperties[] = {kSpace,
                             kWord,
                             kHan,
                             kRustWord,
                             kNumeric,
                             kPunctuation,
                             kBertPunctuation,
                             kMark,
                             kBertAccent,
                             kBertRemoved,
                             kBertSpace,
                             kChinese,
                             kNmtRemoved,
                             kNmtSpace,
                             kGraphemeControl,
                             kGraphemeExtend,
                             kGraphemePrepend,
                             kGraphemeSpacingMark,
                             kPictographic};

constexpr std::string_view kCategoryNames[] = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"};

// The row of a table of `width` numbers a row that begins with this character; or null.
const uint32_t* row_of(Table table, size_t width, char32_t character) {
  size_t low = 0, high = table.size() / width;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (table[middle * width] < character) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const bool found = low < table.size() / width && table[low * width] == character;
  return found ? &table[low * width] : nullptr;
}

constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTrailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

void append_decomposed(std::u32string& text, char32_t character, Decomposition how) {
  if (character - kSyllables < kSyllableCount) {
    const char32_t index = character - kSyllables;
    text += kLeads + index / (kVowelCount * kTrailCount);
    text += kVowels + index / kTrailCount % kVowelCount;
    if (index % kTrailCount != 0) text += kTrails + index % kTrailCount;
    return;
  }
  const uint32_t* row = nullptr;
  if (how == Decomposition::kCompatible) row = row_of(kCompatible, 2, character);
  if (row == nullptr) row = row_of(kCanonical, 2, character);
  if (row == nullptr) {
    text += character;
    return;
  }
  const uint32_t* parts = kDecomposedPool + (row[1] >> 5);
  text.append(parts, parts + (row[1] & 31));
}

uint32_t combining_class(char32_t character) {
  const Table table = kCombiningClasses;
  size_t low = 0, high = table.size() / 3;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (table[middle * 3 + 1] < character) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < table.size() / 3 && table[low * 3] <= character ? table[low * 3 + 2] : 0;
}

// The one character that two become, or 0.
char32_t composition(char32_t first, char32_t second) {
  if (first - kLeads < kLeadCount && second - kVowels < kVowelCount) {
    return kSyllables + ((first - kLeads) * kVowelCount + second - kVowels) * kTrailCount;
  }
  const char32_t syllable = first - kSyllables, trail = second - kTrails;
  if (syllable < kSyllableCount && syllable % kTrailCount == 0 && 0 < trail &&
      trail < kTrailCount) {
    return first + trail;
  }
  struct Row {
    char32_t first, second, composed;
  };
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (size_t i = 0; i < std::size(kCompositions); i += 3) {
      all.push_back({kCompositions[i], kCompositions[i + 1], kCompositions[i + 2]});
    }
    std::ranges::sort(all, [](const Row& a, const Row& b) {
      return std::pair(a.first, a.second) < std::pair(b.first, b.second);
    });
    return all;
  }();
  const auto found =
      std::ranges::lower_bound(rows, std::pair(first, second), {},
                               [](const Row& row) { return std::pair(row.first, row.second); });
  return found != rows.end() && found->first == first && found->second == second ? found->composed
                                                                                 : 0;
}

}  // namespace

bool has(Property property, char32_t character) {
  const Table ranges = kProperties[static_cast<size_t>(property)];
  // Beginnings have even indices: a character inside a range has an odd number of bounds before it.
  const auto after = std::ranges::upper_bound(ranges, uint32_t(character)) - ranges.begin();
  return after % 2 == 1 || (after > 0 && ranges[after - 1] == character);
}

Categories category_of(char32_t character) {
  const auto after = std::ranges::upper_bound(kCategories, character << 5 | 31) - kCategories;
  return 1U << (kCategories[after - 1] & 31);
}

Categories categories_named(std::string_view name) {
  Categories found = 0;
  for (size_t i = 0; i < std::size(kCategoryNames); ++i) {
    if (kCategoryNames[i].substr(0, name.size()) == name && !name.empty()) found |= 1U << i;
  }
  return found;
}

void append_lower_case(std::u32string& text, char32_t character) {
  if (character == 0x130) {
    text += U"i\u0307";
    return;
  }
  const uint32_t* row = row_of(kLowerCase, 2, character);
  text += row == nullptr ? character : char32_t(row[1]);
}

std::u32string decomposed(std::u32string_view text, Decomposition how) {
  std::u32string parts;
  parts.reserve(text.size());
  for (const char32_t character : text) append_decomposed(parts, character, how);
  // Runs of marks are ordered by their classes.
  for (size_t i = 0; i < parts.size();) {
    size_t end = i;
    while (end < parts.size() && combining_class(parts[end]) != 0) ++end;
    std::stable_sort(parts.begin() + i, parts.begin() + end, [](char32_t a, char32_t b) {
      return combining_class(a) < combining_class(b);
    });
    i = end + 1;
  }
  return parts;
}

std::u32string composed(std::u32string_view parts) {
  std::u32string text;
  size_t starter = std::u32string::npos;
  uint32_t before = 0;  // class of the mark before, since the starter
  for (const char32_t character : parts) {
    const uint32_t order = combining_class(character);
    const bool is_next = starter != std::u32string::npos && starter + 1 == text.size();
    if (starter != std::u32string::npos && (is_next || before < order)) {
      if (const char32_t one = composition(text[starter], character)) {
        text[starter] = one;
        continue;
      }
    }
    if (order == 0) starter = text.size();
    before = order;
    text += character;
  }
  return text;
}

}  // namespace edgespec
