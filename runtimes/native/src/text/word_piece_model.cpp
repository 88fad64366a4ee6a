// WordPiece and word-level vocabularies: the longest token each time, or the whole word.
#include "text/word_model.h"

namespace edgespec {
namespace {

class WordPieceModel : public WordModel {
 public:
  WordPieceModel(const Json& part, ModelTables tables)
      : WordModel(std::move(tables.vocabulary)),
        prefix_(part.value("continuing_subword_prefix", std::string("##"))),
        most_characters_(static_cast<size_t>(part.value("max_input_chars_per_word", int64_t{100}))),
        unknown_(vocabulary().find(part.value("unk_token", std::string("[UNK]")))) {}

  void encode(std::string_view word, Tokens& tokens) const override {
    Tokens found;
    if (characters_of(word).size() > most_characters_ || !pieces(word, found)) {
      if (unknown_ == TokenTable::kNone) {
        throw Error("the tokenizer cannot encode this text (its unknown token is none)");
      }
      found = {unknown_};
    }
    tokens.insert(tokens.end(), found.begin(), found.end());
  }

 private:
  // False if a part of the word has no token.
  bool pieces(std::string_view word, Tokens& found) const {
    for (size_t begin = 0; begin < word.size();) {
      int64_t id = TokenTable::kNone;
      size_t end = word.size() + 1;
      while (id == TokenTable::kNone && --end > begin) {
        if (end < word.size() && (word[end] & 0xC0) == 0x80) continue;  // inside a character
        std::string text(begin == 0 ? "" : prefix_);
        id = vocabulary().find(text += word.substr(begin, end - begin));
      }
      if (id == TokenTable::kNone) return false;
      found.push_back(id);
      begin = end;
    }
    return true;
  }

  std::string prefix_;
  size_t most_characters_;
  int64_t unknown_;
};

class WordLevelModel : public WordModel {
 public:
  WordLevelModel(const Json& part, ModelTables tables)
      : WordModel(std::move(tables.vocabulary)),
        unknown_(vocabulary().find(text_in(part, "unk_token"))) {}

  void encode(std::string_view word, Tokens& tokens) const override {
    int64_t id = vocabulary().find(word);
    if (id == TokenTable::kNone) id = unknown_;
    if (id == TokenTable::kNone) {
      throw Error("the tokenizer cannot encode this text (its unknown token is none)");
    }
    tokens.push_back(id);
  }

 private:
  int64_t unknown_;
};

}  // namespace

std::unique_ptr<const WordModel> word_piece_model(const Json& part, ModelTables tables) {
  return std::make_unique<WordPieceModel>(part, std::move(tables));
}

std::unique_ptr<const WordModel> word_level_model(const Json& part, ModelTables tables) {
  return std::make_unique<WordLevelModel>(part, std::move(tables));
}

}  // namespace edgespec
