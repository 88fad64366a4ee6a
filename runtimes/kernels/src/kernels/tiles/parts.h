// How products by tiles go through rows and panels.
#pragma once

#include "kernels/panels.h"
#include "kernels/tiles/amx.h"

#ifdef EDGESPEC_TILES

namespace edgespec {

// Calls body(first row, end row, first panel, end panel), on several threads. Rows pass in parts
// that stay in the second-level cache while all panels do.
template <typename Body>
void each_part(int64_t rows, int64_t row_bytes, int64_t panels, int64_t panel_bytes,
               const Threads& threads, Body body) {
  constexpr int64_t kCachedBytes = 1 << 20, kUnit = 2 * kTileRows;
  const int64_t most = std::max(kCachedBytes / row_bytes / kUnit, int64_t{2}) * kUnit;
  const Shares shares(panels, panel_bytes);
  for (int64_t first = 0; first < rows; first += most) {
    threads.each(shares.count(), [&](int64_t share) {
      body(first, std::min(first + most, rows), shares.first_panel(share),
           shares.first_panel(share + 1));
    });
  }
}

}  // namespace edgespec

#endif
