// Operators on rows next to the products: rotation, embedding, gates.
#pragma once

#include "kernels/rows.h"
#include "ops/row_steps.h"
#include "ort/op.h"

namespace edgespec {

// Hadamard rotation alone, in float32.
template <typename Table>
class HadamardRotation {
 public:
  using Schema = Table;

  explicit HadamardRotation(const Setup& setup)
      : rotated_(HadamardRows::of(setup.constant(Schema::in::hadamard, shapes_))) {}

  void compute(KernelContext& context) {
    Shapes shapes = shapes_;
    const auto x = context.input(Schema::in::x, shapes);
    const int64_t rows = shapes[Dim::m], width = shapes[Dim::k];
    rotated_.check_width(width);
    float* y = context.output(Schema::out::y, shapes);
    context.threads().each(rows, rows * width, [&](int64_t r) {
      hadamard_row(x.data + r * width, rotated_.block, width, y + r * width);
    });
  }

 private:
  Shapes shapes_;
  HadamardRows rotated_;
};

// Rows of an embedding table [vocabulary, k], each times its scale.
template <typename Table>
class Embedding {
 public:
  using Schema = Table;

  explicit Embedding(const Setup& setup) {
    setup.constant(Schema::in::table, shapes_);
    setup.constant(Schema::in::scale, shapes_);
  }

  void compute(KernelContext& context) {
    Shapes shapes = shapes_;
    const auto tokens = context.input(Schema::in::tokens, shapes);
    const int8_t* table = context.input(Schema::in::table);
    const float* scale = context.input(Schema::in::scale);
    const int64_t width = shapes[Dim::k], vocabulary = shapes[Dim::vocabulary];
    float* y = context.output(Schema::out::y, shapes);
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

  void compute(KernelContext& context) {
    Shapes shapes;
    const auto gate = context.input(Schema::in::gate, shapes);
    const auto up = context.input(Schema::in::up, shapes);
    float* y = context.output(Schema::out::y, shapes);
    const int64_t rows = shapes[Dim::m], width = shapes[Dim::k];
    context.threads().each(rows, rows * width, [&](int64_t r) {
      gate_row(gate.data + r * width, up.data + r * width, width, y + r * width);
    });
  }
};

template <typename Table>
using SiluGate = Gate<Table, silu_gate_row>;
template <typename Table>
using GeluGate = Gate<Table, gelu_gate_row>;

}  // namespace edgespec
