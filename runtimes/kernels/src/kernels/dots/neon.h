// Dot products with NEON: one instruction takes 4 inputs of 4 outputs, or, with i8mm, 8 inputs of
// 2 outputs for 2 rows.
#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/lanes/lanes.h"

namespace edgespec {

constexpr int kParts = 1;
constexpr int kMaxRows = 6;
constexpr int kMaxGroupedRows = 6;
constexpr int kMaxSearchedRows = 6;
constexpr int32_t kWeightOffset = 0;

// 64 bytes: 4 inputs of 16 outputs.
struct Codes {
  uint8x16_t a, b, c, d;
};
struct Quad {
  int8x16_t v;
};

EDGESPEC_INLINE Codes load_codes(const std::byte* codes) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes);
  return {vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)};
}
EDGESPEC_INLINE Codes low_nibbles(Codes both) {
  const uint8x16_t nibble = vdupq_n_u8(0x0F);
  return by_register<Codes>([&](uint8x16_t x) { return vandq_u8(x, nibble); }, both);
}
EDGESPEC_INLINE Codes high_nibbles(Codes both) {
  return by_register<Codes>([](uint8x16_t x) { return vshrq_n_u8(x, 4); }, both);
}
EDGESPEC_INLINE void store_codes(std::byte* to, Codes codes) {
  auto* bytes = reinterpret_cast<uint8_t*>(to);
  vst1q_u8(bytes, codes.a);
  vst1q_u8(bytes + 16, codes.b);
  vst1q_u8(bytes + 32, codes.c);
  vst1q_u8(bytes + 48, codes.d);
}
// numbers[indices[i]] for each byte i, of 16 numbers.
EDGESPEC_INLINE Codes looked_up(const std::byte* numbers, const uint8_t* indices) {
  const uint8x16_t sixteen = vld1q_u8(reinterpret_cast<const uint8_t*>(numbers));
  return by_register<Codes>([&](uint8x16_t index) { return vqtbl1q_u8(sixteen, index); },
                            load_codes(reinterpret_cast<const std::byte*>(indices)));
}
// codes · steps + offsets, of codes of 4 bits. Elsewhere one multiplication makes two bytes.
EDGESPEC_INLINE Codes even_bytes(Codes steps) { return steps; }
EDGESPEC_INLINE Codes expanded(Codes codes, Codes steps, Codes offsets) {
  const auto expand = [](uint8x16_t code, uint8x16_t step, uint8x16_t offset) {
    return vmlaq_u8(offset, code, step);
  };
  return by_register<Codes>(expand, codes, steps, offsets);
}
// Bit `bit` of each byte of `bits` becomes the fifth bit of the code.
template <int bit>
EDGESPEC_INLINE Codes with_fifth_bit(Codes codes, Codes bits) {
  const auto add = [](uint8x16_t code, uint8x16_t from) {
    uint8x16_t there = from;
    if constexpr (bit < 4) there = vshlq_n_u8(from, 4 - bit);
    if constexpr (bit > 4) there = vshrq_n_u8(from, bit - 4);
    return vorrq_u8(code, vandq_u8(there, vdupq_n_u8(0x10)));
  };
  return by_register<Codes>(add, codes, bits);
}
EDGESPEC_INLINE Quad load_quad(const int8_t* inputs) {
  int32_t four;
  std::memcpy(&four, inputs, sizeof four);
  return {vreinterpretq_s8_s32(vdupq_n_s32(four))};
}

class Dots {
 public:
  EDGESPEC_INLINE void begin(int32_t value) { sums_ = splat_int(value); }
  EDGESPEC_INLINE void add(Codes codes, Quad inputs) {
    const auto dot = [&](int32x4_t sum, uint8x16_t code) {
      return vdotq_s32(sum, vreinterpretq_s8_u8(code), inputs.v);
    };
    sums_ = {dot(sums_.a, codes.a), dot(sums_.b, codes.b), dot(sums_.c, codes.c),
             dot(sums_.d, codes.d)};
  }
  EDGESPEC_INLINE void flush() {}
  EDGESPEC_INLINE I32x16 total() const { return sums_; }

 private:
  I32x16 sums_;
};

}  // namespace edgespec

#ifdef __ARM_FEATURE_MATMUL_INT8
#include "kernels/dots/i8mm.h"
#else
#include "kernels/dots/int8_sums.h"
#endif
