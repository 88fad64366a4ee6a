// Products at awkward shapes: the sums are those of a plain loop, and a row does not depend on
// others.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "kernels/matmul_bfloat16.h"
#include "kernels/matmul_half.h"
#include "kernels/matmul_int8.h"
#include "threads/team.h"

namespace edgespec::test {
namespace {

struct Shape {
  int64_t in, out;
};

constexpr Shape kShapes[] = {{1, 1}, {3, 31}, {4, 32}, {5, 33}, {63, 48}, {129, 97}, {576, 200}};
constexpr int64_t kCounts[] = {0, 1, 3, 12, 13, 16, 17, 29, 33, 49};

void quantize(const std::vector<float>& x, int64_t count, int64_t width, QuantizedRows& rows) {
  rows.resize(count, width);
  for (int64_t r = 0; r < count; ++r) quantize_row_by_max(x.data() + r * width, rows, r);
}

void check_int8(const PackedInt8& packed, const std::vector<int8_t>& weights, int64_t count,
                const Threads& threads) {
  const int64_t in = packed.in(), out = packed.out();
  const auto scale = floats(out), x = floats(count * in), added = floats(count * out);
  QuantizedRows rows;
  quantize(x, count, in, rows);
  std::vector<float> y(static_cast<size_t>(count * out)), one(static_cast<size_t>(out));
  packed.multiply(rows, scale.data(), added.data(), y.data(), threads);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      int32_t sum = 0;
      for (int64_t i = 0; i < in; ++i) sum += rows.row(r)[i] * weights[i * out + o];
      const float product = float(sum) * (rows.scale[r] * scale[o]);
      CHECK(y[r * out + o] == added[r * out + o] + product);
    }
    QuantizedRows alone;
    quantize({x.begin() + r * in, x.begin() + (r + 1) * in}, 1, in, alone);
    packed.multiply(alone, scale.data(), added.data() + r * out, one.data(), threads);
    CHECK(same_bits(one.data(), y.data() + r * out, out));
  }
}

void int8_products_are_those_of_a_loop() {
  Pool pool(2);
  for (const auto [in, out] : kShapes) {
    const auto weights = int8s(in * out);
    const PackedInt8 packed(weights.data(), in, out, out, 1);
    for (const int64_t count : kCounts) check_int8(packed, weights, count, pool.threads());
  }
}

// More than a megabyte, in which they pass in parts.
void so_are_those_of_more_rows_than_a_cache_holds() {
  Pool pool(2);
  constexpr int64_t kIn = 16'500, kOut = 33;
  const auto weights = int8s(kIn * kOut);
  const PackedInt8 packed(weights.data(), kIn, kOut, kOut, 1);
  check_int8(packed, weights, 83, pool.threads());
}

// The bits of floats that both formats hold exactly: small integers.
uint16_t bits_of(float x, Float16) {
  _Float16 half = static_cast<_Float16>(x);
  return std::bit_cast<uint16_t>(half);
}
uint16_t bits_of(float x, BFloat16) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
}

template <typename Half>
void half_products_of_integers_are_exact() {
  Pool pool(3);
  std::uniform_int_distribution<int> small(-60, 60);
  for (const auto [in, out] : kShapes) {
    std::vector<float> wide(static_cast<size_t>(in * out));
    std::vector<Half> weights(wide.size());
    for (size_t i = 0; i < wide.size(); ++i) {
      wide[i] = float(small(generator()));
      weights[i].bits = bits_of(wide[i], Half{});
    }
    const PackedHalf<Half> packed(weights.data(), in, out);
    for (const int64_t count : kCounts) {
      std::vector<float> x(static_cast<size_t>(count * in)), y(static_cast<size_t>(count * out));
      for (float& number : x) number = float(small(generator()));
      Team::together(pool.threads(), [&](const Threads& threads) {
        packed.multiply(x.data(), count, y.data(), threads);
      });
      for (int64_t r = 0; r < count; ++r) {
        for (int64_t o = 0; o < out; ++o) {
          float sum = 0;
          for (int64_t i = 0; i < in; ++i) sum += x[r * in + i] * wide[o * in + i];
          CHECK(y[r * out + o] == sum);
        }
      }
    }
  }
}

float widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// The order of matmul_bfloat16.h.
float sum_in_blocks(const BFloat16Rows& rows, int64_t r, const BFloat16* weights) {
  float sum = 0;
  for (int64_t b = 0; b < rows.blocks; ++b) {
    const uint16_t* inputs = rows.block(r, b);
    float chains[2] = {};
    for (int64_t i = 0; i < std::min<int64_t>(rows.width - 32 * b, 32); ++i) {
      const float weight = widened(weights[32 * b + i].bits);
      chains[i % 2] = std::fma(widened(inputs[i]), weight, chains[i % 2]);
    }
    sum += chains[0] + chains[1];
  }
  return sum;
}

void bfloat16_products_add_in_the_stated_order() {
  Pool pool(3);
  std::uniform_int_distribution<int> exponents(-20, 20);
  for (const auto [in, out] : kShapes) {
    std::vector<BFloat16> weights;
    for (const float x : floats(in * out)) {
      weights.push_back({bits_of(std::ldexp(x, exponents(generator())), BFloat16{})});
    }
    const PackedBFloat16 packed(weights.data(), in, out);
    for (const int64_t count : kCounts) {
      const auto x = floats(count * in), added = floats(count * out);
      BFloat16Rows rows;
      rows.resize(count, in);
      for (int64_t r = 0; r < count; ++r) round_to_bfloat16(x.data() + r * in, rows, r);
      std::vector<float> y(added.size());
      packed.multiply(rows, added.data(), y.data(), pool.threads());
      for (int64_t r = 0; r < count; ++r) {
        for (int64_t o = 0; o < out; ++o) {
          const float sum = sum_in_blocks(rows, r, weights.data() + o * in);
          CHECK(y[r * out + o] == added[r * out + o] + sum);
        }
      }
    }
  }
}

}  // namespace
}  // namespace edgespec::test

int main() {
  using namespace edgespec::test;
  int8_products_are_those_of_a_loop();
  so_are_those_of_more_rows_than_a_cache_holds();
  half_products_of_integers_are_exact<edgespec::Float16>();
  half_products_of_integers_are_exact<edgespec::BFloat16>();
  bfloat16_products_add_in_the_stated_order();
}
