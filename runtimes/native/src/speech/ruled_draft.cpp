#include "speech/ruled_draft.h"

#include <algorithm>

namespace edgespec {

Token RuledDraft::prefill(const Tokens&, const Answers&) {
  generated_.clear();
  const Token pending = model_.prefill(prompt_, std::nullopt);
  start_ = model_.length();
  return pending;
}

Rows RuledDraft::score(std::span<const Token> tokens, Candidates) {
  Tokens read(tokens.begin(), tokens.end());
  if (generated_.empty()) read.front() = prompt_.back();
  const Rows rows = model_.score(read, {});
  ruled_.clear();
  Tokens before = generated_;
  for (int64_t i = 0; i < rows.count; ++i) {
    before.push_back(read[i]);
    const Row ruled = rules_(rows[i], Tokens(before.begin() + 1, before.end()));
    ruled_.insert(ruled_.end(), ruled.begin(), ruled.end());
  }
  generated_ = std::move(before);
  return {ruled_.data(), rows.count, rows.width};
}

void RuledDraft::rewind(int64_t length) {
  model_.rewind(length);
  const int64_t kept = std::max<int64_t>(0, length - start_);
  if (kept < std::ssize(generated_)) generated_.resize(kept);
}

}  // namespace edgespec
