#include "ort/cache.h"

#include <cstring>
#include <new>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

struct Type {
  ONNXTensorElementDataType type;
  size_t bytes;
};

constexpr Type kFloat = {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, 4};

Type type_of(const std::string& cache_format) {
  if (cache_format == "fp16") return {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, 2};
  if (cache_format == "int8") return {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, 1};
  return kFloat;
}

// The shape of a buffer, and its name without "past_" or "present_".
struct Shape {
  std::string part;
  Type type;
  int64_t heads, width;

  uint64_t position_bytes() const { return width * type.bytes; }
};

std::vector<Shape> shapes_of(const Exported& exported, const std::string& cache_format) {
  std::vector<Shape> shapes;
  for (size_t layer = 0; layer < exported.layers.size(); ++layer) {
    const auto [heads, width] = exported.layers[layer];
    for (const char* kind : {"key.", "value."}) {
      const std::string part = kind + std::to_string(layer);
      shapes.push_back({part, type_of(cache_format), heads, width});
      if (cache_format == "int8") shapes.push_back({part + ".scale", kFloat, heads, 1});
    }
  }
  return shapes;
}

}  // namespace

void copy_positions(const std::vector<CacheBuffer>& cache, int64_t source, int64_t destination,
                    int64_t count) {
  for (const CacheBuffer& buffer : cache) {
    const uint64_t bytes = buffer.position_bytes;
    for (int64_t head = 0; head < buffer.heads; ++head) {
      char* first = static_cast<char*>(buffer.memory.data()) + head * buffer.head_bytes;
      std::memmove(first + destination * bytes, first + source * bytes, count * bytes);
    }
  }
}

uint64_t cache_bytes(const Exported& exported, const std::string& cache_format) {
  uint64_t bytes = 0;
  for (const Shape& shape : shapes_of(exported, cache_format)) {
    bytes += shape.heads * shape.position_bytes();
  }
  return bytes;
}

std::vector<CacheBuffer> make_cache(const OrtRuntime& runtime, const Exported& exported,
                                    const std::string& cache_format, int64_t positions) {
  std::vector<CacheBuffer> buffers;
  try {
    for (const auto& shape : shapes_of(exported, cache_format)) {
      const uint64_t head_bytes = positions * shape.position_bytes();
      LazyZeros memory(shape.heads * head_bytes);
      auto tensor = tensor_over(runtime, memory.data(), memory.bytes(),
                                {1, shape.heads, positions, shape.width}, shape.type.type);
      buffers.push_back({"past_" + shape.part, "present_" + shape.part, shape.heads, head_bytes,
                         shape.position_bytes(), std::move(memory), std::move(tensor)});
    }
  } catch (const std::bad_alloc&) {
    throw UsageError("there is no memory for a cache of " + shown(positions) +
                     " positions; give less capacity");
  }
  return buffers;
}

}  // namespace edgespec
