#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/byte_characters.h"
#include "text/unicode.h"

namespace edgespec {
namespace {

constexpr std::u32string_view kGpt2 =
    UR"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Parts of a text, in order and without gaps, and whether a pattern matched them.
struct Part {
  Span span;
  bool matched;
};
using Parts = std::vector<Part>;
using Finder = std::function<std::vector<Span>(std::u32string_view)>;

enum class Behavior { kIsolated, kRemoved, kContiguous, kWithPrevious, kWithNext };

// Matches and what is between them.
Parts parts_of(std::u32string_view text, const std::vector<Span>& matches, bool inverted) {
  Parts parts;
  size_t at = 0;
  for (const Span& match : matches) {
    if (at != match.begin) parts.push_back({{at, match.begin}, inverted});
    parts.push_back({match, !inverted});
    at = match.end;
  }
  if (at != text.size()) parts.push_back({{at, text.size()}, inverted});
  return parts;
}

// Joins each match with the part before it, unless that is a match, too.
void join_with_previous(Parts& parts) {
  Parts joined;
  bool after_match = false;
  for (const Part& part : parts) {
    if (part.matched && !after_match && !joined.empty()) {
      joined.back().span.end = part.span.end;
    } else {
      joined.push_back({part.span, false});
    }
    after_match = part.matched;
  }
  parts = std::move(joined);
}

void join_with_next(Parts& parts) {
  Parts joined;
  bool before_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->matched && !before_match && !joined.empty()) {
      joined.back().span.begin = part->span.begin;
    } else {
      joined.push_back({part->span, false});
    }
    before_match = part->matched;
  }
  std::ranges::reverse(joined);
  parts = std::move(joined);
}

void join_contiguous(Parts& parts) {
  Parts joined;
  for (const Part& part : parts) {
    if (!joined.empty() && joined.back().matched == part.matched) {
      joined.back().span.end = part.span.end;
    } else {
      joined.push_back(part);
    }
  }
  parts = std::move(joined);
}

Words cut(const Words& words, const Finder& find, Behavior behavior, bool inverted = false) {
  Words made;
  for (const Word& word : words) {
    Parts parts = parts_of(word.text, find(word.text), inverted);
    if (behavior == Behavior::kWithPrevious) join_with_previous(parts);
    if (behavior == Behavior::kWithNext) join_with_next(parts);
    if (behavior == Behavior::kContiguous) join_contiguous(parts);
    for (const auto& [span, matched] : parts) {
      if (span.begin == span.end || (behavior == Behavior::kRemoved && matched)) continue;
      made.push_back(
          {word.text.substr(span.begin, span.end - span.begin), word.is_first && span.begin == 0});
    }
  }
  return made;
}

// Single characters.
Finder characters_that(std::function<bool(char32_t)> test) {
  return [test = std::move(test)](std::u32string_view text) {
    std::vector<Span> found;
    for (size_t at = 0; at < text.size(); ++at) {
      if (test(text[at])) found.push_back({at, at + 1});
    }
    return found;
  };
}

Finder characters_with(Property property) {
  return characters_that([property](char32_t c) { return has(property, c); });
}

Finder matches_of(Regex regex) {
  return [regex = std::move(regex)](std::u32string_view text) { return regex.matches(text); };
}

// Runs of letters, digits and the like, and runs of what is neither that nor space.
std::vector<Span> rust_words(std::u32string_view text) {
  const auto kind_of = [](char32_t c) {
    return has(Property::kRustWord, c) ? 1 : has(Property::kSpace, c) ? 0 : 2;
  };
  std::vector<Span> found;
  for (size_t at = 0; at < text.size();) {
    const int kind = kind_of(text[at]);
    size_t end = at + 1;
    while (end < text.size() && kind_of(text[end]) == kind) ++end;
    if (kind != 0) found.push_back({at, end});
    at = end;
  }
  return found;
}

Behavior behavior_of(const Json& part) {
  const auto name = part.at("behavior").get<std::string>();
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Contiguous") return Behavior::kContiguous;
  if (name == "MergedWithPrevious") return Behavior::kWithPrevious;
  if (name == "MergedWithNext") return Behavior::kWithNext;
  throw Error("a split with the behavior " + name);
}

}  // namespace

PreTokenizer::PreTokenizer(const Json& part) {
  if (!part.is_null()) add(part);
}

Words PreTokenizer::operator()(Word text) const {
  Words words = {std::move(text)};
  for (const Step& step : steps_) words = step(std::move(words));
  return words;
}

void PreTokenizer::add(const Json& part) {
  const std::string type = type_of(part);
  const auto splits = [&](Finder find, Behavior behavior, bool inverted = false) {
    steps_.push_back([find = std::move(find), behavior, inverted](const Words& words) {
      return cut(words, find, behavior, inverted);
    });
  };
  if (type == "Sequence") {
    for (const Json& inner : part.at("pretokenizers")) add(inner);
  } else if (type == "ByteLevel") {
    add_byte_level(part);
  } else if (type == "Metaspace") {
    add_metaspace(part);
  } else if (type == "Split") {
    splits(matches_of(pattern_in(part)), behavior_of(part), flag_in(part, "invert", false));
  } else if (type == "Digits") {
    splits(characters_with(Property::kNumeric),
           flag_in(part, "individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous);
  } else if (type == "Punctuation") {
    splits(characters_with(Property::kPunctuation),
           part.contains("behavior") ? behavior_of(part) : Behavior::kIsolated);
  } else if (type == "Whitespace") {
    splits(rust_words, Behavior::kRemoved, true);
  } else if (type == "WhitespaceSplit") {
    splits(characters_with(Property::kSpace), Behavior::kRemoved);
  } else if (type == "BertPreTokenizer") {
    splits(characters_with(Property::kSpace), Behavior::kRemoved);
    splits(characters_with(Property::kBertPunctuation), Behavior::kIsolated);
  } else if (type == "CharDelimiterSplit") {
    const std::u32string delimiter = characters_in(part, "delimiter");
    splits(characters_that([c = delimiter.at(0)](char32_t other) { return other == c; }),
           Behavior::kRemoved);
  } else {
    throw Error("the pre-tokenizer " + type);
  }
}

void PreTokenizer::add_byte_level(const Json& part) {
  if (flag_in(part, "add_prefix_space", true)) {
    steps_.push_back([](Words words) {
      for (Word& word : words) {
        if (!word.text.starts_with(U' ')) word.text.insert(0, 1, U' ');
      }
      return words;
    });
  }
  if (flag_in(part, "use_regex", true)) {
    steps_.push_back([find = matches_of(Regex(kGpt2))](const Words& words) {
      return cut(words, find, Behavior::kIsolated);
    });
  }
  steps_.push_back([](Words words) {
    for (Word& word : words) word.text = as_byte_characters(utf8_of(word.text));
    return words;
  });
}

void PreTokenizer::add_metaspace(const Json& part) {
  const char32_t mark = characters_in(part, "replacement").at(0);
  const auto scheme = part.value("prepend_scheme", std::string("always"));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    throw Error("a Metaspace with the prepend_scheme " + scheme);
  }
  steps_.push_back([=](Words words) {
    for (Word& word : words) {
      std::ranges::replace(word.text, U' ', mark);
      const bool may_prepend = scheme == "always" || (scheme == "first" && word.is_first);
      if (may_prepend && !word.text.starts_with(mark)) word.text.insert(0, 1, mark);
    }
    return words;
  });
  if (!flag_in(part, "split", true)) return;
  const Finder find = characters_that([mark](char32_t c) { return c == mark; });
  steps_.push_back([=](const Words& words) { return cut(words, find, Behavior::kWithNext); });
}

}  // namespace edgespec
