// Operators that quantize rows to 8 bits and multiply them with 8-bit weights; and the row
// operators next to them.
#pragma once

#include <utility>

#include "kernels/matmul_int8.h"
#include "kernels/rows.h"
#include "ops/row_steps.h"
#include "ort/op.h"

namespace edgespec {

// Calls use(rows) with `count` quantized rows of `width` numbers; quantize(rows, r) makes row r.
template <typename Quantize, typename Use>
void with_quantized(int64_t count, int64_t width, Quantize quantize, const Threads& threads,
                    Use use) {
  thread_local QuantizedRows quantized;
  QuantizedRows& rows = quantized;  // of the calling thread; the other threads write into it
  rows.resize(count, width);
  threads.each(count, count * width, [&](int64_t r) { quantize(rows, r); });  // a cycle a number
  use(std::as_const(rows));
}

// Weights [k, n] and their scale [n], two constant inputs of an operator.
class Int8Weights {
 public:
  Int8Weights(const Setup& setup, const Constant<int8_t>& weights, const Constant<float>& scale,
              Shapes& shapes)
      : matrix_(packed(setup.constant(weights, shapes), weights.name)) {
    const auto scales = setup.constant(scale, shapes);
    scale_.assign(scales.data, scales.data + matrix_.out());
  }

  int64_t in() const { return matrix_.in(); }
  int64_t out() const { return matrix_.out(); }

  // y [count, n] = rows · weights, plus `added` [count, n] unless that is null; quantize(rows, r)
  // makes row r.
  template <typename Quantize>
  void multiply(int64_t count, Quantize quantize, const float* added, float* y,
                const Threads& threads) const {
    with_quantized(count, in(), quantize, threads, [&](const QuantizedRows& rows) {
      matrix_.multiply(rows, scale_.data(), added, y, threads);
    });
  }

  // The same for x [count, k]: quantize(row of x, rows, r) makes row r.
  template <typename Quantize>
  void multiply_rows(const float* x, int64_t count, Quantize quantize, const float* added, float* y,
                     const Threads& threads) const {
    const auto from_x = [&](QuantizedRows& rows, int64_t r) { quantize(x + r * in(), rows, r); };
    multiply(count, from_x, added, y, threads);
  }

 private:
  static PackedInt8 packed(const Tensor<const int8_t>& weights, const char* name) {
    const int64_t in = weights.shape[0], out = weights.shape[1];
    if (in < 1 || out < 1) fail(name, " [", in, ", ", out, "] are empty");
    return PackedInt8(weights.data, in, out, out, 1);
  }

  PackedInt8 matrix_;
  std::vector<float> scale_;
};

// x [m, k] → y [m, n], one product: `quantize` makes a row from a row of x.
template <typename Schema, typename Quantize>
void multiply(Call& call, const Int8Weights& weights, const Tensor<const float>& x,
              const Shapes& shapes, Quantize quantize) {
  float* y = call.output(Schema::out::y, shapes);
  weights.multiply_rows(x.data, shapes[Dim::m], quantize, nullptr, y, call.threads());
}

class Int8MatMul {
 public:
  using Schema = schema::Int8MatMul;

  explicit Int8MatMul(const Setup& setup)
      : weights_(setup, Schema::in::weights, Schema::in::scale, shapes_) {}

  void compute(Call& call) {
    Shapes shapes = shapes_;
    const auto x = call.input(Schema::in::x, shapes);
    multiply<Schema>(call, weights_, x, shapes, quantize_row_by_max);
  }

 private:
  Shapes shapes_;
  Int8Weights weights_;
};

// RMS norm and product; one quantization step for all rows.
class RMSNormInt8MatMul {
 public:
  using Schema = schema::RMSNormInt8MatMul;

  explicit RMSNormInt8MatMul(const Setup& setup)
      : weights_(setup, Schema::in::weights, Schema::in::scale, shapes_),
        epsilon_(setup.attribute(Schema::attr::epsilon)),
        step_(setup.attribute(Schema::attr::step)) {}

  void compute(Call& call) {
    Shapes shapes = shapes_;
    const auto x = call.input(Schema::in::x, shapes);
    const auto norm = call.input(Schema::in::norm, shapes);
    multiply<Schema>(call, weights_, x, shapes, NormedRows{norm.data, epsilon_, step_});
  }

 private:
  Shapes shapes_;
  Int8Weights weights_;
  float epsilon_, step_;
};

// Hadamard rotation and product.
class HadamardInt8MatMul {
 public:
  using Schema = schema::HadamardInt8MatMul;

  explicit HadamardInt8MatMul(const Setup& setup)
      : weights_(setup, Schema::in::weights, Schema::in::scale, shapes_),
        rotated_(HadamardRows::of(setup.constant(Schema::in::hadamard, shapes_), shapes_)) {
    rotated_.check_width(shapes_[Dim::k]);
  }

  void compute(Call& call) {
    Shapes shapes = shapes_;
    const auto x = call.input(Schema::in::x, shapes);
    multiply<Schema>(call, weights_, x, shapes, rotated_);
  }

 private:
  Shapes shapes_;
  Int8Weights weights_;
  HadamardRows rotated_;
};

// Hadamard rotation alone, in float32.
class HadamardRotation {
 public:
  using Schema = schema::HadamardRotation;

  explicit HadamardRotation(const Setup& setup)
      : rotated_(HadamardRows::of(setup.constant(Schema::in::hadamard, shapes_), shapes_)) {}

  void compute(Call& call) {
    Shapes shapes = shapes_;
    const auto x = call.input(Schema::in::x, shapes);
    const int64_t rows = shapes[Dim::m], width = shapes[Dim::k];
    rotated_.check_width(width);
    float* y = call.output(Schema::out::y, shapes);
    call.threads().each(rows, rows * width, [&](int64_t r) {
      hadamard_row(x.data + r * width, rotated_.block, width, y + r * width);
    });
  }

 private:
  Shapes shapes_;
  HadamardRows rotated_;
};

// Rows of an embedding table [vocabulary, k], each times its scale.
class Int8Embedding {
 public:
  using Schema = schema::Int8Embedding;

  explicit Int8Embedding(const Setup& setup) {
    setup.constant(Schema::in::table, shapes_);
    setup.constant(Schema::in::scale, shapes_);
  }

  void compute(Call& call) {
    Shapes shapes = shapes_;
    const auto tokens = call.input(Schema::in::tokens, shapes);
    const int8_t* table = call.input(Schema::in::table);
    const float* scale = call.input(Schema::in::scale);
    const int64_t width = shapes[Dim::k], vocabulary = shapes[Dim::vocabulary];
    float* y = call.output(Schema::out::y, shapes);
    for (int64_t r = 0; r < shapes[Dim::m]; ++r) {
      const int64_t token = tokens.data[r];
      if (token < 0 || token >= vocabulary) {
        fail("token ", token, " is not in the table of ", vocabulary, " tokens");
      }
      const int8_t* row = table + token * width;
      for (int64_t i = 0; i < width; ++i) y[r * width + i] = float(row[i]) * scale[token];
    }
  }

 private:
  Shapes shapes_;
};

// activation(gate) · up
template <typename Table, void (*gate_row)(const float*, const float*, int64_t, float*)>
struct Gate {
  using Schema = Table;

  explicit Gate(const Setup&) {}

  void compute(Call& call) {
    Shapes shapes;
    const auto gate = call.input(Schema::in::gate, shapes);
    const auto up = call.input(Schema::in::up, shapes);
    float* y = call.output(Schema::out::y, shapes);
    const int64_t rows = shapes[Dim::m], width = shapes[Dim::k];
    call.threads().each(rows, rows * width, [&](int64_t r) {
      gate_row(gate.data + r * width, up.data + r * width, width, y + r * width);
    });
  }
};

using SiluGate = Gate<schema::SiluGate, silu_gate_row>;
using GeluGate = Gate<schema::GeluGate, gelu_gate_row>;

}  // namespace edgespec
