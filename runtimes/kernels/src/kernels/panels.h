// How packed weights are read: panels of outputs, in shares that threads take, for all rows of a
// call.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace edgespec {

constexpr int64_t kPanel = 32;      // outputs: two registers of 16 sums
constexpr int64_t kStep = 4;        // inputs that one instruction adds up
constexpr int64_t kMaxRows = 12;   // whose sums stay in registers together, with little to spare
constexpr int64_t kFewRows = 3;     // are done with weights before the next ones are there

inline int64_t panels_of(int64_t outputs) { return (outputs + kPanel - 1) / kPanel; }

// Panels of a matrix, in shares of a size that is worth a thread's while.
class Shares {
 public:
  Shares(int64_t panels, int64_t panel_bytes) : panels_(panels) {
    constexpr int64_t kShare = 131072;  // bytes, at most
    constexpr int64_t kEven = 4;  // of so many, or twice as many …, two or four threads get alike
    const int64_t fewest = (panels * panel_bytes + kShare - 1) / kShare;
    count_ = std::min(panels, (fewest + kEven - 1) / kEven * kEven);
  }

  int64_t count() const { return count_; }
  int64_t first_panel(int64_t share) const { return share * panels_ / count_; }

 private:
  int64_t panels_, count_;
};

// Asks memory for the weights to come: the processor's own prefetching ends at each page of 4 KB.
// For few rows past the second cache, where they would push out what is needed again; more rows take
// longer with each line than the first cache can hold lines waiting.
template <int rows, int64_t bytes>
void prefetch(const std::byte* weights) {
  constexpr int64_t kAhead = 8192;
  constexpr auto kHint = rows <= kFewRows ? _MM_HINT_NTA : _MM_HINT_T1;
#pragma GCC unroll 8
  for (int64_t line = 0; line < bytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(weights + kAhead + line), kHint);
  }
}

// As _mm512_dpbusd_epi32 does, but GCC 12 copies the sums of that around, and through memory where
// they are many.
[[gnu::always_inline]] inline void add_dots(__m512i& sums, __m512i weights, __m512i inputs) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(inputs));
}

// Adds to each of `count` rows' sums the products of four inputs with the weights of 32 outputs.
template <int count>
[[gnu::always_inline]] inline void add_products(__m512i* low, __m512i* high, __m512i first,
                                                __m512i second, const int8_t* inputs,
                                                int64_t stride) {
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    int32_t four;
    std::memcpy(&four, inputs + r * stride, sizeof four);
    const __m512i all = _mm512_set1_epi32(four);
    add_dots(low[r], first, all);
    add_dots(high[r], second, all);
  }
}

// Calls with<count>(first row) for all rows of a call, as many at a time as registers hold, in even
// parts.
template <template <int> typename With, typename... Arguments>
void by_parts(int64_t rows, const Arguments&... arguments) {
  using Do = void (*)(int64_t first_row, const Arguments&...);
  static constexpr auto kDo = []<size_t... count>(std::index_sequence<count...>) {
    return std::array<Do, sizeof...(count)>{With<int(count + 1)>::run...};
  }(std::make_index_sequence<kMaxRows>());  // by the number of rows, less one
  const int64_t parts = (rows + kMaxRows - 1) / kMaxRows;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = part * rows / parts, end = (part + 1) * rows / parts;
    kDo[end - first - 1](first, arguments...);
  }
}

}  // namespace edgespec
