// A draft that keeps to the rules on tokens.
#pragma once

#include <vector>

#include "core/model.h"
#include "core/row_edit.h"

namespace edgespec {

// A draft whose logits keep to rules, with a beginning of the text that is its own: a draft for
// English alone knows no token for the language.
class RuledDraft : public Model {
 public:
  // `model`: has heard the window. `rules`: on the draft's tokens after the prompt. `prompt`: what
  // the draft reads instead of the target's. The first two must outlive it.
  RuledDraft(Model& model, RowEdit& rules, Tokens prompt)
      : model_(model), rules_(rules), prompt_(std::move(prompt)) {}

  int64_t vocab_size() const override { return model_.vocab_size(); }
  int64_t capacity() const override { return model_.capacity(); }
  int64_t length() const override { return model_.length(); }
  int64_t valid_length() const override { return model_.valid_length(); }
  double seconds() const override { return model_.seconds(); }
  // Starts a text with the draft's own prompt.
  Token prefill(const Tokens& prompt, const Answers& answers) override;
  // The first token after the prompt stands for the draft's own.
  Rows score(std::span<const Token> tokens, Candidates candidates) override;
  // The rules need all logits, so these are not called: see `returns_best_tokens`.
  BestTokens best_tokens(std::span<const Token>, Candidates, int64_t) override { return {}; }
  LikelyTokens likely_tokens(std::span<const Token>) override { return {}; }
  void rewind(int64_t length) override;

 private:
  Model& model_;
  RowEdit& rules_;
  Tokens prompt_;
  int64_t start_ = 0;
  Tokens generated_;  // with the prompt's last token before them
  std::vector<float> ruled_;
};

}  // namespace edgespec
