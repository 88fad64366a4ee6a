#include "speech/token_rules.h"

#include <algorithm>
#include <limits>

#include "core/log_probability.h"

namespace edgespec {
namespace {

constexpr int64_t kLatestStart = 50;  // steps of 20 ms: a text begins in its window's first second

}  // namespace

Row TokenRules::operator()(Row logits, const Tokens& generated) {
  edited_.assign(logits.begin(), logits.end());
  for (const Token token : speech_.suppressed) exclude(token, token + 1);
  if (timestamps_) exclude(speech_.no_timestamps, speech_.no_timestamps + 1);
  if (generated.empty()) {
    for (const Token token : speech_.suppressed_first) exclude(token, token + 1);
  }
  if (timestamps_) {
    order_timestamps(generated);
    prefer_timestamp();
  } else {
    exclude_from(speech_.first_timestamp);
  }
  return edited_;
}

void TokenRules::exclude(Token begin, Token end) {
  const Token last = std::min<Token>(end, std::ssize(edited_));
  for (Token token = begin; token < last; ++token) {
    edited_[token] = -std::numeric_limits<float>::infinity();
  }
}

void TokenRules::order_timestamps(const Tokens& generated) {
  const Token first = speech_.first_timestamp;
  const auto is_time = [&](Token token) { return token >= first; };
  if (generated.empty()) {  // a window begins with a timestamp
    exclude(0, first);
    exclude_from(first + kLatestStart + 1);
    return;
  }
  const size_t count = generated.size();
  const bool after_time = is_time(generated.back());
  const bool opened = after_time && (count < 2 || is_time(generated[count - 2]));
  if (opened) {  // its text follows
    exclude_from(first);
  } else if (after_time) {  // a segment's end: its successor's start, or the end of the text
    exclude(0, speech_.end);
  }
  const auto latest = std::find_if(generated.rbegin(), generated.rend(), is_time);
  if (latest == generated.rend()) return;
  // A segment takes time; the next one may begin where it ends.
  exclude(first, *latest + (!after_time || opened ? 1 : 0));
}

void TokenRules::prefer_timestamp() {
  const Row row = edited_;
  const Row texts = row.first(speech_.first_timestamp), times = row.subspan(texts.size());
  if (log_sum(times, kernels_) > texts[kernels_.largest(texts.data(), std::ssize(texts))]) {
    exclude(0, speech_.first_timestamp);
  }
}

}  // namespace edgespec
