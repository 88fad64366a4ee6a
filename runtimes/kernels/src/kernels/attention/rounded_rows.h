// Rows of keys and values as bfloat16 numbers and a scale.
//
// A row of 8 bits stands for its codes, which are such numbers, and its scale. A row of floats is
// rounded, with a scale of 1; of one with a number that is not finite the scale is NaN, and such
// numbers are 0: what a query does not see may be multiplied with a weight of 0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cache_rows.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

// The nearest bfloat16 numbers, but 0 for what is nearer to 0 than 2^-56: then no sum of products
// of two such numbers is subnormal, which AMX would make 0.
EDGESPEC_INLINE F32x16 rounded(F32x16 x) {
  return select(abs(x) < splat(0x1p-56f), zeros(), nearest_bfloat16(x));
}

// 16 numbers of a row from index `i` on, of which `left` are the row's: zeros after them.
EDGESPEC_INLINE F32x16 load_stored(const CacheRows<float>& row, int64_t i, int64_t left) {
  return load(row.numbers + i, left);
}
EDGESPEC_INLINE F32x16 load_stored(const CacheRows<Float16>& row, int64_t i, int64_t left) {
  uint16_t last[kLanes] = {};
  const auto* halves = reinterpret_cast<const uint16_t*>(row.numbers + i);
  if (left >= kLanes) return load_float16(halves);
  std::copy_n(halves, left, last);
  return load_float16(last);
}

// Whether the nearest bfloat16 numbers are finite.
EDGESPEC_INLINE M16 is_finite(F32x16 x) { return abs(x) < splat(0x1.FFp127f); }

template <typename Number>
EDGESPEC_INLINE F32x16 load_code(const CacheRows<Number>& row, int64_t i, int64_t left) {
  const F32x16 x = load_stored(row, i, left);
  return select(is_finite(x), rounded(x), zeros());
}
EDGESPEC_INLINE F32x16 load_code(const CacheRows<int8_t>& row, int64_t i, int64_t left) {
  if (left >= kLanes) return to_floats(load_int8(row.numbers + i));
  int8_t last[kLanes] = {};
  std::copy_n(row.numbers + i, left, last);
  return to_floats(load_int8(last));
}

template <typename Number>
void codes(const CacheRows<Number>& row, int64_t size, float* codes) {
  for_each_16(size,
              [&](int64_t i, int64_t left) { store(codes + i, left, load_code(row, i, left)); });
}

// Numbers 4 i + byte of 16 rows in 8 bits, whose numbers 4 i … 4 i + 3 are `bytes`.
template <int byte>
EDGESPEC_INLINE F32x16 code_at(I32x16 bytes) {
  return to_floats(shift_right_signed<24>(shift_left<24 - 8 * byte>(bytes)));
}

// Calls body(i, codes) for each 4 numbers of up to 16 rows, the last row repeated: codes[j] are
// numbers i + j of the rows.
template <typename Number, typename Body>
EDGESPEC_INLINE void for_each_4_codes(const CacheRows<Number>& rows, int64_t count, int64_t size,
                                      Body body) {
  float wide[kLanes][kLanes];
  const float* columns[kLanes];
  for (int64_t k = 0; k < kLanes; ++k) columns[k] = wide[k];
  for (int64_t first = 0; first < size; first += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) {
      const auto row = rows.from(std::min(k, count - 1), size);
      store(wide[k], load_code(row, first, size - first));
    }
    for (int64_t i = 0; i < std::min(kLanes, size - first); i += 4) {
      F32x16 codes[4];
      transpose_4x16(columns, i, codes);
      body(first + i, codes);
    }
  }
}
template <typename Body>
EDGESPEC_INLINE void for_each_4_codes(const CacheRows<int8_t>& rows, int64_t count, int64_t size,
                                      Body body) {
  alignas(16) int8_t ends[kLanes][kLanes];
  const float* columns[kLanes];
  const auto transposed = [&](int64_t first, int64_t bytes) {
    F32x16 fours[4];
    transpose_4x16(columns, 0, fours);
    for (int64_t i = 0; i < bytes / 4; ++i) {
      const I32x16 four = as_ints(fours[i]);
      const F32x16 codes[4] = {code_at<0>(four), code_at<1>(four), code_at<2>(four),
                               code_at<3>(four)};
      body(first + 4 * i, codes);
    }
  };
  const int64_t whole = size / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) {
      const int8_t* row = rows.numbers + std::min(k, count - 1) * size + i;
      columns[k] = reinterpret_cast<const float*>(row);
    }
    transposed(i, kLanes);
  }
  if (whole == size) return;
  for (int64_t k = 0; k < kLanes; ++k) {
    std::copy_n(rows.numbers + std::min(k, count - 1) * size + whole, size - whole, ends[k]);
    columns[k] = reinterpret_cast<const float*>(ends[k]);
  }
  transposed(whole, size - whole);
}

template <typename Number>
float scale_of(const CacheRows<Number>& row, int64_t size) {
  M16 all_finite = first_lanes(kLanes);
  for_each_16(size, [&](int64_t i, int64_t left) {
    all_finite = all_finite & is_finite(load_stored(row, i, left));
  });
  return bits_of(all_finite) == 0xFFFF ? 1.0f : std::numeric_limits<float>::quiet_NaN();
}
// Scales nearer to 0 than 2^-60 are 0: a weight is at least 2^-55, so none of their products is
// near a subnormal number.
inline float scale_of(const CacheRows<int8_t>& row, int64_t) {
  return std::abs(row.scales[0]) < 0x1p-60f ? 0.0f : row.scales[0];
}

}  // namespace edgespec
