// Sums of 8-bit products for processors whose dot products take any 8-bit weights: a step is 4
// inputs of 16 outputs for each part of a panel.
#pragma once

#include "kernels/dots/int8_inputs.h"

namespace edgespec {

constexpr int64_t kInt8Step = 4;  // inputs that are packed together
constexpr int64_t kInt8Run = 4;   // of them, one after the other, of one output

// The index of a weight within its step of a panel.
constexpr int64_t packed_int8_index(int64_t output, int64_t input) {
  return output * kInt8Step + input;
}

// The sums of one panel for `count` rows.
template <int count>
class Int8Sums {
 public:
  EDGESPEC_INLINE void begin(const int32_t* values) {
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) {
      for (int part = 0; part < kParts; ++part) dots_[r][part].begin(values[r]);
    }
  }
  EDGESPEC_INLINE void add_step(const std::byte* weights, const int8_t* inputs, int64_t stride) {
    Codes codes[kParts];
    for (int part = 0; part < kParts; ++part) codes[part] = load_codes(weights + 64 * part);
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) {
      const Quad four = load_quad(inputs + r * stride);
      for (int part = 0; part < kParts; ++part) dots_[r][part].add(codes[part], four);
    }
  }
  EDGESPEC_INLINE I32x16 total(int row, int part) const { return dots_[row][part].total(); }

 private:
  Dots dots_[count][kParts];
};

}  // namespace edgespec
