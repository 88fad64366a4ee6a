// Rows quantized to 8 bits in groups of 32 numbers, each with its own scale: an outlier costs only
// its group precision.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/aligned_vector.h"

namespace edgespec {

constexpr int64_t kGroup = 32;  // numbers with one scale

// Row r is scale[r, g] · values[r, i] for each i of group g; zeros follow its numbers.
struct GroupedRows {
  int64_t count = 0;
  int64_t width = 0;
  int64_t groups = 0;
  int64_t stride = 0;  // bytes from one row's values to the next
  AlignedVector<int8_t> values;
  std::vector<float> scale;  // [count, groups]
  std::vector<float> sums;   // [count, groups]: the sum of a group's values

  // `columns` is a multiple of kGroup.
  void resize(int64_t rows, int64_t columns);
  int8_t* row(int64_t r) { return values.data() + r * stride; }
  const int8_t* row(int64_t r) const { return values.data() + r * stride; }
};

// Quantizes row r; each group's scale makes its largest absolute value 127. A group with a NaN gets
// scale NaN.
void quantize_groups(const float* x, GroupedRows& rows, int64_t r);

}  // namespace edgespec
