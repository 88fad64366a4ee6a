// Products of bfloat16 rows with packed bfloat16 weights by the matrix registers of AMX, whose
// order of additions all other processors follow (matmul_bfloat16.h).
#pragma once

#include "kernels/tiles/amx.h"

#ifdef EDGESPEC_TILES

#include <algorithm>

#include "kernels/bfloat16_rows.h"
#include "kernels/dots/bfloat16_chains.h"
#include "kernels/panel_sums.h"
#include "kernels/panels.h"

namespace edgespec {

// Weights [inputs of rows, out] in panels of two tiles' outputs.
struct TiledProduct {
  static_assert(kParts == 2 && kLanes == kTileRows && kPairsBytes == kTileBytes);
  static_assert(BFloat16Rows::kTileRows == kTileRows);
  static constexpr int64_t kOutputs = kParts * kLanes;
  static constexpr int64_t kTogether = 2 * kTileRows;  // rows

  const std::byte* packed;
  int64_t out;
  const BFloat16Rows& rows;
  const float* added;
  float* y;

  // A share's weights stay in the second-level cache for all rows.
  void multiply(const Threads& threads) const {
    const int64_t panels = rounded_up_quotient(out, kOutputs), panel_bytes = rows.blocks * kBlock;
    const Shares shares(panels, panel_bytes);
    threads.each(shares.count(), [&](int64_t share) {
      constexpr TileShape kTile{kTileRows, kTileBytes};
      const Tiles tiles({kTile, kTile, kTile, kTile, kTile, kTile, kTile, kTile});
      for (int64_t row = 0; row < rows.count; row += kTogether) {
        const int64_t end = shares.first_panel(share + 1);
        for (int64_t panel = shares.first_panel(share); panel < end; ++panel) {
          const auto run =
              rows.count - row > kTileRows ? &TiledProduct::run<2> : &TiledProduct::run<1>;
          (this->*run)(row, panel);
        }
      }
    });
  }

 private:
  static constexpr int64_t kPairs = kParts * kPairsBytes, kBlock = kTileRows * kPairs;  // bytes
  static constexpr int64_t kTileNumbers = kTileRows * kBFloat16Block;

  // The sums of `count` tiles of rows, whose rows are `stride` numbers apart.
  template <int count>
  static void store_tiles(float* sums, int64_t stride) {
    const int64_t bytes = int64_t{sizeof(float)} * stride;
    store_tile<0>(sums, bytes);
    store_tile<1>(sums + kLanes, bytes);
    if (count == 1) return;
    store_tile<2>(sums + kTileRows * stride, bytes);
    store_tile<3>(sums + kTileRows * stride + kLanes, bytes);
  }

  // `count` tiles of rows with one panel. The tiles 0 … 3 are sums, 4 and 5 rows, 6 and 7 weights.
  template <int count>
  void run(int64_t first_row, int64_t panel) const {
    const std::byte* block = packed + panel * rows.blocks * kBlock;
    const uint16_t* x = rows.block(first_row, 0);
    const int64_t other_rows = rows.blocks * kTileNumbers;
    clear_tile<0>();
    clear_tile<1>();
    if (count > 1) clear_tile<2>();
    if (count > 1) clear_tile<3>();
    for (int64_t b = 0; b < rows.blocks; ++b, block += kBlock, x += kTileNumbers) {
      load_tile<6>(block, kPairs);
      load_tile<4>(x, kTileBytes);
      add_bfloat16<0, 4, 6>();
      load_tile<7>(block + kPairsBytes, kPairs);
      add_bfloat16<1, 4, 7>();
      if (count == 1) continue;
      load_tile<5>(x + other_rows, kTileBytes);
      add_bfloat16<2, 5, 6>();
      add_bfloat16<3, 5, 7>();
    }
    const bool is_whole =
        first_row + count * kTileRows <= rows.count && (panel + 1) * kOutputs <= out;
    if (is_whole && !added) {
      return store_tiles<count>(y + first_row * out + panel * kOutputs, out);
    }
    alignas(64) float sums[count * kTileRows][kOutputs];
    store_tiles<count>(&sums[0][0], kOutputs);
    const int64_t end = std::min(count * kTileRows, rows.count - first_row);
    for (int64_t r = 0; r < end; ++r) {
      const PanelSums<1> row{{load(sums[r]), load(sums[r] + kLanes)}};
      store_panel<1>(row, first_row + r, panel, out, added, y);
    }
  }
};

}  // namespace edgespec

#endif
