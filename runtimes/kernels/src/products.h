// Operators that round rows to 8 bits and multiply them with 8-bit weights.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "kernel.h"
#include "product.h"
#include "rows.h"

namespace edgespec {

using ort::ElementType;

// Calls use(rows) with `count` rows of `width` numbers; round(rows, r) makes row r.
template <typename Round, typename Use>
void with_rounded(int64_t count, int64_t width, Round round, const Threads& threads, Use use) {
  thread_local RoundedRows rounded;
  RoundedRows& rows = rounded;  // the calling thread's, also for the others
  rows.resize(count, width);
  threads.each(count, count * width, [&](int64_t r) { round(rows, r); });  // a cycle a number
  use(std::as_const(rows));
}

// Weights [in, out] and their scales [out], inputs `first` and `first + 1` of an operator.
class Weights {
 public:
  Weights(const Setup& setup, size_t first)
      : matrix_(packed(setup.constant<int8_t>(first, "weights"))) {
    const auto scale = setup.constant<float>(first + 1, "scale");
    if (scale.shape != std::vector<int64_t>{matrix_.out()}) {
      throw Failure("there must be a scale for each output");
    }
    scale_.assign(scale.data, scale.data + matrix_.out());
  }

  int64_t in() const { return matrix_.in(); }
  int64_t out() const { return matrix_.out(); }

  // y [count, out] = rows · weights + `added`, if there is any; round(rows, r) makes row r.
  template <typename Round>
  void multiply(int64_t count, Round round, const float* added, float* y,
                const Threads& threads) const {
    with_rounded(count, in(), round, threads, [&](const RoundedRows& rows) {
      matrix_.multiply(rows, scale_.data(), added, y, threads);
    });
  }

  // The same of rows that lie behind each other, x [count, in]: round(row of x, rows, r) makes row r.
  template <typename Round>
  void multiply_rows(const float* x, int64_t count, Round round, const float* added, float* y,
                     const Threads& threads) const {
    const auto from_x = [&](RoundedRows& rows, int64_t r) { round(x + r * in(), rows, r); };
    multiply(count, from_x, added, y, threads);
  }

  // The rows of x, made by round(row of x, rows, r), times the weights: output 0.
  template <typename Round>
  void multiply(Call& call, const Tensor<const float>& x, Round round) const {
    check_width(x);
    std::vector<int64_t> shape = x.shape;
    shape.back() = out();
    multiply_rows(x.data, x.rows(), round, nullptr, call.output(0, shape), call.threads());
  }

  void check_width(const Tensor<const float>& x) const {
    if (x.shape.empty() || x.last() != in()) throw Failure("rows and weights differ in width");
  }

 private:
  static PackedMatrix packed(const Tensor<const int8_t>& weights) {
    if (weights.shape.size() != 2) throw Failure("weights must have two dimensions");
    const int64_t in = weights.shape[0], out = weights.shape[1];
    if (in < 1 || out < 1) throw Failure("there must be weights");
    return PackedMatrix(weights.data, in, out, out, 1);
  }

  PackedMatrix matrix_;
  std::vector<float> scale_;
};

// Room for numbers that the calling thread keeps from call to call; a `Use` each.
template <typename Use>
float* kept(int64_t count) {
  thread_local std::vector<float> numbers;
  if (numbers.size() < static_cast<size_t>(count)) numbers.resize(static_cast<size_t>(count));
  return numbers.data();
}

// Rows normed by `norm` [width], all of them rounded by `step`.
struct NormedRows {
  const float* norm;
  float epsilon, step;

  void operator()(const float* row, RoundedRows& rows, int64_t r) const {
    struct Normed;
    float* normed = kept<Normed>(rows.width);
    const bool numbers = norm_row(row, norm, epsilon, rows.width, normed);
    round_row(normed, step, rows, r);
    if (!numbers) rows.scale[r] = std::numeric_limits<float>::quiet_NaN();
  }
};

// Rows turned by a Hadamard matrix of `block` rows, each rounded by its largest number.
struct TurnedRows {
  int64_t block;

  // Of an operator that is given the matrix: the fast transform knows it, and another one would be
  // another function.
  static TurnedRows by(const Tensor<const float>& matrix) {
    const int64_t size = matrix.last();
    bool fits = matrix.shape.size() == 2 && matrix.shape[0] == size && size >= 1 &&
                size <= kMostTurned && (size & (size - 1)) == 0;
    const float entry = 1.0f / std::sqrt(static_cast<float>(size));
    for (int64_t i = 0; fits && i < size * size; ++i) {
      const bool minus = __builtin_parityll(static_cast<uint64_t>(i / size & i % size));
      fits = std::abs(matrix.data[i] - (minus ? -entry : entry)) < 1e-6f;
    }
    if (!fits) throw Failure("the rotation must be a Hadamard matrix of at most 512 rows");
    return {size};
  }

  void check_width(int64_t width) const {
    if (width % block != 0) throw Failure("rows are not made of whole blocks");
  }

  void operator()(const float* row, RoundedRows& rows, int64_t r) const {
    struct Turned;
    float* turned = kept<Turned>(rows.width);
    turn_row(row, block, rows.width, turned);
    round_row_by_largest(turned, rows, r);
  }
};

// Weights behind a norm.
struct NormedWeights {
  Weights weights;
  float epsilon, step;

  NormedWeights(const Setup& setup, size_t first)
      : weights(setup, first),
        epsilon(setup.attribute<float>("epsilon")),
        step(setup.attribute<float>("step")) {}

  NormedRows rows(const Tensor<const float>& norm) const {
    if (norm.shape != std::vector<int64_t>{weights.in()}) {
      throw Failure("weights and the norm's weight differ in width");
    }
    return {norm.data, epsilon, step};
  }
};

// x, weights, scale.
struct Int8Product {
  static constexpr const char* name = "Int8Product";
  static constexpr std::array inputs{ElementType::float32, ElementType::int8,
                                     ElementType::float32};
  static constexpr std::array outputs{ElementType::float32};
  Weights weights;

  explicit Int8Product(const Setup& setup) : weights(setup, 1) {}
  void compute(Call& call) { weights.multiply(call, call.input<float>(0), round_row_by_largest); }
};

// x, the norm's weight, weights, scale.
struct NormedInt8Product {
  static constexpr const char* name = "NormedInt8Product";
  static constexpr std::array inputs{ElementType::float32, ElementType::float32, ElementType::int8,
                                     ElementType::float32};
  static constexpr std::array outputs{ElementType::float32};
  NormedWeights normed;

  explicit NormedInt8Product(const Setup& setup) : normed(setup, 2) {}
  void compute(Call& call) {
    const auto x = call.input<float>(0);
    normed.weights.multiply(call, x, normed.rows(call.input<float>(1)));
  }
};

// x, a Hadamard matrix [block, block]: rows turned by it.
struct TurnedRowsAlone {
  static constexpr const char* name = "TurnedRows";
  static constexpr std::array inputs{ElementType::float32, ElementType::float32};
  static constexpr std::array outputs{ElementType::float32};
  TurnedRows turned;

  explicit TurnedRowsAlone(const Setup& setup)
      : turned(TurnedRows::by(setup.constant<float>(1, "the Hadamard matrix"))) {}
  void compute(Call& call) {
    const auto x = call.input<float>(0);
    const int64_t width = x.last();
    turned.check_width(width);
    float* y = call.output(0, x.shape);
    call.threads().each(x.rows(), x.rows() * width, [&](int64_t r) {
      turn_row(x.data + r * width, turned.block, width, y + r * width);
    });
  }
};

// Tokens [m], a table [out, width] and its scale [out]: rows of it.
struct Int8TableRows {
  static constexpr const char* name = "Int8TableRows";
  static constexpr std::array inputs{ElementType::int64, ElementType::int8, ElementType::float32};
  static constexpr std::array outputs{ElementType::float32};

  explicit Int8TableRows(const Setup&) {}
  void compute(Call& call) {
    const auto tokens = call.input<int64_t>(0);
    const auto table = call.input<int8_t>(1);
    const auto scale = call.input<float>(2);
    if (tokens.shape.size() != 1 || table.shape.size() != 2 ||
        scale.shape != std::vector{table.shape[0]}) {
      throw Failure("there must be tokens, and a scale for each row of the table");
    }
    const int64_t count = tokens.shape[0], width = table.shape[1];
    float* y = call.output(0, {count, width});
    for (int64_t r = 0; r < count; ++r) {
      const int64_t token = tokens.data[r];
      if (token < 0 || token >= table.shape[0]) throw Failure("the table has no such token");
      const int8_t* row = table.data + token * width;
      for (int64_t i = 0; i < width; ++i) y[r * width + i] = float(row[i]) * scale.data[token];
    }
  }
};

// x, a Hadamard matrix [block, block] by which rows are turned, weights, scale.
struct TurnedInt8Product {
  static constexpr const char* name = "TurnedInt8Product";
  static constexpr std::array inputs = NormedInt8Product::inputs;
  static constexpr std::array outputs{ElementType::float32};
  Weights weights;
  TurnedRows turned;

  explicit TurnedInt8Product(const Setup& setup)
      : weights(setup, 2),
        turned(TurnedRows::by(setup.constant<float>(1, "the Hadamard matrix"))) {
    turned.check_width(weights.in());
  }
  void compute(Call& call) { weights.multiply(call, call.input<float>(0), turned); }
};

// gate and up: activation(gate) · up.
template <void (*gate_row)(const float*, const float*, int64_t, float*)>
struct Gate {
  static constexpr std::array inputs{ElementType::float32, ElementType::float32};
  static constexpr std::array outputs{ElementType::float32};

  explicit Gate(const Setup&) {}
  void compute(Call& call) {
    const auto gate = call.input<float>(0), up = call.input<float>(1);
    if (gate.shape != up.shape) throw Failure("gate and up differ in shape");
    float* y = call.output(0, gate.shape);
    const int64_t width = gate.last();
    call.threads().each(gate.rows(), gate.rows() * width, [&](int64_t r) {
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
