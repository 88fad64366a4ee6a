// 16 numbers in four registers of NEON.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#define EDGESPEC_INLINE [[gnu::always_inline]] inline

namespace edgespec {

struct F32x16 {
  float32x4_t a, b, c, d;
};
struct I32x16 {
  int32x4_t a, b, c, d;
};
struct M16 {
  uint32x4_t a, b, c, d;  // all bits of a lane are equal
};

// y = f(x, …), register by register.
template <typename Result, typename F, typename... X>
EDGESPEC_INLINE Result by_register(F f, const X&... x) {
  return {f(x.a...), f(x.b...), f(x.c...), f(x.d...)};
}

EDGESPEC_INLINE I32x16 lane_indices() {
  static constexpr int32_t kIndices[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return {vld1q_s32(kIndices), vld1q_s32(kIndices + 4), vld1q_s32(kIndices + 8),
          vld1q_s32(kIndices + 12)};
}
EDGESPEC_INLINE M16 first_lanes(int64_t count) {
  const int32x4_t most = vdupq_n_s32(int32_t(count < 16 ? count : 16));
  return by_register<M16>([&](int32x4_t i) { return vcltq_s32(i, most); }, lane_indices());
}

EDGESPEC_INLINE F32x16 splat(float x) {
  const float32x4_t all = vdupq_n_f32(x);
  return {all, all, all, all};
}
EDGESPEC_INLINE F32x16 zeros() { return splat(0); }
EDGESPEC_INLINE F32x16 select(M16 mask, F32x16 a, F32x16 b) {
  return by_register<F32x16>(
      [](uint32x4_t m, float32x4_t x, float32x4_t y) { return vbslq_f32(m, x, y); }, mask, a, b);
}
EDGESPEC_INLINE F32x16 load(const float* x) {
  return {vld1q_f32(x), vld1q_f32(x + 4), vld1q_f32(x + 8), vld1q_f32(x + 12)};
}
EDGESPEC_INLINE F32x16 load(const float* x, int64_t count, F32x16 others) {
  if (count >= 16) return load(x);
  float all[16];
  vst1q_f32(all, others.a);
  vst1q_f32(all + 4, others.b);
  vst1q_f32(all + 8, others.c);
  vst1q_f32(all + 12, others.d);
  for (int64_t i = 0; i < count; ++i) all[i] = x[i];
  return load(all);
}
EDGESPEC_INLINE F32x16 load(const float* x, int64_t count) { return load(x, count, zeros()); }
EDGESPEC_INLINE void store(float* y, F32x16 x) {
  vst1q_f32(y, x.a);
  vst1q_f32(y + 4, x.b);
  vst1q_f32(y + 8, x.c);
  vst1q_f32(y + 12, x.d);
}
EDGESPEC_INLINE void store(float* y, int64_t count, F32x16 x) {
  if (count >= 16) return store(y, x);
  float all[16];
  store(all, x);
  for (int64_t i = 0; i < count; ++i) y[i] = all[i];
}
EDGESPEC_INLINE F32x16 load_float16(const uint16_t* x) {
  const auto four = [](const uint16_t* from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
  };
  return {four(x), four(x + 4), four(x + 8), four(x + 12)};
}
EDGESPEC_INLINE void store_float16(uint16_t* y, F32x16 x) {
  const auto four = [](uint16_t* to, float32x4_t numbers) {
    vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(numbers)));
  };
  four(y, x.a);
  four(y + 4, x.b);
  four(y + 8, x.c);
  four(y + 12, x.d);
}
EDGESPEC_INLINE F32x16 load_bfloat16(const uint16_t* x) {
  const auto four = [](const uint16_t* from) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16));
  };
  return {four(x), four(x + 4), four(x + 8), four(x + 12)};
}

// Numbers 0, 2 … 30 of 32 in bfloat16, and 1, 3 … 31.
EDGESPEC_INLINE F32x16 load_even_bfloat16(const uint16_t* x) {
  const auto four = [](const uint16_t* from) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u16(vld1q_u16(from)), 16));
  };
  return {four(x), four(x + 8), four(x + 16), four(x + 24)};
}
EDGESPEC_INLINE F32x16 load_odd_bfloat16(const uint16_t* x) {
  const auto four = [](const uint16_t* from) {
    const uint32x4_t upper = vdupq_n_u32(0xFFFF0000U);
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u16(vld1q_u16(from)), upper));
  };
  return {four(x), four(x + 8), four(x + 16), four(x + 24)};
}
// The upper halves of 16 numbers.
EDGESPEC_INLINE void store_upper_halves(uint16_t* y, F32x16 x) {
  const auto four = [](uint16_t* to, float32x4_t numbers) {
    vst1_u16(to, vshrn_n_u32(vreinterpretq_u32_f32(numbers), 16));
  };
  four(y, x.a);
  four(y + 4, x.b);
  four(y + 8, x.c);
  four(y + 12, x.d);
}

EDGESPEC_INLINE F32x16 operator+(F32x16 x, F32x16 y) {
  return by_register<F32x16>([](auto p, auto q) { return vaddq_f32(p, q); }, x, y);
}
EDGESPEC_INLINE F32x16 operator-(F32x16 x, F32x16 y) {
  return by_register<F32x16>([](auto p, auto q) { return vsubq_f32(p, q); }, x, y);
}
EDGESPEC_INLINE F32x16 operator*(F32x16 x, F32x16 y) {
  return by_register<F32x16>([](auto p, auto q) { return vmulq_f32(p, q); }, x, y);
}
EDGESPEC_INLINE F32x16 operator/(F32x16 x, F32x16 y) {
  return by_register<F32x16>([](auto p, auto q) { return vdivq_f32(p, q); }, x, y);
}
EDGESPEC_INLINE F32x16 fma(F32x16 x, F32x16 y, F32x16 z) {
  return by_register<F32x16>([](auto p, auto q, auto r) { return vfmaq_f32(r, p, q); }, x, y, z);
}
EDGESPEC_INLINE F32x16 fnma(F32x16 x, F32x16 y, F32x16 z) {
  return by_register<F32x16>([](auto p, auto q, auto r) { return vfmsq_f32(r, p, q); }, x, y, z);
}
// As on x86: y where one of the two is NaN, and where both are zero.
EDGESPEC_INLINE F32x16 max(F32x16 x, F32x16 y) {
  return by_register<F32x16>([](auto p, auto q) { return vbslq_f32(vcgtq_f32(p, q), p, q); }, x, y);
}
EDGESPEC_INLINE F32x16 min(F32x16 x, F32x16 y) {
  return by_register<F32x16>([](auto p, auto q) { return vbslq_f32(vcltq_f32(p, q), p, q); }, x, y);
}
EDGESPEC_INLINE F32x16 abs(F32x16 x) {
  return by_register<F32x16>([](auto p) { return vabsq_f32(p); }, x);
}
EDGESPEC_INLINE F32x16 round(F32x16 x) {
  return by_register<F32x16>([](auto p) { return vrndnq_f32(p); }, x);
}
EDGESPEC_INLINE F32x16 copy_sign_bits(F32x16 x, F32x16 sign) {
  const auto with_sign = [](float32x4_t p, float32x4_t s) {
    const uint32x4_t bit = vandq_u32(vreinterpretq_u32_f32(s), vdupq_n_u32(0x80000000U));
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(p), bit));
  };
  return by_register<F32x16>(with_sign, x, sign);
}

EDGESPEC_INLINE I32x16 splat_int(int32_t x) {
  const int32x4_t all = vdupq_n_s32(x);
  return {all, all, all, all};
}
EDGESPEC_INLINE I32x16 operator+(I32x16 x, I32x16 y) {
  return by_register<I32x16>([](auto p, auto q) { return vaddq_s32(p, q); }, x, y);
}
template <int bits>
EDGESPEC_INLINE I32x16 shift_left(I32x16 x) {
  return by_register<I32x16>([](auto p) { return vshlq_n_s32(p, bits); }, x);
}
template <int bits>
EDGESPEC_INLINE I32x16 shift_right(I32x16 x) {  // zeros come in
  return by_register<I32x16>(
      [](auto p) { return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(p), bits)); }, x);
}
template <int bits>
EDGESPEC_INLINE I32x16 shift_right_signed(I32x16 x) {  // copies of the sign come in
  return by_register<I32x16>([](auto p) { return vshrq_n_s32(p, bits); }, x);
}
EDGESPEC_INLINE I32x16 to_ints(F32x16 x) {
  return by_register<I32x16>([](auto p) { return vcvtnq_s32_f32(p); }, x);
}
EDGESPEC_INLINE F32x16 to_floats(I32x16 x) {
  return by_register<F32x16>([](auto p) { return vcvtq_f32_s32(p); }, x);
}
EDGESPEC_INLINE F32x16 as_floats(I32x16 x) {
  return by_register<F32x16>([](auto p) { return vreinterpretq_f32_s32(p); }, x);
}
EDGESPEC_INLINE I32x16 as_ints(F32x16 x) {
  return by_register<I32x16>([](auto p) { return vreinterpretq_s32_f32(p); }, x);
}
// y · 2^power, where that is a normal number: the exponent is in the bits from 23 on.
EDGESPEC_INLINE F32x16 times_power_of_2(F32x16 y, F32x16 power) {
  return as_floats(as_ints(y) + shift_left<23>(to_ints(power)));
}
EDGESPEC_INLINE I32x16 load_int8(const int8_t* x) {
  const int8x16_t bytes = vld1q_s8(x);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  return {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
          vmovl_high_s16(high)};
}
EDGESPEC_INLINE void store(int32_t* y, I32x16 x) {
  vst1q_s32(y, x.a);
  vst1q_s32(y + 4, x.b);
  vst1q_s32(y + 8, x.c);
  vst1q_s32(y + 12, x.d);
}
// The numbers are in -128 … 127.
EDGESPEC_INLINE void store_int8(int8_t* y, int64_t count, I32x16 x) {
  const int16x8_t low = vcombine_s16(vqmovn_s32(x.a), vqmovn_s32(x.b));
  const int16x8_t high = vcombine_s16(vqmovn_s32(x.c), vqmovn_s32(x.d));
  const int8x16_t bytes = vcombine_s8(vqmovn_s16(low), vqmovn_s16(high));
  if (count >= 16) return vst1q_s8(y, bytes);
  int8_t all[16];
  vst1q_s8(all, bytes);
  for (int64_t i = 0; i < count; ++i) y[i] = all[i];
}

EDGESPEC_INLINE M16 operator<(F32x16 x, F32x16 y) {
  return by_register<M16>([](auto p, auto q) { return vcltq_f32(p, q); }, x, y);
}
EDGESPEC_INLINE M16 operator==(F32x16 x, F32x16 y) {
  return by_register<M16>([](auto p, auto q) { return vceqq_f32(p, q); }, x, y);
}
EDGESPEC_INLINE M16 is_nan(F32x16 x) {
  return by_register<M16>([](auto p) { return vmvnq_u32(vceqq_f32(p, p)); }, x);
}
EDGESPEC_INLINE M16 operator&(M16 x, M16 y) {
  return by_register<M16>([](auto p, auto q) { return vandq_u32(p, q); }, x, y);
}
EDGESPEC_INLINE I32x16 select(M16 mask, I32x16 x, I32x16 y) {
  return by_register<I32x16>([](auto m, auto p, auto q) { return vbslq_s32(m, p, q); }, mask, x, y);
}
EDGESPEC_INLINE uint32_t bits_of(M16 mask) {
  static constexpr uint32_t kBits[4] = {1, 2, 4, 8};
  const uint32x4_t bits = vld1q_u32(kBits);
  const auto four = [&](uint32x4_t m) { return vaddvq_u32(vandq_u32(m, bits)); };
  return four(mask.a) | four(mask.b) << 4 | four(mask.c) << 8 | four(mask.d) << 12;
}

// Lane i gets the number of lane i ^ bit.
template <int bit>
EDGESPEC_INLINE F32x16 swapped(F32x16 x) {
  if constexpr (bit == 8) return {x.c, x.d, x.a, x.b};
  if constexpr (bit == 4) return {x.b, x.a, x.d, x.c};
  if constexpr (bit == 2) {
    return by_register<F32x16>([](auto p) { return vextq_f32(p, p, 2); }, x);
  }
  return by_register<F32x16>([](auto p) { return vrev64q_f32(p); }, x);
}
// a + b; in lanes whose index has `bit`, a - b.
template <int bit>
EDGESPEC_INLINE F32x16 add_or_subtract(F32x16 x, F32x16 y) {
  const F32x16 sum = x + y, difference = x - y;
  if constexpr (bit == 8) return {sum.a, sum.b, difference.c, difference.d};
  if constexpr (bit == 4) return {sum.a, difference.b, sum.c, difference.d};
  const uint64x2_t odd = vdupq_n_u64(bit == 2 ? 0 : 0xFFFFFFFF00000000ULL);
  const uint64x2_t subtract = bit == 2 ? vcombine_u64(vdup_n_u64(0), vdup_n_u64(~0ULL)) : odd;
  const M16 mask = by_register<M16>([&](auto) { return vreinterpretq_u32_u64(subtract); }, x);
  return select(mask, difference, sum);
}

// Adds lane i + 8 to lane i for i < 8, then 4, 2 and 1.
EDGESPEC_INLINE float sum(F32x16 x) {
  const float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
// In the order of `sum`, which decides what NaN leaves.
EDGESPEC_INLINE float largest_of(F32x16 x) {
  const F32x16 eight = max(x, F32x16{x.c, x.d, x.c, x.d});
  const float32x4_t four = max(eight, F32x16{eight.b, eight.b, eight.b, eight.b}).a;
  const auto larger = [](float p, float q) { return p > q ? p : q; };
  return larger(larger(four[0], four[2]), larger(four[1], four[3]));
}

// 16 sums in float64.
class F64Sums {
 public:
  EDGESPEC_INLINE void add(F32x16 x) {
    add_four(x.a, 0);
    add_four(x.b, 2);
    add_four(x.c, 4);
    add_four(x.d, 6);
  }
  // In the order of `sum`.
  double total() const {
    float64x2_t eight[4];
    for (int i = 0; i < 4; ++i) eight[i] = vaddq_f64(sums_[i], sums_[i + 4]);
    const float64x2_t low = vaddq_f64(eight[0], eight[2]), high = vaddq_f64(eight[1], eight[3]);
    const float64x2_t two = vaddq_f64(low, high);
    return vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1);
  }

 private:
  EDGESPEC_INLINE void add_four(float32x4_t x, int i) {
    sums_[i] = vaddq_f64(sums_[i], vcvt_f64_f32(vget_low_f32(x)));
    sums_[i + 1] = vaddq_f64(sums_[i + 1], vcvt_high_f64_f32(x));
  }

  float64x2_t sums_[8] = {};
};

// Numbers i … i + 3 of 16 rows, transposed: row j of the result is number i + j of all rows.
EDGESPEC_INLINE void transpose_4x16(const float* const (&rows)[16], int64_t i, F32x16 (&y)[4]) {
  float32x4_t transposed[4][4];  // [rows / 4][number]
  for (int four = 0; four < 4; ++four) {
    const float* const* r = rows + 4 * four;
    const float32x4x2_t low = vtrnq_f32(vld1q_f32(r[0] + i), vld1q_f32(r[1] + i));
    const float32x4x2_t high = vtrnq_f32(vld1q_f32(r[2] + i), vld1q_f32(r[3] + i));
    for (int odd = 0; odd < 2; ++odd) {
      const float32x4_t a = low.val[odd], b = high.val[odd];
      transposed[four][odd] = vcombine_f32(vget_low_f32(a), vget_low_f32(b));
      transposed[four][odd + 2] = vcombine_f32(vget_high_f32(a), vget_high_f32(b));
    }
  }
  for (int j = 0; j < 4; ++j) {
    y[j] = {transposed[0][j], transposed[1][j], transposed[2][j], transposed[3][j]};
  }
}

}  // namespace edgespec
