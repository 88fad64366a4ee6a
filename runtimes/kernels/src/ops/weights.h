// Weights of 8 or 4 bits that are constant inputs of an operator, packed when the graph is loaded.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/matmul_int4.h"
#include "kernels/matmul_int8.h"
#include "kernels/rows.h"
#include "ort/op.h"

namespace edgespec {

// Calls use(rows) with `count` quantized rows of `width` numbers; quantize(rows, r) makes row r.
template <typename Quantize, typename Use>
void with_quantized(int64_t count, int64_t width, Quantize quantize, const Threads& threads,
                    Use use) {
  thread_local QuantizedRows quantized;
  QuantizedRows& rows = quantized;  // of the calling thread; the other threads write into it
  rows.resize(count, width);
  threads.each(count, count * width, [&](int64_t r) { quantize(rows, r); });  // a cycle a number
  use(std::as_const(rows));
}

// Weights [k, n] of 8 bits and their scale [n].
class Int8Matrix {
 public:
  Int8Matrix(const Setup& setup, const Constant<int8_t>& weights, const Constant<float>& scale,
             Shapes& shapes)
      : packed_(packed(setup.constant(weights, shapes), weights.name)) {
    const auto scales = setup.constant(scale, shapes);
    scale_.assign(scales.data, scales.data + out());
    for (int64_t o = 0; o < out(); ++o) {
      if (!std::isfinite(scale_[o])) fail(scale.name, "[", o, "] is ", scale_[o]);
    }
  }

  int64_t in() const { return packed_.in(); }
  int64_t out() const { return packed_.out(); }

  void multiply(const QuantizedRows& rows, const float* added, float* y,
                const Threads& threads) const {
    packed_.multiply(rows, scale_.data(), added, y, threads);
  }

 private:
  static PackedInt8 packed(const Tensor<const int8_t>& weights, const char* name) {
    const int64_t in = weights.shape[0], out = weights.shape[1];
    if (in < 1 || out < 1) fail(name, " [", in, ", ", out, "] are empty");
    return PackedInt8(weights.data, in, out, out, 1);
  }

  PackedInt8 packed_;
  std::vector<float> scale_;
};

// Weights of 4 bits [n, groups, group_bytes] and their scale [n, groups].
class Int4Matrix {
 public:
  Int4Matrix(const Setup& setup, const Constant<uint8_t>& weights, const Constant<Float16>& scale,
             Shapes& shapes)
      : packed_(packed(setup.constant(weights, shapes), setup.constant(scale, shapes), scale.name)) {
    const bool is_closing = scale.dims[1] == Dim::closing_groups;
    shapes.set(is_closing ? Dim::inner : Dim::k, in(), "32 * groups");
  }

  int64_t in() const { return packed_.in(); }
  int64_t out() const { return packed_.out(); }

  void multiply(const QuantizedRows& rows, const float* added, float* y,
                const Threads& threads) const {
    packed_.multiply(rows, added, y, threads);
  }

 private:
  static PackedInt4 packed(const Tensor<const uint8_t>& weights, const Tensor<const Float16>& scale,
                           const char* scale_name) {
    const int64_t out = weights.shape[0], groups = weights.shape[1], bytes = weights.shape[2];
    if (groups < 1 || out < 1) fail("weights of ", out, " outputs and ", groups, " groups are empty");
    if (bytes != kInt4Group / 2) {
      fail("groups have ", bytes, " bytes; the kernel takes ", kInt4Group / 2, ", which are ",
           kInt4Group, " weights");
    }
    for (int64_t i = 0; i < out * groups; ++i) {
      if (!is_finite(scale.data[i])) {
        fail(scale_name, "[", i / groups, ", ", i % groups, "] is NaN or infinite");
      }
    }
    return PackedInt4(weights.data, scale.data, groups, out);
  }

  static bool is_finite(Float16 x) {
    constexpr uint16_t kExponent = 0x7C00;
    return (x.bits & kExponent) != kExponent;
  }

  PackedInt4 packed_;
};

inline Int8Matrix matrix(const Setup& setup, const Constant<int8_t>& weights,
                         const Constant<float>& scale, Shapes& shapes) {
  return {setup, weights, scale, shapes};
}
inline Int4Matrix matrix(const Setup& setup, const Constant<uint8_t>& weights,
                         const Constant<Float16>& scale, Shapes& shapes) {
  return {setup, weights, scale, shapes};
}

// The weights of an operator in the format that its table says, `Schema::in::weights`.
template <typename Schema>
class WeightsOf {
 public:
  using In = typename Schema::in;
  using Matrix = decltype(matrix(std::declval<const Setup&>(), In::weights, In::scale,
                                 std::declval<Shapes&>()));

  explicit WeightsOf(Matrix matrix) : matrix_(std::move(matrix)) {}

  int64_t in() const { return matrix_.in(); }
  int64_t out() const { return matrix_.out(); }

  // y [count, n] = rows · weights, plus `added` [count, n] unless that is null; quantize(rows, r)
  // makes row r.
  template <typename Quantize>
  void multiply(int64_t count, Quantize quantize, const float* added, float* y,
                const Threads& threads) const {
    with_quantized(count, in(), quantize, threads, [&](const QuantizedRows& rows) {
      matrix_.multiply(rows, added, y, threads);
    });
  }

  // The same for x [count, k]: quantize(row of x, rows, r) makes row r.
  template <typename Quantize>
  void multiply_rows(const float* x, int64_t count, Quantize quantize, const float* added, float* y,
                     const Threads& threads) const {
    const auto from_x = [&](QuantizedRows& rows, int64_t r) { quantize(x + r * in(), rows, r); };
    multiply(count, from_x, added, y, threads);
  }

 private:
  Matrix matrix_;
};

}  // namespace edgespec
