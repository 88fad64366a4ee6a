// The exported tokenizer, as the package tokenizers reads its file: the same ids and texts.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/distribution.h"
#include "text/added_tokens.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/word_model.h"

namespace edgespec {

// A special token that a text spells out, in characters.
struct ControlToken {
  int64_t token;
  Span span;
};

class Tokenizer {
 public:
  // What is done with special tokens.
  enum class Special {
    kAround,   // those that are spelled out are tokens, and those that texts have around them added
    kSpelled,  // those that are spelled out are tokens
    kText,     // they are ordinary text
  };

  // Throws Error: the file is no tokenizer. UsageError: it has what is not known here, by name.
  static std::unique_ptr<const Tokenizer> open(const std::filesystem::path& file);

  // The token ids of a text in UTF-8. Throws Error: the vocabulary lacks a token for it.
  Tokens encode(std::string_view text, Special special) const;

  // The text of tokens. Special ones may be left out.
  std::string decode(const Tokens& tokens, bool skip_special = true) const;

  // The special tokens that a text spells out, in order, as they are written there.
  std::vector<ControlToken> control_tokens(std::u32string_view text) const;

 private:
  explicit Tokenizer(struct TokenizerFile file);
  void add_post_processor(const Json& part);
  void add_template(const Json& part);
  void encode_normalized(std::u32string_view text, bool is_first, bool special,
                         Tokens& tokens) const;

  Normalizer normalizer_;
  std::unique_ptr<const WordModel> model_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  TokenDecoder decoder_;
  Tokens before_, after_;  // that texts have around them
};

}  // namespace edgespec
