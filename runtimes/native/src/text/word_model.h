// How a word becomes tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/distribution.h"
#include "text/parts.h"
#include "text/token_table.h"

namespace edgespec {

// The parts of tokenizer.json's "model" that are long: they are read as they come.
struct ModelTables {
  TokenTable vocabulary;
  std::vector<double> scores;        // by id, of Unigram
  std::string merges;                // texts of all pairs, one after the other
  std::vector<uint64_t> merge_ends;  // where each text of `merges` ends; two a pair
};

class WordModel {
 public:
  virtual ~WordModel() = default;
  // Appends the tokens of a word in UTF-8. Throws Error: it has an unknown character, and the
  // vocabulary no token for one.
  virtual void encode(std::string_view word, Tokens& tokens) const = 0;
  const TokenTable& vocabulary() const { return vocabulary_; }

 protected:
  explicit WordModel(TokenTable vocabulary) : vocabulary_(std::move(vocabulary)) {}
  // Appends a token for each byte of a text ("<0x0A>"); false if one has none.
  bool append_bytes(std::string_view text, Tokens& tokens) const;

 private:
  TokenTable vocabulary_;
};

// `part`: "model", without its tables. Throws Error: the name of what is not known here.
std::unique_ptr<const WordModel> word_model(const Json& part, ModelTables tables);

// The kinds of models; each throws Error where its settings are not known here.
std::unique_ptr<const WordModel> bpe_model(const Json& part, ModelTables tables);
std::unique_ptr<const WordModel> unigram_model(const Json& part, ModelTables tables);
std::unique_ptr<const WordModel> word_piece_model(const Json& part, ModelTables tables);
std::unique_ptr<const WordModel> word_level_model(const Json& part, ModelTables tables);

// A setting that is a text; empty where it is missing or null.
std::string text_in(const Json& part, const char* name);
// How many bytes the character that begins a text has.
size_t character_bytes(std::string_view text);

}  // namespace edgespec
