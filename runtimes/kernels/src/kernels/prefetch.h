// How packed weights are asked for before they are read.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#endif

namespace edgespec {

constexpr int64_t kFewRows = 3;  // with up to 3 rows, computing is faster than reading weights

// Whether weights are best read past the second-level cache, where they evict nothing. Then all
// wait in the few slots of the first-level one: enough on AMD's processors (Zen 4: 10 % faster at
// two rows), and on Intel's a third to a fifth of the speed (Sapphire Rapids).
inline bool reads_past_second_level() {
#if defined(__x86_64__) || defined(_M_X64)
  static const bool is_amd = [] {
    unsigned most, ebx = 0, ecx, edx;
    return __get_cpuid(0, &most, &ebx, &ecx, &edx) && ebx == signature_AMD_ebx;
  }();
  return is_amd;
#else
  return true;
#endif
}

// Prefetches weights 8 KB ahead, because the hardware prefetcher stops at each page of 4 KB. With
// more than a few rows, lines would leave the first-level cache before they are used.
template <int rows, int64_t bytes>
[[gnu::always_inline]] inline void prefetch(const std::byte* weights) {
  constexpr int64_t kAhead = 8192;
  constexpr int kNonTemporal = 0, kSecondLevel = 2;
  const auto lines = [weights]<int hint>() {
#pragma GCC unroll 8
    for (int64_t line = 0; line < bytes; line += 64) {
      __builtin_prefetch(weights + kAhead + line, 0, hint);
    }
  };
  if (rows <= kFewRows && reads_past_second_level()) {
    lines.template operator()<kNonTemporal>();
  } else {
    lines.template operator()<kSecondLevel>();
  }
}

}  // namespace edgespec
