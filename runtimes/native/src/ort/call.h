// The bindings of a decoder call: ONNX Runtime reads and writes memory of ours, without copies.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/model.h"
#include "ort/cache.h"
#include "ort/graph.h"
#include "ort/source.h"

namespace edgespec {

// What a call returns of each row: its logits, its best token alone, or its best three tokens with
// their probabilities. The numbers of the last two are the graph's.
enum class Output { kLogits = 0, kBest = 1, kTop = 2 };

// Decoder calls with a given number of rows, bound once.
class Call {
 public:
  // `rows`: positions of a call, padding included. `skip`: leading rows without output. `states`:
  // widths of the hidden states that the graph takes or returns, by their names.
  Call(const Graph& graph, std::vector<CacheBuffer>& cache, int64_t rows, int64_t skip,
       Output output, int64_t vocab_size, const std::map<std::string, int64_t>& states);

  // Sets the inputs; rows after the tokens are padding. The source must outlive the run.
  void set(std::span<const Token> tokens, int64_t past_length, const Source& source);
  void run();

  Rows logits(int64_t count) const { return {logits_.data(), count, vocab_size_}; }
  BestTokens best(int64_t count) const;
  LikelyToken likely() const { return {best_tokens_[0], best_logits_[0], best_shares_[0]}; }
  // The hidden states with a name, [rows, width].
  std::span<float> state(const std::string& name) { return states_.at(name); }

 private:
  void take(const char* name, std::vector<int64_t>& numbers);
  void give(const char* name, OrtOwned<OrtValue> tensor);
  void give_best(int64_t count, Output output);
  void bind_states(const std::map<std::string, int64_t>& widths, int64_t rows);

  const Graph& graph_;
  int64_t vocab_size_;
  std::vector<int64_t> tokens_, past_length_, skip_, output_mode_, best_tokens_;
  std::vector<float> logits_, best_logits_, best_shares_;
  std::map<std::string, std::vector<float>> states_;
  std::vector<OrtOwned<OrtValue>> owned_;  // all tensors but the cache's
  std::vector<const char*> input_names_, output_names_;
  std::vector<const OrtValue*> inputs_;
  size_t own_inputs_;  // those of a source come after them
  std::vector<OrtValue*> outputs_;
};

}  // namespace edgespec
