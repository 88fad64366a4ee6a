// Reads a tokenizer.json: its long tables as they come, the rest as a tree.
#pragma once

#include <filesystem>

#include "text/word_model.h"

namespace edgespec {

struct TokenizerFile {
  Json parts;  // without the tables of "model"
  ModelTables tables;
};

// Throws std::exception: it is no JSON, or its tables are not what they should be.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);

}  // namespace edgespec
