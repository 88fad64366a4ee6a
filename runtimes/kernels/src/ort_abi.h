// The part of ONNX Runtime's C interface that these operators use, by the places of its functions.
//
// The runtime hands out one table of functions that only ever grows at its end, so a function's
// place is as stable as its name, and no header of the runtime is needed to build against any of
// its versions. The places are those of `OrtApi` in onnxruntime_c_api.h, version 21.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgespec::ort {

constexpr uint32_t kVersion = 21;  // of the interface: ONNX Runtime 1.21 or newer

// Only ever handled by pointer.
struct Status;
struct SessionOptions;
struct CustomOpDomain;
struct KernelInfo;
struct KernelContext;
struct Value;
struct TensorInfo;

using Function = void (*)();

struct Api {
  Function functions[275];  // up to the last one used here
};

struct ApiBase {
  const Api* (*get_api)(uint32_t version);
  const char* (*version_string)();
};

enum class ElementType : int {
  float32 = 1,
  int8 = 3,
  int32 = 6,
  int64 = 7,
  float16 = 10,
  bfloat16 = 16
};
enum class Presence : int { required = 0, optional = 1, variadic = 2 };

// `OrtCustomOp`: what the runtime asks an operator. Functions that may be absent are null.
struct CustomOp {
  uint32_t version;
  void* (*create_kernel)(const CustomOp*, const Api*, const KernelInfo*);
  const char* (*name)(const CustomOp*);
  const char* (*provider)(const CustomOp*);
  ElementType (*input_type)(const CustomOp*, size_t index);
  size_t (*input_count)(const CustomOp*);
  ElementType (*output_type)(const CustomOp*, size_t index);
  size_t (*output_count)(const CustomOp*);
  void (*compute)(void* kernel, KernelContext*);
  void (*destroy_kernel)(void* kernel);
  Presence (*input_presence)(const CustomOp*, size_t index);
  Presence (*output_presence)(const CustomOp*, size_t index);
  int (*input_memory)(const CustomOp*, size_t index);
  int (*variadic_input_least)(const CustomOp*);
  int (*variadic_input_alike)(const CustomOp*);
  int (*variadic_output_least)(const CustomOp*);
  int (*variadic_output_alike)(const CustomOp*);
  Status* (*create_kernel_or_fail)(const CustomOp*, const Api*, const KernelInfo*, void** kernel);
  Status* (*compute_or_fail)(void* kernel, KernelContext*);
  Status* (*infer_shapes)(const CustomOp*, void* context);
  int (*first_version)(const CustomOp*);
  int (*last_version)(const CustomOp*);
  size_t (*may_be_in_place)(int** input, int** output);
  void (*release_in_place)(int* input, int* output);
  size_t (*aliases)(int** input, int** output);
  void (*release_aliases)(int* input, int* output);
};

// A function of the table, by its place and its signature.
template <typename Signature>
Signature* function(const Api* api, size_t place) {
  return reinterpret_cast<Signature*>(api->functions[place]);
}

inline Status* failure(const Api* api, const char* message) {
  constexpr int kFail = 1;
  return function<Status*(int, const char*)>(api, 0)(kFail, message);
}

inline Status* create_domain(const Api* api, const char* name, CustomOpDomain** domain) {
  return function<Status*(const char*, CustomOpDomain**)>(api, 26)(name, domain);
}

inline Status* add_operator(const Api* api, CustomOpDomain* domain, const CustomOp* op) {
  return function<Status*(CustomOpDomain*, const CustomOp*)>(api, 27)(domain, op);
}

inline Status* add_domain(const Api* api, SessionOptions* options, CustomOpDomain* domain) {
  return function<Status*(SessionOptions*, CustomOpDomain*)>(api, 28)(options, domain);
}

inline Status* attribute(const Api* api, const KernelInfo* info, const char* name, float* value) {
  return function<Status*(const KernelInfo*, const char*, float*)>(api, 85)(info, name, value);
}

inline Status* attribute(const Api* api, const KernelInfo* info, const char* name, int64_t* value) {
  return function<Status*(const KernelInfo*, const char*, int64_t*)>(api, 86)(info, name, value);
}

// An input that is known when the graph is loaded; `value` stays null where it is not.
inline Status* constant_input(const Api* api, const KernelInfo* info, size_t index,
                              const Value** value) {
  int constant = 0;
  return function<Status*(const KernelInfo*, size_t, int*, const Value**)>(api, 249)(
      info, index, &constant, value);
}

inline Status* input(const Api* api, const KernelContext* context, size_t index,
                     const Value** value) {
  return function<Status*(const KernelContext*, size_t, const Value**)>(api, 90)(context, index,
                                                                                 value);
}

inline Status* output(const Api* api, KernelContext* context, size_t index, const int64_t* shape,
                      size_t dimensions, Value** value) {
  return function<Status*(KernelContext*, size_t, const int64_t*, size_t, Value**)>(api, 91)(
      context, index, shape, dimensions, value);
}

inline Status* data(const Api* api, const Value* value, void** data) {
  return function<Status*(Value*, void**)>(api, 51)(const_cast<Value*>(value), data);
}

inline Status* tensor_info(const Api* api, const Value* value, TensorInfo** info) {
  return function<Status*(const Value*, TensorInfo**)>(api, 65)(value, info);
}

inline void release(const Api* api, TensorInfo* info) {
  function<void(TensorInfo*)>(api, 99)(info);
}

inline Status* dimension_count(const Api* api, const TensorInfo* info, size_t* count) {
  return function<Status*(const TensorInfo*, size_t*)>(api, 61)(info, count);
}

inline Status* dimensions(const Api* api, const TensorInfo* info, int64_t* shape, size_t count) {
  return function<Status*(const TensorInfo*, int64_t*, size_t)>(api, 62)(info, shape, count);
}

// Runs body(data, i) for i in 0 … count - 1 on the session's threads, each index by who is free.
inline Status* parallel_for(const Api* api, const KernelContext* context,
                            void (*body)(void* data, size_t index), size_t count, void* data) {
  constexpr size_t kNoBatches = 0;
  return function<Status*(const KernelContext*, void (*)(void*, size_t), size_t, size_t, void*)>(
      api, 274)(context, body, count, kNoBatches, data);
}

}  // namespace edgespec::ort
