// How kernels read packed weights: panels of 32 outputs, in shares for threads, each for all rows
// of a call.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace edgespec {

constexpr int64_t kPanel = 32;    // outputs: two registers of 16 sums
constexpr int64_t kStep = 4;      // inputs of one dot-product instruction
constexpr int64_t kMaxRows = 12;  // rows whose sums fit into registers together
constexpr int64_t kFewRows = 3;   // with up to 3 rows, computing is faster than reading weights

inline int64_t panels_of(int64_t outputs) { return (outputs + kPanel - 1) / kPanel; }

// Splits the panels of a matrix into shares, each large enough for one thread to take.
class Shares {
 public:
  Shares(int64_t panels, int64_t panel_bytes) : panels_(panels) {
    constexpr int64_t kMaxShareBytes = 131072;
    constexpr int64_t kMultiple = 4;  // so that two or four threads get equally many shares
    const int64_t fewest = (panels * panel_bytes + kMaxShareBytes - 1) / kMaxShareBytes;
    count_ = std::min(panels, (fewest + kMultiple - 1) / kMultiple * kMultiple);
  }

  int64_t count() const { return count_; }
  int64_t first_panel(int64_t share) const { return share * panels_ / count_; }

 private:
  int64_t panels_, count_;
};

// Prefetches weights 8 KB ahead, because the hardware prefetcher stops at each page of 4 KB. With
// few rows the hint is NTA: weights bypass the second-level cache and evict nothing from it. With
// more rows it is T1: lines would leave the first-level cache before they are used.
template <int rows, int64_t bytes>
void prefetch(const std::byte* weights) {
  constexpr int64_t kAhead = 8192;
  constexpr auto kHint = rows <= kFewRows ? _MM_HINT_NTA : _MM_HINT_T1;
#pragma GCC unroll 8
  for (int64_t line = 0; line < bytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(weights + kAhead + line), kHint);
  }
}

// The instruction of _mm512_dpbusd_epi32. With the intrinsic, GCC 12 copies sums between registers
// and spills them where they are many.
[[gnu::always_inline]] inline void add_dots(__m512i& sums, __m512i weights, __m512i inputs) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(inputs));
}

// For each of `count` rows: adds the products of four inputs with the weights of 32 outputs to the
// sums `low` and `high`.
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

// Calls With<count>::run(first row, arguments…) for all rows, in parts of equal size, at most
// kMaxRows each.
template <template <int> typename With, typename... Arguments>
void by_parts(int64_t rows, const Arguments&... arguments) {
  using Run = void (*)(int64_t first_row, const Arguments&...);
  static constexpr auto kRunByCount = []<size_t... count>(std::index_sequence<count...>) {
    return std::array<Run, sizeof...(count)>{With<int(count + 1)>::run...};
  }(std::make_index_sequence<kMaxRows>());  // index: count - 1
  const int64_t parts = (rows + kMaxRows - 1) / kMaxRows;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = part * rows / parts, end = (part + 1) * rows / parts;
    kRunByCount[end - first - 1](first, arguments...);
  }
}

}  // namespace edgespec
