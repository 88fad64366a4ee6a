// Attention's two products of bfloat16 numbers, by the tiles of AMX. The bits are those of
// rounded_lanes.h.
#pragma once

#include "kernels/tiles/amx.h"

#ifdef EDGESPEC_TILES

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "kernels/attention/rounded_rows.h"
#include "kernels/attention/sizes.h"
#include "kernels/cache_rows.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

constexpr int64_t kPairs = 16;   // of a tile's row, and rows of a tile of keys or values
constexpr int64_t kInputs = 32;  // of a product of two tiles

// The upper halves of 16 numbers each: those of `even` are numbers 0, 2 … of the result.
EDGESPEC_INLINE __m512i interleaved(F32x16 even, F32x16 odd) {
  const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even.v), 16);
  return _mm512_mask_blend_epi16(0xAAAAAAAA, low, _mm512_castps_si512(odd.v));
}

// The upper halves of 32 numbers in order.
EDGESPEC_INLINE __m512i joined(F32x16 first, F32x16 second) {
  return __m512i(_mm512_cvtne2ps_pbh(second.v, first.v));
}

// Tiles 0 to 3: sums of 16 or 32 rows and of 16 or 32 columns.
template <bool down, bool across>
struct SumTiles {
  static constexpr int64_t kRows = down ? 2 * kTileRows : kTileRows;
  static constexpr int64_t kColumns = across ? 2 * kPairs : kPairs;

  static void clear() {
    clear_tile<0>();
    if (across) clear_tile<1>();
    if (down) clear_tile<2>();
    if (down && across) clear_tile<3>();
  }
  static void load(const float* from, int64_t stride) {
    load_tile<0>(from, stride * 4);
    if (across) load_tile<1>(from + kPairs, stride * 4);
    if (down) load_tile<2>(from + kTileRows * stride, stride * 4);
    if (down && across) load_tile<3>(from + kTileRows * stride + kPairs, stride * 4);
  }
  static void store(float* to, int64_t stride) {
    store_tile<0>(to, stride * 4);
    if (across) store_tile<1>(to + kPairs, stride * 4);
    if (down) store_tile<2>(to + kTileRows * stride, stride * 4);
    if (down && across) store_tile<3>(to + kTileRows * stride + kPairs, stride * 4);
  }
};

// Sums in memory, of which the last rows may be none.
template <bool down, bool across>
class SumsInPlace {
  using Whole = SumTiles<down, across>;

 public:
  SumsInPlace(float* sums, int64_t stride, int64_t rows)
      : sums_(sums), stride_(stride), rows_(std::min(rows, Whole::kRows)) {}

  void load(bool fresh) {
    if (fresh) return Whole::clear();
    for_each_16([&](int64_t r, int64_t c) {
      edgespec::store(spare_ + r * Whole::kColumns + c, edgespec::load(sums_ + r * stride_ + c));
    });
    Whole::load(spare_, Whole::kColumns);
  }

  void store() {
    if (rows_ == Whole::kRows) return Whole::store(sums_, stride_);
    Whole::store(spare_, Whole::kColumns);
    for_each_16([&](int64_t r, int64_t c) {
      edgespec::store(sums_ + r * stride_ + c, edgespec::load(spare_ + r * Whole::kColumns + c));
    });
  }

 private:
  template <typename Body>
  void for_each_16(Body body) const {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < Whole::kColumns; c += kLanes) body(r, c);
    }
  }

  float* sums_;
  int64_t stride_, rows_;
  alignas(64) float spare_[Whole::kRows * Whole::kColumns];
};

// Queries are [count, depth]; keys [keys / 16, depth / 2, 16] pairs of two numbers of a key;
// values [keys / 2, width] pairs of one number of two keys; weights [count, kChunk].
class RoundedProducts {
 public:
  using Packed = uint16_t;
  struct Registers : Tiles {
    Registers() : Tiles(all_whole()) {}
  };

  static constexpr int64_t kQueries = 2 * kTileRows, kKeys = kChunk, kValues = kChunk;

  static int64_t query_numbers(int64_t size) { return rounded_up(size, kInputs); }
  static int64_t key_numbers(int64_t size) { return kKeys * rounded_up(size, kInputs); }
  static int64_t value_numbers(int64_t size) { return kValues * rounded_up(size, kLanes); }

  explicit RoundedProducts(int64_t size)
      : size_(size), depth_(rounded_up(size, kInputs)), width_(rounded_up(size, kLanes)) {}

  void pack_query(const float* query, float scale, int64_t q, Packed* queries) const {
    const auto part = [&](int64_t i) {
      return rounded(load(query + i, std::max<int64_t>(size_ - i, 0)) * splat(scale));
    };
    for (int64_t i = 0; i < depth_; i += kInputs) {
      _mm512_storeu_si512(queries + q * depth_ + i, joined(part(i), part(i + kLanes)));
    }
  }

  template <typename Number>
  void pack_keys(const CacheRows<Number>& keys, int64_t count, Packed* packed) const {
    for (int64_t first = 0; first < count; first += kPairs) {
      Packed* to = packed + first * depth_;
      for_each_4_codes(keys.from(first, size_), std::min(kPairs, count - first), size_,
                       [&](int64_t i, const F32x16(&codes)[4]) {
                         _mm512_storeu_si512(to + i * kPairs, interleaved(codes[0], codes[1]));
                         _mm512_storeu_si512(to + (i + 2) * kPairs,
                                             interleaved(codes[2], codes[3]));
                       });
      std::fill(to + size_ * kPairs, to + depth_ * kPairs, Packed{});
    }
  }

  // scores [count, kChunk] = queries · keysᵀ, for `keys` of a tile. Whole multiples of 16 rows and
  // columns are written.
  void score(const Packed* queries, int64_t count, const Packed* packed, int64_t keys,
             float* scores) const {
    const int64_t rows = rounded_up(count, kTileRows), columns = rounded_up(keys, kPairs);
    for (int64_t q = 0; q < rows; q += 2 * kTileRows) {
      for (int64_t k = 0; k < columns; k += 2 * kPairs) {
        const bool two_rows = q + kTileRows < rows, two_columns = k + kPairs < columns;
        by_pairs(two_rows, two_columns, [&]<bool down, bool across>() {
          SumTiles<down, across>::clear();
          for (int64_t i = 0; i < depth_; i += kInputs) {
            const Packed* a = queries + q * depth_ + i;
            const Packed* b = packed + k * depth_ + i * kPairs;
            add<down, across>(a, depth_, b, kPairs * depth_, kInputs);
          }
          SumTiles<down, across>::store(scores + q * kChunk + k, kChunk);
        });
      }
    }
  }

  template <typename Number>
  void pack_values(const CacheRows<Number>& values, int64_t count, Packed* packed) const {
    for (int64_t k = 0; k < rounded_up(count, kInputs); k += 2) {
      for (int64_t i = 0; i < width_; i += kLanes) {
        const auto of = [&](int64_t key) {
          return key < count ? code(values.from(key, size_), i) : zeros();
        };
        _mm512_storeu_si512(packed + k * width_ + 2 * i, interleaved(of(k), of(k + 1)));
      }
    }
  }

  // weight · scale; 0 if the weight is 0, even with a scale that is NaN.
  void store_weights(Packed* weights, F32x16 weight, F32x16 scale) const {
    const __mmask16 some = _mm512_cmp_ps_mask(weight.v, zeros().v, _CMP_NEQ_UQ);
    const __m256bh halves = _mm512_maskz_cvtneps_pbh(some, (weight * scale).v);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights), __m256i(halves));
  }

  static float weight(Packed weight) { return std::bit_cast<float>(uint32_t{weight} << 16); }

  // sums [count, …] = weights · values for `keys` of a tile, plus sums unless `fresh`.
  void add_values(const Packed* weights, int64_t count, const Packed* packed, int64_t keys,
                  float* sums, int64_t stride, bool fresh) const {
    for (int64_t q = 0; q < count; q += 2 * kTileRows) {
      for (int64_t i = 0; i < width_; i += 2 * kPairs) {
        const bool two_rows = q + kTileRows < count, two_columns = i + kPairs < width_;
        by_pairs(two_rows, two_columns, [&]<bool down, bool across>() {
          SumsInPlace<down, across> part(sums + q * stride + i, stride, count - q);
          part.load(fresh);
          for (int64_t k = 0; k < keys; k += kInputs) {
            add<down, across>(weights + q * kChunk + k, kChunk, packed + k * width_ + 2 * i,
                              2 * kPairs, 2 * width_);
          }
          part.store();
        });
      }
    }
  }

 private:
  static constexpr std::array<TileShape, 8> all_whole() {
    std::array<TileShape, 8> shapes{};
    shapes.fill({kTileRows, kTileBytes});
    return shapes;
  }

  template <typename Number>
  F32x16 code(const CacheRows<Number>& row, int64_t i) const {
    return i < size_ ? load_code(row, i, size_ - i) : zeros();
  }

  template <typename Body>
  static void by_pairs(bool two_rows, bool two_columns, Body body) {
    if (two_rows && two_columns) return body.template operator()<true, true>();
    if (two_rows) return body.template operator()<true, false>();
    if (two_columns) return body.template operator()<false, true>();
    body.template operator()<false, false>();
  }

  // Tiles 0 to 3 are sums, 4 and 5 rows of a, 6 and 7 columns of b; `a_stride` and `b_stride` in
  // numbers from row to row, `next` from the first columns of b to the second.
  template <bool down, bool across>
  static void add(const Packed* a, int64_t a_stride, const Packed* b, int64_t next,
                  int64_t b_stride) {
    load_tile<4>(a, a_stride * 2);
    load_tile<6>(b, b_stride * 2);
    add_bfloat16<0, 4, 6>();
    if (across) {
      load_tile<7>(b + next, b_stride * 2);
      add_bfloat16<1, 4, 7>();
    }
    if (down) {
      load_tile<5>(a + kTileRows * a_stride, a_stride * 2);
      add_bfloat16<2, 5, 6>();
    }
    if (down && across) add_bfloat16<3, 5, 7>();
  }

  int64_t size_, depth_, width_;
};

}  // namespace edgespec

#endif
