// Dot products with AVX2, which multiplies bytes with saturation.
//
// Codes of 4 or 5 bits: products of pairs are added in 16 bits, where 8 steps of 4-bit codes fit,
// or 4 of 5-bit ones (15 · 127 · 2 · 8 and 31 · 127 · 2 · 4 are below 2^15); `flush` moves the sums
// to 32 bits. 8-bit weights are widened to 16 bits instead, once for all rows.
#pragma once

#include <vector>

#include "kernels/dots/codes256.h"
#include "kernels/rows.h"

namespace edgespec {

constexpr int kParts = 1;
constexpr int kMaxRows = 6;
constexpr int kMaxGroupedRows = 5;
constexpr int kMaxSearchedRows = 5;
constexpr int32_t kWeightOffset = 0;

class Dots {
 public:
  EDGESPEC_INLINE void begin(int32_t value) {
    low_ = high_ = _mm256_set1_epi32(value);
    low_words_ = high_words_ = _mm256_setzero_si256();
  }
  EDGESPEC_INLINE void add(Codes codes, Quad inputs) {
    add_products(low_words_, codes.low, inputs.v);
    add_products(high_words_, codes.high, inputs.v);
  }
  EDGESPEC_INLINE void flush() {
    const __m256i ones = _mm256_set1_epi16(1);
    low_ = _mm256_add_epi32(low_, _mm256_madd_epi16(low_words_, ones));
    high_ = _mm256_add_epi32(high_, _mm256_madd_epi16(high_words_, ones));
    low_words_ = high_words_ = _mm256_setzero_si256();
  }
  EDGESPEC_INLINE I32x16 total() const { return {low_, high_}; }

 private:
  // words += _mm256_maddubs_epi16(codes, inputs). With intrinsics, GCC 12 spills sums.
  EDGESPEC_INLINE static void add_products(__m256i& words, __m256i codes, __m256i inputs) {
    __m256i products;
    asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
        : "+x"(words), "=&x"(products)
        : "x"(codes), "x"(inputs));
  }

  __m256i low_, high_, low_words_, high_words_;
};

constexpr int64_t kInt8Step = 4;  // inputs that are packed together
constexpr int64_t kInt8Run = 2;   // of them, one after the other, of one output

// The index of a weight within its step of a panel: two inputs of all outputs, then the next two.
constexpr int64_t packed_int8_index(int64_t output, int64_t input) {
  return input / 2 * 32 + output * 2 + input % 2;
}

// Rows as the products read them, in 16 bits.
class Int8Inputs {
 public:
  template <typename Rows>
  explicit Int8Inputs(const Rows& rows) : stride(rows.stride) {
    thread_local std::vector<int16_t> words;
    words.assign(rows.values.begin(), rows.values.begin() + rows.count * rows.stride);
    first_ = words.data();
  }
  const int16_t* row(int64_t r) const { return first_ + r * stride; }

  const int64_t stride;

 private:
  const int16_t* first_;
};

// The sums of one panel for `count` rows.
template <int count>
class Int8Sums {
 public:
  EDGESPEC_INLINE void begin(const int32_t* values) {
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) low_[r] = high_[r] = _mm256_set1_epi32(values[r]);
  }
  EDGESPEC_INLINE void add_step(const std::byte* weights, const int16_t* inputs, int64_t stride) {
    for (int pair = 0; pair < 2; ++pair, weights += 32, inputs += 2) {
      const auto* halves = reinterpret_cast<const __m128i*>(weights);
      const __m256i low = _mm256_cvtepi8_epi16(_mm_loadu_si128(halves));
      const __m256i high = _mm256_cvtepi8_epi16(_mm_loadu_si128(halves + 1));
#pragma GCC unroll 16
      for (int r = 0; r < count; ++r) {
        int32_t two;
        std::memcpy(&two, inputs + r * stride, sizeof two);
        const __m256i all = _mm256_set1_epi32(two);
        add_products(low_[r], low, all);
        add_products(high_[r], high, all);
      }
    }
  }
  EDGESPEC_INLINE I32x16 total(int row, int) const { return {low_[row], high_[row]}; }

 private:
  // sums += _mm256_madd_epi16(weights, inputs). With intrinsics, GCC 12 spills sums.
  EDGESPEC_INLINE static void add_products(__m256i& sums, __m256i weights, __m256i inputs) {
    __m256i products;
    asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
        : "+x"(sums), "=&x"(products)
        : "x"(weights), "x"(inputs));
  }

  __m256i low_[count], high_[count];
};

}  // namespace edgespec
