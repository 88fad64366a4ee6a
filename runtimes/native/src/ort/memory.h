// Memory that tensors are made over.
#pragma once

#include <cstddef>
#include <vector>

#include "ort/runtime.h"

namespace edgespec {

// Zeros that take memory page by page, as they are written: most of a cache may never be.
class LazyZeros {
 public:
  // Throws std::bad_alloc.
  explicit LazyZeros(size_t bytes);
  ~LazyZeros();
  LazyZeros(LazyZeros&& other) noexcept;
  LazyZeros& operator=(LazyZeros&&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

// A tensor over memory that is not copied and must outlive it.
OrtOwned<OrtValue> tensor_over(const OrtRuntime& runtime, void* data, size_t bytes,
                               const std::vector<int64_t>& shape, ONNXTensorElementDataType type);

// The numbers of a tensor in the processor's memory, float32.
const float* numbers_of(const OrtRuntime& runtime, const OrtOwned<OrtValue>& tensor);

// A tensor over the numbers of a vector.
OrtOwned<OrtValue> tensor_over(const OrtRuntime& runtime, std::vector<float>& numbers,
                               const std::vector<int64_t>& shape);
OrtOwned<OrtValue> tensor_over(const OrtRuntime& runtime, std::vector<int64_t>& numbers,
                               const std::vector<int64_t>& shape);

}  // namespace edgespec
