// SentencePiece's table of replaced characters, as the package tokenizers reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace edgespec {

class CharsMap {
 public:
  // base64 of the trie's size in bytes, its units (uint32), and the replacements, each with a zero
  // byte at its end. Throws Error: a text may lead out of the trie or of the replacements.
  explicit CharsMap(std::string_view base64);

  // Each grapheme of less than six bytes is looked up as a whole, and the characters of others, or
  // of one that is not found, each alone.
  std::u32string operator()(std::u32string_view text) const;

 private:
  // The replacement of the shortest key that a text begins with; null if there is none.
  const char* find(std::string_view key) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

// Where the grapheme that begins a text ends, by Unicode's rules.
size_t grapheme_end(std::u32string_view text);

}  // namespace edgespec
