#include "kernels/matmul_int8.h"

#include <immintrin.h>

#include <algorithm>

#include "kernels/panels.h"
#include "kernels/vector_math.h"

namespace edgespec {
namespace {

struct Product {
  const std::byte* packed;
  int64_t panel_bytes;
  int64_t steps;
  int64_t out;
  const QuantizedRows* rows;
  const int32_t* corrections;
  const float* scale;
  const float* added;
  float* y;
};

// The products of one panel with `count` rows.
template <int count>
struct MultiplyPanel {
  static void run(int64_t first_row, const Product& product, const int64_t& panel);
};

template <int count>
void MultiplyPanel<count>::run(int64_t first_row, const Product& product, const int64_t& panel) {
  __m512i low[count], high[count];  // sums of the panel's first and last 16 outputs
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    low[r] = high[r] = _mm512_set1_epi32(product.corrections[first_row + r]);
  }
  const std::byte* weights = product.packed + panel * product.panel_bytes;
  const std::byte* end = weights + product.steps * 128;
  const int8_t* inputs = product.rows->row(first_row);
  const int64_t stride = product.rows->stride;
  for (; weights != end; weights += 128, inputs += kStep) {
    prefetch<count, 128>(weights);
    const __m512i first = _mm512_load_si512(weights), second = _mm512_load_si512(weights + 64);
    add_products<count>(low, high, first, second, inputs, stride);
  }
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    const __m512 row_scale = _mm512_set1_ps(product.rows->scale[first_row + r]);
    for (int half = 0; half < 2; ++half) {
      const int64_t column = panel * kPanel + 16 * half;
      if (column >= product.out) continue;
      const __mmask16 lanes = first_lanes(product.out - column);
      const __m512 scale =
          _mm512_mul_ps(row_scale, _mm512_maskz_loadu_ps(lanes, product.scale + column));
      __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(half ? high[r] : low[r]), scale);
      const int64_t index = (first_row + r) * product.out + column;
      if (product.added) y = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, product.added + index), y);
      _mm512_mask_storeu_ps(product.y + index, lanes, y);
    }
  }
}

}  // namespace

PackedInt8::PackedInt8(const int8_t* weights, int64_t in, int64_t out, int64_t in_step,
                       int64_t out_step)
    : in_(in), out_(out), panel_bytes_((in + kStep - 1) / kStep * kStep * kPanel) {
  packed_ = allocate(panels_of(out) * panel_bytes_);
  auto* bytes = reinterpret_cast<uint8_t*>(packed_.get());
  for (int64_t first = 0; first < out; first += kPanel, bytes += panel_bytes_) {
    const int64_t count = std::min(kPanel, out - first);
    for (int64_t i = 0; i < in; ++i) {
      uint8_t* step = bytes + i / kStep * kStep * kPanel + i % kStep;
      const int8_t* source = weights + i * in_step + first * out_step;
      for (int64_t o = 0; o < count; ++o) step[o * kStep] = uint8_t(source[o * out_step] + 128);
    }
  }
}

void PackedInt8::multiply(const QuantizedRows& rows, const float* scale, const float* added,
                          float* y, const Threads& threads) const {
  if (rows.count == 0) return;
  thread_local std::vector<int32_t> corrections;
  corrections.resize(rows.count);
  // Packed weights are unsigned: each is 128 more than the weight.
  for (int64_t r = 0; r < rows.count; ++r) corrections[r] = -128 * rows.sum(r);
  const Product product{packed_.get(), panel_bytes_, (in_ + kStep - 1) / kStep,
                        out_,          &rows,        corrections.data(),
                        scale,         added,        y};
  const Shares shares(panels_of(out_), panel_bytes_);
  threads.each(shares.count(), [&](int64_t share) {
    // One panel stays in the cache for all rows.
    for (int64_t panel = shares.first_panel(share); panel < shares.first_panel(share + 1);
         ++panel) {
      by_parts<MultiplyPanel>(rows.count, product, panel);
    }
  });
}

}  // namespace edgespec
