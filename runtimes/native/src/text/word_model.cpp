#include "text/word_model.h"

#include <cstdio>

namespace edgespec {

std::string text_in(const Json& part, const char* name) {
  const auto found = part.find(name);
  return found == part.end() || found->is_null() ? "" : found->get<std::string>();
}

size_t character_bytes(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (text[bytes] & 0xC0) == 0x80) ++bytes;
  return bytes;
}

bool WordModel::append_bytes(std::string_view text, Tokens& tokens) const {
  Tokens found;
  for (const char byte : text) {
    char name[7];
    std::snprintf(name, sizeof name, "<0x%02X>", uint8_t(byte));
    const int64_t id = vocabulary_.find(name);
    if (id == TokenTable::kNone) return false;
    found.push_back(id);
  }
  tokens.insert(tokens.end(), found.begin(), found.end());
  return true;
}

std::unique_ptr<const WordModel> word_model(const Json& part, ModelTables tables) {
  std::string type = text_in(part, "type");
  // Old files leave it out.
  if (type.empty()) type = tables.merge_ends.empty() ? "WordLevel" : "BPE";
  if (type == "BPE") return bpe_model(part, std::move(tables));
  if (type == "Unigram") return unigram_model(part, std::move(tables));
  if (type == "WordPiece") return word_piece_model(part, std::move(tables));
  if (type == "WordLevel") return word_level_model(part, std::move(tables));
  throw Error("the model " + type);
}

}  // namespace edgespec
