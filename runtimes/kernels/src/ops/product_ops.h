// Operators that round rows to 8 bits or to bfloat16 and multiply them with weights of few bits.
#pragma once

#include <utility>

#include "ops/product.h"
#include "ort/op.h"

namespace edgespec {

// x [m, k] → y [m, n]: perhaps RMS norm, perhaps Hadamard rotation, and one product.
template <typename Frame>
class ProductBody {
 protected:
  ProductBody(const Setup&, Products products) : products_(std::move(products)) {}

  void compute(KernelContext& context) {
    Shapes shapes = products_.shapes;
    const auto x = context.input(Frame::in::x, shapes);
    const float* norm = nullptr;
    if constexpr (requires { Frame::in::norm; }) {
      norm = context.input(Frame::in::norm, shapes).data;
    }
    float* y = context.output(Frame::out::y, shapes);
    products_.opening->multiply(x.data, shapes[Dim::m], norm, nullptr, y, context.threads());
  }

 private:
  Products products_;
};

template <typename Table>
using MatMul = Framed<Table, ProductBody>;

}  // namespace edgespec
