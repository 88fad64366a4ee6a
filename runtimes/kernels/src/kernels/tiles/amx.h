// AMX: eight registers, each a tile of up to 16 rows of up to 64 bytes, and products of two of
// them.
//
// Only for what is compiled for the target `amx`, behind #ifdef EDGESPEC_TILES.
#pragma once

#ifdef __AMX_INT8__
#define EDGESPEC_TILES

#include <immintrin.h>

#include <array>
#include <cstdint>

#include "kernels/lanes/lanes.h"

namespace edgespec {

constexpr int64_t kTileRows = 16, kTileBytes = 64;  // of a row

struct TileShape {
  int64_t rows, bytes;
};

// The tiles of this thread, from here to the end of the block; they begin as zeros. One share of a
// kernel's work has one. Kernels that it calls meanwhile must not have their own.
class Tiles {
 public:
  // The shape of each tile; of the last ones, none where they are not used.
  explicit Tiles(const std::array<TileShape, 8>& shapes) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      layout_.rows[i] = static_cast<uint8_t>(shapes[i].rows);
      layout_.bytes[i] = static_cast<uint16_t>(shapes[i].bytes);
    }
    asm volatile("ldtilecfg %0" ::"m"(layout_));
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles() { asm volatile("tilerelease"); }

 private:
  // As the instruction reads it.
  struct alignas(64) Layout {
    uint8_t palette = 1, first_row = 0, none[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  };
  static_assert(sizeof(Layout) == 64);

  Layout layout_;
};

// The compilers' intrinsics are not used: with GCC's, a tile may be loaded before what it shall
// read is written.

// Rows of a tile are `stride` bytes apart.
template <int tile>
EDGESPEC_INLINE void load_tile(const void* rows, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
EDGESPEC_INLINE void store_tile(void* rows, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(stride), "i"(tile) : "memory");
}
// What a tile of sums left in memory.
EDGESPEC_INLINE I32x16 load_ints(const int32_t* x) { return {_mm512_loadu_si512(x)}; }

template <int tile>
EDGESPEC_INLINE void clear_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
}

// sums [m, n] += a [m, 4k] · b: row i of b has inputs 4i … 4i + 3 of output 0, of output 1 …
// Products of 8-bit numbers, those of `a` signed and of `b` unsigned; sums are int32.
template <int sums, int a, int b>
EDGESPEC_INLINE void add_signed_unsigned() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(a), "i"(b));
}
// The same where both are signed.
template <int sums, int a, int b>
EDGESPEC_INLINE void add_signed() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(a), "i"(b));
}
// sums [m, n] += a [m, 2k] · b: row i of b has inputs 2i and 2i + 1 of output 0, of output 1 …
// Products of bfloat16 numbers; sums are float32.
template <int sums, int a, int b>
EDGESPEC_INLINE void add_bfloat16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(a), "i"(b));
}

}  // namespace edgespec

#endif
