// What a kernel sees of ONNX Runtime: checked tensors, attributes and threads; and how a kernel
// class is described to it.
#pragma once

#include <onnxruntime_c_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/packed_file.h"
#include "schema/failure.h"
#include "schema/shapes.h"
#include "schema/tensor_spec.h"
#include "threads/displaced.h"
#include "threads/parallel_for.h"

namespace edgespec {

// An error that ONNX Runtime reported and that is returned to it.
struct RuntimeFailure : std::exception {
  explicit RuntimeFailure(OrtStatus* status) : status(status) {}
  OrtStatus* status;
};

inline void check(OrtStatus* status) {
  if (status != nullptr) throw RuntimeFailure(status);
}

template <typename T>
struct Tensor {
  T* data;
  std::vector<int64_t> shape;
};

template <typename T>
Tensor<const T> tensor(const OrtApi* api, const OrtValue* value) {
  void* data = nullptr;
  check(api->GetTensorMutableData(const_cast<OrtValue*>(value), &data));
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api->GetTensorTypeAndShape(value, &info));
  size_t count = 0;
  OrtStatus* status = api->GetDimensionsCount(info, &count);
  std::vector<int64_t> shape(count);
  if (status == nullptr) status = api->GetDimensions(info, shape.data(), count);
  api->ReleaseTensorTypeAndShapeInfo(info);
  check(status);
  return {static_cast<const T*>(data), std::move(shape)};
}

// What is known when a graph is loaded.
class Setup {
 public:
  Setup(const OrtApi* api, const OrtKernelInfo* info) : api_(api), info_(info) {}

  // The same, whose inputs are numbered as a share of the operator's (schema/operators.h) has them.
  Setup numbered_by(const uint8_t* indices) const {
    Setup numbered = *this;
    numbered.indices_ = indices;
    return numbered;
  }

  float attribute(const Attribute<float>& attribute) const {
    float value = 0;
    check(api_->KernelInfoGetAttribute_float(info_, attribute.name, &value));
    return value;
  }

  int64_t attribute(const Attribute<int64_t>& attribute) const {
    int64_t value = 0;
    check(api_->KernelInfoGetAttribute_int64(info_, attribute.name, &value));
    return value;
  }

  // The same, or `otherwise` where the node has none.
  int64_t attribute_or(const Attribute<int64_t>& attribute, int64_t otherwise) const {
    int64_t value = 0;
    OrtStatus* status = api_->KernelInfoGetAttribute_int64(info_, attribute.name, &value);
    if (status == nullptr) return value;
    api_->ReleaseStatus(status);
    return otherwise;
  }

  template <typename T>
  Tensor<const T> constant(const Constant<T>& spec, Shapes& shapes) const {
    int is_constant = 0;
    const OrtValue* value = nullptr;
    check(api_->KernelInfoGetConstantInput_tensor(info_, index(spec), &is_constant, &value));
    if (value == nullptr) fail(spec.name, " must be constant");
    auto found = tensor<T>(api_, value);
    shapes.take(spec, found.shape);
    return found;
  }

  // Where the packed weights of an input are kept; `kind` tells several of one input apart.
  PackedStore store(const TensorSpec& spec, const char* kind) const {
    std::shared_ptr<PackedFile> file = packed_file_of_thread();
    if (file == nullptr) return in_private_memory;
    std::string name(name_of(spec) + ' ' + kind);
    return [file = std::move(file), name = std::move(name)](size_t bytes, const Fill& fill) {
      return file->memory(name, bytes, fill);
    };
  }

  // What is packed is written to a file: also what is packed by a later call otherwise.
  bool records_packed() const {
    const auto& file = packed_file_of_thread();
    return file != nullptr && !file->is_mapped();
  }

 private:
  // The initializer's.
  std::string name_of(const TensorSpec& spec) const {
    size_t size = 0;
    check(api_->KernelInfo_GetInputName(info_, index(spec), nullptr, &size));
    std::string name(size, '\0');
    check(api_->KernelInfo_GetInputName(info_, index(spec), name.data(), &size));
    name.resize(size - 1);  // without the final zero
    return name;
  }

  size_t index(const TensorSpec& spec) const {
    return indices_ ? indices_[spec.index] : spec.index;
  }

  const OrtApi* api_;
  const OrtKernelInfo* info_;
  const uint8_t* indices_ = nullptr;
};

// One call of a kernel: its inputs, outputs and threads.
class KernelContext {
 public:
  KernelContext(const OrtApi* api, OrtKernelContext* context) : api_(api), context_(context) {}

  // An input whose sizes agree with `shapes`, which learns those that are new.
  template <typename T>
  Tensor<const T> input(const Operand<T>& spec, Shapes& shapes) const {
    auto found = tensor<T>(api_, value(spec));
    shapes.take(spec, found.shape);
    return found;
  }

  // The numbers of an input whose shape was checked when the graph was loaded.
  template <typename T>
  const T* input(const Constant<T>& spec) const {
    void* data = nullptr;
    check(api_->GetTensorMutableData(const_cast<OrtValue*>(value(spec)), &data));
    return static_cast<const T*>(data);
  }

  // From now on inputs are numbered as a share of the operator's has them.
  void number_by(const uint8_t* indices) { indices_ = indices; }

  // Memory for an output; `shapes` has its sizes.
  template <typename T>
  T* output(const Operand<T>& spec, const Shapes& shapes) {
    const std::vector<int64_t> shape = shapes.of(spec);
    OrtValue* value = nullptr;
    check(api_->KernelContext_GetOutput(context_, spec.index, shape.data(), shape.size(), &value));
    void* data = nullptr;
    check(api_->GetTensorMutableData(value, &data));
    return static_cast<T*>(data);
  }

  // Those of the session; one alone while other programs displace the threads of teams.
  Threads threads() { return {run, this, kWakeCycles}; }

 private:
  static constexpr int64_t kWakeCycles = 60'000;  // to wake the threads once

  const OrtValue* value(const TensorSpec& spec) const {
    const OrtValue* value = nullptr;
    const size_t index = indices_ ? indices_[spec.index] : spec.index;
    check(api_->KernelContext_GetInput(context_, index, &value));
    return value;
  }

  static void run(void* context, void (*body)(void*, size_t), size_t count, void* data) {
    if (displaced_threads.pauses(Displaced::now())) return run_alone(context, body, count, data);
    const auto& self = *static_cast<KernelContext*>(context);
    Shared shared{body, data};
    const auto guarded = [](void* all, size_t index) {
      auto& work = *static_cast<Shared*>(all);
      try {
        work.body(work.data, index);
      } catch (...) {  // must not leave a thread of the runtime; kernels only run out of memory
        work.failed = true;
      }
    };
    constexpr size_t kNoBatches = 0;
    check(self.api_->KernelContext_ParallelFor(self.context_, guarded, count, kNoBatches, &shared));
    if (shared.failed) throw std::bad_alloc();
  }

  struct Shared {
    void (*body)(void*, size_t);
    void* data;
    std::atomic<bool> failed = false;
  };

  const OrtApi* api_;
  OrtKernelContext* context_;
  const uint8_t* indices_ = nullptr;
};

// Calls `body`; no exception may pass through the C interface. `name`: the operator's.
inline OrtStatus* guarded(const OrtApi* api, const char* name, void (*body)(void*), void* data) {
  try {
    body(data);
    return nullptr;
  } catch (const RuntimeFailure& failure) {
    return failure.status;
  } catch (const std::exception& error) {
    const std::string message = std::string(name) + ": " + error.what();
    return api->CreateStatus(ORT_FAIL, message.c_str());
  }
}

// What ONNX Runtime asks of every operator. There are hundreds: what one function can do for all of
// them is no template's.
struct DescribedOp : OrtCustomOp {
  using Self = const OrtCustomOp*;
  using Types = std::span<const ONNXTensorElementDataType>;

  DescribedOp(const char* op_name, Types inputs, Types outputs)
      : OrtCustomOp{}, name(op_name), in(inputs), out(outputs) {
    version = ORT_API_VERSION;
    GetName = [](Self op) { return of(op).name; };
    GetExecutionProviderType = [](Self) -> const char* { return nullptr; };  // the CPU provider
    GetInputTypeCount = [](Self op) { return of(op).in.size(); };
    GetInputType = [](Self op, size_t index) { return of(op).in[index]; };
    GetOutputTypeCount = [](Self op) { return of(op).out.size(); };
    GetOutputType = [](Self op, size_t index) { return of(op).out[index]; };
    GetInputCharacteristic = [](Self, size_t) { return INPUT_OUTPUT_REQUIRED; };
    GetOutputCharacteristic = [](Self, size_t) { return INPUT_OUTPUT_REQUIRED; };
    GetInputMemoryType = [](Self, size_t) { return OrtMemTypeDefault; };
    GetStartVersion = [](Self) { return 1; };
    GetEndVersion = [](Self) { return 1; };
  }

 private:
  static const DescribedOp& of(Self op) { return *static_cast<const DescribedOp*>(op); }

  const char* name;
  Types in, out;
};

// Describes a kernel class to ONNX Runtime. `Kernel` has its entry of the operators' table as
// `Kernel::Schema`, a constructor from `Setup` and `compute(KernelContext&)`.
template <typename Kernel>
struct CustomOp : DescribedOp {
  using Schema = typename Kernel::Schema;

  CustomOp() : DescribedOp(Schema::name, Schema::in::types, Schema::out::types) {
    CreateKernelV2 = [](Self, const OrtApi* api, const OrtKernelInfo* info, void** kernel) {
      Creation creation{api, info, kernel};
      return guarded(api, Schema::name, create, &creation);
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
      Computation call{static_cast<Instance*>(kernel), context};
      return guarded(call.instance->api, Schema::name, compute, &call);
    };
    KernelDestroy = [](void* kernel) { delete static_cast<Instance*>(kernel); };
  }

 private:
  struct Instance {
    const OrtApi* api;
    Kernel kernel;
  };
  struct Creation {
    const OrtApi* api;
    const OrtKernelInfo* info;
    void** kernel;
  };
  struct Computation {
    Instance* instance;
    OrtKernelContext* context;
  };

  static void create(void* data) {
    const auto& [api, info, kernel] = *static_cast<Creation*>(data);
    *kernel = new Instance{api, Kernel(Setup(api, info))};
  }
  static void compute(void* data) {
    const auto& [instance, context] = *static_cast<Computation*>(data);
    KernelContext call(instance->api, context);
    instance->kernel.compute(call);
  }
};

}  // namespace edgespec
