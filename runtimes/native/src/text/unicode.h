// What the package tokenizers knows of each character: its parts come from different Unicode
// versions, and scripts/make_unicode.py asked each.
#pragma once

#include <string>
#include <string_view>

namespace edgespec {

enum class Property {
  kSpace,
  kWord,  // \w of regular expressions
  kHan,
  kRustWord,  // \w of added tokens and of the pre-tokenizer Whitespace
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
  kPictographic,
};

bool has(Property property, char32_t character);

// General categories, as bits.
using Categories = unsigned;
Categories category_of(char32_t character);
// The categories with this name, of one letter or two; 0 if there is none.
Categories categories_named(std::string_view name);

void append_lower_case(std::u32string& text, char32_t character);

enum class Decomposition { kCanonical, kCompatible };
// The normal forms NFD or NFKD.
std::u32string decomposed(std::u32string_view text, Decomposition how);
// NFC or NFKC of a decomposed text.
std::u32string composed(std::u32string_view decomposed);

}  // namespace edgespec
