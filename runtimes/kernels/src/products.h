// Operators that round rows to 8 bits and multiply them with 8-bit weights.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include "kernel.h"
#include "product.h"
#include "rows.h"

namespace edgespec {

using ort::ElementType;

// Fewer rows are prepared on the calling thread: to wake another would take as long.
constexpr int64_t kManyRows = 32;

// Prepares every row with prepare(r), on several threads where they are many.
template <typename Prepare>
void each_row(Call& call, int64_t count, Prepare prepare) {
  if (count < kManyRows) {
    for (int64_t r = 0; r < count; ++r) prepare(r);
    return;
  }
  Call::run(&call, [](void* data, size_t r) { (*static_cast<Prepare*>(data))(int64_t(r)); },
            static_cast<size_t>(count), &prepare);
}

// Weights and their scales, inputs `first` and `first + 1` of an operator.
class Weights {
 public:
  // Weights are [in, out], or as a table [out, in].
  Weights(const Setup& setup, size_t first, bool table)
      : matrix_(packed(setup.constant<int8_t>(first, "weights"), table)) {
    const auto scale = setup.constant<float>(first + 1, "scale");
    if (scale.shape != std::vector<int64_t>{matrix_.out()}) {
      throw Failure("there must be a scale for each output");
    }
    scale_.assign(scale.data, scale.data + matrix_.out());
  }

  // Rounds the rows of x by round(row of x, rounded, r) and multiplies them: output 0.
  template <typename Round>
  void multiply(Call& call, const Tensor<const float>& x, Round round) const {
    if (x.shape.empty() || x.last() != matrix_.in()) throw Failure("rows and weights differ in width");
    thread_local RoundedRows rounded;
    RoundedRows& rows = rounded;  // the calling thread's, also for the others
    rows.resize(x.rows(), x.last());
    each_row(call, rows.count, [&](int64_t r) { round(x.data + r * rows.width, rows, r); });
    std::vector<int64_t> shape = x.shape;
    shape.back() = matrix_.out();
    matrix_.multiply(rows, scale_.data(), call.output(0, shape), Call::run, &call);
  }

 private:
  static PackedMatrix packed(const Tensor<const int8_t>& weights, bool table) {
    if (weights.shape.size() != 2) throw Failure("weights must have two dimensions");
    const int64_t first = weights.shape[0], second = weights.shape[1];
    if (first < 1 || second < 1) throw Failure("there must be weights");
    return table ? PackedMatrix(weights.data, second, first, 1, second)
                 : PackedMatrix(weights.data, first, second, second, 1);
  }

  PackedMatrix matrix_;
  std::vector<float> scale_;
};

// A row of scratch, of the thread that asks.
inline float* scratch(int64_t width) {
  thread_local std::vector<float> row;
  if (row.size() < static_cast<size_t>(width)) row.resize(static_cast<size_t>(width));
  return row.data();
}

// x, weights, scale [out]; weights are [in, out], or as a table [out, in].
template <bool table>
struct PlainProduct {
  static constexpr std::array inputs{ElementType::float32, ElementType::int8,
                                     ElementType::float32};
  static constexpr size_t outputs = 1;
  Weights weights;

  explicit PlainProduct(const Setup& setup) : weights(setup, 1, table) {}
  void compute(Call& call) { weights.multiply(call, call.input<float>(0), round_row_by_largest); }
};

struct Int8Product : PlainProduct<false> {
  static constexpr const char* name = "Int8Product";
  using PlainProduct::PlainProduct;
};

struct Int8TableProduct : PlainProduct<true> {
  static constexpr const char* name = "Int8TableProduct";
  using PlainProduct::PlainProduct;
};

// x, the norm's weight, weights, scale; all rows are rounded by `step`.
struct NormedInt8Product {
  static constexpr const char* name = "NormedInt8Product";
  static constexpr std::array inputs{ElementType::float32, ElementType::float32, ElementType::int8,
                                     ElementType::float32};
  static constexpr size_t outputs = 1;
  Weights weights;
  float epsilon, step;

  explicit NormedInt8Product(const Setup& setup)
      : weights(setup, 2, false),
        epsilon(setup.attribute<float>("epsilon")),
        step(setup.attribute<float>("step")) {}

  void compute(Call& call) {
    const auto norm = call.input<float>(1);
    const auto x = call.input<float>(0);
    if (norm.last() != x.last()) throw Failure("rows and the norm's weight differ in width");
    weights.multiply(call, x, [&](const float* row, RoundedRows& rows, int64_t r) {
      float* normed = scratch(rows.width);
      const bool numbers = norm_row(row, norm.data, epsilon, rows.width, normed);
      round_row(normed, step, rows, r);
      if (!numbers) rows.scale[r] = std::numeric_limits<float>::quiet_NaN();
    });
  }
};

// x, a Hadamard matrix [block, block] by which rows are turned, weights, scale.
struct TurnedInt8Product {
  static constexpr const char* name = "TurnedInt8Product";
  static constexpr std::array inputs = NormedInt8Product::inputs;
  static constexpr size_t outputs = 1;
  Weights weights;
  int64_t block;

  explicit TurnedInt8Product(const Setup& setup)
      : weights(setup, 2, false), block(checked(setup.constant<float>(1, "the Hadamard matrix"))) {}

  void compute(Call& call) {
    const auto x = call.input<float>(0);
    if (x.last() % block != 0) throw Failure("rows are not made of whole blocks");
    weights.multiply(call, x, [&](const float* row, RoundedRows& rows, int64_t r) {
      float* turned = scratch(rows.width);
      turn_row(row, block, rows.width, turned);
      round_row_by_largest(turned, rows, r);
    });
  }

 private:
  // The fast transform knows the matrix; another one would be another function.
  static int64_t checked(const Tensor<const float>& matrix) {
    const int64_t size = matrix.last();
    bool fits = matrix.shape.size() == 2 && matrix.shape[0] == size && size >= 1 && size <= 64 &&
                (size & (size - 1)) == 0;
    const float entry = 1.0f / std::sqrt(static_cast<float>(size));
    for (int64_t i = 0; fits && i < size * size; ++i) {
      const bool minus = __builtin_parityll(static_cast<uint64_t>(i / size & i % size));
      fits = std::abs(matrix.data[i] - (minus ? -entry : entry)) < 1e-6f;
    }
    if (!fits) throw Failure("the rotation must be a Hadamard matrix of at most 64 rows");
    return size;
  }
};

// gate and up: activation(gate) · up.
template <void (*gate_row)(const float*, const float*, int64_t, float*)>
struct Gate {
  static constexpr std::array inputs{ElementType::float32, ElementType::float32};
  static constexpr size_t outputs = 1;

  explicit Gate(const Setup&) {}
  void compute(Call& call) {
    const auto gate = call.input<float>(0), up = call.input<float>(1);
    if (gate.shape != up.shape) throw Failure("gate and up differ in shape");
    float* y = call.output(0, gate.shape);
    const int64_t width = gate.last();
    each_row(call, gate.rows(), [&](int64_t r) {
      gate_row(gate.data + r * width, up.data + r * width, width, y + r * width);
    });
  }
};

struct SiluGate : Gate<silu_gate_row> {
  static constexpr const char* name = "SiluGate";
  using Gate::Gate;
};

struct GeluGate : Gate<gelu_gate_row> {
  static constexpr const char* name = "GeluGate";
  using Gate::Gate;
};

}  // namespace edgespec
