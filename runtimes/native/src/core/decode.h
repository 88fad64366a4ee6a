// The two loops: plain decoding, and speculative decoding with the same distribution.
//
// In both, the *pending* token is the last token of the text: emitted (or part of the prompt) but
// not yet in the target's cache. The logits after it give the distribution of the next token. So
// the token that corrects a rejected draft is row 0 of the next verification: one target call per
// round.
#pragma once

#include <functional>
#include <optional>

#include "core/draft.h"
#include "core/model.h"
#include "core/scoring.h"
#include "core/verification.h"

namespace edgespec {

// The result of one target call.
struct Round {
  Tokens tokens;      // emitted, at least one: accepted drafted ones, then the correction or bonus
  int64_t drafted;    // numbers of proposed tokens,
  int64_t evaluated;  // of those that the rule looked at,
  int64_t accepted;   // and of those that were emitted
};

// What both loops take.
struct Decoding {
  Model& target;
  Tokens prompt;
  Scoring& score;          // makes the target's distributions
  Randomness& randomness;  // all draws
  int64_t max_new_tokens;
  // Called once for every emitted token, in order; says whether the text ends with it.
  std::function<bool(Token)> ends;
};

// A text being made.
class Loop {
 public:
  virtual ~Loop() = default;
  // The next round; none after the last.
  virtual std::optional<Round> next() = 0;
};

// Plain decoding: one target call per token. `Speculative` keeps this distribution.
class Plain : public Loop {
 public:
  explicit Plain(Decoding how);
  std::optional<Round> next() override;

 private:
  Decoding how_;
  Tokens sequence_;  // the first pending token, and all emitted tokens
  int64_t left_;     // tokens that may still come
};

// Speculative decoding: the draft proposes γ tokens, one target call scores γ + 1 positions.
//
// Leviathan, Kalman and Matias (2022), Algorithm 1, with a rule of `verification.h`. The coupled
// rule needs `Coupled` randomness, and gives the tokens of `Plain` with the same.
class Speculative : public Loop {
 public:
  Speculative(Decoding how, Drafter& draft, Rule rule, int64_t gamma, const SamplingTable& kernels);
  std::optional<Round> next() override;

 private:
  Decoding how_;
  Drafter& draft_;
  Rule rule_;
  int64_t gamma_;
  const SamplingTable& kernels_;
  Tokens sequence_;
  int64_t left_;
  // Why the text cannot go on: its next row has no token. Thrown when it is asked for.
  std::string refusal_;
};

}  // namespace edgespec
