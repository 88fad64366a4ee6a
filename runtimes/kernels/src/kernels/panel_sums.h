// The sums of one panel in float32, for some rows: how a product begins with them and ends.
#pragma once

#include <cstdint>

#include "kernels/dots/dots.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

template <int count>
using PanelSums = F32x16[count][kParts];

template <int count>
EDGESPEC_INLINE void clear(PanelSums<count>& sums) {
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    for (int part = 0; part < kParts; ++part) sums[r][part] = zeros();
  }
}

// y [rows, out] from `first_row` on = the sums, plus `added` [rows, out] unless that is null.
template <int count>
EDGESPEC_INLINE void store_panel(const PanelSums<count>& sums, int64_t first_row, int64_t panel,
                                 int64_t out, const float* added, float* y) {
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    for (int part = 0; part < kParts; ++part) {
      const int64_t column = (panel * kParts + part) * kLanes, left = out - column;
      if (left <= 0) continue;
      F32x16 sum = sums[r][part];
      const int64_t index = (first_row + r) * out + column;
      if (added) sum = load(added + index, left) + sum;
      store(y + index, left, sum);
    }
  }
}

}  // namespace edgespec
