// Operators that quantize rows to 8 bits and multiply them with weights of 8 or 4 bits.
#pragma once

#include "ops/row_steps.h"
#include "ops/weights.h"
#include "ort/op.h"

namespace edgespec {

// x [m, k] → y [m, n], one product; each row is quantized by its maximum.
template <typename Table>
class MatMulOf {
 public:
  using Schema = Table;

  explicit MatMulOf(const Setup& setup)
      : weights_(matrix(setup, Schema::in::weights, Schema::in::scale, shapes_)) {}

  void compute(Call& call) { multiply(call, quantize_row_by_max); }

 protected:
  template <typename Quantize>
  void multiply(Call& call, Quantize quantize) const {
    Shapes shapes = shapes_;
    const auto x = call.input(Schema::in::x, shapes);
    float* y = call.output(Schema::out::y, shapes);
    weights_.multiply_rows(x.data, shapes[Dim::m], quantize, nullptr, y, call.threads());
  }

  Shapes shapes_;
  WeightsOf<Schema> weights_;
};

// RMS norm and product; one quantization step for all rows.
template <typename Table>
class RMSNormMatMulOf : MatMulOf<Table> {
 public:
  using Schema = Table;

  explicit RMSNormMatMulOf(const Setup& setup)
      : MatMulOf<Table>(setup),
        epsilon_(setup.attribute(Schema::attr::epsilon)),
        step_(setup.attribute(Schema::attr::step)) {}

  void compute(Call& call) {
    Shapes shapes = this->shapes_;
    const auto norm = call.input(Schema::in::norm, shapes);
    this->multiply(call, NormedRows{norm.data, epsilon_, step_});
  }

 private:
  float epsilon_, step_;
};

// Hadamard rotation and product.
template <typename Table>
class HadamardMatMulOf : MatMulOf<Table> {
 public:
  using Schema = Table;

  explicit HadamardMatMulOf(const Setup& setup)
      : MatMulOf<Table>(setup),
        rotated_(HadamardRows::of(setup.constant(Schema::in::hadamard, this->shapes_),
                                  this->shapes_)) {
    rotated_.check_width(this->shapes_[Dim::k]);
  }

  void compute(Call& call) { this->multiply(call, rotated_); }

 private:
  HadamardRows rotated_;
};

using Int8MatMul = MatMulOf<schema::Int8MatMul>;
using Int4MatMul = MatMulOf<schema::Int4MatMul>;
using RMSNormInt8MatMul = RMSNormMatMulOf<schema::RMSNormInt8MatMul>;
using RMSNormInt4MatMul = RMSNormMatMulOf<schema::RMSNormInt4MatMul>;
using HadamardInt8MatMul = HadamardMatMulOf<schema::HadamardInt8MatMul>;
using HadamardInt4MatMul = HadamardMatMulOf<schema::HadamardInt4MatMul>;

}  // namespace edgespec
