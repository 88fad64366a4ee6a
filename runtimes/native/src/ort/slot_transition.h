// What a drafted token says about the token after it, in a block of masks.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/model.h"
#include "ort/graph.h"

namespace edgespec {

// The rows of a block, and the hidden states that transitions read: [rows, width], maybe none.
struct Slots {
  Rows rows = {nullptr, 0, 0};
  std::vector<float> states;
};

// Completes a block's rows one by one, as the tokens before them are known.
class SlotTransition {
 public:
  // `state_width`: of the hidden states; 0 where the draft returns none.
  SlotTransition(const Graph& graph, int64_t vocab_size, int64_t state_width);

  // Whether it says how probable it is that a row's token is accepted.
  bool has_confidence() const { return graph_.returns("confidence"); }
  // Says that the rows are another block's from now on.
  void forget() { latest_.reset(); }
  // The logits of a row after a token; valid until the next call.
  Row logits(const Slots& slots, int64_t row, Token token);
  // The probability that the row's token is accepted if `token` before it is.
  double confidence(const Slots& slots, int64_t row, Token token);

 private:
  void run(const Slots& slots, int64_t row, Token token);

  const Graph& graph_;
  int64_t state_width_;
  std::vector<int64_t> token_ = {0};
  std::vector<float> read_, state_, logits_, confidence_ = {0};
  std::optional<std::pair<int64_t, Token>> latest_;  // row and token of what it holds
  std::vector<const char*> inputs_, outputs_;        // their names
  std::vector<OrtOwned<OrtValue>> taken_, given_;
};

}  // namespace edgespec
