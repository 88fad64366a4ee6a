// A query's attention to parts of its keys, and how the parts become one result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/attention/sizes.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// For each query of a block and each chunk of keys: the weighted values and the sum of weights,
// relative to the chunk's largest score.
struct Partials {
  float* values;   // [queries, chunks, width]
  float* sums;     // [queries, padded chunks]
  float* largest;  // [queries, padded chunks]
  int64_t chunks, padded, width;

  static int64_t floats(int64_t queries, int64_t chunks, int64_t width) {
    return queries * (chunks * width + 2 * rounded_up(chunks, kLanes));
  }
  Partials(float* memory, int64_t queries, int64_t chunks, int64_t width)
      : values(memory),
        sums(values + queries * chunks * width),
        largest(sums + queries * rounded_up(chunks, kLanes)),
        chunks(chunks),
        padded(rounded_up(chunks, kLanes)),
        width(width) {}
};

// e^(x - largest); 0 where all scores are -∞. Inline, as numbers of several registers are passed in
// memory.
EDGESPEC_INLINE F32x16 relative_exp(F32x16 x, float largest) {
  return exp(x - splat(largest == -kInfinity ? 0.0f : largest));
}

// Combines `chunks` of a query's chunks from `first_chunk` on: out = sum of weighted values / sum
// of weights.
inline void combine(const Partials& parts, int64_t query, int64_t first_chunk, int64_t chunks,
                    int64_t size, float* out) {
  float* largest = parts.largest + query * parts.padded + first_chunk;
  const float* sums = parts.sums + query * parts.padded + first_chunk;
  F32x16 most = splat(-kInfinity);
  for_each_16(chunks,
              [&](int64_t c, int64_t count) { most = max(most, load(largest + c, count, most)); });
  const float most_of_all = largest_of(most);
  F32x16 total = zeros();
  float* weights = largest;  // reuses the memory
  for_each_16(chunks, [&](int64_t c, int64_t count) {
    const F32x16 weight = relative_exp(load(largest + c, count), most_of_all);
    total = fma(first(weight, count), load(sums + c, count), total);
    store(weights + c, count, weight);
  });
  const F32x16 divisor = splat(sum(total));
  const float* values = parts.values + (query * parts.chunks + first_chunk) * parts.width;
  for_each_16(size, [&](int64_t i, int64_t count) {
    F32x16 weighted = zeros();
    for (int64_t c = 0; c < chunks; ++c) {
      weighted = fma(splat(weights[c]), load(values + c * parts.width + i), weighted);
    }
    store(out + i, count, weighted / divisor);
  });
}

}  // namespace edgespec
