#include "kernels/matmul_half.h"

#include <immintrin.h>

#include <algorithm>
#include <vector>

#include "kernels/panels.h"
#include "kernels/vector_math.h"

namespace edgespec {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kInputBytes = 64;  // of a panel, for each input

struct Product {
  const std::byte* packed;
  int64_t panel_bytes;
  int64_t in, out;
  const float* x;  // row r begins at x + r * stride
  int64_t stride;
  float* y;
};

// One input's weights for a panel's first and last 16 outputs, in float32.
struct Wide {
  __m512 low, high;
};

// In a bfloat16 panel, outputs o and o + 16 share 32 bits, so that one instruction widens each.
[[gnu::always_inline]] inline Wide widened(const std::byte* weights, BFloat16) {
  const __m512i both = _mm512_load_si512(weights);
  const __m512i high = _mm512_and_si512(both, _mm512_set1_epi32(int(0xFFFF0000)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), _mm512_castsi512_ps(high)};
}

[[gnu::always_inline]] inline Wide widened(const std::byte* weights, Float16) {
  const auto* halves = reinterpret_cast<const __m256i*>(weights);
  return {_mm512_cvtph_ps(_mm256_load_si256(halves)),
          _mm512_cvtph_ps(_mm256_load_si256(halves + 1))};
}

// The index of an output's weight among the 32 of one input.
constexpr int64_t packed_index(int64_t output, BFloat16) {
  return output % kLanes * 2 + output / kLanes;
}
constexpr int64_t packed_index(int64_t output, Float16) { return output; }

// The products of one panel with `count` rows.
template <typename Half>
struct MultiplyPanel {
  template <int count>
  struct Rows {
    static void run(int64_t first_row, const Product& product, const int64_t& panel);
  };
};

template <typename Half>
template <int count>
void MultiplyPanel<Half>::Rows<count>::run(int64_t first_row, const Product& product,
                                           const int64_t& panel) {
  __m512 low[count], high[count];  // sums of the panel's first and last 16 outputs
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) low[r] = high[r] = _mm512_setzero_ps();
  const std::byte* weights = product.packed + panel * product.panel_bytes;
  const float* inputs = product.x + first_row * product.stride;
  for (int64_t i = 0; i < product.in; ++i, weights += kInputBytes) {
    prefetch<count, kInputBytes>(weights);
    const Wide wide = widened(weights, Half{});
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) {
      const __m512 input = _mm512_set1_ps(inputs[r * product.stride + i]);
      low[r] = _mm512_fmadd_ps(input, wide.low, low[r]);
      high[r] = _mm512_fmadd_ps(input, wide.high, high[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    float* y = product.y + (first_row + r) * product.out + panel * kPanel;
    const int64_t left = product.out - panel * kPanel;
    _mm512_mask_storeu_ps(y, first_lanes(left), low[r]);
    if (left > kLanes) _mm512_mask_storeu_ps(y + kLanes, first_lanes(left - kLanes), high[r]);
  }
}

}  // namespace

template <typename Half>
PackedHalf<Half>::PackedHalf(const Half* weights, int64_t in, int64_t out)
    : in_(in), out_(out), panel_bytes_(in * kInputBytes) {
  packed_ = allocate(panels_of(out) * panel_bytes_);
  auto* panel = reinterpret_cast<uint16_t*>(packed_.get());
  for (int64_t first = 0; first < out; first += kPanel, panel += in * kPanel) {
    for (int64_t o = 0; o < std::min(kPanel, out - first); ++o) {
      const Half* row = weights + (first + o) * in;
      for (int64_t i = 0; i < in; ++i) panel[i * kPanel + packed_index(o, Half{})] = row[i].bits;
    }
  }
}

template <typename Half>
void PackedHalf<Half>::multiply(const float* x, int64_t count, float* y,
                                const Threads& threads) const {
  if (count == 0) return;
  // Rows an odd number of cache lines apart use different sets of the first-level cache.
  const int64_t stride = ((in_ + kLanes - 1) / kLanes | 1) * kLanes;
  thread_local std::vector<float> rows;
  rows.resize(static_cast<size_t>(count * stride));
  for (int64_t r = 0; r < count; ++r) std::copy_n(x + r * in_, in_, rows.data() + r * stride);
  const Product product{packed_.get(), panel_bytes_, in_, out_, rows.data(), stride, y};
  const Shares shares(panels_of(out_), panel_bytes_);
  threads.each(shares.count(), [&](int64_t share) {
    // One panel stays in the cache for all rows.
    for (int64_t panel = shares.first_panel(share); panel < shares.first_panel(share + 1);
         ++panel) {
      by_parts<MultiplyPanel<Half>::template Rows>(count, product, panel);
    }
  });
}

template class PackedHalf<Float16>;
template class PackedHalf<BFloat16>;

}  // namespace edgespec
