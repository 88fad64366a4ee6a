#include "ort/block_model.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {

BlockModel::BlockModel(const ModelGraphs& graphs, const Calls& calls, const OrtModel& target)
    : EagleModel(graphs, calls, target),
      block_(graphs.decoder.said("block", 1).front()),
      transition_(*graphs.transition, graphs.exported.vocab_size) {}

double BlockModel::confidence_after(Token) {
  const int64_t index = length() - known_;
  return 0 <= index && index < ahead_.count ? double(confidences_[index]) : 0;
}

Rows BlockModel::score(std::span<const Token> tokens, Candidates) {
  const int64_t count = std::ssize(tokens);
  check_room(count);
  const int64_t first = length(), index = first - known_;
  Rows rows;
  if (first + count <= target_.length() + 1) {
    rows = block_logits(tokens);
  } else if (count == 1 && 0 <= index && index < ahead_.count) {
    check_cancelled();
    const Timed timed(*this);
    rows = transition_.added_to(ahead_[index], tokens.front());
  } else {
    throw Error("asked to score positions " + shown(first) + " to " + shown(first + count - 1) +
                " where the target has scored " + shown(target_.length()) +
                "; score later ones one at a time, at most " + shown(block_ - 1));
  }
  append(tokens);
  return rows;
}

Rows BlockModel::block_logits(std::span<const Token> tokens) {
  const int64_t count = std::ssize(tokens);
  const int64_t ahead = std::min(block_ - 1, capacity() - length() - count);
  Call& call = run(tokens, {}, {count + ahead, 0, 0, Output::kLogits, ahead});
  const Rows all = call.logits(count + ahead);
  const std::span<const float> confidences = call.state("confidence").subspan(count);
  known_ = length() + count;
  ahead_ = {all.logits + count * all.width, ahead, all.width};
  confidences_.assign(confidences.begin(), confidences.end());
  return {all.logits, count, all.width};
}

void BlockModel::set_states(Call& call, int64_t count) {
  const int64_t first = length(), end = first + count;
  fuse(first, end, call.state("fused_states"));
  call.repeat_row(count);
  head_.take_features(first, end);
}

}  // namespace edgespec
