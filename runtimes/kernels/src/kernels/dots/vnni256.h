// Dot products with AVX-VNNI: one instruction takes 4 inputs of 8 outputs.
#pragma once

#include <cstring>

#include "kernels/dots/codes256.h"

namespace edgespec {

constexpr int kParts = 1;
constexpr int kMaxRows = 6;
constexpr int kMaxGroupedRows = 6;
constexpr int kMaxSearchedRows = 6;
constexpr int32_t kWeightOffset = 128;  // packed weights are unsigned

class Dots {
 public:
  EDGESPEC_INLINE void begin(int32_t value) { low_ = high_ = _mm256_set1_epi32(value); }
  EDGESPEC_INLINE void add(Codes codes, Quad inputs) {
    low_ = dot(low_, codes.low, inputs.v);
    high_ = dot(high_, codes.high, inputs.v);
  }
  EDGESPEC_INLINE void flush() {}
  EDGESPEC_INLINE I32x16 total() const { return {low_, high_}; }

 private:
  // The same instruction in the encoding of AVX-512, so that tests run where AVX-VNNI is missing.
  EDGESPEC_INLINE static __m256i dot(__m256i sums, __m256i codes, __m256i inputs) {
#ifdef __AVXVNNI__
    return _mm256_dpbusd_avx_epi32(sums, codes, inputs);
#else
    return _mm256_dpbusd_epi32(sums, codes, inputs);
#endif
  }

  __m256i low_, high_;
};

}  // namespace edgespec

#include "kernels/dots/int8_sums.h"
