#include "ort/transition.h"

#include <algorithm>
#include <functional>

#include "ort/memory.h"

namespace edgespec {

Transition::Transition(const Graph& graph, int64_t vocab_size)
    : graph_(graph), added_(vocab_size), sum_(vocab_size) {}

Rows Transition::added_to(Row logits, Token token) {
  const OrtRuntime& runtime = graph_.runtime();
  std::vector<int64_t> tokens = {token};
  const auto input = tensor_over(runtime, tokens, {1});
  const auto output = tensor_over(runtime, added_, {1, std::ssize(added_)});
  const char *taken = "tokens", *given = "logits";
  const OrtValue* inputs = input.get();
  OrtValue* outputs = output.get();
  runtime.check(
      runtime.api().Run(graph_.session(), nullptr, &taken, &inputs, 1, &given, 1, &outputs));
  std::ranges::transform(logits, added_, sum_.begin(), std::plus());
  return {sum_.data(), 1, std::ssize(sum_)};
}

}  // namespace edgespec
