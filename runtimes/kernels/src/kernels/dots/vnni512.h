// Dot products with AVX-512 VNNI: one instruction takes 4 inputs of 16 outputs.
#pragma once

#include <cstring>

#include "kernels/lanes/lanes.h"

namespace edgespec {

constexpr int kParts = 2;           // times 16 outputs are a panel of 8-bit weights
constexpr int kMaxRows = 12;        // rows whose sums of a panel stay in registers
constexpr int kMaxGroupedRows = 6;  // the same for weights in groups
constexpr int kMaxSearchedRows = 12;
constexpr int32_t kWeightOffset = 128;  // packed weights are unsigned

struct Codes {
  __m512i v;
};
struct Quad {
  __m512i v;
};

EDGESPEC_INLINE Codes load_codes(const std::byte* codes) { return {_mm512_loadu_si512(codes)}; }
EDGESPEC_INLINE Codes low_nibbles(Codes both) {
  return {_mm512_and_si512(both.v, _mm512_set1_epi8(0x0F))};
}
EDGESPEC_INLINE Codes high_nibbles(Codes both) {
  return {_mm512_and_si512(_mm512_srli_epi16(both.v, 4), _mm512_set1_epi8(0x0F))};
}
EDGESPEC_INLINE void store_codes(std::byte* to, Codes codes) { _mm512_storeu_si512(to, codes.v); }
// numbers[indices[i]] for each byte i, of 16 numbers.
EDGESPEC_INLINE Codes looked_up(const std::byte* numbers, const uint8_t* indices) {
  const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(sixteen), _mm512_loadu_si512(indices))};
}
// codes · steps + offsets, of codes of 4 bits. A product fits into a byte, so that one
// multiplication makes two: of two codes that have the same step.
EDGESPEC_INLINE Codes even_bytes(Codes steps) {
  return {_mm512_and_si512(steps.v, _mm512_set1_epi16(0xFF))};
}
EDGESPEC_INLINE Codes expanded(Codes codes, Codes even_steps, Codes offsets) {
  return {_mm512_add_epi8(_mm512_mullo_epi16(codes.v, even_steps.v), offsets.v)};
}
// Bit `bit` of each byte of `bits` becomes the fifth bit of the code.
template <int bit>
EDGESPEC_INLINE Codes with_fifth_bit(Codes codes, Codes bits) {
  const __m512i there =
      bit < 4 ? _mm512_slli_epi16(bits.v, 4 - bit) : _mm512_srli_epi16(bits.v, bit - 4);
  constexpr int kAOrBoth = 0xF8;  // a | (b & c)
  return {_mm512_ternarylogic_epi32(codes.v, there, _mm512_set1_epi8(0x10), kAOrBoth)};
}
EDGESPEC_INLINE Quad load_quad(const int8_t* inputs) {
  int32_t four;
  std::memcpy(&four, inputs, sizeof four);
  return {_mm512_set1_epi32(four)};
}

class Dots {
 public:
  EDGESPEC_INLINE void begin(int32_t value) { sums_ = _mm512_set1_epi32(value); }
  // The instruction of _mm512_dpbusd_epi32. With the intrinsic, GCC 12 copies sums between
  // registers and spills them where they are many.
  EDGESPEC_INLINE void add(Codes codes, Quad inputs) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sums_) : "v"(codes.v), "v"(inputs.v));
  }
  EDGESPEC_INLINE void flush() {}
  EDGESPEC_INLINE I32x16 total() const { return {sums_}; }

 private:
  __m512i sums_;
};

}  // namespace edgespec

#include "kernels/dots/int8_sums.h"
