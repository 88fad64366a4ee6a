#include "ort/call.h"

#include <algorithm>

namespace edgespec {
namespace {

constexpr Token kDummyToken = 0;
constexpr int64_t kTop = 3;  // tokens of a row, where a graph returns several
constexpr const char* kFusedStates = "fused_states";  // the only states that a graph takes

}  // namespace

Call::Call(const Graph& graph, std::vector<CacheBuffer>& cache, int64_t rows, int64_t skip,
           Output output, int64_t vocab_size, const std::map<std::string, int64_t>& states)
    : graph_(graph), vocab_size_(vocab_size), tokens_(rows), past_length_(1), skip_{skip} {
  const OrtRuntime& runtime = graph.runtime();
  const int64_t count = rows - skip;
  take("tokens", tokens_);
  take("past_length", past_length_);
  take("skip", skip_);
  for (CacheBuffer& buffer : cache) {
    input_names_.push_back(buffer.past.c_str());
    inputs_.push_back(buffer.tensor.get());
    output_names_.push_back(buffer.present.c_str());
    outputs_.push_back(buffer.tensor.get());
  }
  if (output == Output::kLogits) {
    logits_.resize(std::max<int64_t>(count, 1) * vocab_size);
    give("logits", tensor_over(runtime, logits_, {count, vocab_size}));
  } else {
    give_best(count, output);
  }
  bind_states(states, rows);
  own_inputs_ = inputs_.size();
}

void Call::set(std::span<const Token> tokens, int64_t past_length, const Source& source) {
  std::fill(std::ranges::copy(tokens, tokens_.begin()).out, tokens_.end(), kDummyToken);
  past_length_[0] = past_length;
  input_names_.resize(own_inputs_);
  inputs_.resize(own_inputs_);
  for (const std::string& name : source.names) input_names_.push_back(name.c_str());
  for (const auto& tensor : source.tensors) inputs_.push_back(tensor.get());
}

void Call::run() {
  const OrtRuntime& runtime = graph_.runtime();
  runtime.check(runtime.api().Run(graph_.session(), nullptr, input_names_.data(), inputs_.data(),
                                  inputs_.size(), output_names_.data(), output_names_.size(),
                                  outputs_.data()));
}

BestTokens Call::best(int64_t count) const {
  const auto size = static_cast<size_t>(count);
  return {{best_tokens_.data(), size}, {best_logits_.data(), size}};
}

void Call::give_best(int64_t count, Output output) {
  const OrtRuntime& runtime = graph_.runtime();
  const int64_t each = output == Output::kTop ? kTop : 1;
  const int64_t size = std::max<int64_t>(count, 1) * each;
  output_mode_ = {static_cast<int64_t>(output)};
  take("output_mode", output_mode_);
  best_tokens_.resize(size);
  best_logits_.resize(size);
  give("top_tokens", tensor_over(runtime, best_tokens_, {count, each}));
  give("top_logits", tensor_over(runtime, best_logits_, {count, each}));
  if (output == Output::kBest) return;
  best_shares_.resize(size);
  give("top_probabilities", tensor_over(runtime, best_shares_, {count, each}));
}

void Call::take(const char* name, std::vector<int64_t>& numbers) {
  owned_.push_back(tensor_over(graph_.runtime(), numbers, {std::ssize(numbers)}));
  input_names_.push_back(name);
  inputs_.push_back(owned_.back().get());
}

void Call::give(const char* name, OrtOwned<OrtValue> tensor) {
  output_names_.push_back(name);
  outputs_.push_back(tensor.get());
  owned_.push_back(std::move(tensor));
}

void Call::bind_states(const std::map<std::string, int64_t>& widths, int64_t rows) {
  for (const auto& [name, width] : widths) {
    const auto& [kept, numbers] = *states_.emplace(name, rows * width).first;
    auto tensor = tensor_over(graph_.runtime(), states_.at(name), {rows, width});
    if (name == kFusedStates) {
      input_names_.push_back(kept.c_str());
      inputs_.push_back(tensor.get());
      owned_.push_back(std::move(tensor));
    } else {
      give(kept.c_str(), std::move(tensor));
    }
  }
}

}  // namespace edgespec
