#include "ort/memory.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#ifdef __unix__
#include <sys/mman.h>
#endif

namespace edgespec {
namespace {

#ifdef __unix__

// Pages of 4 KB, where malloc may take larger ones: the first position of each head would fill one.
// Without MAP_NORESERVE, Linux refuses a mapping that is larger than its memory.
void* zeros(size_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void release(void* memory, size_t bytes) { munmap(memory, bytes); }

#else

void* zeros(size_t bytes) { return std::calloc(bytes, 1); }

void release(void* memory, size_t) { std::free(memory); }

#endif

}  // namespace

LazyZeros::LazyZeros(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
  data_ = zeros(bytes_);
  if (data_ == nullptr) throw std::bad_alloc();
}

LazyZeros::~LazyZeros() {
  if (data_ != nullptr) release(data_, bytes_);
}

LazyZeros::LazyZeros(LazyZeros&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

OrtOwned<OrtValue> tensor_over(const OrtRuntime& runtime, void* data, size_t bytes,
                               const std::vector<int64_t>& shape, ONNXTensorElementDataType type) {
  OrtValue* value = nullptr;
  runtime.check(runtime.api().CreateTensorWithDataAsOrtValue(
      runtime.memory(), data, bytes, shape.data(), shape.size(), type, &value));
  return {value, runtime.api().ReleaseValue};
}

const float* numbers_of(const OrtRuntime& runtime, const OrtOwned<OrtValue>& tensor) {
  void* numbers = nullptr;
  runtime.check(runtime.api().GetTensorMutableData(tensor.get(), &numbers));
  return static_cast<const float*>(numbers);
}

OrtOwned<OrtValue> tensor_over(const OrtRuntime& runtime, std::vector<float>& numbers,
                               const std::vector<int64_t>& shape) {
  return tensor_over(runtime, numbers.data(), numbers.size() * sizeof(float), shape,
                     ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
}

OrtOwned<OrtValue> tensor_over(const OrtRuntime& runtime, std::vector<int64_t>& numbers,
                               const std::vector<int64_t>& shape) {
  return tensor_over(runtime, numbers.data(), numbers.size() * sizeof(int64_t), shape,
                     ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64);
}

}  // namespace edgespec
