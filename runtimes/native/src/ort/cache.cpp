#include "ort/cache.h"

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

}  // namespace

std::vector<CacheBuffer> make_cache(const OrtRuntime& runtime, const Exported& exported,
                                    const std::string& cache_format, int64_t positions) {
  std::vector<CacheBuffer> buffers;
  const auto add = [&](const std::string& part, Type type, int64_t heads, int64_t width) {
    LazyZeros memory(size_t(heads) * positions * width * type.bytes);
    auto tensor = tensor_over(runtime, memory.data(), memory.bytes(), {1, heads, positions, width},
                              type.type);
    buffers.push_back({"past_" + part, "present_" + part, std::move(memory), std::move(tensor)});
  };
  try {
    for (size_t layer = 0; layer < exported.layers.size(); ++layer) {
      const auto [heads, width] = exported.layers[layer];
      for (const char* kind : {"key.", "value."}) {
        const std::string part = kind + std::to_string(layer);
        add(part, type_of(cache_format), heads, width);
        if (cache_format == "int8") add(part + ".scale", kFloat, heads, 1);
      }
    }
  } catch (const std::bad_alloc&) {
    throw UsageError("there is no memory for a cache of " + shown(positions) +
                     " positions; give less capacity");
  }
  return buffers;
}

}  // namespace edgespec
