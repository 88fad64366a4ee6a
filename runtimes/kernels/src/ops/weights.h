// Weights that are constant inputs of an operator, packed when the graph is loaded: of 8 or 4 bits,
// or in bfloat16.
#pragma once

#include <cmath>
#include <concepts>
#include <utility>
#include <vector>

#include "kernels/groups.h"
#include "kernels/matmul_bfloat16.h"
#include "kernels/matmul_int4.h"
#include "kernels/matmul_int4_int8.h"
#include "kernels/matmul_int8.h"
#include "kernels/matmul_int8_groups.h"
#include "kernels/rows.h"
#include "ort/op.h"

namespace edgespec {

// Weights in whole numbers as `Packed` has them, and their scale [n].
template <typename Packed>
class WholeMatrix {
 public:
  using Quantized = QuantizedRows;

  int64_t in() const { return packed_.in(); }
  int64_t out() const { return packed_.out(); }

  void multiply(const QuantizedRows& rows, const float* added, float* y,
                const Threads& threads) const {
    packed_.multiply(rows, scale_.data(), added, y, threads);
  }

 protected:
  WholeMatrix(Packed packed, const Setup& setup, const Constant<float>& scale, Shapes& shapes)
      : packed_(std::move(packed)) {
    const auto scales = setup.constant(scale, shapes);
    scale_.assign(scales.data, scales.data + out());
    for (int64_t o = 0; o < out(); ++o) {
      if (!std::isfinite(scale_[o])) fail(scale.name, "[", o, "] is ", scale_[o]);
    }
  }

 private:
  Packed packed_;
  std::vector<float> scale_;
};

// Weights [k, n] of 8 bits and their scale [n].
class Int8Matrix : public WholeMatrix<PackedInt8> {
 public:
  Int8Matrix(const Setup& setup, const Constant<int8_t>& weights, const Constant<float>& scale,
             Shapes& shapes)
      : WholeMatrix(
            packed(setup.constant(weights, shapes), weights.name, setup.store(weights, "8-bit")),
            setup, scale, shapes) {}

 private:
  static PackedInt8 packed(const Tensor<const int8_t>& weights, const char* name,
                           const PackedStore& store) {
    const int64_t in = weights.shape[0], out = weights.shape[1];
    if (in < 1 || out < 1) fail(name, " [", in, ", ", out, "] are empty");
    return PackedInt8(weights.data, in, out, out, 1, store);
  }
};

// Numbers [n, groups] of weights in groups.
struct GroupNumbers {
  Tensor<const Float16> numbers;
  const char* name;

  GroupNumbers(const Setup& setup, const Constant<Float16>& spec, Shapes& shapes)
      : numbers(setup.constant(spec, shapes)), name(spec.name) {}

  // Fails where one is NaN or infinite.
  void check() const {
    constexpr uint16_t kExponent = 0x7C00;
    const int64_t out = numbers.shape[0], groups = numbers.shape[1];
    for (int64_t i = 0; i < out * groups; ++i) {
      if ((numbers.data[i].bits & kExponent) == kExponent) {
        fail(name, "[", i / groups, ", ", i % groups, "] is NaN or infinite");
      }
    }
  }
};

// The same store; numbers are checked before weights are packed with them, and not read otherwise.
template <typename... Numbers>
PackedStore checked(const PackedStore& store, const Numbers&... numbers) {
  return [store, numbers...](size_t bytes, const Fill& fill) {
    return store(bytes, [&](std::byte* packed) {
      (numbers.check(), ...);
      fill(packed);
    });
  };
}

// Outputs and groups of weights [n, groups, bytes of a group].
inline std::pair<int64_t, int64_t> checked_groups(const Tensor<const uint8_t>& weights,
                                                  int64_t group_bytes) {
  const int64_t out = weights.shape[0], groups = weights.shape[1], bytes = weights.shape[2];
  if (groups < 1 || out < 1) fail("weights of ", out, " outputs, ", groups, " groups are empty");
  if (bytes != group_bytes) {
    fail("groups have ", bytes, " bytes; the kernel takes ", group_bytes, ", which are ", kGroup,
         " weights");
  }
  return {out, groups};
}

// The inputs of an opening or of a closing product follow from its groups.
inline void set_inputs(Shapes& shapes, bool is_closing, int64_t inputs) {
  shapes.set(is_closing ? Dim::inner : Dim::k, inputs, "32 * groups");
}

// Steps and offsets [n, groups] of weights of 4 bits that expand to 8.
struct GroupSteps {
  Tensor<const uint8_t> steps;
  Tensor<const int8_t> offsets;

  // Fails where a weight would not be one of 8 bits.
  void check() const {
    const int64_t out = steps.shape[0], groups = steps.shape[1];
    for (int64_t i = 0; i < out * groups; ++i) {
      constexpr int kHighest = 15;
      const int step = steps.data[i], offset = offsets.data[i];
      if (kHighest * step + offset > INT8_MAX) {
        fail("steps[", i / groups, ", ", i % groups, "] is ", step, " and the offset ", offset,
             ", so that weights reach ", kHighest * step + offset, "; 8 bits hold up to 127");
      }
    }
  }
};

// Weights of 4 bits [n, groups, group_bytes], their step and offset [n, groups], and their scale
// [n].
class Int4Int8Matrix : public WholeMatrix<PackedInt4Int8> {
 public:
  Int4Int8Matrix(const Setup& setup, const Constant<uint8_t>& weights,
                 const Constant<uint8_t>& steps, const Constant<int8_t>& offsets,
                 const Constant<float>& scale, Shapes& shapes)
      : WholeMatrix(packed(setup.constant(weights, shapes),
                           {setup.constant(steps, shapes), setup.constant(offsets, shapes)},
                           setup.store(weights, "4-bit to 8")),
                    setup, scale, shapes) {
    set_inputs(shapes, steps.dims[1] == Dim::closing_groups, in());
  }

 private:
  static PackedInt4Int8 packed(const Tensor<const uint8_t>& weights, const GroupSteps& numbers,
                               const PackedStore& store) {
    const auto [out, groups] = checked_groups(weights, kGroup / 2);
    return PackedInt4Int8(weights.data, numbers.steps.data, numbers.offsets.data, groups, out,
                          checked(store, numbers));
  }
};

// Weights in groups as `Packed` has them; quantized rows are in groups, too.
template <typename Packed>
class GroupedMatrix {
 public:
  using Quantized = GroupedRows;

  int64_t in() const { return packed_.in(); }
  int64_t out() const { return packed_.out(); }

  void multiply(const GroupedRows& rows, const float* added, float* y,
                const Threads& threads) const {
    packed_.multiply(rows, added, y, threads);
  }

 protected:
  GroupedMatrix(Packed packed, const Constant<Float16>& scale, Shapes& shapes)
      : packed_(std::move(packed)) {
    set_inputs(shapes, scale.dims[1] == Dim::closing_groups, in());
  }

 private:
  Packed packed_;
};

// Weights of 4 bits [n, groups, group_bytes], their scale and minimum [n, groups].
class Int4Matrix : public GroupedMatrix<PackedInt4> {
 public:
  Int4Matrix(const Setup& setup, const Constant<uint8_t>& weights, const Constant<Float16>& scale,
             const Constant<Float16>& minimum, Shapes& shapes)
      : GroupedMatrix(packed(setup.constant(weights, shapes), {setup, scale, shapes},
                             {setup, minimum, shapes}, setup.store(weights, "4-bit")),
                      scale, shapes) {}

 private:
  static PackedInt4 packed(const Tensor<const uint8_t>& weights, const GroupNumbers& scale,
                           const GroupNumbers& minimum, const PackedStore& store) {
    const auto [out, groups] = checked_groups(weights, kGroup / 2);
    return PackedInt4(weights.data, scale.numbers.data, minimum.numbers.data, groups, out,
                      checked(store, scale, minimum));
  }
};

// Weights of 8 bits [n, groups, group], and their scale [n, groups].
class Int8GroupMatrix : public GroupedMatrix<PackedInt8Groups> {
 public:
  Int8GroupMatrix(const Setup& setup, const Constant<uint8_t>& weights,
                  const Constant<Float16>& scale, Shapes& shapes)
      : GroupedMatrix(packed(setup.constant(weights, shapes), {setup, scale, shapes},
                             setup.store(weights, "8-bit groups")),
                      scale, shapes) {}

 private:
  static PackedInt8Groups packed(const Tensor<const uint8_t>& weights, const GroupNumbers& scale,
                                 const PackedStore& store) {
    const auto [out, groups] = checked_groups(weights, kGroup);
    return PackedInt8Groups(weights.data, scale.numbers.data, groups, out, checked(store, scale));
  }
};

// Weights [n, k] in bfloat16; rows are rounded to it, too.
class BFloat16Matrix {
 public:
  using Quantized = BFloat16Rows;

  BFloat16Matrix(const Setup& setup, const Constant<BFloat16>& weights, Shapes& shapes)
      : packed_(packed(setup.constant(weights, shapes), weights.name,
                       setup.store(weights, "bfloat16 pairs"))) {}

  int64_t in() const { return packed_.in(); }
  int64_t out() const { return packed_.out(); }

  void multiply(const BFloat16Rows& rows, const float* added, float* y,
                const Threads& threads) const {
    packed_.multiply(rows, added, y, threads);
  }

 private:
  static PackedBFloat16 packed(const Tensor<const BFloat16>& weights, const char* name,
                               const PackedStore& store) {
    const int64_t out = weights.shape[0], in = weights.shape[1];
    if (in < 1 || out < 1) fail(name, " [", out, ", ", in, "] are empty");
    return PackedBFloat16(weights.data, in, out, store);
  }

  PackedBFloat16 packed_;
};

// An operator's inputs whose weights are in bfloat16, expand to 8 bits, or are in groups; with
// minimums as well.
template <typename In>
concept IsBFloat16 = std::same_as<decltype(In::weights), const Constant<BFloat16>>;
template <typename In>
concept IsExpanded = requires { In::steps; };
template <typename In>
concept IsGrouped = std::same_as<decltype(In::scale), const Constant<Float16>>;
template <typename In>
concept HasMinimums = IsGrouped<In> && requires { In::minimum; };

// The opening weights of an operator, and the closing ones of a fused block, in the format that its
// table says.
template <typename In>
Int8Matrix opening_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::weights, In::scale, shapes};
}
template <IsExpanded In>
Int4Int8Matrix opening_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::weights, In::steps, In::offsets, In::scale, shapes};
}
template <HasMinimums In>
Int4Matrix opening_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::weights, In::scale, In::minimum, shapes};
}
template <IsGrouped In>
Int8GroupMatrix opening_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::weights, In::scale, shapes};
}
template <IsBFloat16 In>
BFloat16Matrix opening_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::weights, shapes};
}
template <typename In>
Int8Matrix closing_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::closing_weights, In::closing_scale, shapes};
}
template <IsExpanded In>
Int4Int8Matrix closing_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::closing_weights, In::closing_steps, In::closing_offsets, In::closing_scale,
          shapes};
}
template <HasMinimums In>
Int4Matrix closing_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::closing_weights, In::closing_scale, In::closing_minimum, shapes};
}
template <IsGrouped In>
Int8GroupMatrix closing_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::closing_weights, In::closing_scale, shapes};
}
template <IsBFloat16 In>
BFloat16Matrix closing_of(const Setup& setup, Shapes& shapes) {
  return {setup, In::closing_weights, shapes};
}

}  // namespace edgespec
