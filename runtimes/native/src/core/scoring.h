// The target's distributions for a call: from its logits, or from its best tokens if greedy.
#pragma once

#include <map>
#include <memory>

#include "core/logit_edit.h"
#include "core/model.h"
#include "core/sampling.h"
#include "core/verification.h"

namespace edgespec {

// Asks a target for the distributions of a text's rows.
class Scoring {
 public:
  // `edit` changes each row by the generated tokens before it; null changes none.
  Scoring(Model& target, SamplingProcessor& process, LogitEdit* edit)
      : target_(target), process_(process), edit_(edit) {}

  // Appends the last token of `sequence` and the drafted tokens to the target's cache; the
  // distributions after each. They are valid until the next call.
  TargetDistributions& score(const Tokens& sequence, const Tokens& drafted);

 private:
  Model& target_;
  SamplingProcessor& process_;
  LogitEdit* edit_;
  std::unique_ptr<TargetDistributions> scored_;
};

}  // namespace edgespec
