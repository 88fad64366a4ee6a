#include "kernels/matmul_int8.h"

#include <algorithm>

#include "kernels/dots/dots.h"
#include "kernels/panels.h"
#include "kernels/tiles/int8.h"

namespace edgespec {
namespace {

constexpr int64_t kPanel = kLanes * kParts;  // outputs
constexpr int64_t kStepBytes = kPanel * kInt8Step;

struct Product {
  const std::byte* packed;
  int64_t panel_bytes;
  int64_t out;
  const QuantizedRows& rows;
  const Int8Inputs inputs;
  const int32_t* corrections;
  const float* scale;
  const float* added;
  float* y;
};

#ifndef EDGESPEC_TILES
// The products of one panel with `count` rows.
template <int count>
struct MultiplyPanel {
  static void run(int64_t first_row, const Product& product, const int64_t& panel);
};

template <int count>
void MultiplyPanel<count>::run(int64_t first_row, const Product& product, const int64_t& panel) {
  Int8Sums<count> sums;
  sums.begin(product.corrections + first_row);
  const std::byte* weights = product.packed + panel * product.panel_bytes;
  const std::byte* end = weights + product.panel_bytes;
  const auto* inputs = product.inputs.row(first_row);
  const int64_t stride = product.inputs.stride;
  for (; weights != end; weights += kStepBytes, inputs += kInt8Step) {
    prefetch<count, kStepBytes>(weights);
    sums.add_step(weights, inputs, stride);
  }
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    const F32x16 row_scale = splat(product.rows.scale[first_row + r]);
    for (int part = 0; part < kParts; ++part) {
      const int64_t column = panel * kPanel + kLanes * part, left = product.out - column;
      if (left <= 0) continue;
      const F32x16 scale = row_scale * load(product.scale + column, left);
      F32x16 y = to_floats(sums.total(r, part)) * scale;
      const int64_t index = (first_row + r) * product.out + column;
      if (product.added) y = load(product.added + index, left) + y;
      store(product.y + index, left, y);
    }
  }
}
#endif

}  // namespace

PackedInt8::PackedInt8(const int8_t* weights, int64_t in, int64_t out, int64_t in_step,
                       int64_t out_step, const PackedStore& store)
    : in_(in), out_(out), panel_bytes_(rounded_up_quotient(in, kInt8Step) * kStepBytes) {
  const auto fill = [&](std::byte* packed) {
    auto* bytes = reinterpret_cast<uint8_t*>(packed);
    for (int64_t first = 0; first < out; first += kPanel, bytes += panel_bytes_) {
      const int64_t count = std::min(kPanel, out - first);
      for (int64_t i = 0; i < in; ++i) {
        uint8_t* step = bytes + i / kInt8Step * kStepBytes;
        const int8_t* source = weights + i * in_step + first * out_step;
        for (int64_t o = 0; o < count; ++o) {
          step[packed_int8_index(o, i % kInt8Step)] = uint8_t(source[o * out_step] + kWeightOffset);
        }
      }
    }
  };
  packed_ = store(rounded_up_quotient(out, kPanel) * panel_bytes_, fill);
}

void PackedInt8::multiply(const QuantizedRows& rows, const float* scale, const float* added,
                          float* y, const Threads& threads) const {
  if (rows.count == 0) return;
  thread_local std::vector<int32_t> corrections;
  corrections.assign(rows.count, 0);
  if (kWeightOffset) {
    for (int64_t r = 0; r < rows.count; ++r) corrections[r] = -kWeightOffset * rows.sum(r);
  }
  const Product product{packed_.get(),      panel_bytes_, out_,  rows, Int8Inputs(rows),
                        corrections.data(), scale,        added, y};
  const int64_t panels = rounded_up_quotient(out_, kPanel);
#ifdef EDGESPEC_TILES
  each_part(rows.count, rows.stride, panels, panel_bytes_, threads,
            [&](auto... part) { multiply_part(product, part...); });
#else
  each_panel<kMaxRows, MultiplyPanel>(rows.count, panels, panel_bytes_, product, threads);
#endif
}

}  // namespace edgespec
