#include "ort/fusion.h"

#include "ort/memory.h"

namespace edgespec {

std::vector<float> fused(const Graph& fusion, std::vector<float> features, int64_t count,
                         int64_t width) {
  const OrtRuntime& runtime = fusion.runtime();
  std::vector<float> states(count * width);
  const auto input = tensor_over(runtime, features, {count, std::ssize(features) / count});
  const auto output = tensor_over(runtime, states, {count, width});
  const char *taken = "features", *given = "fused_states";
  const OrtValue* inputs = input.get();
  OrtValue* outputs = output.get();
  runtime.check(
      runtime.api().Run(fusion.session(), nullptr, &taken, &inputs, 1, &given, 1, &outputs));
  return states;
}

}  // namespace edgespec
