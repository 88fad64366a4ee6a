// Operators that quantize rows to 8 bits and multiply them with weights of 8 or 4 bits.
#pragma once

#include "ops/row_steps.h"
#include "ops/weights.h"
#include "ort/op.h"

namespace edgespec {

// x [m, k] → y [m, n], one product.
template <typename Table>
class MatMulOf {
 public:
  using Schema = Table;

  explicit MatMulOf(const Setup& setup)
      : weights_(opening_of<typename Schema::in>(setup, shapes_)) {}

  void compute(Call& call) { multiply(call, PlainRows{}); }

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

// RMS norm, perhaps Hadamard rotation, and product.
template <typename Table>
class RMSNormMatMulOf : MatMulOf<Table> {
 public:
  using Schema = Table;

  explicit RMSNormMatMulOf(const Setup& setup)
      : MatMulOf<Table>(setup), norm_(setup, this->shapes_) {}

  void compute(Call& call) {
    Shapes shapes = this->shapes_;
    const auto norm = call.input(Schema::in::norm, shapes);
    this->multiply(call, norm_.rows(norm.data));
  }

 private:
  NormOf<Schema> norm_;
};

// Hadamard rotation and product.
class HadamardInt8MatMul : MatMulOf<schema::HadamardInt8MatMul> {
 public:
  using Schema = schema::HadamardInt8MatMul;

  explicit HadamardInt8MatMul(const Setup& setup)
      : MatMulOf<Schema>(setup),
        rotated_(HadamardRows::of(setup.constant(Schema::in::hadamard, shapes_))) {
    rotated_.check_width(shapes_[Dim::k]);
  }

  void compute(Call& call) { multiply(call, rotated_); }

 private:
  HadamardRows rotated_;
};

using Int8MatMul = MatMulOf<schema::Int8MatMul>;
using Int4MatMul = MatMulOf<schema::Int4MatMul>;
using Int8GroupMatMul = MatMulOf<schema::Int8GroupMatMul>;
using RMSNormInt8MatMul = RMSNormMatMulOf<schema::RMSNormInt8MatMul>;
using RMSNormHadamardInt8MatMul = RMSNormMatMulOf<schema::RMSNormHadamardInt8MatMul>;
using RMSNormInt4MatMul = RMSNormMatMulOf<schema::RMSNormInt4MatMul>;
using RMSNormInt8GroupMatMul = RMSNormMatMulOf<schema::RMSNormInt8GroupMatMul>;

}  // namespace edgespec
