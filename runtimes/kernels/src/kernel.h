// What an operator sees of ONNX Runtime: tensors by number, and threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "ort_abi.h"
#include "parallel.h"

namespace edgespec {

// What a kernel cannot do; the runtime shows the message.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A status of the runtime's own, on its way back to it.
struct RuntimeFailure {
  ort::Status* status;
};

inline void check(ort::Status* status) {
  if (status != nullptr) throw RuntimeFailure{status};
}

template <typename T>
struct Tensor {
  T* data;
  std::vector<int64_t> shape;

  int64_t last() const { return shape.empty() ? 1 : shape.back(); }
  // All dimensions but the last are rows.
  int64_t rows() const {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) count *= shape[i];
    return count;
  }
};

template <typename T>
Tensor<const T> tensor(const ort::Api* api, const ort::Value* value) {
  void* data = nullptr;
  check(ort::data(api, value, &data));
  ort::TensorInfo* info = nullptr;
  check(ort::tensor_info(api, value, &info));
  size_t count = 0;
  ort::Status* status = ort::dimension_count(api, info, &count);
  std::vector<int64_t> shape(count);
  if (status == nullptr) status = ort::dimensions(api, info, shape.data(), count);
  ort::release(api, info);
  check(status);
  return {static_cast<const T*>(data), std::move(shape)};
}

// What is known when a graph is loaded.
class Setup {
 public:
  Setup(const ort::Api* api, const ort::KernelInfo* info) : api_(api), info_(info) {}

  template <typename T>
  T attribute(const char* name) const {
    T value{};
    check(ort::attribute(api_, info_, name, &value));
    return value;
  }

  template <typename T>
  Tensor<const T> constant(size_t index, const char* what) const {
    const ort::Value* value = nullptr;
    check(ort::constant_input(api_, info_, index, &value));
    if (value == nullptr) throw Failure(std::string(what) + " must be constant");
    return tensor<T>(api_, value);
  }

 private:
  const ort::Api* api_;
  const ort::KernelInfo* info_;
};

// One call of a kernel.
class Call {
 public:
  Call(const ort::Api* api, ort::KernelContext* context) : api_(api), context_(context) {}

  template <typename T>
  Tensor<const T> input(size_t index) const {
    const ort::Value* value = nullptr;
    check(ort::input(api_, context_, index, &value));
    return tensor<T>(api_, value);
  }

  template <typename T = float>
  T* output(size_t index, const std::vector<int64_t>& shape) {
    ort::Value* value = nullptr;
    check(ort::output(api_, context_, index, shape.data(), shape.size(), &value));
    void* data = nullptr;
    check(ort::data(api_, value, &data));
    return static_cast<T*>(data);
  }

  // The session's.
  Threads threads() { return {run, this, kWake}; }

 private:
  static constexpr int64_t kWake = 60'000;  // cycles that it takes to wake them

  static void run(void* call, void (*body)(void*, size_t), size_t count, void* data) {
    const auto& self = *static_cast<Call*>(call);
    Shared shared{body, data};
    const auto guarded = [](void* all, size_t index) {
      auto& work = *static_cast<Shared*>(all);
      try {
        work.body(work.data, index);
      } catch (...) {  // may not leave a thread of the runtime's; only memory can be missing
        work.failed = true;
      }
    };
    check(ort::parallel_for(self.api_, self.context_, guarded, count, &shared));
    if (shared.failed) throw std::bad_alloc();
  }

  struct Shared {
    void (*body)(void*, size_t);
    void* data;
    std::atomic<bool> failed = false;
  };

  const ort::Api* api_;
  ort::KernelContext* context_;
};

// Describes a kernel class to the runtime. `Kernel` has a name and the types of its inputs and
// outputs as static members, a constructor from `Setup` and `compute(Call&)`.
template <typename Kernel>
struct Operator : ort::CustomOp {
  Operator() : ort::CustomOp{} {
    using Self = const ort::CustomOp*;
    version = ort::kVersion;
    name = [](Self) { return Kernel::name; };
    provider = [](Self) -> const char* { return nullptr; };  // the processor's
    input_count = [](Self) { return Kernel::inputs.size(); };
    input_type = [](Self, size_t index) { return Kernel::inputs[index]; };
    output_count = [](Self) { return Kernel::outputs.size(); };
    output_type = [](Self, size_t index) { return Kernel::outputs[index]; };
    input_presence = [](Self, size_t) { return ort::Presence::required; };
    output_presence = [](Self, size_t) { return ort::Presence::required; };
    input_memory = [](Self, size_t) { return 0; };
    first_version = [](Self) { return 1; };
    last_version = [](Self) { return 1; };
    create_kernel_or_fail = [](Self, const ort::Api* api, const ort::KernelInfo* info,
                               void** kernel) {
      return guarded(api, [&] { *kernel = new Instance{api, Kernel(Setup(api, info))}; });
    };
    compute_or_fail = [](void* kernel, ort::KernelContext* context) {
      auto& instance = *static_cast<Instance*>(kernel);
      return guarded(instance.api, [&] {
        Call call(instance.api, context);
        instance.kernel.compute(call);
      });
    };
    destroy_kernel = [](void* kernel) { delete static_cast<Instance*>(kernel); };
  }

 private:
  struct Instance {
    const ort::Api* api;
    Kernel kernel;
  };

  // No exception may pass the runtime's C interface.
  template <typename Body>
  static ort::Status* guarded(const ort::Api* api, Body body) {
    try {
      body();
      return nullptr;
    } catch (const RuntimeFailure& failure) {
      return failure.status;
    } catch (const std::exception& error) {
      return ort::failure(api, (std::string(Kernel::name) + ": " + error.what()).c_str());
    }
  }
};

}  // namespace edgespec
