// Norms of rows of float32.
#pragma once

#include "kernels/rows.h"
#include "ort/op.h"

namespace edgespec {

// y = x / √(mean(x²) + ε) · norm; a row without a finite mean becomes NaN.
template <typename Table>
class RMSNorm {
 public:
  using Schema = Table;

  explicit RMSNorm(const Setup& setup) : epsilon_(setup.attribute(Schema::attr::epsilon)) {}

  void compute(KernelContext& context) {
    Shapes shapes;
    const auto x = context.input(Schema::in::x, shapes);
    const auto norm = context.input(Schema::in::norm, shapes);
    float* y = context.output(Schema::out::y, shapes);
    const int64_t rows = shapes[Dim::m], width = shapes[Dim::k];
    context.threads().each(rows, rows * width / kNumbersPerCycle, [&](int64_t r) {
      norm_row_or_nan(x.data + r * width, norm.data, epsilon_, width, y + r * width);
    });
  }

 private:
  float epsilon_;
};

}  // namespace edgespec
