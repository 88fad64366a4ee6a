#include "kernels/gated_delta.h"

#include <algorithm>
#include <cmath>

#include "kernels/lanes/lanes.h"

namespace edgespec {
namespace {

constexpr float kNormEpsilon = 1e-6f;
constexpr int kSums = 4;  // of every fourth number, so that additions need not wait for each other

EDGESPEC_INLINE F32x16 sigmoid(F32x16 x) { return splat(1.0f) / (splat(1.0f) + exp(-x)); }

// ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|). With e = e^-|x| and s = e / (2 + e), the logarithm is
// 2 atanh(s), whose series in s² ≤ 1/9 ends here with s^17 / 17.
EDGESPEC_INLINE F32x16 softplus(F32x16 x) {
  const F32x16 e = exp(-abs(x));
  const F32x16 s = e / (splat(2.0f) + e), square = s * s;
  F32x16 series = splat(1.0f / 17);
  for (const float factor :
       {1.0f / 15, 1.0f / 13, 1.0f / 11, 1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3, 1.0f}) {
    series = fma(series, square, splat(factor));
  }
  return fma(s + s, series, max(zeros(), x));
}

// A vector of length 1 times `factor`, in place.
void to_unit(float* x, int64_t size, float factor) {
  F32x16 squares = zeros();
  for_each_16(size, [&](int64_t i, int64_t count) {
    const F32x16 part = load(x + i, count);
    squares = fma(part, part, squares);
  });
  const F32x16 scale = splat(factor / std::sqrt(sum(squares) + kNormEpsilon));
  for_each_16(size,
              [&](int64_t i, int64_t count) { store(x + i, count, load(x + i, count) * scale); });
}

void convolve(const DeltaShape& shape, const float* factors, const float* const* seen, float* y) {
  const int64_t channels = shape.channels();
  for_each_16(channels, [&](int64_t i, int64_t count) {
    F32x16 total = load(seen[0] + i, count) * load(factors + i, count);
    for (int64_t tap = 1; tap < shape.taps; ++tap) {
      total = fma(load(seen[tap] + i, count), load(factors + tap * channels + i, count), total);
    }
    store(y + i, count, total / (splat(1.0f) + exp(-total)));  // silu
  });
}

// Runs body(i, i mod kSums) for each i below `count`.
template <typename Body>
EDGESPEC_INLINE void for_each_in_turn(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int turn = 0; turn < kSums; ++turn) body(i + turn, turn);
  }
  for (int turn = 0; i < count; ++i, ++turn) body(i, turn);
}

EDGESPEC_INLINE F32x16 total_of(const F32x16 (&sums)[kSums]) {
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// One position: S ← stays · S, S ← S + k ⊗ write · (v - kᵀ S); returns qᵀ S. S is [size, 16].
EDGESPEC_INLINE F32x16 step(const float* q, const float* k, F32x16 v, float stays, float write,
                            int64_t size, float* state) {
  F32x16 found[kSums] = {zeros(), zeros(), zeros(), zeros()};
  for_each_in_turn(size, [&](int64_t i, int turn) {
    const F32x16 row = load(state + i * kLanes) * splat(stays);
    store(state + i * kLanes, row);
    found[turn] = fma(splat(k[i]), row, found[turn]);
  });
  const F32x16 missing = (v - total_of(found)) * splat(write);
  F32x16 read[kSums] = {zeros(), zeros(), zeros(), zeros()};
  for_each_in_turn(size, [&](int64_t i, int turn) {
    const F32x16 row = fma(splat(k[i]), missing, load(state + i * kLanes));
    store(state + i * kLanes, row);
    read[turn] = fma(splat(q[i]), row, read[turn]);
  });
  return total_of(read);
}

}  // namespace

void delta_inputs(const DeltaShape& shape, const DeltaWeights& weights, const float* const* seen,
                  const float* write, const float* forget, float* y) {
  convolve(shape, weights.convolution, seen, y);
  const float of_queries = 1.0f / std::sqrt(static_cast<float>(shape.key_size));
  for (int64_t head = 0; head < 2 * shape.k_heads; ++head) {
    to_unit(y + head * shape.key_size, shape.key_size, head < shape.k_heads ? of_queries : 1.0f);
  }
  float* stays = y + shape.channels();
  float* writes = stays + shape.v_heads;
  for_each_16(shape.v_heads, [&](int64_t i, int64_t count) {
    const F32x16 forgets = softplus(load(forget + i, count) + load(weights.forget_bias + i, count));
    store(stays + i, count, exp(load(weights.decay + i, count) * forgets));
    store(writes + i, count, sigmoid(load(write + i, count)));
  });
}

void delta_columns(const DeltaShape& shape, const DeltaSteps& steps, int64_t head, int64_t column,
                   const float* inputs, const float* past, float* present, float* y, float* state) {
  const int64_t size = shape.key_size, width = shape.value_size, columns = width - column;
  const int64_t first = head * size * width + column;
  for (int64_t i = 0; i < size; ++i) {
    store(state + i * kLanes, load(past + first + i * width, columns));
  }
  const auto keep = [&] {
    for (int64_t i = 0; i < size; ++i) {
      store(present + first + i * width, columns, load(state + i * kLanes));
    }
  };
  const int64_t key = head / (shape.v_heads / shape.k_heads) * size;
  const int64_t value = 2 * shape.key_width() + head * width + column;
  for (int64_t position = 0; position < steps.count; ++position) {
    if (position == steps.kept) keep();
    const float* row = inputs + position * shape.row();
    const float* gates = row + shape.channels() + head;
    const F32x16 read = step(row + key, row + shape.key_width() + key, load(row + value, columns),
                             gates[0], gates[shape.v_heads], size, state);
    if (position < steps.again) continue;
    const int64_t result = steps.rows[position - steps.again];
    store(y + result * shape.v_width() + head * width + column, columns, read);
  }
  if (steps.kept == steps.count) keep();
}

}  // namespace edgespec
