// Drafts from a smaller model q, sampled one token at a time.
#pragma once

#include <optional>

#include "core/draft.h"
#include "core/model.h"
#include "core/sampling.h"
#include "drafters/vocabulary.h"

namespace edgespec {

// It reads a prompt when it is first asked to draft.
class ModelDrafter : public Drafter {
 public:
  // `process` turns the draft's logits into q, by the same options as the target's into p. After
  // `last_tokens` no token is drafted (end of text).
  // `answers`: of a prompt that is a conversation, see `Model::prefill`. `should_continue`: given
  // the probability that all tokens drafted so far in this round are accepted (of a block draft:
  // and the next one, too), says whether to draft one more. It does not see the token that comes
  // next, so stopping does not change the distribution of the text. Empty: drafts γ tokens.
  // `worth_candidate`: given the probability that an alternative to a drafted token will be the
  // correction, says whether to propose it, too. Empty: none.
  ModelDrafter(Model& model, SamplingProcessor& process, const Vocabulary& vocabulary,
               Tokens last_tokens, Answers answers, Decision should_continue,
               Decision worth_candidate);

  void begin(const Tokens& prompt) override;
  Requests<Proposal> propose(const Tokens& sequence, int64_t gamma,
                             Randomness& randomness) override;
  void archive(Archive& archive, const Tokens& sequence) override;

 private:
  // Of the next token, in token ids of the target.
  struct Prediction {
    Distribution q;
    // Where q leaves one token, that token and the next best ones, with the draft's probabilities
    // at temperature 1.
    std::vector<Guess> best;
  };

  // What follows `ids`, tokens of the draft that are scored; none where it has no token.
  Requests<std::optional<Prediction>> predict(std::span<const Token> ids);
  Requests<Prediction> from_best_tokens(std::span<const Token> ids);
  Prediction from_logits(Row logits);
  // The drafted token, drawn from q, then alternatives to it, the most probable first.
  std::vector<Guess> guesses(const Prediction& prediction, Randomness& randomness,
                             int64_t ahead) const;
  // Adds the alternatives that are worth a row to a proposal. `reached`: the probability that the
  // tokens before them are accepted.
  void add_candidates(Proposal& proposal, std::span<const Guess> others, double reached) const;
  bool needs_probability() const { return should_continue_ || worth_candidate_; }
  // Drops rejected tokens from the cache. After full acceptance the cache lacks the draft's own
  // last token. Scoring everything after the common prefix covers both cases.
  void rewind_to_common_prefix();

  Model& model_;
  SamplingProcessor& process_;
  const Vocabulary& vocabulary_;
  Tokens last_tokens_;
  Answers answers_;
  Decision should_continue_, worth_candidate_;
  std::optional<Tokens> unread_prompt_;
  // All token ids from here on are the draft's, and after the prompt.
  int64_t start_ = 0;  // number of the prompt's positions in the cache
  Tokens sequence_;
  int64_t read_ = 0;  // how many of the target's tokens are in `sequence_`
  Tokens cached_;
  int64_t confirmed_ = 0;  // how many of `cached_` are known to be in the text
};

}  // namespace edgespec
