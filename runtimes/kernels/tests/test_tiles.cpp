// Tiles of every height, width and depth give the sums of a plain loop.
#include <cmath>

#include "check.h"
#include "kernels/tiles/amx.h"

namespace edgespec::test {
namespace {

#ifdef EDGESPEC_TILES
// a [rows, 4 · depth] · b [4 · depth, outputs], b in a tile's order.
void check_product(int64_t rows, int64_t depth, int64_t outputs) {
  const int64_t in = 4 * depth;
  const auto a = int8s(rows * in), b = int8s(in * outputs);
  std::vector<int32_t> mixed(static_cast<size_t>(rows * outputs)), both = mixed;
  {
    const Tiles tiles(
        {{{rows, 4 * outputs}, {rows, in}, {depth, 4 * outputs}, {rows, 4 * outputs}}});
    load_tile<1>(a.data(), in);
    load_tile<2>(b.data(), 4 * outputs);
    add_signed_unsigned<0, 1, 2>();
    add_signed<3, 1, 2>();
    store_tile<0>(mixed.data(), 4 * outputs);
    store_tile<3>(both.data(), 4 * outputs);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < outputs; ++o) {
      int32_t expected_mixed = 0, expected_both = 0;
      for (int64_t i = 0; i < in; ++i) {
        const int8_t weight = b[i / 4 * 4 * outputs + 4 * o + i % 4];
        expected_mixed += a[r * in + i] * static_cast<uint8_t>(weight);
        expected_both += a[r * in + i] * weight;
      }
      CHECK(mixed[r * outputs + o] == expected_mixed);
      CHECK(both[r * outputs + o] == expected_both);
    }
  }
}

// Their order of additions is not stated here.
void bfloat16_products_are_near_those_of_a_loop() {
  const auto bits = [](float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); };
  const auto number = [](uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); };
  std::vector<uint16_t> a, b;
  for (const float x : floats(32)) a.push_back(bits(x));
  for (const float x : floats(32 * 16)) b.push_back(bits(x));
  float y[16];
  {
    const Tiles tiles({{{1, 64}, {1, 64}, {16, 64}}});
    load_tile<1>(a.data(), 64);
    load_tile<2>(b.data(), 64);
    add_bfloat16<0, 1, 2>();
    store_tile<0>(y, 64);
  }
  for (int64_t o = 0; o < 16; ++o) {
    double sum = 0;
    for (int64_t i = 0; i < 32; ++i) {
      sum += double(number(a[i])) * double(number(b[i / 2 * 32 + 2 * o + i % 2]));
    }
    CHECK(std::abs(y[o] - sum) < 1e-4);
  }
}
#endif

}  // namespace
}  // namespace edgespec::test

int main() {
#ifdef EDGESPEC_TILES
  using namespace edgespec::test;
  for (const int64_t rows : {1, 5, 16}) {
    for (const int64_t depth : {1, 8, 16}) {
      for (const int64_t outputs : {1, 16}) check_product(rows, depth, outputs);
    }
  }
  bfloat16_products_are_near_those_of_a_loop();
#endif
}
