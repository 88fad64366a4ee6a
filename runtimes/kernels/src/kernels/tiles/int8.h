// Products of 8-bit rows with packed 8-bit weights by tiles: 32 rows and a panel of 32 outputs at a
// time, whose sums stay in four tiles. Fast for any number of rows, one as well: all of a tile's
// are multiplied in the time of a few.
#pragma once

#include <cstring>

#include "kernels/int8_panels.h"
#include "kernels/tiles/parts.h"

#ifdef EDGESPEC_TILES

namespace edgespec {

constexpr int64_t kBlockRows = 2 * kTileRows;
constexpr int64_t kDepth = 64;  // inputs of a product of tiles
constexpr int64_t kDepthBytes = kDepth / kInt8Step * kInt8StepBytes;

// sums of `tall` · 2 tiles += inputs of `tall` tiles of rows · weights of both parts.
template <int tall>
EDGESPEC_INLINE void add_depth(const int8_t* inputs, int64_t stride, const std::byte* weights) {
  load_tile<6>(weights, kInt8StepBytes);
  load_tile<7>(weights + kTileBytes, kInt8StepBytes);
  load_tile<4>(inputs, stride);
  add_signed_unsigned<0, 4, 6>();
  add_signed_unsigned<1, 4, 7>();
  if constexpr (tall == 2) {
    load_tile<5>(inputs + kTileRows * stride, stride);
    add_signed_unsigned<2, 5, 6>();
    add_signed_unsigned<3, 5, 7>();
  }
}

// y of some rows in a part of a panel, from its sums [rows, kInt8Outputs].
inline void store_column(const int32_t* sums, int64_t first_row, int64_t rows, int64_t column,
                         const Int8Product& product) {
  const int64_t left = product.out - column, out = product.out;
  if (left <= 0) return;
  const F32x16 scale = load(product.scale + column, left);
  const int32_t* corrections = product.corrections.of(first_row);
  const float* row_scales = product.rows.scale.data() + first_row;
  const float* added = product.added ? product.added + first_row * out + column : nullptr;
  float* y = product.y + first_row * out + column;
  for (int64_t r = 0; r < rows; ++r) {
    const I32x16 sum = load_ints(sums + r * kInt8Outputs) + splat_int(corrections[r]);
    F32x16 products = to_floats(sum) * (splat(row_scales[r]) * scale);
    if (added) products = load(added + r * out, left) + products;
    store(y + r * out, left, products);
  }
}

// The products of one panel with a block of rows.
template <int tall>
void multiply_block(const Int8Product& product, int64_t first_row, int64_t rows,
                    const Int8Panel& panel) {
  const std::byte* weights = panel.weights;
  const int8_t* inputs = product.inputs.row(first_row);
  const int64_t stride = product.inputs.stride, rest = panel.bytes % kDepthBytes;
  clear_tile<0>();
  clear_tile<1>();
  if constexpr (tall == 2) {
    clear_tile<2>();
    clear_tile<3>();
  }
  for (const std::byte* end = weights + panel.bytes - rest; weights != end;
       weights += kDepthBytes, inputs += kDepth) {
    add_depth<tall>(inputs, stride, weights);
  }
  if (rest) {  // the next panel's weights must not be read, and inputs end in zeros
    alignas(64) std::byte last[kDepthBytes] = {};
    std::memcpy(last, weights, rest);
    add_depth<tall>(inputs, stride, last);
  }
  alignas(64) int32_t sums[kBlockRows][kInt8Outputs];
  store_tile<0>(sums[0], sizeof *sums);
  store_tile<1>(sums[0] + kLanes, sizeof *sums);
  if constexpr (tall == 2) {
    store_tile<2>(sums[kTileRows], sizeof *sums);
    store_tile<3>(sums[kTileRows] + kLanes, sizeof *sums);
  }
  for (int part = 0; part < kParts; ++part) {
    store_column(sums[0] + kLanes * part, first_row, rows,
                 panel.index * kInt8Outputs + kLanes * part, product);
  }
}

// The tiles of a block of rows: 0 to 3 have sums of rows 0 to 15 and of the others, for each the 16
// outputs of two parts of a panel; 4 and 5 have inputs, 6 and 7 weights.
inline std::array<TileShape, 8> block_tiles(int64_t rows) {
  const TileShape whole{kTileRows, kTileBytes}, first{std::min(rows, kTileRows), kTileBytes};
  std::array<TileShape, 8> shapes{{first, first, {}, {}, first, {}, whole, whole}};
  if (rows > kTileRows) shapes[2] = shapes[3] = shapes[5] = {rows - kTileRows, kTileBytes};
  return shapes;
}

// The products of some panels with some rows: those of whole blocks, then the last ones.
template <typename PanelAt>
void multiply_part(const Int8Product& product, PanelAt panel_at, int64_t first, int64_t end,
                   int64_t first_panel, int64_t end_panel) {
  const int64_t last = first + (end - first) / kBlockRows * kBlockRows, rest = end - last;
  if (last > first) {
    const Tiles tiles(block_tiles(kBlockRows));
    for (int64_t index = first_panel; index < end_panel; ++index) {
      const Int8Panel panel = panel_at(index);
      for (int64_t row = first; row < last; row += kBlockRows) {
        multiply_block<2>(product, row, kBlockRows, panel);
      }
    }
  }
  if (rest) {
    const Tiles tiles(block_tiles(rest));
    const auto multiply = rest > kTileRows ? multiply_block<2> : multiply_block<1>;
    for (int64_t index = first_panel; index < end_panel; ++index) {
      multiply(product, last, rest, panel_at(index));
    }
  }
}

}  // namespace edgespec

#endif
