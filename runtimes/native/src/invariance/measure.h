// Measures row invariance: whether a position's logits depend on what else is in the call.
//
// Plain decoding scores one new position per call, verification several. The two are certain to
// give the same text only if a position's logits are equal in both: bit by bit, never by a
// tolerance. edgespec_runtimes/invariance.py makes the same calls.
#pragma once

#include <vector>

#include "core/model.h"

namespace edgespec {

// A text of `kMaxRows` tokens and what precedes it.
struct Passage {
  Tokens prompt;  // for `Model::prefill`
  Tokens before;  // scored after it; none of a decoder-only model
  Tokens text;
  std::vector<float> logits;  // after each token of the text, as a call of it alone has them
};

// What was found, of calls of up to `kMaxRows` positions.
struct Findings {
  bool is_row_invariant;
  int64_t min_rows;           // the fewest positions a call may hold: 1 or 2
  double one_row_difference;  // largest difference of a logit between a call of one position and
                              // longer ones
  bool candidates;            // a candidate's logits, keys and values are an ordinary call's
  std::vector<Passage> passages;  // that were scored
};

// Room for all texts that are scored.
int64_t measured_capacity();

// Scores the same texts in calls of 1, 2 … 17 rows. Calls also have rows that are rejected
// afterwards, as verification does, so all later logits check the cache that they leave. A model
// that scores candidates also scores the texts as candidates.
//
// `model`: makes calls with one row when asked for one position. Throws Error: a logit is not
// finite, or the cache is too small to measure.
Findings measure_row_invariance(Model& model);

}  // namespace edgespec
