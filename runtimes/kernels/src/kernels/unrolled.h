// Loops that are unrolled early enough for GCC to keep arrays in registers.
#pragma once

#include <cstddef>
#include <utility>

namespace edgespec {

template <typename Body, size_t... i>
[[gnu::always_inline]] inline void unrolled(Body body, std::index_sequence<i...>) {
  (body(i), ...);
}

// body(0) … body(count - 1).
template <size_t count, typename Body>
[[gnu::always_inline]] inline void unrolled(Body body) {
  unrolled(body, std::make_index_sequence<count>());
}

}  // namespace edgespec
