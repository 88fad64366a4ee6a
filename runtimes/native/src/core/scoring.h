// The target's distributions for a call: from its logits, or from its best tokens if greedy.
#pragma once

#include <map>
#include <memory>

#include "core/model.h"
#include "core/requests.h"
#include "core/row_edit.h"
#include "core/sampling.h"
#include "core/verification.h"

namespace edgespec {

// Asks a target for the distributions of a text's rows.
class Scoring {
 public:
  // `edit` changes each row by the generated tokens before it; null changes none. `needs_logits`:
  // the caller reads the rows themselves.
  Scoring(Model& target, SamplingProcessor& process, RowEdit* edit, bool needs_logits)
      : target_(target), process_(process), edit_(edit), needs_logits_(needs_logits) {}

  // Appends the last token of `sequence` and the drafted tokens to the target's cache; the
  // distributions after each, then after each candidate. They are valid until the next call.
  Requests<TargetDistributions*> score(const Tokens& sequence, const Tokens& drafted,
                                       Candidates candidates);
  // The latest call's rows, unchanged; only where the caller needs them.
  Row logits(int64_t row) const { return rows_[row]; }

 private:
  Model& target_;
  SamplingProcessor& process_;
  RowEdit* edit_;
  bool needs_logits_;
  Rows rows_{};
  std::unique_ptr<TargetDistributions> scored_;
};

}  // namespace edgespec
