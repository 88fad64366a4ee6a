// Products of 8-bit rows with panels of 8-bit weights: of weights that are stored so, or that were
// expanded from fewer bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/dots/dots.h"
#include "kernels/panels.h"
#include "kernels/rows.h"

namespace edgespec {

constexpr int64_t kInt8Outputs = kLanes * kParts;  // of a panel
constexpr int64_t kInt8StepBytes = kInt8Outputs * kInt8Step;

// What sums begin with: packed weights are `kWeightOffset` too large.
class Corrections {
 public:
  explicit Corrections(const QuantizedRows& rows) {
    thread_local std::vector<int32_t> values;
    values.assign(rows.count, 0);
    if (kWeightOffset) {
      for (int64_t r = 0; r < rows.count; ++r) values[r] = -kWeightOffset * rows.sum(r);
    }
    values_ = values.data();
  }

  const int32_t* of(int64_t r) const { return values_ + r; }

 private:
  const int32_t* values_;
};

// y [rows, out] = sums · (row's scale · scale[output]), plus `added` [rows, out] unless that is
// null.
struct Int8Product {
  int64_t out;
  const QuantizedRows& rows;
  const Int8Inputs inputs;
  const Corrections corrections;
  const float* scale;
  const float* added;
  float* y;
};

// The y of one panel for `count` rows, from their sums.
template <int count>
EDGESPEC_INLINE void store_sums(const Int8Sums<count>& sums, int64_t first_row,
                                const Int8Product& product, int64_t panel) {
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    const F32x16 row_scale = splat(product.rows.scale[first_row + r]);
    for (int part = 0; part < kParts; ++part) {
      const int64_t column = panel * kInt8Outputs + kLanes * part, left = product.out - column;
      if (left <= 0) continue;
      const F32x16 scale = row_scale * load(product.scale + column, left);
      F32x16 y = to_floats(sums.total(r, part)) * scale;
      const int64_t index = (first_row + r) * product.out + column;
      if (product.added) y = load(product.added + index, left) + y;
      store(product.y + index, left, y);
    }
  }
}

// A panel of packed 8-bit weights.
struct Int8Panel {
  int64_t index;
  const std::byte* weights;
  int64_t bytes;
};

// The products of `count` rows with one panel.
template <int count>
struct MultiplyInt8Panel {
  static void run(int64_t first_row, const Int8Product& product, const Int8Panel& panel);
};

template <int count>
void MultiplyInt8Panel<count>::run(int64_t first_row, const Int8Product& product,
                                   const Int8Panel& panel) {
  Int8Sums<count> sums;
  sums.begin(product.corrections.of(first_row));
  const auto* inputs = product.inputs.row(first_row);
  const int64_t stride = product.inputs.stride;
  const std::byte* weights = panel.weights;
  for (const std::byte* end = weights + panel.bytes; weights != end;
       weights += kInt8StepBytes, inputs += kInt8Step) {
    prefetch<count, kInt8StepBytes>(weights);
    sums.add_step(weights, inputs, stride);
  }
  store_sums<count>(sums, first_row, product, panel.index);
}

}  // namespace edgespec
