// Products of float32 rows with weights of 16 bits.
#pragma once

#include "kernels/matmul_half.h"
#include "ort/op.h"
#include "threads/team.h"

namespace edgespec {

// x [m, k], weights [n, k] in 16 bits: y [m, n] = x · weightsᵀ
template <typename Table>
class HalfMatMul {
 public:
  using Schema = Table;

  explicit HalfMatMul(const Setup& setup) : weights_(packed(setup, shapes_)) {}

  void compute(KernelContext& context) {
    Shapes shapes = shapes_;
    const auto x = context.input(Schema::in::x, shapes);
    float* y = context.output(Schema::out::y, shapes);
    Team::together(context.threads(), [&](const Threads& threads) {
      weights_.multiply(x.data, shapes[Dim::m], y, threads);
    });
  }

 private:
  using Half = typename decltype(Schema::in::weights)::Number;

  static PackedHalf<Half> packed(const Setup& setup, Shapes& shapes) {
    const auto weights = setup.constant(Schema::in::weights, shapes);
    const int64_t k = shapes[Dim::k], n = shapes[Dim::n];
    if (k < 1 || n < 1) fail("weights [n=", n, ", k=", k, "] are empty");
    return {weights.data, k, n, setup.store(Schema::in::weights, "16-bit")};
  }

  Shapes shapes_;
  PackedHalf<Half> weights_;
};

}  // namespace edgespec
