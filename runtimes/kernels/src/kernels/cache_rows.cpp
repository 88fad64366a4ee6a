#include "kernels/cache_rows.h"

#include <algorithm>

#include "kernels/lanes/lanes.h"
#include "kernels/rows.h"

namespace edgespec {
namespace {

// Calls body(numbers, index, count) for each 16 numbers; `numbers` has zeros after the last one.
template <typename Number, typename Body>
EDGESPEC_INLINE void for_each_16_of(const Number* numbers, int64_t width, Body body) {
  for_each_16(width, [&](int64_t i, int64_t count) {
    if (count >= kLanes) return body(numbers + i, i, count);
    Number last[kLanes] = {};
    std::copy_n(numbers + i, count, last);
    body(last, i, count);
  });
}

const uint16_t* bits(const Float16* numbers) { return reinterpret_cast<const uint16_t*>(numbers); }

}  // namespace

const float* widened(const CacheRows<Float16>& rows, int64_t count, int64_t size, float* memory) {
  for_each_16_of(rows.numbers, count * size, [&](const Float16* x, int64_t i, int64_t left) {
    store(memory + i, left, load_float16(bits(x)));
  });
  return memory;
}

const float* widened(const CacheRows<int8_t>& rows, int64_t count, int64_t size, float* memory) {
  for (int64_t r = 0; r < count; ++r) {
    const F32x16 scale = splat(rows.scales[r]);
    float* row = memory + r * size;
    for_each_16_of(rows.numbers + r * size, size, [&](const int8_t* x, int64_t i, int64_t left) {
      store(row + i, left, to_floats(load_int8(x)) * scale);
    });
  }
  return memory;
}

void store_row(const float* row, int64_t size, Float16* stored) {
  auto* halves = reinterpret_cast<uint16_t*>(stored);
  for_each_16(size, [&](int64_t i, int64_t count) {
    if (count >= kLanes) return store_float16(halves + i, load(row + i));
    uint16_t last[kLanes];
    store_float16(last, load(row + i, count));
    std::copy_n(last, count, halves + i);
  });
}

float store_row(const float* row, int64_t size, int8_t* stored) {
  return quantize_by_max(row, size, stored);
}

}  // namespace edgespec
