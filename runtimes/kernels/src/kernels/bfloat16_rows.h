// Rows rounded to bfloat16, as products with bfloat16 weights read them (matmul_bfloat16.h).
#pragma once

#include <cstdint>

#include "kernels/aligned_vector.h"

namespace edgespec {

constexpr int64_t kBFloat16Block = 32;  // inputs of a product that are added up for themselves

// Numbers nearer to 0 count as 0 in a product, so that no sum is a subnormal number, which some
// instructions take for 0 and others do not: a product of two others is a multiple of 2^-126, the
// smallest normal number, and so is every sum of them.
constexpr float kLeastInput = 0x1p-60f, kLeastWeight = 0x1p-52f;

// Rows in tiles as AMX reads them: block b of 16 rows, one after the other, then their next block.
// Zeros follow a row's `width` numbers, up to the end of a block.
struct BFloat16Rows {
  static constexpr int64_t kTileRows = 16;

  int64_t count = 0;
  int64_t width = 0;
  int64_t blocks = 0;              // of a row
  AlignedVector<uint16_t> values;  // of whole tiles

  void resize(int64_t rows, int64_t columns);
  uint16_t* block(int64_t r, int64_t b) { return values.data() + start_of(r, b); }
  const uint16_t* block(int64_t r, int64_t b) const { return values.data() + start_of(r, b); }

 private:
  int64_t start_of(int64_t r, int64_t b) const {
    return ((r / kTileRows * blocks + b) * kTileRows + r % kTileRows) * kBFloat16Block;
  }
};

// Rounds row r half to even.
void round_to_bfloat16(const float* x, BFloat16Rows& rows, int64_t r);

}  // namespace edgespec
