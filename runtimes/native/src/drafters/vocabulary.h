// Maps token ids between a target and its draft.
//
// A draft may know only some of its target's tokens: the frequent ones, or those that its own
// tokenizer has too. It never proposes the others, which does not change the text's distribution.
#pragma once

#include <memory>
#include <span>

#include "artifact/manifest.h"
#include "core/sampling.h"

namespace edgespec {

// A prompt and its answers' positions in the draft's tokens.
struct DraftPrompt {
  Tokens tokens;
  Answers answers;
};

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  // The draft's tokens for those of the target, at least one for each, and exactly one for a token
  // that the draft may propose. A token that the draft lacks is replaced by others: the prediction
  // gets worse, not the text.
  virtual Tokens to_draft(std::span<const Token> tokens) const = 0;
  // The target's token for one of the draft's that it may propose.
  virtual Token to_target(Token token) const = 0;
  // What the draft reads of a prompt.
  virtual DraftPrompt prompt(const Tokens& tokens, const Answers& answers) const {
    return {to_draft(tokens), answers};
  }
  // q over token ids of the target, from one row of the draft's logits.
  virtual Distribution distribution(SamplingProcessor& process, Row logits) const = 0;
  // Whether all `size` tokens of the draft are tokens of the target.
  virtual bool covers(int64_t size) const = 0;
};

// That of an exported pair's draft. Throws Error: its file is damaged, or belongs to other models.
std::unique_ptr<Vocabulary> open_vocabulary(const Manifest& manifest);

}  // namespace edgespec
