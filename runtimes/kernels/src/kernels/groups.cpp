#include "kernels/groups.h"

#include <algorithm>
#include <limits>

#include "kernels/lanes/lanes.h"
#include "kernels/rows.h"

namespace edgespec {

static_assert(kGroup == 2 * kLanes);

void GroupedRows::resize(int64_t rows, int64_t columns) {
  count = rows;
  width = columns;
  groups = columns / kGroup;
  stride = row_stride(columns);
  values.resize(static_cast<size_t>(rows * stride));
  scale.resize(static_cast<size_t>(rows * groups));
  sums.resize(static_cast<size_t>(rows * groups));
}

void quantize_groups(const float* x, GroupedRows& rows, int64_t r) {
  for (int64_t g = 0; g < rows.groups; ++g, x += kGroup) {
    const F32x16 low = load(x), high = load(x + kLanes);
    const bool nan = bits_of(is_nan(low)) | bits_of(is_nan(high));
    const float largest = largest_of(max(abs(low), abs(high)));
    const float scale = std::max(largest * (1.0f / 127.0f), 1e-30f);
    const I32x16 a = rounded_to_8_bits(low / splat(scale));
    const I32x16 b = rounded_to_8_bits(high / splat(scale));
    int8_t* y = rows.row(r) + g * kGroup;
    store_int8(y, kLanes, a);
    store_int8(y + kLanes, kLanes, b);
    const int64_t index = r * rows.groups + g;
    rows.scale[index] = nan ? std::numeric_limits<float>::quiet_NaN() : scale;
    rows.sums[index] = sum(to_floats(a + b));
  }
}

}  // namespace edgespec
