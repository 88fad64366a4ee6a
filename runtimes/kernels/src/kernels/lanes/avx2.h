// 16 numbers in two registers of AVX2.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define EDGESPEC_INLINE [[gnu::always_inline]] inline

namespace edgespec {

struct F32x16 {
  __m256 low, high;
};
struct I32x16 {
  __m256i low, high;
};
struct M16 {
  __m256 low, high;  // all bits of a lane are equal
};

EDGESPEC_INLINE M16 first_lanes(int64_t count) {
  const __m256i most = _mm256_set1_epi32(int(count < 16 ? count : 16));
  const __m256i low = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const __m256i high = _mm256_add_epi32(low, _mm256_set1_epi32(8));
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(most, low)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(most, high))};
}

EDGESPEC_INLINE F32x16 splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
EDGESPEC_INLINE F32x16 zeros() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
EDGESPEC_INLINE F32x16 select(M16 mask, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.low, a.low, mask.low), _mm256_blendv_ps(b.high, a.high, mask.high)};
}
EDGESPEC_INLINE F32x16 load(const float* x) { return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
EDGESPEC_INLINE F32x16 load(const float* x, int64_t count) {
  if (count >= 16) return load(x);
  const M16 mask = first_lanes(count);
  return {_mm256_maskload_ps(x, _mm256_castps_si256(mask.low)),
          _mm256_maskload_ps(x + 8, _mm256_castps_si256(mask.high))};
}
EDGESPEC_INLINE F32x16 load(const float* x, int64_t count, F32x16 others) {
  return count >= 16 ? load(x) : select(first_lanes(count), load(x, count), others);
}
EDGESPEC_INLINE void store(float* y, F32x16 x) {
  _mm256_storeu_ps(y, x.low);
  _mm256_storeu_ps(y + 8, x.high);
}
EDGESPEC_INLINE void store(float* y, int64_t count, F32x16 x) {
  if (count >= 16) return store(y, x);
  const M16 mask = first_lanes(count);
  _mm256_maskstore_ps(y, _mm256_castps_si256(mask.low), x.low);
  _mm256_maskstore_ps(y + 8, _mm256_castps_si256(mask.high), x.high);
}
EDGESPEC_INLINE F32x16 load_float16(const uint16_t* x) {
  const auto* halves = reinterpret_cast<const __m128i*>(x);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
EDGESPEC_INLINE void store_float16(uint16_t* y, F32x16 x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  auto* halves = reinterpret_cast<__m128i*>(y);
  _mm_storeu_si128(halves, _mm256_cvtps_ph(x.low, kNearest));
  _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(x.high, kNearest));
}
EDGESPEC_INLINE F32x16 load_bfloat16(const uint16_t* x) {
  const auto eight = [](const uint16_t* from) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  };
  return {eight(x), eight(x + 8)};
}

// Numbers 0, 2 … 30 of 32 in bfloat16, and 1, 3 … 31.
EDGESPEC_INLINE F32x16 load_even_bfloat16(const uint16_t* x) {
  const auto* pairs = reinterpret_cast<const __m256i*>(x);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(pairs), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(pairs + 1), 16))};
}
EDGESPEC_INLINE F32x16 load_odd_bfloat16(const uint16_t* x) {
  const auto* pairs = reinterpret_cast<const __m256i*>(x);
  const __m256i upper = _mm256_set1_epi32(int(0xFFFF0000));
  return {_mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(pairs), upper)),
          _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(pairs + 1), upper))};
}
// The upper halves of 16 numbers.
EDGESPEC_INLINE void store_upper_halves(uint16_t* y, F32x16 x) {
  const __m256i low = _mm256_srli_epi32(_mm256_castps_si256(x.low), 16);
  const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(x.high), 16);
  const __m256i halves = _mm256_packus_epi32(low, high);  // of each half: four of low, four of high
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y),
                      _mm256_permute4x64_epi64(halves, _MM_SHUFFLE(3, 1, 2, 0)));
}

EDGESPEC_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
EDGESPEC_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
EDGESPEC_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
EDGESPEC_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
EDGESPEC_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
EDGESPEC_INLINE F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
// b where one of the two is NaN, and where both are zero.
EDGESPEC_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
EDGESPEC_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
EDGESPEC_INLINE F32x16 abs(F32x16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.low), _mm256_andnot_ps(sign, x.high)};
}
EDGESPEC_INLINE F32x16 round(F32x16 x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.low, kNearest), _mm256_round_ps(x.high, kNearest)};
}
EDGESPEC_INLINE F32x16 copy_sign_bits(F32x16 x, F32x16 sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(x.low, _mm256_and_ps(sign.low, bit)),
          _mm256_or_ps(x.high, _mm256_and_ps(sign.high, bit))};
}

EDGESPEC_INLINE I32x16 splat_int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
EDGESPEC_INLINE I32x16 lane_indices() {
  return {_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set_epi32(15, 14, 13, 12, 11, 10, 9, 8)};
}
EDGESPEC_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
template <int bits>
EDGESPEC_INLINE I32x16 shift_left(I32x16 x) {
  return {_mm256_slli_epi32(x.low, bits), _mm256_slli_epi32(x.high, bits)};
}
template <int bits>
EDGESPEC_INLINE I32x16 shift_right(I32x16 x) {  // zeros come in
  return {_mm256_srli_epi32(x.low, bits), _mm256_srli_epi32(x.high, bits)};
}
template <int bits>
EDGESPEC_INLINE I32x16 shift_right_signed(I32x16 x) {  // copies of the sign come in
  return {_mm256_srai_epi32(x.low, bits), _mm256_srai_epi32(x.high, bits)};
}
EDGESPEC_INLINE I32x16 to_ints(F32x16 x) {
  return {_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high)};
}
EDGESPEC_INLINE F32x16 to_floats(I32x16 x) {
  return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)};
}
EDGESPEC_INLINE F32x16 as_floats(I32x16 x) {
  return {_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(x.high)};
}
EDGESPEC_INLINE I32x16 as_ints(F32x16 x) {
  return {_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)};
}
// y · 2^power, where that is a normal number: the exponent is in the bits from 23 on.
EDGESPEC_INLINE F32x16 times_power_of_2(F32x16 y, F32x16 power) {
  return as_floats(as_ints(y) + shift_left<23>(to_ints(power)));
}
EDGESPEC_INLINE I32x16 load_int8(const int8_t* x) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
EDGESPEC_INLINE void store(int32_t* y, I32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), x.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + 8), x.high);
}
// The numbers are in -128 … 127.
EDGESPEC_INLINE void store_int8(int8_t* y, int64_t count, I32x16 x) {
  __m256i words = _mm256_packs_epi32(x.low, x.high);  // of each half: four of low, four of high
  words = _mm256_permute4x64_epi64(words, _MM_SHUFFLE(3, 1, 2, 0));
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  if (count >= 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes);
    return;
  }
  alignas(16) int8_t all[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(all), bytes);
  for (int64_t i = 0; i < count; ++i) y[i] = all[i];
}

EDGESPEC_INLINE M16 operator<(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)};
}
EDGESPEC_INLINE M16 operator==(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ)};
}
EDGESPEC_INLINE M16 is_nan(F32x16 x) {
  return {_mm256_cmp_ps(x.low, x.low, _CMP_UNORD_Q), _mm256_cmp_ps(x.high, x.high, _CMP_UNORD_Q)};
}
EDGESPEC_INLINE M16 operator&(M16 a, M16 b) {
  return {_mm256_and_ps(a.low, b.low), _mm256_and_ps(a.high, b.high)};
}
EDGESPEC_INLINE I32x16 select(M16 mask, I32x16 a, I32x16 b) {
  return as_ints(select(mask, as_floats(a), as_floats(b)));
}
EDGESPEC_INLINE uint32_t bits_of(M16 mask) {
  return uint32_t(_mm256_movemask_ps(mask.low)) | uint32_t(_mm256_movemask_ps(mask.high)) << 8;
}

// Lane i gets the number of lane i ^ bit.
template <int bit>
EDGESPEC_INLINE F32x16 swapped(F32x16 x) {
  if constexpr (bit == 8) return {x.high, x.low};
  if constexpr (bit == 4) {
    return {_mm256_permute2f128_ps(x.low, x.low, 1), _mm256_permute2f128_ps(x.high, x.high, 1)};
  }
  constexpr int kOrder = bit == 2 ? _MM_SHUFFLE(1, 0, 3, 2) : _MM_SHUFFLE(2, 3, 0, 1);
  return {_mm256_permute_ps(x.low, kOrder), _mm256_permute_ps(x.high, kOrder)};
}
// a + b; in lanes whose index has `bit`, a - b.
template <int bit>
EDGESPEC_INLINE F32x16 add_or_subtract(F32x16 a, F32x16 b) {
  if constexpr (bit == 8) return {_mm256_add_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  constexpr int kSubtract = bit == 4 ? 0xF0 : bit == 2 ? 0xCC : 0xAA;
  const F32x16 sum = a + b, difference = a - b;
  return {_mm256_blend_ps(sum.low, difference.low, kSubtract),
          _mm256_blend_ps(sum.high, difference.high, kSubtract)};
}

// Adds lane i + 8 to lane i for i < 8, then 4, 2 and 1.
EDGESPEC_INLINE float sum(F32x16 x) {
  const __m256 eight = _mm256_add_ps(x.low, x.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// In the order of `sum`, which decides what NaN leaves.
EDGESPEC_INLINE float largest_of(F32x16 x) {
  const __m256 eight = _mm256_max_ps(x.low, x.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// 16 sums in float64.
class F64Sums {
 public:
  EDGESPEC_INLINE void add(F32x16 x) {
    sums_[0] = _mm256_add_pd(sums_[0], _mm256_cvtps_pd(_mm256_castps256_ps128(x.low)));
    sums_[1] = _mm256_add_pd(sums_[1], _mm256_cvtps_pd(_mm256_extractf128_ps(x.low, 1)));
    sums_[2] = _mm256_add_pd(sums_[2], _mm256_cvtps_pd(_mm256_castps256_ps128(x.high)));
    sums_[3] = _mm256_add_pd(sums_[3], _mm256_cvtps_pd(_mm256_extractf128_ps(x.high, 1)));
  }
  // In the order of `sum`.
  double total() const {
    const __m256d four = _mm256_add_pd(_mm256_add_pd(sums_[0], sums_[2]),  // lanes 0 … 3 of eight
                                       _mm256_add_pd(sums_[1], sums_[3]));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }

 private:
  __m256d sums_[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(),
                      _mm256_setzero_pd()};
};

// Numbers i … i + 3 of 16 rows, transposed: row j of the result is number i + j of all rows.
EDGESPEC_INLINE void transpose_4x16(const float* const (&rows)[16], int64_t i, F32x16 (&y)[4]) {
  const auto eight = [&](int first, __m256(&out)[4]) {
    const auto pair = [&](int r) {
      return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(rows[first + r] + i)),
                                  _mm_loadu_ps(rows[first + r + 4] + i), 1);
    };
    const __m256 a = pair(0), b = pair(1), c = pair(2), d = pair(3);
    const __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
    const __m256d cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
    const __m256d ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
    const __m256d cd_high = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
    out[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd));
    out[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd));
    out[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, cd_high));
    out[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, cd_high));
  };
  __m256 low[4], high[4];
  eight(0, low);
  eight(8, high);
  for (int j = 0; j < 4; ++j) y[j] = {low[j], high[j]};
}

}  // namespace edgespec
