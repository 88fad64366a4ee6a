#include "ort/call.h"

#include <algorithm>
#include <array>

namespace edgespec {
namespace {

constexpr Token kDummyToken = 0;
constexpr int64_t kTop = 3;  // tokens of a row, where a graph returns several
constexpr const char* kFusedStates = "fused_states";  // the only states that a graph takes
constexpr const char* kSlotStates = "slot_states";

}  // namespace

Call::Call(CallMemory& memory, const CallShape& shape)
    : tokens_(shape.rows),
      past_length_(1),
      memory_(memory),
      skip_{shape.skip},
      ahead_{shape.ahead},
      layouts_(3 * shape.described) {
  const int64_t count = shape.returned();
  take("tokens", tokens_, {shape.rows});
  take("past_length", past_length_, {1});
  take("skip", skip_, {1});
  if (shape.ahead > 0) take("ahead", ahead_, {1});
  if (shape.described > 0) take("layouts", layouts_, {shape.described, 3});
  for (const CacheBuffer& buffer : memory.cache) bind(buffer.past, buffer.present, buffer.tensor);
  if (!memory.states.empty()) bind_recurrent();
  if (shape.output == Output::kLogits) {
    give_logits(count);
  } else {
    give_best(count, shape.output);
  }
  bind_states(shape);
  own_inputs_ = inputs_.size();
}

void Call::set(std::span<const Token> tokens, std::span<const LaidOut> candidates,
               int64_t past_length, const Source& source) {
  std::fill(std::ranges::copy(tokens, tokens_.begin()).out, tokens_.end(), kDummyToken);
  for (size_t i = 0; i < candidates.size(); ++i) {
    tokens_[tokens.size() + i] = candidates[i].token;
    set_layout(int64_t(i), candidates[i].layout);
  }
  past_length_[0] = past_length;
  set_source(source);
}

void Call::repeat_row(int64_t count) {
  std::fill(tokens_.begin() + count, tokens_.end(), tokens_[count - 1]);
  std::vector<float>& states = states_.at(kFusedStates);
  const auto width = std::ssize(states) / std::ssize(tokens_);
  for (auto row = states.begin() + count * width; row != states.end(); row += width) {
    std::copy_n(row - width, width, row);
  }
}

void Call::set_layout(int64_t number, const Layout& layout) {
  const auto& [start, position, index] = layout;
  std::ranges::copy(std::array{start, position, index}, layouts_.begin() + 3 * number);
}

void Call::set_source(const Source& source) {
  input_names_.resize(own_inputs_);
  inputs_.resize(own_inputs_);
  for (const std::string& name : source.names) input_names_.push_back(name.c_str());
  for (const auto& tensor : source.tensors) inputs_.push_back(tensor.get());
}

void Call::set_step(const StateStep& step) {
  set_steps({&step, 1});
  std::fill_n(state_steps_.begin(), 4, 0);  // the slots are bound themselves
  for (size_t layer = 0; layer < memory_.states.size(); ++layer) {
    const auto& slots = memory_.states[layer].slots;
    inputs_[states_input_ + layer] = slots[step.source].get();
    outputs_[states_output_ + layer] = slots[step.target].get();
  }
}

void Call::set_steps(std::span<const StateStep> steps) {
  state_steps_.clear();
  for (const StateStep& step : steps) {
    const auto numbers = step.numbers();
    state_steps_.insert(state_steps_.end(), numbers.begin(), numbers.end());
  }
  steps_tensor_ = tensor_over(memory_.graph.runtime(), state_steps_,
                              {int64_t(steps.size()), StateStep::kNumbers});
  inputs_[steps_input_] = steps_tensor_->get();
}

void Call::run() {
  const OrtRuntime& runtime = memory_.graph.runtime();
  runtime.check(runtime.api().Run(memory_.graph.session(), nullptr, input_names_.data(),
                                  inputs_.data(), inputs_.size(), output_names_.data(),
                                  output_names_.size(), outputs_.data()));
}

BestTokens Call::best(int64_t count) const {
  const auto size = static_cast<size_t>(count);
  return {{best_tokens_.data(), size}, {best_logits_.data(), size}};
}

LikelyTokens Call::likely(int64_t row) const {
  const auto of_row = [&](const auto& all) { return std::span(all).subspan(row * kTop, kTop); };
  return {of_row(best_tokens_), of_row(best_logits_), of_row(best_shares_)};
}

void Call::give_best(int64_t count, Output output) {
  const OrtRuntime& runtime = memory_.graph.runtime();
  const int64_t each = output == Output::kTop ? kTop : 1;
  const int64_t size = std::max<int64_t>(count, 1) * each;
  output_mode_ = {static_cast<int64_t>(output)};
  take("output_mode", output_mode_, {1});
  best_tokens_.resize(size);
  best_logits_.resize(size);
  give("top_tokens", tensor_over(runtime, best_tokens_, {count, each}));
  give("top_logits", tensor_over(runtime, best_logits_, {count, each}));
  if (output == Output::kBest) return;
  best_shares_.resize(size);
  give("top_probabilities", tensor_over(runtime, best_shares_, {count, each}));
}

void Call::take(const char* name, std::vector<int64_t>& numbers,
                const std::vector<int64_t>& shape) {
  owned_.push_back(tensor_over(memory_.graph.runtime(), numbers, shape));
  input_names_.push_back(name);
  inputs_.push_back(owned_.back().get());
  own_inputs_ = inputs_.size();
}

void Call::give(const char* name, OrtOwned<OrtValue> tensor) {
  output_names_.push_back(name);
  outputs_.push_back(tensor.get());
  owned_.push_back(std::move(tensor));
}

void Call::give_logits(int64_t count) {
  const size_t bytes = std::max<int64_t>(count, 1) * memory_.vocab_size * sizeof(float);
  if (bytes > memory_.logits.bytes()) own_logits_.emplace(bytes);
  logits_ = static_cast<float*>((own_logits_ ? *own_logits_ : memory_.logits).data());
  give("logits", tensor_over(memory_.graph.runtime(), logits_, bytes, {count, memory_.vocab_size},
                             ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
}

void Call::bind_states(const CallShape& shape) {
  for (const auto& [name, width] : memory_.state_widths) {
    const int64_t rows = name == kSlotStates ? shape.drafted : shape.rows;
    if (rows == 0) continue;
    const auto& [kept, numbers] = *states_.emplace(name, rows * width).first;
    auto tensor = tensor_over(memory_.graph.runtime(), states_.at(name), {rows, width});
    if (name == kFusedStates) {
      input_names_.push_back(kept.c_str());
      inputs_.push_back(tensor.get());
      owned_.push_back(std::move(tensor));
    } else {
      give(kept.c_str(), std::move(tensor));
    }
  }
}

void Call::bind_recurrent() {
  steps_input_ = inputs_.size();
  input_names_.push_back("state_steps");
  inputs_.push_back(nullptr);
  states_input_ = inputs_.size();
  states_output_ = outputs_.size();
  for (const LayerStates& layer : memory_.states) {
    bind(layer.past_state, layer.present_state, layer.all_states);
  }
  for (const LayerStates& layer : memory_.states) {
    bind(layer.past_rows, layer.present_rows, layer.all_rows);
  }
}

// A call writes where it reads.
void Call::bind(const std::string& past, const std::string& present,
                const OrtOwned<OrtValue>& tensor) {
  input_names_.push_back(past.c_str());
  inputs_.push_back(tensor.get());
  output_names_.push_back(present.c_str());
  outputs_.push_back(tensor.get());
}

}  // namespace edgespec
