// Measures whether texts that share calls have the bits that each has alone.
// edgespec_runtimes/batch_invariance.py makes the same calls.
#pragma once

#include <vector>

#include "invariance/measure.h"
#include "ort/ort_batch.h"

namespace edgespec {

// Whether the logits of all passages are the same, bit by bit, in calls that they share with each
// other and with a prompt that is read. `batch`: one sequence more than there are passages.
bool is_batch_invariant(OrtBatch& batch, const std::vector<Passage>& passages);

}  // namespace edgespec
