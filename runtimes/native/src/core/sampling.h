// The processor that turns logits into a distribution by sampling options.
//
// The arithmetic over the vocabulary is the kernels': Python calls the same functions, so both draw
// the same tokens.
#pragma once

#include <memory>
#include <vector>

#include "core/distribution.h"
#include "core/model.h"
#include "core/options.h"
#include "core/randomness.h"
#include "kernels/sampling.h"

namespace edgespec {

// Turns one row of logits into its distribution. It reuses its scratch memory from call to call, so
// two threads must not share one.
class SamplingProcessor {
 public:
  SamplingProcessor(const SamplingTable& kernels, const Sampling& sampling)
      : kernels_(kernels), sampling_(sampling) {}

  bool greedy() const { return sampling_.greedy(); }
  // Throws RefusedLogitsError: the largest logit is infinite or NaN.
  Distribution operator()(Row logits);
  // The tokens with the largest logits, at most `count`, with their probabilities at temperature 1.
  std::vector<Guess> best(Row logits, int64_t count) const;

 private:
  // Tokens that are left, their logits, and then their weights exp((logit - highest) /
  // temperature).
  struct Left {
    std::shared_ptr<const Tokens> tokens;  // null: all tokens, 0 … k - 1
    std::vector<float> values;
  };
  // Whether only the softmax, or top-p, looks at the logits: then they are not copied.
  bool keeps_all_logits() const;
  // Those that top-n-sigma and top-k keep, with their logits.
  Left truncated(Row logits, double highest) const;
  // Those that min-p may keep.
  void drop_improbable(Left& left, double highest) const;
  // What top-p, or the plain softmax, makes of logits; `total` is the sum of the weights.
  Left weighed(std::shared_ptr<const Tokens> tokens, Row logits, double highest, double& total);
  Left nucleus(const std::shared_ptr<const Tokens>& tokens, Row logits, double highest);
  std::shared_ptr<const Tokens> all_tokens(int64_t count);

  const SamplingTable& kernels_;
  Sampling sampling_;
  std::shared_ptr<const Tokens> all_;
  // What nucleus writes, which is far more than it keeps.
  Tokens indices_;
  std::vector<float> weights_;
};

}  // namespace edgespec
