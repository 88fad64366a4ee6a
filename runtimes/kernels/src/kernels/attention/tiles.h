// Tiles of keys and values: prefetched, and transposed for a product.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/sizes.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

// Prefetches part `part` of a tile that is split into `parts`.
inline void fetch_part(const void* tile, int64_t bytes, int64_t part, int64_t parts) {
  constexpr int64_t kLine = 64;
  const char* end = static_cast<const char*>(tile) + (part + 1) * bytes / parts;
  for (const char* line = static_cast<const char*>(tile) + part * bytes / parts; line < end;
       line += kLine) {
    __builtin_prefetch(line);
  }
}

// Transposes up to kKeyTile keys [count, size] to [size, kKeyTile]. Columns without a key repeat
// the last key.
inline void transpose_keys(const float* keys, int64_t count, int64_t size, float* transposed) {
  for (int64_t first = 0; first < count; first += kLanes) {
    const int64_t last = std::min(first + kLanes, count) - 1;
    // Prefetched in the order of memory, which the hardware prefetcher continues; it does not
    // recognise the order of the loads below.
    fetch_part(keys + first * size, (last + 1 - first) * size * int64_t{sizeof(float)}, 0, 1);
    const float* columns[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) columns[k] = keys + std::min(first + k, last) * size;
    for (int64_t i = 0; i < size; i += 4) {
      F32x16 numbers[4];
      transpose_4x16(columns, i, numbers);
      for (int j = 0; j < 4; ++j) store(transposed + (i + j) * kKeyTile + first, numbers[j]);
    }
  }
}

}  // namespace edgespec
