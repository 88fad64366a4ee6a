// Rows of keys or values, as a cache stores them: in float32, in float16, or in 8 bits with a scale
// for each row.
//
// A stored row stands for float32 numbers: itself, float16 widened exactly, or code · scale rounded
// once. Kernels compute with these numbers, so attention to a narrow cache has the bits of
// attention to a float32 cache that holds them.
#pragma once

#include <cstdint>

#include "kernels/half_types.h"

namespace edgespec {

template <typename Number>
struct CacheRows {
  const Number* numbers;  // [rows, size]

  CacheRows from(int64_t row, int64_t size) const { return {numbers + row * size}; }
};

template <>
struct CacheRows<int8_t> {
  const int8_t* numbers;  // [rows, size]
  const float* scales;    // [rows]

  CacheRows from(int64_t row, int64_t size) const { return {numbers + row * size, scales + row}; }
};

// The first `count` rows as floats [count, size]: where they are, or in `memory`.
inline const float* widened(const CacheRows<float>& rows, int64_t, int64_t, float*) {
  return rows.numbers;
}
const float* widened(const CacheRows<Float16>& rows, int64_t count, int64_t size, float* memory);
const float* widened(const CacheRows<int8_t>& rows, int64_t count, int64_t size, float* memory);

// Stores a row of floats: rounded to the nearest float16, of two equally near ones the even one.
void store_row(const float* row, int64_t size, Float16* stored);

// Stores a row of floats in 8 bits and returns its scale, which makes its largest absolute value
// 127. A row with a NaN gets scale NaN.
float store_row(const float* row, int64_t size, int8_t* stored);

}  // namespace edgespec
