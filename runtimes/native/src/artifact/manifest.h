// The manifest of an exported folder: what its models are and which files belong to it, as
// docs/reference/folder-format.md describes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/distribution.h"
#include "costs/costs.h"
#include "text/chat_format.h"

namespace edgespec {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr int64_t kFormatVersion = 5;
// Row invariance is measured for calls of up to this many positions: γ = 16 and the bonus token.
constexpr int64_t kMaxRows = 17;

// What a manifest says of a file.
struct FileRecord {
  int64_t bytes;
  std::string sha256;
};

// Whether a position's logits have the same bits whatever else is in the call.
struct RowInvariance {
  bool is_row_invariant;
  int64_t min_rows;
  int64_t max_rows;
  std::string machine;      // digest of the record of what it was measured on: it holds there only
  bool candidates = false;  // so have those of candidates
  bool texts = false;       // so have rows of several texts in one call, measured with few rows
};

// What one more position costs in a call, in plain steps, by the number format of the weights.
struct FormatCost {
  double marginal = 0.045;
  double arithmetic = 0;
  std::map<std::string, double> arithmetic_on;  // by instruction set, where it differs

  RowCost with(const std::string& kernels) const {
    const auto found = arithmetic_on.find(kernels);
    return {marginal, found == arithmetic_on.end() ? arithmetic : found->second};
  }
};

// One set of graphs of a model: one number format for its weights and one for its cache.
struct Variant {
  std::string name;
  std::map<std::string, std::string> graphs;  // graph name to file
  std::string weights_format;                 // a name for people
  std::string cache_format;                   // "fp32", "fp16" or "int8"
  std::optional<RowInvariance> row_invariance;
  FormatCost row_cost;
  // No product of the weights is ONNX Runtime's own: rows of any number of texts in a call keep
  // their bits.
  bool run_by_kernels = false;
};

// The shape of a layer of the cache.
struct LayerShape {
  int64_t kv_heads;
  int64_t head_size;
};

// What a recurrent layer keeps: numbers of its state, and of a recent position.
struct StateShape {
  int64_t state;
  int64_t row;
};

// A target or a draft: what a runtime must know to run its graphs.
struct Exported {
  std::string family;
  std::string source;  // where the weights come from, for people
  int64_t vocab_size;
  int64_t read_tokens;  // tokens that it can read: ids from 0
  int64_t capacity;
  std::optional<int64_t> positions;
  std::optional<Token> start_token;  // of an encoder-decoder
  int64_t features;
  std::optional<int64_t> block_rows;  // of a draft that fills blocks of masks
  std::vector<StateShape> states;     // of recurrent layers
  std::vector<LayerShape> layers;     // of the cache
  std::string vocabulary;             // the file of a draft with other tokens; else empty
  std::vector<Variant> variants;      // the first is the default

  // A draft whose one call predicts several tokens.
  bool is_block_draft() const { return family == "block"; }
  // A draft without a cache, which attends to its target's.
  bool reads_target_cache() const { return family == "gemma4_assistant"; }
  // A draft that reads its target's encoder.
  bool shares_encoder() const { return family == "shared_encoder"; }
  // A model that reads sound, and has a speech format.
  bool is_speech() const { return family == "whisper"; }
  // The variant with this name, or the first. `role` is "target" or "draft". Throws UsageError.
  const Variant& variant(const std::string& name, const std::string& role) const;
  // Of a draft that reads a target's cache: the variant with the same weights for one in this
  // format. Throws Error: it was not exported.
  const Variant& reading(const Variant& asked, const std::string& cache_format) const;
};

// Everything that this library reads in an exported folder.
struct Manifest {
  std::filesystem::path folder;
  std::string digest;  // of the manifest, and so of all that it records
  Tokens eos_token_ids;
  std::optional<ChatFormat> chat;  // of a model that chats
  std::string host;  // what the graphs were made for, such as "web"; empty for any machine
  Exported target;
  std::optional<Exported> draft;
  std::map<std::string, FileRecord> files;

  // The graphs of a variant, and the weights beside them.
  uint64_t bytes_of(const Variant& variant) const;
};

// Reads `edgespec.json` and checks it, and the files that it names: graphs and tables by their
// digests, weights by their size. Throws Error, with Python's sentences: no manifest, another
// format version, a manifest that was changed, a path that leaves the folder, a file that is
// missing, cut short or changed.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace edgespec
