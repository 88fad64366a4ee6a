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

// The norm of an operator before its product: with one step for all rows, in groups or bfloat16, or
// rotated.
template <typename Schema>
class NormOf {
 public:
  NormOf(const Setup& setup, Shapes&) : epsilon_(setup.attribute(Schema::attr::epsilon)) {}

  NormedPlainRows rows(const float* norm) const { return {norm, epsilon_}; }

 private:
  float epsilon_;
};
template <typename Schema>
  requires requires { Schema::attr::step; }
class NormOf<Schema> {
 public:
  NormOf(const Setup& setup, Shapes&)
      : epsilon_(setup.attribute(Schema::attr::epsilon)),
        step_(setup.attribute(Schema::attr::step)) {}

  NormedRows rows(const float* norm) const { return {norm, epsilon_, step_}; }

 private:
  float epsilon_, step_;
};
template <typename Schema>
  requires requires { Schema::in::hadamard; }
class NormOf<Schema> {
 public:
  NormOf(const Setup& setup, Shapes& shapes)
      : epsilon_(setup.attribute(Schema::attr::epsilon)),
        rotated_(HadamardRows::of(setup.constant(Schema::in::hadamard, shapes))) {
    rotated_.check_width(shapes[Dim::k]);
  }

  NormedHadamardRows rows(const float* norm) const { return {norm, epsilon_, rotated_}; }

 private:
  float epsilon_;
  HadamardRows rotated_;
};

}  // namespace edgespec
