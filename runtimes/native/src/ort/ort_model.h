// Runs an exported decoder on ONNX Runtime.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/model.h"
#include "ort/call.h"
#include "ort/model_graphs.h"

namespace edgespec {

// How a model is called.
struct Calls {
  int64_t capacity;    // positions that the cache holds
  int64_t min_rows;    // a call with fewer rows is padded with dummy tokens, forgotten again
  bool keep_features;  // keep what the target returns at each position for an EAGLE head
  const std::atomic<bool>& cancelled;  // no call is begun while it is true
};

// An exported target or draft that computes one text at a time, with a cache of its own. The graphs
// are shared.
class OrtModel : public Model {
 public:
  // Its calls throw Error: ONNX Runtime failed. CancelledError.
  OrtModel(const ModelGraphs& graphs, const Calls& calls);

  int64_t vocab_size() const override { return exported_.vocab_size; }
  int64_t capacity() const override { return calls_.capacity; }
  int64_t length() const override { return length_; }
  bool returns_best_tokens() const override { return graphs_.decoder.has_optional("output_mode"); }
  Token prefill(const Tokens& prompt) override;
  Rows score(std::span<const Token> tokens) override;
  BestTokens best_tokens(std::span<const Token> tokens, int64_t skip) override;
  void rewind(int64_t length) override;

  // What the target returned at positions first … end - 1, [end - first, features].
  std::span<const float> features(int64_t first, int64_t end) const;

 protected:
  // Sets the hidden states that the first `count` rows of a call take; most models take none.
  virtual void set_states(Call&, int64_t /*count*/) {}
  // Keeps what later calls, or an EAGLE head, need of a call's first `count` rows.
  virtual void store_states(Call& call, int64_t count);

  const ModelGraphs& graphs_;

 private:
  void check_cancelled() const;
  void check_prompt(const Tokens& prompt) const;
  void check_room(int64_t count) const;
  std::string capacity_advice() const;
  Call& run(std::span<const Token> tokens, int64_t rows, int64_t skip, Output output);

  const Exported& exported_;
  Calls calls_;
  Source source_;  // of an encoder-decoder: of the latest prompt
  int64_t length_ = 0;
  std::vector<CacheBuffer> cache_;
  std::map<std::string, int64_t> state_widths_;
  std::unique_ptr<LazyZeros> features_;
  std::map<std::tuple<int64_t, int64_t, Output>, std::unique_ptr<Call>> kept_;  // short calls
  std::unique_ptr<Call> long_;  // the latest that computed a prompt
};

}  // namespace edgespec
