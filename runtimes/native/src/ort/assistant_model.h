// Runs Gemma 4's assistant, a draft that attends to its target's keys and values.
#pragma once

#include <vector>

#include "ort/eagle_positions.h"
#include "ort/ort_model.h"

namespace edgespec {

// A draft without a cache: a call computes one row, which reads the target's cache.
//
// The row of a position sees the target's positions before it, and takes the target's state of the
// one just before. Where the target has not been there, it takes its own state of the row before,
// and sees all that the target has scored. Nothing of a position is kept, so a rewind is free, and
// rows of a prompt are not computed.
class AssistantModel : public OrtModel {
 public:
  // `target`: whose cache and states it reads; both hold the same text.
  AssistantModel(const ModelGraphs& graphs, const Calls& calls, const OrtModel& target);

  bool returns_best_tokens() const override { return false; }
  // Computes nothing.
  Token prefill(const Tokens& prompt, const Answers& answers) override;
  Rows score(std::span<const Token> tokens, Candidates candidates) override;
  void archive(Archive& archive) override;

 private:
  // The row of a token that sees so many positions of the target.
  Row logits_after(Token token, int64_t seen);

  const OrtModel& target_;
  Source read_;  // the target's cache, by the names of the draft's inputs
  EaglePositions head_;
  std::vector<float> logits_;
};

}  // namespace edgespec
