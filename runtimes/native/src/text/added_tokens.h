// Tokens that are found in a text as they are spelled, before it is cut into words.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "text/normalizer.h"
#include "text/token_table.h"

namespace edgespec {

struct AddedToken {
  int64_t id;
  std::u32string content;
  std::u32string found;          // what is looked for, and shown: the content, perhaps normalized
  bool single_word;              // no letter may be beside it
  bool takes_left, takes_right;  // spaces
  bool is_normalized;            // it is looked for in the normalized text
  bool is_special;               // it has no text of its own
};

// A part of a text: an added token, or text between two.
struct TextPart {
  std::optional<int64_t> token;
  Span span;  // of it
};

class AddedTokens {
 public:
  // Of tokenizer.json's "added_tokens".
  AddedTokens(const Json& part, const TokenTable& vocabulary, const Normalizer& normalizer);

  // The parts of a text, or of a normalized one. Special tokens may be taken for text.
  std::vector<TextPart> parts(std::u32string_view text, bool normalized, bool special) const;

  // The token with this id, or null.
  const AddedToken* find(int64_t id) const;
  bool is_special(std::string_view text) const { return special_.contains(text); }
  const std::map<int64_t, AddedToken>& all() const { return all_; }

 private:
  // Spelled names as a tree of characters: the longest that begins at a place is found.
  class Names {
   public:
    void add(std::u32string_view name, int64_t id);
    struct Found {
      int64_t id;
      size_t length;
    };
    std::optional<Found> longest(std::u32string_view text) const;

   private:
    struct Node {
      std::map<char32_t, size_t> next;
      std::optional<int64_t> id;
    };
    std::vector<Node> nodes_ = {{}};
  };

  std::map<int64_t, AddedToken> all_;
  std::set<std::string, std::less<>> special_;
  Names plain_, normalized_;
};

}  // namespace edgespec
