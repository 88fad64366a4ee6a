// Sums of 8-bit products with NEON's matrix products: 8 inputs of 2 outputs for 2 rows.
#pragma once

#include "kernels/dots/int8_inputs.h"

namespace edgespec {

constexpr int64_t kInt8Step = 8;  // inputs that are packed together
constexpr int64_t kInt8Run = 8;   // of them, one after the other, of one output

// The index of a weight within its step of a panel.
constexpr int64_t packed_int8_index(int64_t output, int64_t input) {
  return output * kInt8Step + input;
}

// The sums of one panel for `count` rows. A register has two outputs of two rows; an odd last row
// is its own second one.
template <int count>
class Int8Sums {
 public:
  EDGESPEC_INLINE void begin(const int32_t* values) {
#pragma GCC unroll 16
    for (int pair = 0; pair < kPairs; ++pair) {
      const int32_t first = values[2 * pair], second = values[second_row(pair)];
      const int32x4_t both = vcombine_s32(vdup_n_s32(first), vdup_n_s32(second));
      for (int i = 0; i < kRegisters; ++i) sums_[pair][i] = both;
    }
  }
  EDGESPEC_INLINE void add_step(const std::byte* weights, const int8_t* inputs, int64_t stride) {
    const auto* bytes = reinterpret_cast<const int8_t*>(weights);
    int8x16_t rows[kPairs];
#pragma GCC unroll 16
    for (int pair = 0; pair < kPairs; ++pair) {
      rows[pair] = vcombine_s8(vld1_s8(inputs + 2 * pair * stride),
                               vld1_s8(inputs + second_row(pair) * stride));
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRegisters; ++i) {
      const int8x16_t two_outputs = vld1q_s8(bytes + 16 * i);
#pragma GCC unroll 16
      for (int pair = 0; pair < kPairs; ++pair) {
        sums_[pair][i] = vmmlaq_s32(sums_[pair][i], rows[pair], two_outputs);
      }
    }
  }
  EDGESPEC_INLINE I32x16 total(int row, int) const {
    const auto& sums = sums_[row / 2];
    const auto four = [&](int i) {
      return row % 2 ? vcombine_s32(vget_high_s32(sums[i]), vget_high_s32(sums[i + 1]))
                     : vcombine_s32(vget_low_s32(sums[i]), vget_low_s32(sums[i + 1]));
    };
    return {four(0), four(2), four(4), four(6)};
  }

 private:
  static constexpr int kPairs = (count + 1) / 2;
  static constexpr int kRegisters = 8;  // of two outputs each
  static constexpr int second_row(int pair) {
    return 2 * pair + 1 < count ? 2 * pair + 1 : 2 * pair;
  }

  int32x4_t sums_[kPairs][kRegisters];
};

}  // namespace edgespec
