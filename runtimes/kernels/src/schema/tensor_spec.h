// How the operators' table (schema/operators.h) describes an input, an output or an attribute.
#pragma once

#include <onnxruntime_c_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/half_types.h"

namespace edgespec {

enum class Dim : int8_t;  // the symbols of all shapes; in schema/operators.h

constexpr size_t kMaxRank = 4;

struct TensorSpec {
  size_t index;  // among the operator's inputs or outputs
  const char* name;
  size_t rank;
  std::array<Dim, kMaxRank> dims;  // the first `rank` of them

  template <typename... Dims>
  constexpr TensorSpec(size_t index, const char* name, Dims... dims)
      : index(index), name(name), rank(sizeof...(dims)), dims{dims...} {}
};

// A tensor that each call brings.
template <typename T>
struct Operand : TensorSpec {
  using Number = T;
};

// An input that is known when the graph is loaded.
template <typename T>
struct Constant : TensorSpec {
  using Number = T;
};

template <typename Spec>
constexpr bool kIsConstant = false;
template <typename T>
constexpr bool kIsConstant<Constant<T>> = true;

template <typename T>
struct Attribute {
  const char* name;
};

template <typename T>
constexpr ONNXTensorElementDataType type_of = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
template <>
inline constexpr auto type_of<float> = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
template <>
inline constexpr auto type_of<Float16> = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
template <>
inline constexpr auto type_of<BFloat16> = ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
template <>
inline constexpr auto type_of<int8_t> = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8;
template <>
inline constexpr auto type_of<uint8_t> = ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
template <>
inline constexpr auto type_of<int32_t> = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
template <>
inline constexpr auto type_of<int64_t> = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;

}  // namespace edgespec
