#include "kernels/attention/chains.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "kernels/lanes/lanes.h"
#include "kernels/unrolled.h"

namespace edgespec {
namespace {

// Rows, and columns in 16s, whose chains stay in registers.
#if defined(__AVX512F__) && !defined(EDGESPEC_NO_AVX512)
constexpr size_t kRows = 6, kParts = 2;
#else
constexpr size_t kRows = 3, kParts = 1;
#endif

template <size_t rows, size_t parts>
using Sums = F32x16[rows][parts];

// Adds input `k` of each row and column to a chain.
template <size_t rows, size_t parts>
[[gnu::always_inline]] inline void extend(Sums<rows, parts>& chain, const ChainedProduct& product,
                                          int64_t k) {
  F32x16 across[parts];
  unrolled<parts>(
      [&](size_t i) { across[i] = load(product.b + k * product.b_stride + i * kLanes); });
  unrolled<rows>([&](size_t r) {
    const F32x16 down = splat(product.a[r * product.a_stride + k]);
    unrolled<parts>([&](size_t i) { chain[r][i] = fma(down, across[i], chain[r][i]); });
  });
}

template <size_t rows, size_t parts>
[[gnu::flatten]] void multiply(const ChainedProduct& product) {
  for (int64_t first = 0; first < product.depth; first += kChain) {
    const int64_t end = std::min(first + kChain, product.depth);
    Sums<rows, parts> even, odd;
    unrolled<rows>(
        [&](size_t r) { unrolled<parts>([&](size_t i) { even[r][i] = odd[r][i] = zeros(); }); });
    int64_t k = first;
    for (; k + 1 < end; k += 2) {
      extend<rows, parts>(even, product, k);
      extend<rows, parts>(odd, product, k + 1);
    }
    if (k < end) extend<rows, parts>(even, product, k);
    const bool fresh = product.fresh && first == 0;
    unrolled<rows>([&](size_t r) {
      float* c = product.c + r * product.c_stride;
      unrolled<parts>([&](size_t i) {
        const F32x16 before = fresh ? zeros() : load(c + i * kLanes);
        store(c + i * kLanes, before + (even[r][i] + odd[r][i]));
      });
    });
  }
}

using Multiply = void (*)(const ChainedProduct&);

template <size_t rows, size_t... parts>
constexpr std::array<Multiply, kParts> by_parts(std::index_sequence<parts...>) {
  return {multiply<rows, parts + 1>...};
}

template <size_t... rows>
constexpr std::array<std::array<Multiply, kParts>, kRows> by_rows(std::index_sequence<rows...>) {
  return {by_parts<rows + 1>(std::make_index_sequence<kParts>())...};
}

constexpr auto kMultiply = by_rows(std::make_index_sequence<kRows>());

}  // namespace

void multiply_by_chains(const ChainedProduct& product) {
  constexpr int64_t kMostRows = kRows, kMostColumns = kParts * kLanes;
  const int64_t shares = (product.rows + kMostRows - 1) / kMostRows;
  for (int64_t share = 0; share < shares; ++share) {
    const int64_t row = share * product.rows / shares;
    ChainedProduct part = product;
    part.rows = (share + 1) * product.rows / shares - row;
    part.a += row * product.a_stride;
    for (int64_t column = 0; column < product.columns; column += kMostColumns) {
      part.columns = std::min(product.columns - column, kMostColumns);
      part.b = product.b + column;
      part.c = product.c + row * product.c_stride + column;
      kMultiply[part.rows - 1][(part.columns - 1) / kLanes](part);
    }
  }
}

}  // namespace edgespec
