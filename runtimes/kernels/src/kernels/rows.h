// Rows of activations, on their way into a product: normed, turned, rounded to 8 bits. A row's
// numbers depend on nothing but the row.
#pragma once

#include <cstdint>
#include <vector>

namespace edgespec {

// Rows rounded to 8 bits: row r is values[r * stride …] · scale[r], zeros behind its end.
struct QuantizedRows {
  int64_t count = 0;
  int64_t width = 0;
  int64_t stride = 0;  // bytes from a row to the next
  std::vector<int8_t> values;
  std::vector<float> scale;

  void resize(int64_t rows, int64_t columns);
  int8_t* row(int64_t r) { return values.data() + r * stride; }
  const int8_t* row(int64_t r) const { return values.data() + r * stride; }
  int32_t sum(int64_t r) const;  // of a row's values
};

// One scale for all rows, known beforehand.
void quantize_row(const float* x, float step, QuantizedRows& rows, int64_t r);

// The row's own scale: its largest number becomes ±127.
void quantize_row_by_max(const float* x, QuantizedRows& rows, int64_t r);

// x / √(mean(x²) + ε) · weight; false if the row is no numbers, or too large to be squared.
bool norm_row(const float* x, const float* weight, float epsilon, int64_t width, float* y);

// x · Q, Q made of Hadamard blocks of `block` numbers, a power of two.
constexpr int64_t kMaxHadamard = 512;  // numbers of a block
void hadamard_row(const float* x, int64_t block, int64_t width, float* y);

// Rotary positions on a head: halves of it are turned, by the cosines and sines of `half` angles.
void rope_row(const float* x, const float* cos, const float* sin, int64_t half, float* y);

// max(x, 0)
void relu_row(const float* x, int64_t width, float* y);

// silu(gate) · up, and gelu(gate) · up in the form of gelu by tanh.
void silu_gate_row(const float* gate, const float* up, int64_t width, float* y);
void gelu_gate_row(const float* gate, const float* up, int64_t width, float* y);

}  // namespace edgespec
