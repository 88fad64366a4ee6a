#include "kernels/attention/product.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "kernels/lanes/lanes.h"
#include "kernels/unrolled.h"

namespace edgespec {
namespace {

// 16 · kMaxParts columns of one product: its sums stay in registers.
#if defined(__AVX512F__) && !defined(EDGESPEC_NO_AVX512)
constexpr int64_t kMaxParts = 4;
#else
constexpr int64_t kMaxParts = 1;
#endif

// `flatten`: in a file of this length GCC would not inline all of the small functions; it was 2.4
// times as slow with AVX-512.
template <size_t rows, size_t parts>
[[gnu::flatten]] void multiply(const Product& product) {
  F32x16 sums[rows][parts];
  unrolled<rows>([&](size_t r) {
    const float* c = product.c + r * product.c_stride;
    unrolled<parts>([&](size_t i) { sums[r][i] = product.fresh ? zeros() : load(c + i * kLanes); });
  });
  const float* a = product.a;
  const float* b = product.b;
  const int64_t last = product.columns - int64_t(parts - 1) * kLanes;
  for (int64_t k = 0; k < product.depth; ++k, ++a, b += product.b_stride) {
    F32x16 across[parts];
    unrolled<parts>(
        [&](size_t i) { across[i] = load(b + i * kLanes, i + 1 < parts ? kLanes : last); });
    unrolled<rows>([&](size_t r) {
      const F32x16 down = splat(a[r * product.a_stride]);
      unrolled<parts>([&](size_t i) { sums[r][i] = fma(down, across[i], sums[r][i]); });
    });
  }
  unrolled<rows>([&](size_t r) {
    float* c = product.c + r * product.c_stride;
    unrolled<parts>([&](size_t i) { store(c + i * kLanes, sums[r][i]); });
  });
}

using Multiply = void (*)(const Product&);

template <size_t rows, size_t... parts>
constexpr std::array<Multiply, kMaxParts> by_parts(std::index_sequence<parts...>) {
  return {multiply<rows, parts + 1>...};
}

template <size_t... rows>
constexpr std::array<std::array<Multiply, kMaxParts>, kMaxRows> by_rows(
    std::index_sequence<rows...>) {
  return {by_parts<rows + 1>(std::make_index_sequence<kMaxParts>())...};
}

constexpr auto kMultiply = by_rows(std::make_index_sequence<kMaxRows>());

}  // namespace

void multiply(int64_t rows, Product product) {
  const int64_t end = product.columns;
  for (int64_t first = 0; first < end; first += kMaxParts * kLanes) {
    product.columns = std::min(end - first, kMaxParts * kLanes);
    kMultiply[rows - 1][(product.columns - 1) / kLanes](product);
    product.b += product.columns;
    product.c += product.columns;
  }
}

}  // namespace edgespec
