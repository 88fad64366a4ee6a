// Attention's two products of bfloat16 numbers, by float32 instructions: every processor has them.
//
// Their order of additions is that of AMX's TDPBF16PS: for each 32 inputs a chain of fused
// multiply-adds over the inputs 0, 2 … 30 and one over 1, 3 … 31, both from 0; then
// sum += even + odd.
#pragma once

#include <cstdint>

#include "kernels/attention/chains.h"
#include "kernels/attention/rounded_rows.h"
#include "kernels/attention/sizes.h"
#include "kernels/cache_rows.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

// Numbers are kept as float32: queries [count, width], a tile of keys as [size, kKeys], a tile
// of values as [keys, width], weights [count, kChunk].
class RoundedProducts {
 public:
  using Packed = float;
  struct Registers {};

  static constexpr int64_t kQueries = kAll, kKeys = kKeyTile, kValues = kValueTile;

  static int64_t query_numbers(int64_t size) { return rounded_up(size, kLanes); }
  static int64_t key_numbers(int64_t size) { return kKeys * rounded_up(size, kLanes); }
  static int64_t value_numbers(int64_t size) { return kValues * rounded_up(size, kLanes); }

  explicit RoundedProducts(int64_t size) : size_(size), width_(rounded_up(size, kLanes)) {}

  void pack_query(const float* query, float scale, int64_t q, Packed* queries) const {
    for_each_16(size_, [&](int64_t i, int64_t left) {
      store(queries + q * width_ + i, rounded(load(query + i, left) * splat(scale)));
    });
  }

  template <typename Number>
  void pack_keys(const CacheRows<Number>& keys, int64_t count, Packed* packed) const {
    for (int64_t first = 0; first < count; first += kLanes) {
      for_each_4_codes(keys.from(first, size_), std::min(kLanes, count - first), size_,
                       [&](int64_t i, const F32x16(&codes)[4]) {
                         for (int64_t j = 0; j < 4; ++j) {
                           store(packed + (i + j) * kKeys + first, codes[j]);
                         }
                       });
    }
  }

  // scores [count, kChunk] = queries · keysᵀ, for `keys` of a tile.
  void score(const Packed* queries, int64_t count, const Packed* packed, int64_t keys,
             float* scores) const {
    multiply_by_chains({queries, width_, packed, kKeys, size_, scores, kChunk, count,
                        rounded_up(keys, kLanes), true});
  }

  template <typename Number>
  void pack_values(const CacheRows<Number>& values, int64_t count, Packed* packed) const {
    for (int64_t k = 0; k < count; ++k) codes(values.from(k, size_), size_, packed + k * width_);
  }

  // weight · scale; 0 if the weight is 0, even with a scale that is NaN.
  void store_weights(Packed* weights, F32x16 weight, F32x16 scale) const {
    const F32x16 rounded = nearest_bfloat16(weight * scale);
    store(weights, select(weight == zeros(), zeros(), rounded));
  }

  static float weight(Packed weight) { return weight; }

  // sums [count, …] = weights · values for `keys` of a tile, plus sums unless `fresh`.
  void add_values(const Packed* weights, int64_t count, const Packed* packed, int64_t keys,
                  float* sums, int64_t stride, bool fresh) const {
    multiply_by_chains({weights, kChunk, packed, width_, keys, sums, stride, count, width_, fresh});
  }

 private:
  int64_t size_, width_;
};

}  // namespace edgespec
