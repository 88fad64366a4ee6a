#include "kernels/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/lanes/lanes.h"

namespace edgespec {
namespace {

// y = x / scale, rounded as in ONNX's QuantizeLinear; ∞ / ∞ is NaN.
void quantize(const float* x, float scale, int64_t width, int8_t* y) {
  const F32x16 divisor = splat(scale);
  for_each_16(width, [&](int64_t i, int64_t count) {
    store_int8(y + i, count, rounded_to_8_bits(load(x + i, count) / divisor));
  });
}

// One step of the fast Hadamard transform: numbers whose indices differ in `bit` become their sum
// and difference.
template <int bit>
F32x16 butterfly(F32x16 x) {
  return add_or_subtract<bit>(swapped<bit>(x), x);
}

F32x16 hadamard_16(F32x16 x, int64_t block) {
  if (block >= 2) x = butterfly<1>(x);
  if (block >= 4) x = butterfly<2>(x);
  if (block >= 8) x = butterfly<4>(x);
  if (block >= 16) x = butterfly<8>(x);
  return x;
}

// The same step for parts of 16 numbers that are `step` apart.
void butterfly_parts(F32x16* parts, int64_t count, int64_t step) {
  for (int64_t i = 0; i < count; ++i) {
    if (i & step) continue;
    const F32x16 a = parts[i], b = parts[i + step];
    parts[i] = a + b;
    parts[i + step] = a - b;
  }
}

// numerator / (1 + e^-x). Inline, as numbers of several registers are passed in memory.
EDGESPEC_INLINE F32x16 times_sigmoid(F32x16 numerator, F32x16 x) {
  return numerator / (splat(1.0f) + exp(-x));
}

}  // namespace

void QuantizedRows::resize(int64_t rows, int64_t columns) {
  count = rows;
  width = columns;
  stride = row_stride(columns);
  values.resize(static_cast<size_t>(rows * stride));
  scale.resize(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) std::fill(row(r) + columns, row(r) + stride, int8_t{0});
}

int32_t QuantizedRows::sum(int64_t r) const {
  const int8_t* values = row(r);
  int32_t sum = 0;
  for (int64_t i = 0; i < stride; ++i) sum += values[i];
  return sum;
}

void quantize_row(const float* x, float step, QuantizedRows& rows, int64_t r) {
  rows.scale[r] = step;
  quantize(x, step, rows.width, rows.row(r));
}

void quantize_row_by_max(const float* x, QuantizedRows& rows, int64_t r) {
  rows.scale[r] = quantize_by_max(x, rows.width, rows.row(r));
}

float quantize_by_max(const float* x, int64_t width, int8_t* y) {
  F32x16 largest = zeros();
  uint32_t nan = 0;
  for_each_16(width, [&](int64_t i, int64_t count) {
    const F32x16 part = load(x + i, count);
    nan |= bits_of(is_nan(part));
    largest = max(largest, abs(part));
  });
  const float scale = std::max(largest_of(largest) * (1.0f / 127.0f), 1e-30f);
  quantize(x, scale, width, y);
  // A row with a NaN must not look like numbers.
  return nan ? std::numeric_limits<float>::quiet_NaN() : scale;
}

bool norm_row(const float* x, const float* weight, float epsilon, int64_t width, float* y) {
  F32x16 squares = zeros();
  for_each_16(width, [&](int64_t i, int64_t count) {
    const F32x16 part = load(x + i, count);
    squares = fma(part, part, squares);
  });
  const float mean = sum(squares) / static_cast<float>(width);
  const F32x16 factor = splat(1.0f / std::sqrt(mean + epsilon));
  for_each_16(width, [&](int64_t i, int64_t count) {
    store(y + i, count, load(x + i, count) * factor * load(weight + i, count));
  });
  return std::isfinite(mean);
}

void norm_row_or_nan(const float* x, const float* weight, float epsilon, int64_t width, float* y) {
  const bool finite = norm_row(x, weight, epsilon, width, y);
  if (!finite) std::fill_n(y, width, std::numeric_limits<float>::quiet_NaN());
}

void add_row(const float* x, int64_t width, float* y) {
  for_each_16(width, [&](int64_t i, int64_t count) {
    store(y + i, count, load(x + i, count) + load(y + i, count));
  });
}

void multiply_row(const float* a, const float* b, int64_t width, float* y) {
  for_each_16(width, [&](int64_t i, int64_t count) {
    store(y + i, count, load(a + i, count) * load(b + i, count));
  });
}

void add_product_row(const float* a, const float* b, int64_t width, float* y) {
  for_each_16(width, [&](int64_t i, int64_t count) {
    store(y + i, count, load(y + i, count) + load(a + i, count) * load(b + i, count));
  });
}

void hadamard_row(const float* x, int64_t block, int64_t width, float* y) {
  const int64_t count = std::max<int64_t>(1, block / kLanes);
  const F32x16 factor = splat(1.0f / std::sqrt(static_cast<float>(block)));
  F32x16 parts[kMaxHadamard / kLanes];
  for (int64_t start = 0; start < width; start += kLanes * count) {
    const int64_t left = width - start;  // fewer than 16 where blocks are smaller
    for (int64_t i = 0; i < count; ++i) {
      parts[i] = hadamard_16(load(x + start + kLanes * i, left), block);
    }
    for (int64_t step = 1; step < count; step *= 2) butterfly_parts(parts, count, step);
    for (int64_t i = 0; i < count; ++i) store(y + start + kLanes * i, left, parts[i] * factor);
  }
}

void rope_row(const float* x, const float* cos, const float* sin, int64_t half, float* y) {
  for_each_16(half, [&](int64_t i, int64_t count) {
    const F32x16 a = load(x + i, count), b = load(x + half + i, count);
    const F32x16 c = load(cos + i, count), s = load(sin + i, count);
    store(y + i, count, fnma(b, s, a * c));
    store(y + half + i, count, fma(a, s, b * c));
  });
}

void relu_row(const float* x, int64_t width, float* y) {
  for_each_16(width, [&](int64_t i, int64_t count) {
    // Of max(a, b) with a NaN, the result is b.
    store(y + i, count, max(zeros(), load(x + i, count)));
  });
}

void silu_gate_row(const float* gate, const float* up, int64_t width, float* y) {
  for_each_16(width, [&](int64_t i, int64_t count) {
    const F32x16 x = load(gate + i, count);
    store(y + i, count, times_sigmoid(x * load(up + i, count), x));
  });
}

void gelu_gate_row(const float* gate, const float* up, int64_t width, float* y) {
  // (1 + tanh u) / 2 is the sigmoid of 2u, u = √(2/π) (x + 0.044715 x³).
  const F32x16 linear = splat(1.5957691216f), cubic = splat(0.0713548162726f);
  for_each_16(width, [&](int64_t i, int64_t count) {
    const F32x16 x = load(gate + i, count);
    const F32x16 inner = fma(cubic, x * x, linear);
    store(y + i, count, times_sigmoid(x * load(up + i, count), x * inner));
  });
}

}  // namespace edgespec
