// Maps token ids between a target and a draft that have different tokenizers.
#pragma once

#include <vector>

#include "drafters/vocabulary.h"

namespace edgespec {

// The tokens that a target and a draft have in common.
//
// The draft proposes only these (token-level intersection: Timor et al. 2025,
// https://arxiv.org/abs/2502.05202, algorithm 4). It reads every other token of the target as the
// tokens of its own that spell the same text.
class TokenIntersection : public Vocabulary {
 public:
  // `targets`, `drafts`: ids of the common tokens; the target's increase. `spellings`: the draft's
  // tokens, at least one, that spell each of the target's. `begin`: the draft's tokens before a
  // prompt. `draft_size`: number of the draft's tokens. Throws std::runtime_error: these do not fit
  // each other.
  TokenIntersection(Tokens targets, Tokens drafts, std::vector<Tokens> spellings, Tokens begin,
                    int64_t draft_size);

  Tokens to_draft(std::span<const Token> tokens) const override;
  Token to_target(Token token) const override { return target_ids_[token]; }
  DraftPrompt prompt(const Tokens& tokens, const Answers& answers) const override;
  // Of the common tokens alone, so they share the whole probability.
  Distribution distribution(SamplingProcessor& process, Row logits) const override;
  bool covers(int64_t size) const override;

 private:
  void check() const;

  std::shared_ptr<const Tokens> targets_;
  Tokens drafts_;
  std::vector<Tokens> spellings_;
  Tokens begin_;
  int64_t draft_size_;
  Tokens target_ids_;  // of each of the draft's tokens; -1 of those that are not common
};

}  // namespace edgespec
