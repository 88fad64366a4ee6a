#include "core/logit_edit.h"

#include <limits>
#include <map>
#include <set>

namespace edgespec {

LogitEdit::LogitEdit(const LogitEdits& edits, Tokens prompt, Tokens last_tokens)
    : edits_(edits), prompt_(std::move(prompt)), last_tokens_(std::move(last_tokens)) {}

Row LogitEdit::operator()(Row logits, const Tokens& generated) {
  edited_.assign(logits.begin(), logits.end());
  penalize(generated);
  for (const auto& [token, bias] : edits_.logit_bias) edited_[token] += float(bias);
  if (std::ssize(generated) < edits_.min_tokens) {
    for (const Token token : last_tokens_) edited_[token] = -std::numeric_limits<float>::infinity();
  }
  return edited_;
}

void LogitEdit::penalize(const Tokens& generated) {
  std::map<Token, int64_t> counts;
  for (const Token token : generated) ++counts[token];
  if (edits_.repetition_penalty != 1) {
    const float penalty = float(edits_.repetition_penalty);
    std::set<Token> seen(prompt_.begin(), prompt_.end());
    seen.insert(generated.begin(), generated.end());
    for (const Token token : seen) {
      if (token >= std::ssize(edited_)) continue;  // a model may read tokens that it never writes
      float& logit = edited_[token];
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
  }
  for (const auto& [token, count] : counts) {
    const double penalty = edits_.presence_penalty + edits_.frequency_penalty * double(count);
    edited_[token] -= float(penalty);
  }
}

}  // namespace edgespec
