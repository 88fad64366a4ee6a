// 16 numbers in one register of AVX-512.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define EDGESPEC_INLINE [[gnu::always_inline]] inline

namespace edgespec {

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct M16 {
  __mmask16 v;
};

EDGESPEC_INLINE M16 first_lanes(int64_t count) {
  return {count >= 16 ? __mmask16(0xFFFF) : __mmask16((1u << count) - 1)};
}

EDGESPEC_INLINE F32x16 splat(float x) { return {_mm512_set1_ps(x)}; }
EDGESPEC_INLINE F32x16 zeros() { return {_mm512_setzero_ps()}; }
EDGESPEC_INLINE F32x16 load(const float* x) { return {_mm512_loadu_ps(x)}; }
EDGESPEC_INLINE F32x16 load(const float* x, int64_t count) {
  return {_mm512_maskz_loadu_ps(first_lanes(count).v, x)};
}
EDGESPEC_INLINE F32x16 load(const float* x, int64_t count, F32x16 others) {
  return {_mm512_mask_loadu_ps(others.v, first_lanes(count).v, x)};
}
EDGESPEC_INLINE void store(float* y, F32x16 x) { _mm512_storeu_ps(y, x.v); }
EDGESPEC_INLINE void store(float* y, int64_t count, F32x16 x) {
  _mm512_mask_storeu_ps(y, first_lanes(count).v, x.v);
}
EDGESPEC_INLINE F32x16 load_float16(const uint16_t* x) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)))};
}
EDGESPEC_INLINE void store_float16(uint16_t* y, F32x16 x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_cvtps_ph(x.v, kNearest));
}
EDGESPEC_INLINE F32x16 load_bfloat16(const uint16_t* x) {
  const auto* halves = reinterpret_cast<const __m256i*>(x);
  return {_mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(halves)), 16))};
}

// Numbers 0, 2 … 30 of 32 in bfloat16, and 1, 3 … 31.
EDGESPEC_INLINE F32x16 load_even_bfloat16(const uint16_t* x) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(x), 16))};
}
EDGESPEC_INLINE F32x16 load_odd_bfloat16(const uint16_t* x) {
  const __m512i upper = _mm512_set1_epi32(int(0xFFFF0000));
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(x), upper))};
}
// The upper halves of 16 numbers.
EDGESPEC_INLINE void store_upper_halves(uint16_t* y, F32x16 x) {
  const __m512i halves = _mm512_srli_epi32(_mm512_castps_si512(x.v), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_cvtepi32_epi16(halves));
}

EDGESPEC_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
EDGESPEC_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
EDGESPEC_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
EDGESPEC_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
EDGESPEC_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
EDGESPEC_INLINE F32x16 fnma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
// b where one of the two is NaN, and where both are zero.
EDGESPEC_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
EDGESPEC_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
EDGESPEC_INLINE F32x16 abs(F32x16 x) { return {_mm512_abs_ps(x.v)}; }
EDGESPEC_INLINE F32x16 round(F32x16 x) {
  return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT)};
}
EDGESPEC_INLINE F32x16 copy_sign_bits(F32x16 x, F32x16 sign) {
  return {_mm512_or_ps(x.v, _mm512_and_ps(sign.v, _mm512_set1_ps(-0.0f)))};
}

EDGESPEC_INLINE I32x16 splat_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
EDGESPEC_INLINE I32x16 lane_indices() {
  return {_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)};
}
EDGESPEC_INLINE I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
template <int bits>
EDGESPEC_INLINE I32x16 shift_left(I32x16 x) {
  return {_mm512_slli_epi32(x.v, bits)};
}
template <int bits>
EDGESPEC_INLINE I32x16 shift_right(I32x16 x) {  // zeros come in
  return {_mm512_srli_epi32(x.v, bits)};
}
template <int bits>
EDGESPEC_INLINE I32x16 shift_right_signed(I32x16 x) {  // copies of the sign come in
  return {_mm512_srai_epi32(x.v, bits)};
}
EDGESPEC_INLINE I32x16 to_ints(F32x16 x) { return {_mm512_cvtps_epi32(x.v)}; }
EDGESPEC_INLINE F32x16 to_floats(I32x16 x) { return {_mm512_cvtepi32_ps(x.v)}; }
EDGESPEC_INLINE F32x16 as_floats(I32x16 x) { return {_mm512_castsi512_ps(x.v)}; }
EDGESPEC_INLINE I32x16 as_ints(F32x16 x) { return {_mm512_castps_si512(x.v)}; }
// y · 2^power, where that is a normal number.
EDGESPEC_INLINE F32x16 times_power_of_2(F32x16 y, F32x16 power) {
  return {_mm512_scalef_ps(y.v, power.v)};
}
EDGESPEC_INLINE I32x16 load_int8(const int8_t* x) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)))};
}
EDGESPEC_INLINE void store(int32_t* y, I32x16 x) { _mm512_storeu_si512(y, x.v); }
// The numbers are in -128 … 127.
EDGESPEC_INLINE void store_int8(int8_t* y, int64_t count, I32x16 x) {
  _mm_mask_storeu_epi8(y, first_lanes(count).v, _mm512_cvtsepi32_epi8(x.v));
}

EDGESPEC_INLINE M16 operator<(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
EDGESPEC_INLINE M16 operator==(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
EDGESPEC_INLINE M16 is_nan(F32x16 x) { return {_mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q)}; }
EDGESPEC_INLINE M16 operator&(M16 a, M16 b) { return {__mmask16(a.v & b.v)}; }
EDGESPEC_INLINE F32x16 select(M16 mask, F32x16 a, F32x16 b) {
  return {_mm512_mask_mov_ps(b.v, mask.v, a.v)};
}
EDGESPEC_INLINE I32x16 select(M16 mask, I32x16 a, I32x16 b) {
  return {_mm512_mask_mov_epi32(b.v, mask.v, a.v)};
}
EDGESPEC_INLINE uint32_t bits_of(M16 mask) { return mask.v; }

// Lane i gets the number of lane i ^ bit.
template <int bit>
EDGESPEC_INLINE F32x16 swapped(F32x16 x) {
  const __m512i partner = _mm512_xor_si512(lane_indices().v, _mm512_set1_epi32(bit));
  return {_mm512_permutexvar_ps(partner, x.v)};
}
template <int bit>
EDGESPEC_INLINE M16 lanes_with() {
  return {_mm512_test_epi32_mask(lane_indices().v, _mm512_set1_epi32(bit))};
}
// a + b; in lanes whose index has `bit`, a - b.
template <int bit>
EDGESPEC_INLINE F32x16 add_or_subtract(F32x16 a, F32x16 b) {
  return {_mm512_mask_sub_ps(_mm512_add_ps(a.v, b.v), lanes_with<bit>().v, a.v, b.v)};
}

// Adds lane i + 8 to lane i for i < 8, then 4, 2 and 1.
EDGESPEC_INLINE float sum(F32x16 x) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
// In the order of `sum`, which decides what NaN leaves.
EDGESPEC_INLINE float largest_of(F32x16 x) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// 16 sums in float64.
class F64Sums {
 public:
  EDGESPEC_INLINE void add(F32x16 x) {
    low_ = _mm512_add_pd(low_, _mm512_cvtps_pd(_mm512_castps512_ps256(x.v)));
    high_ = _mm512_add_pd(high_, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1)));
  }
  // In the order of `sum`.
  double total() const {
    const __m512d eight = _mm512_add_pd(low_, high_);
    const __m256d four =
        _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }

 private:
  __m512d low_ = _mm512_setzero_pd(), high_ = _mm512_setzero_pd();
};

// Numbers i … i + 3 of 16 rows, transposed: row j of the result is number i + j of all rows.
EDGESPEC_INLINE void transpose_4x16(const float* const (&rows)[16], int64_t i, F32x16 (&y)[4]) {
  const auto four = [&](int r) {
    __m512 x = _mm512_castps128_ps512(_mm_loadu_ps(rows[r] + i));
    x = _mm512_insertf32x4(x, _mm_loadu_ps(rows[r + 4] + i), 1);
    x = _mm512_insertf32x4(x, _mm_loadu_ps(rows[r + 8] + i), 2);
    return _mm512_insertf32x4(x, _mm_loadu_ps(rows[r + 12] + i), 3);
  };
  const __m512 a = four(0), b = four(1), c = four(2), d = four(3);
  const __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
  const __m512d cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
  const __m512d ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
  const __m512d cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
  y[0].v = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
  y[1].v = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
  y[2].v = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high));
  y[3].v = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high));
}

}  // namespace edgespec
