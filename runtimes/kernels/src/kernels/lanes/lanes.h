// 16 numbers at a time, on every processor.
//
// A kernel is written once, on 16 lanes: one register of AVX-512, two of AVX2, four of NEON. The
// lanes of a number, and so the order in which numbers are added, are the same everywhere. Every
// function here is exact or rounds once, as IEEE 754 says; `fma` is fused, and nothing else is (the
// compiler must not contract). So kernels have the same bits on every processor.
#pragma once

#if defined(__AVX512F__) && !defined(EDGESPEC_NO_AVX512)
#include "kernels/lanes/avx512.h"
#elif defined(__AVX2__)
#include "kernels/lanes/avx2.h"
#elif defined(__ARM_NEON)
#include "kernels/lanes/neon.h"
#else
#error "the kernels need AVX-512, AVX2 or NEON"
#endif

namespace edgespec {

constexpr int64_t kLanes = 16;

EDGESPEC_INLINE F32x16 operator-(F32x16 x) { return zeros() - x; }

// The first `count` numbers, zeros after them.
EDGESPEC_INLINE F32x16 first(F32x16 x, int64_t count) {
  return count >= kLanes ? x : select(first_lanes(count), x, zeros());
}

// Runs body(index, count) for each 16 numbers of a row; `count` are left, 16 or more but at its
// end.
template <typename Body>
EDGESPEC_INLINE void for_each_16(int64_t width, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) body(i, kLanes);
  if (i < width) body(i, width - i);
}

// Rounded half to even and saturated to 8 bits. NaN becomes 127: what an instruction makes of it
// differs from processor to processor.
EDGESPEC_INLINE I32x16 rounded_to_8_bits(F32x16 x) {
  return to_ints(max(min(x, splat(127.0f)), splat(-128.0f)));
}

// Stored in bfloat16, rounded half to even. NaN becomes one that is the same everywhere.
EDGESPEC_INLINE void store_bfloat16(uint16_t* y, F32x16 x) {
  const I32x16 bits = as_ints(x), is_odd = shift_right<31>(shift_left<15>(bits));
  const F32x16 rounded = as_floats(bits + splat_int(0x7FFF) + is_odd);
  store_upper_halves(y, select(is_nan(x), as_floats(splat_int(0x7FC00000)), rounded));
}

// The same, as float32.
EDGESPEC_INLINE F32x16 nearest_bfloat16(F32x16 x) {
  const I32x16 bits = as_ints(x), is_odd = shift_right<31>(shift_left<15>(bits));
  const I32x16 upper = shift_right<16>(bits + splat_int(0x7FFF) + is_odd);
  return select(is_nan(x), x, as_floats(shift_left<16>(upper)));
}

// e^x with a relative error of about 1e-7; 0 below e^-87, which is near the smallest normal number.
EDGESPEC_INLINE F32x16 exp(F32x16 x) {
  const F32x16 largest = splat(88.0f), smallest = splat(-87.0f);
  const F32x16 bounded = max(smallest, min(largest, x));  // keeps NaN
  const F32x16 power = round(bounded * splat(1.44269504f));
  // x = power · ln 2 + rest, with ln 2 in two parts for precision (Cody and Waite).
  F32x16 rest = fnma(power, splat(0.693145752f), bounded);
  rest = fnma(power, splat(1.42860677e-6f), rest);
  F32x16 y = splat(1.9875691500e-4f);
  for (const float coefficient : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                  1.6666665459e-1f, 5.0000001201e-1f, 1.0f, 1.0f}) {
    y = fma(y, rest, splat(coefficient));
  }
  return select(x < smallest, zeros(), times_power_of_2(y, power));
}

// 2^x for x of at most 0, with a relative error of about 3e-6; 0 below -55.
EDGESPEC_INLINE F32x16 exp2_of_negative(F32x16 x) {
  const F32x16 power = round(x), rest = x - power;
  F32x16 y = splat(9.582852944731712e-3f);
  for (const float coefficient :
       {5.5906426161527634e-2f, 0.24024099111557007f, 0.6931241750717163f, 1.0f}) {
    y = fma(y, rest, splat(coefficient));
  }
  return select(x < splat(-55.0f), zeros(), times_power_of_2(y, power));
}

}  // namespace edgespec
