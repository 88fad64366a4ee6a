// Runs a draft that fills a block of masks with one call: DFlash, DFlash-2 and DSpark.
#pragma once

#include <optional>

#include "ort/eagle_model.h"
#include "ort/slot_transition.h"

namespace edgespec {

// A draft whose cache holds what its layers read of its target, for the text before a block.
//
// The call of a token whose target has been at every position before it extends that cache, and
// computes a row for each token that may be drafted after it. A drafted token is scored by its
// transition only. The token itself and those after it are never in the cache, and not part of
// `valid_length`.
class MaskedBlockModel : public EagleModel {
 public:
  MaskedBlockModel(const ModelGraphs& graphs, const Calls& calls, const OrtModel& target);

  bool returns_best_tokens() const override { return false; }  // a row lacks its transition
  std::optional<int64_t> block() const override { return block_; }
  // 1 in the block where the draft says nothing.
  double confidence_after(Token token) override;
  int64_t valid_length() const override { return std::min(known_, length()); }
  // Reads nothing: the first block's call does.
  Token prefill(const Tokens& prompt, const Answers& answers) override;
  void rewind(int64_t length) override;
  // The logits after the last token; rows before it are zeros.
  Rows score(std::span<const Token> tokens, Candidates candidates) override;
  void archive(Archive& archive) override;

 private:
  // The logits of a row of the block, where `token` is before its own.
  Row row_after(int64_t row, Token token);
  // Computes the rows of the block after a token, and what the cache lacks before it.
  void fill(Token token, int64_t position);
  // Runs the call that extends the cache up to position `end`.
  Call& called(Token token, int64_t end);

  int64_t block_, state_width_;
  Token mask_;
  std::optional<SlotTransition> transition_;
  int64_t known_ = 0;                // positions in the cache
  int64_t anchor_ = 0;               // of the token that the rows of a block follow
  Slots slots_;                      // rows in the latest call's memory
  std::optional<LazyZeros> scored_;  // of a call with several tokens
};

}  // namespace edgespec
