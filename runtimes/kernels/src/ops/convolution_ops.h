// A gated convolution over the last positions as an operator of its own.
#pragma once

#include "ops/convolved_call.h"
#include "ort/op.h"

namespace edgespec {

template <typename Table>
struct ShortConvolution {
  using Schema = Table;

  explicit ShortConvolution(const Setup&) {}

  void compute(KernelContext& context) {
    using in = typename Schema::in;
    Shapes shapes;
    const auto before = context.input(in::before, shapes), after = context.input(in::after, shapes);
    const auto x = context.input(in::x, shapes);
    const ConvolvedCall<Schema> convolution(context, Rows::of(before), Rows::of(after), Rows::of(x),
                                            shapes);
    convolution.convolve(context.output(Schema::out::y, shapes), context.threads());
  }
};

}  // namespace edgespec
