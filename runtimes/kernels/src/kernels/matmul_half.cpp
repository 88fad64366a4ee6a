#include "kernels/matmul_half.h"

#include <algorithm>
#include <vector>

#include "kernels/dots/dots.h"
#include "kernels/panel_sums.h"
#include "kernels/panels.h"

namespace edgespec {
namespace {

constexpr int64_t kPanel = kLanes * kParts;  // outputs
constexpr int64_t kInputBytes = 2 * kPanel;  // of a panel, for each input

struct Product {
  const std::byte* packed;
  int64_t panel_bytes;
  int64_t in, out;
  const float* x;  // row r begins at x + r * stride
  int64_t stride;
  float* y;
};

F32x16 widened(const uint16_t* weights, BFloat16) { return load_bfloat16(weights); }
F32x16 widened(const uint16_t* weights, Float16) { return load_float16(weights); }

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
  PanelSums<count> sums;
  clear<count>(sums);
  const std::byte* weights = product.packed + panel * product.panel_bytes;
  const float* inputs = product.x + first_row * product.stride;
  for (int64_t i = 0; i < product.in; ++i, weights += kInputBytes) {
    prefetch<count, kInputBytes>(weights);
    F32x16 wide[kParts];
    for (int part = 0; part < kParts; ++part) {
      wide[part] = widened(reinterpret_cast<const uint16_t*>(weights) + kLanes * part, Half{});
    }
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) {
      const F32x16 input = splat(inputs[r * product.stride + i]);
      for (int part = 0; part < kParts; ++part) {
        sums[r][part] = fma(input, wide[part], sums[r][part]);
      }
    }
  }
  store_panel<count>(sums, first_row, panel, product.out, nullptr, product.y);
}

}  // namespace

template <typename Half>
PackedHalf<Half>::PackedHalf(const Half* weights, int64_t in, int64_t out, const PackedStore& store)
    : in_(in), out_(out), panel_bytes_(in * kInputBytes) {
  const auto fill = [&](std::byte* packed) {
    auto* panel = reinterpret_cast<uint16_t*>(packed);
    for (int64_t first = 0; first < out; first += kPanel, panel += in * kPanel) {
      for (int64_t o = 0; o < std::min(kPanel, out - first); ++o) {
        const Half* row = weights + (first + o) * in;
        for (int64_t i = 0; i < in; ++i) panel[i * kPanel + o] = row[i].bits;
      }
    }
  };
  packed_ = store(rounded_up_quotient(out, kPanel) * panel_bytes_, fill);
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
  each_panel<kMaxRows, MultiplyPanel<Half>::template Rows>(count, rounded_up_quotient(out_, kPanel),
                                                           panel_bytes_, product, threads);
}

template class PackedHalf<Float16>;
template class PackedHalf<BFloat16>;

}  // namespace edgespec
