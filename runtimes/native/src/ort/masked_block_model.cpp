#include "ort/masked_block_model.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"
#include "ort/fusion.h"

namespace edgespec {
namespace {

constexpr int64_t kMostKnownRows = 1024;  // of the text in one call, which bounds its memory

}  // namespace

MaskedBlockModel::MaskedBlockModel(const ModelGraphs& graphs, const Calls& calls,
                                   const OrtModel& target)
    : EagleModel(graphs, calls, target),
      block_(graphs.decoder.said("block", 1).front()),
      state_width_(graphs.decoder.width_of("slot_states")),
      mask_(graphs.decoder.said("mask", 0).front()) {
  if (graphs.transition) transition_.emplace(*graphs.transition, vocab_size(), state_width_);
}

double MaskedBlockModel::confidence_after(Token token) {
  const int64_t row = length() - anchor_;
  if (!(0 < row && row < slots_.rows.count)) return 0;
  if (!transition_ || !transition_->has_confidence()) return 1;
  check_cancelled();
  const Timed timed(*this);
  return transition_->confidence(slots_, row, token);
}

Token MaskedBlockModel::prefill(const Tokens& prompt, const Answers& answers) {
  check_prompt(prompt);
  std::vector<CachedPosition> wanted;
  for (int64_t i = 0; i + 1 < std::ssize(prompt); ++i) wanted.push_back({prompt[i], key_of(i)});
  const auto known = cached_.begin() + valid_length();
  const int64_t kept =
      std::mismatch(cached_.begin(), known, wanted.begin(), wanted.end()).first - cached_.begin();
  rewind(answers ? kept : 0);
  cached_.insert(cached_.end(), wanted.begin() + length(), wanted.end());
  return prompt.back();
}

void MaskedBlockModel::rewind(int64_t length) {
  EagleModel::rewind(length);
  known_ = std::min(known_, length);
}

Rows MaskedBlockModel::score(std::span<const Token> tokens, Candidates) {
  const int64_t count = std::ssize(tokens);
  check_room(count);
  const int64_t last = length() + count - 1;
  if (last <= target_.length()) {
    fill(tokens.back(), last);
  } else if (count > 1 || !(0 < last - anchor_ && last - anchor_ < slots_.rows.count)) {
    throw Error("asked to score positions " + shown(length()) + " to " + shown(last) +
                " where the target has scored " + shown(target_.length()) +
                "; score later ones one at a time, at most " + shown(block_ - 1));
  }
  append(tokens);
  const Row row = row_after(last - anchor_, tokens.back());
  const int64_t width = std::ssize(row);
  if (count == 1) return {row.data(), 1, width};
  scored_.reset();
  scored_.emplace(size_t(count * width) * sizeof(float));
  auto* logits = static_cast<float*>(scored_->data());
  std::ranges::copy(row, logits + (count - 1) * width);
  return {logits, count, width};
}

Row MaskedBlockModel::row_after(int64_t row, Token token) {
  if (!transition_) return slots_.rows[row];
  check_cancelled();
  const Timed timed(*this);
  return transition_->logits(slots_, row, token);
}

void MaskedBlockModel::fill(Token token, int64_t position) {
  do {
    const int64_t end = std::min(position, known_ + kMostKnownRows);
    Call& call = called(token, end);
    known_ = end;
    slots_.rows = call.logits(block_);
    if (state_width_ > 0) {
      const std::span<const float> states = call.state("slot_states");
      slots_.states.assign(states.begin(), states.end());
    }
  } while (known_ < position);
  anchor_ = position;
  if (transition_) transition_->forget();
}

Call& MaskedBlockModel::called(Token token, int64_t end) {
  check_cancelled();
  const int64_t known = end - known_, rows = known + *graphs_.exported.block_rows;
  const Timed timed(*this);
  Call& call = call_of({rows, 0, 0, Output::kLogits, 0, block_});
  if (known > 0) {  // the fusion of no rows would be none
    const std::span<const float> read = target_.features(known_, end);
    const auto states = fused(*graphs_.fusion, {read.begin(), read.end()}, known, width_);
    std::ranges::copy(states, call.state("fused_states").begin());
  }
  Tokens tokens(rows, mask_);
  std::fill_n(tokens.begin(), known, 0);  // they are not read
  tokens[known] = token;
  call.set(tokens, {}, known_, {});
  call.run();
  return call;
}

void MaskedBlockModel::archive(Archive& archive) {
  EagleModel::archive(archive);
  archive(known_);
  archive.check(0 <= known_ && known_ <= length());
}

}  // namespace edgespec
