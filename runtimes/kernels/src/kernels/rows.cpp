#include "kernels/rows.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/vector_math.h"

namespace edgespec {
namespace {

constexpr int64_t kLine = 64;

// Runs body(index, lanes) for each 16 numbers of a row.
template <typename Body>
void for_each_16(int64_t width, Body body) {
  for (int64_t i = 0; i < width; i += 16) body(i, first_lanes(width - i));
}

// y = x / scale, rounded half to even as in ONNX's QuantizeLinear and saturated to 8 bits.
void quantize(const float* x, float scale, int64_t width, int8_t* y) {
  const __m512 divisor = _mm512_set1_ps(scale), most = _mm512_set1_ps(1000.0f);
  for_each_16(width, [&](int64_t i, __mmask16 lanes) {
    const __m512 ratio = _mm512_div_ps(_mm512_maskz_loadu_ps(lanes, x + i), divisor);
    // Clamp before converting: floats beyond 32-bit integers convert to INT_MIN.
    const __m512 bounded =
        _mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), most), _mm512_min_ps(most, ratio));
    _mm_mask_storeu_epi8(y + i, lanes, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(bounded)));
  });
}

// One step of the fast Hadamard transform: numbers whose indices differ in `bit` become their sum
// and difference.
template <int bit>
__m512 butterfly(__m512 x) {
  const __m512i indices = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i partner = _mm512_xor_si512(indices, _mm512_set1_epi32(bit));
  const __mmask16 second = _mm512_test_epi32_mask(indices, _mm512_set1_epi32(bit));
  const __m512 other = _mm512_permutexvar_ps(partner, x);
  return _mm512_mask_sub_ps(_mm512_add_ps(other, x), second, other, x);
}

__m512 hadamard_16(__m512 x, int64_t block) {
  if (block >= 2) x = butterfly<1>(x);
  if (block >= 4) x = butterfly<2>(x);
  if (block >= 8) x = butterfly<4>(x);
  if (block >= 16) x = butterfly<8>(x);
  return x;
}

// The same step for numbers in registers `step` apart.
void butterfly_registers(__m512* parts, int64_t count, int64_t step) {
  for (int64_t i = 0; i < count; ++i) {
    if (i & step) continue;
    const __m512 a = parts[i], b = parts[i + step];
    parts[i] = _mm512_add_ps(a, b);
    parts[i + step] = _mm512_sub_ps(a, b);
  }
}

// numerator / (1 + e^-x)
__m512 times_sigmoid(__m512 numerator, __m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 power = exp(_mm512_sub_ps(_mm512_setzero_ps(), x));
  return _mm512_div_ps(numerator, _mm512_add_ps(one, power));
}

}  // namespace

void QuantizedRows::resize(int64_t rows, int64_t columns) {
  count = rows;
  width = columns;
  // An odd number of cache lines: rows a page apart would use the same set of the cache.
  stride = ((columns + kLine - 1) / kLine | 1) * kLine;
  values.resize(static_cast<size_t>(rows * stride));
  scale.resize(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) std::fill(row(r) + columns, row(r) + stride, int8_t{0});
}

int32_t QuantizedRows::sum(int64_t r) const {
  __m512i sum = _mm512_setzero_si512();
  const __m512i ones = _mm512_set1_epi8(1);
  for (int64_t i = 0; i < stride; i += kLine) {
    sum = _mm512_dpbusd_epi32(sum, ones, _mm512_loadu_si512(row(r) + i));
  }
  return _mm512_reduce_add_epi32(sum);
}

void quantize_row(const float* x, float step, QuantizedRows& rows, int64_t r) {
  rows.scale[r] = step;
  quantize(x, step, rows.width, rows.row(r));
}

void quantize_row_by_max(const float* x, QuantizedRows& rows, int64_t r) {
  __m512 largest = _mm512_setzero_ps();
  __mmask16 nan = 0;
  for_each_16(rows.width, [&](int64_t i, __mmask16 lanes) {
    const __m512 part = _mm512_maskz_loadu_ps(lanes, x + i);
    nan |= _mm512_cmp_ps_mask(part, part, _CMP_UNORD_Q);
    largest = _mm512_max_ps(largest, _mm512_abs_ps(part));
  });
  const float scale = std::max(_mm512_reduce_max_ps(largest) * (1.0f / 127.0f), 1e-30f);
  // A row with a NaN must not look like numbers.
  rows.scale[r] = nan ? std::numeric_limits<float>::quiet_NaN() : scale;
  quantize(x, scale, rows.width, rows.row(r));
}

bool norm_row(const float* x, const float* weight, float epsilon, int64_t width, float* y) {
  __m512 squares = _mm512_setzero_ps();
  for_each_16(width, [&](int64_t i, __mmask16 lanes) {
    const __m512 part = _mm512_maskz_loadu_ps(lanes, x + i);
    squares = _mm512_fmadd_ps(part, part, squares);
  });
  const float mean = _mm512_reduce_add_ps(squares) / static_cast<float>(width);
  const __m512 factor = _mm512_set1_ps(1.0f / std::sqrt(mean + epsilon));
  for_each_16(width, [&](int64_t i, __mmask16 lanes) {
    const __m512 normed = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), factor);
    const __m512 weighted = _mm512_mul_ps(normed, _mm512_maskz_loadu_ps(lanes, weight + i));
    _mm512_mask_storeu_ps(y + i, lanes, weighted);
  });
  return std::isfinite(mean);
}

void hadamard_row(const float* x, int64_t block, int64_t width, float* y) {
  const int64_t registers = std::max<int64_t>(1, block / 16);
  const __m512 factor = _mm512_set1_ps(1.0f / std::sqrt(static_cast<float>(block)));
  __m512 parts[kMaxHadamard / 16];
  for (int64_t start = 0; start < width; start += 16 * registers) {
    const __mmask16 lanes = first_lanes(width - start);
    for (int64_t i = 0; i < registers; ++i) {
      parts[i] = hadamard_16(_mm512_maskz_loadu_ps(lanes, x + start + 16 * i), block);
    }
    for (int64_t step = 1; step < registers; step *= 2) butterfly_registers(parts, registers, step);
    for (int64_t i = 0; i < registers; ++i) {
      _mm512_mask_storeu_ps(y + start + 16 * i, lanes, _mm512_mul_ps(parts[i], factor));
    }
  }
}

void rope_row(const float* x, const float* cos, const float* sin, int64_t half, float* y) {
  for_each_16(half, [&](int64_t i, __mmask16 lanes) {
    const __m512 a = _mm512_maskz_loadu_ps(lanes, x + i);
    const __m512 b = _mm512_maskz_loadu_ps(lanes, x + half + i);
    const __m512 c = _mm512_maskz_loadu_ps(lanes, cos + i);
    const __m512 s = _mm512_maskz_loadu_ps(lanes, sin + i);
    _mm512_mask_storeu_ps(y + i, lanes, _mm512_fnmadd_ps(b, s, _mm512_mul_ps(a, c)));
    _mm512_mask_storeu_ps(y + half + i, lanes, _mm512_fmadd_ps(a, s, _mm512_mul_ps(b, c)));
  });
}

void relu_row(const float* x, int64_t width, float* y) {
  const __m512 zero = _mm512_setzero_ps();
  for_each_16(width, [&](int64_t i, __mmask16 lanes) {
    // Of max(a, b) with a NaN, the result is b.
    const __m512 larger = _mm512_max_ps(zero, _mm512_maskz_loadu_ps(lanes, x + i));
    _mm512_mask_storeu_ps(y + i, lanes, larger);
  });
}

void silu_gate_row(const float* gate, const float* up, int64_t width, float* y) {
  for_each_16(width, [&](int64_t i, __mmask16 lanes) {
    const __m512 x = _mm512_maskz_loadu_ps(lanes, gate + i);
    const __m512 gated = times_sigmoid(_mm512_mul_ps(x, _mm512_maskz_loadu_ps(lanes, up + i)), x);
    _mm512_mask_storeu_ps(y + i, lanes, gated);
  });
}

void gelu_gate_row(const float* gate, const float* up, int64_t width, float* y) {
  // (1 + tanh u) / 2 is the sigmoid of 2u, u = √(2/π) (x + 0.044715 x³).
  const __m512 linear = _mm512_set1_ps(1.5957691216f), cubic = _mm512_set1_ps(0.0713548162726f);
  for_each_16(width, [&](int64_t i, __mmask16 lanes) {
    const __m512 x = _mm512_maskz_loadu_ps(lanes, gate + i);
    const __m512 inner = _mm512_fmadd_ps(cubic, _mm512_mul_ps(x, x), linear);
    const __m512 numerator = _mm512_mul_ps(x, _mm512_maskz_loadu_ps(lanes, up + i));
    _mm512_mask_storeu_ps(y + i, lanes, times_sigmoid(numerator, _mm512_mul_ps(x, inner)));
  });
}

}  // namespace edgespec
