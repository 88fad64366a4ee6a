// Steps on rows of activations before and after a product: RMS norm, Hadamard rotation, RoPE,
// gates, quantization to 8 bits. A row's numbers depend on that row only.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/aligned_vector.h"

namespace edgespec {

// Bytes from one row of `columns` bytes to the next: an odd number of cache lines, because rows a
// page apart would use the same set of the cache.
inline int64_t row_stride(int64_t columns) {
  constexpr int64_t kLine = 64;
  return ((columns + kLine - 1) / kLine | 1) * kLine;
}

// Rows quantized to 8 bits: row r is scale[r] · values[r * stride …]; zeros follow its `width`
// numbers.
struct QuantizedRows {
  int64_t count = 0;
  int64_t width = 0;
  int64_t stride = 0;  // bytes from one row to the next
  AlignedVector<int8_t> values;
  std::vector<float> scale;

  void resize(int64_t rows, int64_t columns);
  int8_t* row(int64_t r) { return values.data() + r * stride; }
  const int8_t* row(int64_t r) const { return values.data() + r * stride; }
  int32_t sum(int64_t r) const;  // of a row's values
};

// Quantizes row r with scale `step`.
void quantize_row(const float* x, float step, QuantizedRows& rows, int64_t r);

// Quantizes row r with the scale that makes its largest absolute value 127. A row with a NaN gets
// scale NaN.
void quantize_row_by_max(const float* x, QuantizedRows& rows, int64_t r);

// The same for `width` numbers y anywhere; returns the scale.
float quantize_by_max(const float* x, int64_t width, int8_t* y);

// An estimate for steps that read a number once or twice (norm, RoPE, sum): what a cycle does.
constexpr int64_t kNumbersPerCycle = 4;

// y = x / √(mean(x²) + ε) · weight; false if mean(x²) is NaN or infinite.
bool norm_row(const float* x, const float* weight, float epsilon, int64_t width, float* y);

// The same; y is NaN where that is false. y may be x.
void norm_row_or_nan(const float* x, const float* weight, float epsilon, int64_t width, float* y);

// y = x + y
void add_row(const float* x, int64_t width, float* y);

// y = a · b; y may be a or b.
void multiply_row(const float* a, const float* b, int64_t width, float* y);

// y = y + a · b, the product rounded before the sum.
void add_product_row(const float* a, const float* b, int64_t width, float* y);

// y = x · Q; Q has normalized Hadamard matrices of `block` rows on its diagonal. `block` is a power
// of two, at most kMaxHadamard.
constexpr int64_t kMaxHadamard = 512;
void hadamard_row(const float* x, int64_t block, int64_t width, float* y);

// RoPE on one head of 2 · half numbers: pairs x[i], x[i + half] rotate by the angle of cos[i],
// sin[i]. y may be x.
void rope_row(const float* x, const float* cos, const float* sin, int64_t half, float* y);

// y = max(x, 0); NaN stays.
void relu_row(const float* x, int64_t width, float* y);

// y = silu(gate) · up; y = gelu(gate) · up with the tanh form of GELU.
void silu_gate_row(const float* gate, const float* up, int64_t width, float* y);
void gelu_gate_row(const float* gate, const float* up, int64_t width, float* y);

}  // namespace edgespec
