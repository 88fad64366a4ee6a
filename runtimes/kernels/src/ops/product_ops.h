// Operators that round rows to 8 bits or to bfloat16 and multiply them with weights of few bits.
#pragma once

#include "ops/row_steps.h"
#include "ops/weights.h"
#include "ort/op.h"

namespace edgespec {

// x [m, k] → y [m, n], one product.
template <typename Table>
class MatMul {
 public:
  using Schema = Table;

  explicit MatMul(const Setup& setup) : weights_(opening_of<typename Schema::in>(setup, shapes_)) {}

  void compute(KernelContext& context) { multiply(context, PlainRows{}); }

 protected:
  template <typename Quantize>
  void multiply(KernelContext& context, Quantize quantize) const {
    Shapes shapes = shapes_;
    const auto x = context.input(Schema::in::x, shapes);
    float* y = context.output(Schema::out::y, shapes);
    weights_.multiply_rows(x.data, shapes[Dim::m], quantize, nullptr, y, context.threads());
  }

  Shapes shapes_;
  WeightsOf<Schema> weights_;
};

// RMS norm, perhaps Hadamard rotation, and product.
template <typename Table>
class NormedMatMul : MatMul<Table> {
 public:
  using Schema = Table;

  explicit NormedMatMul(const Setup& setup) : MatMul<Table>(setup), norm_(setup, this->shapes_) {}

  void compute(KernelContext& context) {
    Shapes shapes = this->shapes_;
    const auto norm = context.input(Schema::in::norm, shapes);
    this->multiply(context, norm_.rows(norm.data));
  }

 private:
  NormOf<Schema> norm_;
};

// Hadamard rotation and product.
template <typename Table>
class RotatedMatMul : MatMul<Table> {
 public:
  using Schema = Table;

  explicit RotatedMatMul(const Setup& setup)
      : MatMul<Table>(setup),
        rotated_(HadamardRows::of(setup.constant(Schema::in::hadamard, this->shapes_))) {
    rotated_.check_width(this->shapes_[Dim::k]);
  }

  void compute(KernelContext& context) { this->multiply(context, rotated_); }

 private:
  HadamardRows rotated_;
};

}  // namespace edgespec
