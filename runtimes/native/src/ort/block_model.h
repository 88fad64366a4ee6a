// Runs a block draft: one call computes the rows of several drafted tokens.
#pragma once

#include <vector>

#include "ort/eagle_model.h"
#include "ort/transition.h"

namespace edgespec {

// An EAGLE head whose calls compute the rows of the next tokens, too, whatever they will be.
//
// Each call scores tokens where the target has computed its features, and `block - 1` rows ahead. A
// token that is scored there only adds its transition to a row: q is known when the next token is
// drawn. As with EAGLE, such positions are not part of `valid_length`.
class BlockModel : public EagleModel {
 public:
  BlockModel(const ModelGraphs& graphs, const Calls& calls, const OrtModel& target);

  bool returns_best_tokens() const override { return false; }  // a row lacks its transition
  std::optional<int64_t> block() const override { return block_; }
  // It is known before the next token is drawn, too.
  double confidence_after(Token token) override;
  Rows score(std::span<const Token> tokens, Candidates candidates) override;

 protected:
  void set_states(Call& call, int64_t count) override;
  // Nothing: rows ahead do not read each other's states in later calls.
  void store_states(Call&, int64_t) override {}

 private:
  // The logits after each token; keeps the rows ahead of them.
  Rows block_logits(std::span<const Token> tokens);

  int64_t block_;
  Transition transition_;
  int64_t known_ = 0;               // positions before the rows ahead
  Rows ahead_ = {nullptr, 0, 0};    // in the latest call's memory
  std::vector<float> confidences_;  // of each of them
};

}  // namespace edgespec
