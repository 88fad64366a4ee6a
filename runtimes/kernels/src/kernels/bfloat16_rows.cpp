#include "kernels/bfloat16_rows.h"

#include "kernels/lanes/lanes.h"
#include "kernels/panels.h"

namespace edgespec {

void BFloat16Rows::resize(int64_t rows, int64_t columns) {
  count = rows;
  width = columns;
  blocks = rounded_up_quotient(columns, kBFloat16Block);
  const int64_t whole = rounded_up_quotient(rows, kTileRows) * kTileRows;
  values.resize(static_cast<size_t>(whole * blocks * kBFloat16Block));
}

void round_to_bfloat16(const float* x, BFloat16Rows& rows, int64_t r) {
  for (int64_t b = 0; b < rows.blocks; ++b) {
    uint16_t* y = rows.block(r, b);
    for (int64_t i = 0; i < kBFloat16Block; i += kLanes) {
      const int64_t first = b * kBFloat16Block + i, count = rows.width - first;
      const F32x16 numbers = count > 0 ? load(x + first, count) : zeros();
      store_bfloat16(y + i, select(abs(numbers) < splat(kLeastInput), zeros(), numbers));
    }
  }
}

}  // namespace edgespec
