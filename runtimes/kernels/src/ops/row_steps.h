// What happens to a row before a product: norm, Hadamard rotation, and rounding to 8 bits or to
// bfloat16.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/bfloat16_rows.h"
#include "kernels/groups.h"
#include "kernels/rows.h"
#include "ops/scratch.h"
#include "ort/op.h"

namespace edgespec {

// RMS norm with weight [k], then quantization with one step for all rows.
struct NormedRows {
  const float* norm;
  float epsilon, step;

  void operator()(const float* row, QuantizedRows& rows, int64_t r) const {
    struct Normed;
    float* normed = scratch<Normed>(rows.width);
    const bool finite = norm_row(row, norm, epsilon, rows.width, normed);
    quantize_row(normed, step, rows, r);
    if (!finite) rows.scale[r] = std::numeric_limits<float>::quiet_NaN();
  }
};

// RMS norm with weight [k], then quantization in groups, or rounding to bfloat16.
struct NormedPlainRows {
  const float* norm;
  float epsilon;

  void operator()(const float* row, GroupedRows& rows, int64_t r) const {
    struct Normed;
    float* normed = scratch<Normed>(rows.width);
    const bool finite = norm_row(row, norm, epsilon, rows.width, normed);
    quantize_groups(normed, rows, r);
    if (!finite) rows.scale[r * rows.groups] = std::numeric_limits<float>::quiet_NaN();
  }
  void operator()(const float* row, BFloat16Rows& rows, int64_t r) const {
    struct Normed;
    float* normed = scratch<Normed>(rows.width);
    norm_row_or_nan(row, norm, epsilon, rows.width, normed);
    round_to_bfloat16(normed, rows, r);
  }
};

// Rows as they are, quantized by their maximum or by that of each group, or rounded to bfloat16.
struct PlainRows {
  void operator()(const float* row, QuantizedRows& rows, int64_t r) const {
    quantize_row_by_max(row, rows, r);
  }
  void operator()(const float* row, GroupedRows& rows, int64_t r) const {
    quantize_groups(row, rows, r);
  }
  void operator()(const float* row, BFloat16Rows& rows, int64_t r) const {
    round_to_bfloat16(row, rows, r);
  }
};

// Hadamard rotation by blocks of `block` numbers, then quantization by each row's maximum.
struct HadamardRows {
  int64_t block;

  // The fast transform does not read the matrix [block, block], so any other matrix is refused.
  static HadamardRows of(const Tensor<const float>& matrix) {
    const int64_t size = matrix.shape[0];
    if (size < 1 || size > kMaxHadamard || (size & (size - 1)) != 0) {
      fail("a Hadamard matrix of ", size, " rows; the kernel takes powers of two up to ",
           kMaxHadamard);
    }
    const float entry = 1.0f / std::sqrt(static_cast<float>(size));
    for (int64_t i = 0; i < size * size; ++i) {
      const bool minus = __builtin_parityll(static_cast<uint64_t>(i / size & i % size));
      const float expected = minus ? -entry : entry;
      if (!(std::abs(matrix.data[i] - expected) < 1e-6f)) {
        fail("entry [", i / size, ", ", i % size, "] is ", matrix.data[i],
             " where a Hadamard matrix has ", expected);
      }
    }
    return {size};
  }

  void check_width(int64_t width) const {
    if (width % block != 0) fail("rows of ", width, " numbers are not whole blocks of ", block);
  }

  void operator()(const float* row, QuantizedRows& rows, int64_t r) const {
    struct Rotated;
    float* rotated = scratch<Rotated>(rows.width);
    hadamard_row(row, block, rows.width, rotated);
    quantize_row_by_max(rotated, rows, r);
  }
};

// RMS norm with weight [k], then rotation and quantization by each row's maximum.
struct NormedHadamardRows {
  const float* norm;
  float epsilon;
  HadamardRows rotated;

  void operator()(const float* row, QuantizedRows& rows, int64_t r) const {
    struct Normed;
    float* normed = scratch<Normed>(rows.width);
    norm_row_or_nan(row, norm, epsilon, rows.width, normed);
    rotated(normed, rows, r);
  }
};

// Steps before a product as an operator's attributes have them; `rows` adds a call's weights of the
// norm.
struct StaticNormStep {
  float epsilon, step;
  NormedRows rows(const float* norm) const { return {norm, epsilon, step}; }
};
struct NormStep {
  float epsilon;
  NormedPlainRows rows(const float* norm) const { return {norm, epsilon}; }
};
struct RotatedNormStep {
  float epsilon;
  HadamardRows rotated;
  NormedHadamardRows rows(const float* norm) const { return {norm, epsilon, rotated}; }
};
template <typename Rows>
struct NoNormStep {
  Rows quantize;
  Rows rows(const float*) const { return quantize; }
};

// The rotation by an input, for rows of this many numbers.
inline HadamardRows rotation(const Setup& setup, const Constant<float>& matrix, int64_t width,
                             Shapes& shapes) {
  const auto rotated = HadamardRows::of(setup.constant(matrix, shapes));
  rotated.check_width(width);
  return rotated;
}

// The step before an operator's first product.
template <typename Schema>
auto opening_step(const Setup& setup, Shapes& shapes) {
  using in = typename Schema::in;
  using attr = typename Schema::attr;
  if constexpr (requires { attr::step; }) {
    return StaticNormStep{setup.attribute(attr::epsilon), setup.attribute(attr::step)};
  } else if constexpr (requires {
                         in::hadamard;
                         attr::epsilon;
                       }) {
    return RotatedNormStep{setup.attribute(attr::epsilon),
                           rotation(setup, in::hadamard, shapes[Dim::k], shapes)};
  } else if constexpr (requires { in::hadamard; }) {
    return NoNormStep<HadamardRows>{rotation(setup, in::hadamard, shapes[Dim::k], shapes)};
  } else if constexpr (requires { attr::epsilon; }) {
    return NormStep{setup.attribute(attr::epsilon)};
  } else {
    return NoNormStep<PlainRows>{};
  }
}

// The step before the last product of a fused block.
template <typename Schema>
auto closing_step(const Setup& setup, Shapes& shapes) {
  using in = typename Schema::in;
  if constexpr (requires { in::closing_hadamard; }) {
    return NoNormStep<HadamardRows>{
        rotation(setup, in::closing_hadamard, shapes[Dim::inner], shapes)};
  } else {
    return NoNormStep<PlainRows>{};
  }
}

}  // namespace edgespec
