// Steps on rows at widths around whole registers; the Hadamard transform against its matrix.
#include <bit>
#include <cmath>
#include <limits>

#include "check.h"
#include "kernels/rows.h"

namespace edgespec::test {
namespace {

bool near(float a, double b, double size) { return std::abs(a - b) <= 1e-5 * size + 1e-6; }

void hadamard_rows_are_products_with_the_matrix() {
  for (const int64_t block : {1, 2, 4, 8, 16, 64, 512}) {
    const int64_t width = 3 * block;
    const auto x = floats(width);
    std::vector<float> y(static_cast<size_t>(width));
    hadamard_row(x.data(), block, width, y.data());
    for (int64_t i = 0; i < width; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < block; ++j) {
        const bool minus = std::popcount(uint64_t(i % block & j)) % 2;
        sum += (minus ? -1.0 : 1.0) * x[i / block * block + j];
      }
      CHECK(near(y[i], sum / std::sqrt(double(block)), 10));
    }
  }
}

void gates_norms_and_rope_stay_in_their_rows() {
  for (const int64_t width : {1, 7, 16, 17, 40}) {
    const auto gate = floats(width, 5), up = floats(width), cos = floats(width),
               sin = floats(width);
    std::vector<float> y(static_cast<size_t>(width)), pair(static_cast<size_t>(2 * width));
    silu_gate_row(gate.data(), up.data(), width, y.data());
    for (int64_t i = 0; i < width; ++i) {
      CHECK(near(y[i], gate[i] / (1 + std::exp(-double(gate[i]))) * up[i], 50));
    }
    gelu_gate_row(gate.data(), up.data(), width, y.data());
    relu_row(gate.data(), width, y.data());
    for (int64_t i = 0; i < width; ++i) CHECK(y[i] == std::max(gate[i], 0.0f));
    CHECK(norm_row(gate.data(), up.data(), 1e-5f, width, y.data()));
    const auto head = floats(2 * width);
    rope_row(head.data(), cos.data(), sin.data(), width, pair.data());
    for (int64_t i = 0; i < width; ++i) {
      CHECK(near(pair[i], double(head[i]) * cos[i] - double(head[width + i]) * sin[i], 20));
    }
  }
}

void rows_with_nan_have_no_scale() {
  QuantizedRows rows;
  rows.resize(3, 20);
  auto x = floats(60);
  x[20 + 19] = std::numeric_limits<float>::quiet_NaN();
  x[40] = std::numeric_limits<float>::infinity();
  for (int64_t r = 0; r < 3; ++r) quantize_row_by_max(x.data() + r * 20, rows, r);
  CHECK(std::isfinite(rows.scale[0]) && std::isnan(rows.scale[1]));
  CHECK(!std::isfinite(rows.scale[2]));
  CHECK(!norm_row(x.data() + 20, x.data(), 1e-5f, 20, std::vector<float>(20).data()));
}

}  // namespace
}  // namespace edgespec::test

int main() {
  using namespace edgespec::test;
  hadamard_rows_are_products_with_the_matrix();
  gates_norms_and_rope_stay_in_their_rows();
  rows_with_nan_have_no_scale();
}
