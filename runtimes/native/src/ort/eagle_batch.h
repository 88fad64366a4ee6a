// Several sequences of an EAGLE head that share its calls, each beside its target's sequence.
#pragma once

#include <vector>

#include "ort/eagle_positions.h"
#include "ort/ort_batch.h"

namespace edgespec {

// A sequence of an EAGLE head; see `EagleModel`.
class EagleSequence : public OrtSequence {
 public:
  // `target`: the same sequence of the target, whose features it reads.
  EagleSequence(OrtBatch& batch, int64_t start, OrtSequence& target, int64_t width)
      : OrtSequence(batch, start), target(target), head(width) {}

  int64_t valid_length() const override { return head.valid_length(length()); }
  OrtSequence* reads_first() const override { return target.unread().empty() ? nullptr : &target; }

  OrtSequence& target;
  EaglePositions head;

 protected:
  // All tokens that the head lacks have the same id there, but the features after them differ.
  Token key_of(int64_t position) const override;
  void copied(int64_t length) override { head.copied(length); }
};

class EagleBatch : public OrtBatch {
 public:
  // Throws UsageError: there is no memory for their caches.
  EagleBatch(const ModelGraphs& graphs, const SamplingTable& sampling, OrtBatch& target);

  // Nothing is kept of a source: the target reads it.
  SourcePart encode(const Tokens&, int64_t start) override { return {start, 0}; }

 protected:
  void set_states(Call& call, const SharedRows& rows) override;
  void store_states(Call& call, const SharedRows& rows) override;

 private:
  OrtBatch& target_;
  int64_t width_;  // of a hidden state
};

}  // namespace edgespec
