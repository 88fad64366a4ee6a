#include "ort/slot_transition.h"

#include <algorithm>

#include "ort/memory.h"

namespace edgespec {

SlotTransition::SlotTransition(const Graph& graph, int64_t vocab_size, int64_t state_width)
    : graph_(graph),
      state_width_(graph.takes("slot_states") ? state_width : 0),
      read_(vocab_size),
      state_(state_width_),
      logits_(vocab_size) {
  const auto take = [&](const char* name, auto& numbers, const std::vector<int64_t>& shape) {
    if (!graph.takes(name)) return;
    inputs_.push_back(name);
    taken_.push_back(tensor_over(graph.runtime(), numbers, shape));
  };
  const auto give = [&](const char* name, auto& numbers, const std::vector<int64_t>& shape) {
    if (!graph.returns(name)) return;
    outputs_.push_back(name);
    given_.push_back(tensor_over(graph.runtime(), numbers, shape));
  };
  take("tokens", token_, {1});
  take("slot_logits", read_, {1, vocab_size});
  take("slot_states", state_, {1, state_width_});
  give("logits", logits_, {1, vocab_size});
  give("confidence", confidence_, {1, 1});
}

Row SlotTransition::logits(const Slots& slots, int64_t row, Token token) {
  if (!graph_.returns("logits")) return slots.rows[row];
  run(slots, row, token);
  return logits_;
}

double SlotTransition::confidence(const Slots& slots, int64_t row, Token token) {
  run(slots, row, token);
  return confidence_.front();
}

void SlotTransition::run(const Slots& slots, int64_t row, Token token) {
  if (latest_ == std::pair(row, token)) return;
  token_.front() = token;
  std::ranges::copy(slots.rows[row], read_.begin());
  std::copy_n(slots.states.begin() + row * state_width_, state_width_, state_.begin());
  std::vector<const OrtValue*> taken;
  for (const auto& tensor : taken_) taken.push_back(tensor.get());
  std::vector<OrtValue*> given;
  for (const auto& tensor : given_) given.push_back(tensor.get());
  const OrtRuntime& runtime = graph_.runtime();
  runtime.check(runtime.api().Run(graph_.session(), nullptr, inputs_.data(), taken.data(),
                                  taken.size(), outputs_.data(), given.size(), given.data()));
  latest_ = {row, token};
}

}  // namespace edgespec
