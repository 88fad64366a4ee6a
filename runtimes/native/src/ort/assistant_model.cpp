#include "ort/assistant_model.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

// The target's buffers as inputs of the draft, whose layers 0, 1, … read these of the target.
Source arrays_read(const OrtModel& target, const std::vector<int64_t>& layers) {
  Source read;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (const char* kind : {"past_key.", "past_value."}) {
      const std::string theirs = kind + std::to_string(layers[layer]);
      const std::string own = kind + std::to_string(layer);
      for (const CacheBuffer& buffer : target.cache()) {
        const bool is_scale = buffer.past == theirs + ".scale";
        if (buffer.past != theirs && !is_scale) continue;
        read.names.push_back(is_scale ? own + ".scale" : own);
        read.tensors.emplace_back(buffer.tensor.get(), [](OrtValue*) {});  // it stays the target's
      }
    }
  }
  return read;
}

}  // namespace

AssistantModel::AssistantModel(const ModelGraphs& graphs, const Calls& calls,
                               const OrtModel& target)
    : OrtModel(graphs, calls),
      target_(target),
      read_(arrays_read(target, graphs.decoder.said("target_layers", 0))),
      head_(graphs.exported.features) {
  const int64_t taken = graphs.exported.features, returned = std::ssize(target.features(0, 1));
  if (taken == returned) return;
  throw Error("the draft takes " + shown(taken) +
              " features of each position and the target returns " + shown(returned) +
              "; export the two together");
}

Token AssistantModel::prefill(const Tokens& prompt, const Answers&) {
  check_prompt(prompt);
  rewind(0);
  append(std::span(prompt).first(prompt.size() - 1));
  return prompt.back();
}

Rows AssistantModel::score(std::span<const Token> tokens, Candidates) {
  const int64_t count = std::ssize(tokens), width = vocab_size();
  check_room(count);
  logits_.assign(count * width, 0);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t seen = std::min(length(), target_.length());
    if (seen > 0) {  // the first token of a text has nothing to attend to: any q is right
      std::ranges::copy(logits_after(tokens[row], seen), logits_.begin() + row * width);
    }
    append(tokens.subspan(row, 1));
  }
  return {logits_.data(), count, width};
}

Row AssistantModel::logits_after(Token token, int64_t seen) {
  check_cancelled();
  const int64_t position = length();
  Call& call = call_of({1, 0, 0, Output::kLogits});
  const std::span<float> states = call.state("fused_states");
  if (head_.takes_features(position, position + 1, target_.length())) {
    std::ranges::copy(target_.features(position - 1, position), states.begin());
  } else {
    std::ranges::copy(head_.hidden(), states.begin());
  }
  call.set({&token, 1}, {}, seen - 1, read_);
  {
    const Timed timed(*this);
    call.run();
  }
  head_.keep_hidden(call.state("hidden"), position);
  return call.logits(1)[0];
}

void AssistantModel::archive(Archive& archive) {
  OrtModel::archive(archive);
  head_.archive(archive);
}

}  // namespace edgespec
