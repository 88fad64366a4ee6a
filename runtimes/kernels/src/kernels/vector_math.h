// Functions of registers of 16 floats.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace edgespec {

// The first `count` lanes; all of them if count is 16 or more.
inline __mmask16 first_lanes(int64_t count) {
  return count >= 16 ? __mmask16(0xFFFF) : __mmask16((1u << count) - 1);
}

// e^x with a relative error of about 1e-7; 0 where it underflows, also for -∞.
inline __m512 exp(__m512 x) {
  const __m512 largest = _mm512_set1_ps(88.0f), smallest = _mm512_set1_ps(-104.0f);
  const __m512 bounded = _mm512_max_ps(smallest, _mm512_min_ps(largest, x));  // keeps NaN
  const __m512 power = _mm512_roundscale_ps(_mm512_mul_ps(bounded, _mm512_set1_ps(1.44269504f)),
                                            _MM_FROUND_TO_NEAREST_INT);
  // x = power · ln 2 + rest, with ln 2 in two parts for precision (Cody and Waite).
  __m512 rest = _mm512_fnmadd_ps(power, _mm512_set1_ps(0.693145752f), bounded);
  rest = _mm512_fnmadd_ps(power, _mm512_set1_ps(1.42860677e-6f), rest);
  __m512 y = _mm512_set1_ps(1.9875691500e-4f);
  for (const float coefficient : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                  1.6666665459e-1f, 5.0000001201e-1f, 1.0f, 1.0f}) {
    y = _mm512_fmadd_ps(y, rest, _mm512_set1_ps(coefficient));
  }
  return _mm512_scalef_ps(y, power);
}

}  // namespace edgespec
