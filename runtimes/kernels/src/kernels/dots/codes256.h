// 64 bytes in two registers of AVX2: 4 inputs of 16 outputs.
#pragma once

#include <cstring>

#include "kernels/lanes/lanes.h"

namespace edgespec {

struct Codes {
  __m256i low, high;
};
struct Quad {
  __m256i v;
};

EDGESPEC_INLINE Codes load_codes(const std::byte* codes) {
  const auto* halves = reinterpret_cast<const __m256i*>(codes);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
EDGESPEC_INLINE Codes low_nibbles(Codes both) {
  const __m256i nibble = _mm256_set1_epi8(0x0F);
  return {_mm256_and_si256(both.low, nibble), _mm256_and_si256(both.high, nibble)};
}
EDGESPEC_INLINE Codes high_nibbles(Codes both) {
  return low_nibbles({_mm256_srli_epi16(both.low, 4), _mm256_srli_epi16(both.high, 4)});
}
// Bit `bit` of each byte of `bits` becomes the fifth bit of the code.
template <int bit>
EDGESPEC_INLINE Codes with_fifth_bit(Codes codes, Codes bits) {
  const auto add = [](__m256i code, __m256i from) {
    const __m256i there =
        bit < 4 ? _mm256_slli_epi16(from, 4 - bit) : _mm256_srli_epi16(from, bit - 4);
    return _mm256_or_si256(code, _mm256_and_si256(there, _mm256_set1_epi8(0x10)));
  };
  return {add(codes.low, bits.low), add(codes.high, bits.high)};
}
EDGESPEC_INLINE Quad load_quad(const int8_t* inputs) {
  int32_t four;
  std::memcpy(&four, inputs, sizeof four);
  return {_mm256_set1_epi32(four)};
}

}  // namespace edgespec
