// A buffer of the cache: rows that are written and read, in float32 or in fewer bits.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cache_rows.h"
#include "ort/op.h"

namespace edgespec {

// Keys or values of a layer in the cache: [kv_heads, capacity, size].
template <typename Number>
struct CacheBuffer {
  Number* numbers;

  void write(const float* row, int64_t size, int64_t index) const {
    if constexpr (std::is_same_v<Number, float>) {
      std::copy_n(row, size, numbers + index * size);
    } else {
      store_row(row, size, numbers + index * size);
    }
  }
  CacheRows<Number> rows() const { return {numbers}; }
};

template <>
struct CacheBuffer<int8_t> {
  int8_t* numbers;
  float* scales;  // [kv_heads, capacity]

  void write(const float* row, int64_t size, int64_t index) const {
    scales[index] = store_row(row, size, numbers + index * size);
  }
  CacheRows<int8_t> rows() const { return {numbers, scales}; }
};

// The type of what the cache of an operator stores.
template <typename Schema>
using CachedNumber = typename decltype(Schema::in::past_key)::Number;

// Memory of an output of the cache with this call's positions. The caller usually binds it to the
// memory of the past; if not, the past is copied.
template <typename T>
T* present(const T* past, const Operand<T>& spec, KernelContext& context, const Shapes& shapes) {
  T* now = context.output(spec, shapes);
  size_t bytes = sizeof(T);
  for (const int64_t size : shapes.of(spec)) bytes *= static_cast<size_t>(size);
  if (now != past) std::memcpy(now, past, bytes);
  return now;
}

}  // namespace edgespec
