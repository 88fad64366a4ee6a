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
EDGESPEC_INLINE void store_codes(std::byte* to, Codes codes) {
  auto* halves = reinterpret_cast<__m256i*>(to);
  _mm256_storeu_si256(halves, codes.low);
  _mm256_storeu_si256(halves + 1, codes.high);
}
// numbers[indices[i]] for each byte i, of 16 numbers.
EDGESPEC_INLINE Codes looked_up(const std::byte* numbers, const uint8_t* indices) {
  const auto* halves = reinterpret_cast<const __m256i*>(indices);
  const __m256i sixteen =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)));
  return {_mm256_shuffle_epi8(sixteen, _mm256_loadu_si256(halves)),
          _mm256_shuffle_epi8(sixteen, _mm256_loadu_si256(halves + 1))};
}
// codes · steps + offsets, of codes of 4 bits. A product fits into a byte, so that one
// multiplication makes two: of two codes that have the same step.
EDGESPEC_INLINE Codes even_bytes(Codes steps) {
  const __m256i even = _mm256_set1_epi16(0xFF);
  return {_mm256_and_si256(steps.low, even), _mm256_and_si256(steps.high, even)};
}
EDGESPEC_INLINE Codes expanded(Codes codes, Codes even_steps, Codes offsets) {
  return {_mm256_add_epi8(_mm256_mullo_epi16(codes.low, even_steps.low), offsets.low),
          _mm256_add_epi8(_mm256_mullo_epi16(codes.high, even_steps.high), offsets.high)};
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
