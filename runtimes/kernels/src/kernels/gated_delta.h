// A gated delta rule: a convolution over positions, and states that each position changes
// (export/edgespec_export/operators/delta_ops.py says what is computed).
#pragma once

#include <cstdint>

namespace edgespec {

struct DeltaShape {
  int64_t k_heads, v_heads;  // v_heads is a multiple of k_heads
  int64_t key_size, value_size;
  int64_t taps;  // positions that the convolution reads

  int64_t key_width() const { return k_heads * key_size; }
  int64_t v_width() const { return v_heads * value_size; }
  int64_t channels() const { return 2 * key_width() + v_width(); }
  int64_t row() const { return channels() + 2 * v_heads; }
  int64_t matrices() const { return v_heads * key_size * value_size; }  // numbers of a state
};

struct DeltaWeights {
  const float* convolution;  // [taps, channels], the position's own factors last
  const float* decay;        // [v_heads]
  const float* forget_bias;  // [v_heads]
};

// What a position brings, y [row]: queries, keys and values; then for each value head the share of
// its state that stays, and how much of a value is written. `seen` are the inputs [channels] of the
// positions that the convolution reads, its own last; write and forget are [v_heads].
void delta_inputs(const DeltaShape& shape, const DeltaWeights& weights, const float* const* seen,
                  const float* write, const float* forget, float* y);

// Positions of a sequence that a call goes through: `count`, of which the first `again` give no
// result, and after `kept` of which the state is returned. The others' results are the rows `rows`
// [count - again] of y.
struct DeltaSteps {
  int64_t count, again, kept;
  const int64_t* rows;
};

// Goes through positions with 16 columns of the state of a value head, or what is left of it.
// inputs [count, row]; past and present [v_heads, key_size, value_size], which may be the same;
// y [rows, v_width]. `state` is memory for 16 · key_size numbers.
void delta_columns(const DeltaShape& shape, const DeltaSteps& steps, int64_t head, int64_t column,
                   const float* inputs, const float* past, float* present, float* y, float* state);

}  // namespace edgespec
