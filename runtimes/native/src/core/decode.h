// The two loops: plain decoding, and speculative decoding with the same distribution.
//
// In both, the *pending* token is the last token of the text: emitted (or part of the prompt) but
// not yet in the target's cache. The logits after it give the distribution of the next token. So
// the token that corrects a rejected draft is row 0 of the next verification: one target call per
// round.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/controller.h"
#include "core/draft.h"
#include "core/model.h"
#include "core/requests.h"
#include "core/scoring.h"
#include "core/verification.h"

namespace edgespec {

// The result of one target call.
struct Round {
  // Emitted, at least one: accepted drafted ones, then the correction or bonus, then, if the
  // correction was a candidate, the bonus after it.
  Tokens tokens;
  std::vector<int64_t> rows;  // of the call, from which each was drawn
  int64_t drafted = 0;        // numbers of proposed tokens,
  int64_t evaluated = 0;      // of those that the rule looked at,
  int64_t accepted = 0;       // and of those that were emitted
};

// What both loops take.
struct Decoding {
  Model& target;
  Tokens prompt;
  Answers answers;         // in the prompt
  Scoring& score;          // makes the target's distributions
  Randomness& randomness;  // all draws
  int64_t max_new_tokens;
  // Called once for every emitted token, in order; says whether the text ends with it.
  std::function<bool(Token)> ends;
};

// Where a text is.
struct Made {
  Tokens sequence;  // the first pending token, and all emitted tokens
  int64_t left;     // tokens that may still come
  // Why the text cannot go on: its next row has no token. Thrown when it is asked for.
  std::string refusal;
};

// A text being made.
class Loop {
 public:
  explicit Loop(Decoding how) : how_(std::move(how)) {}
  // Goes on with a text, whose target's cache is as it was.
  Loop(Decoding how, Made made) : how_(std::move(how)), made_(std::move(made)) {}
  virtual ~Loop() = default;
  // Reads the prompt, before the first round; returns how many tokens may come.
  Requests<int64_t> begin();
  // The next round; none after the last.
  virtual Requests<std::optional<Round>> next() = 0;
  const Made& made() const { return made_; }

 protected:
  Decoding how_;
  Made made_{};
};

// Plain decoding: one target call per token. `Speculative` keeps this distribution.
class Plain : public Loop {
 public:
  using Loop::Loop;
  Requests<std::optional<Round>> next() override;
};

// Speculative decoding: the draft proposes γ tokens, one target call scores γ + 1 positions.
//
// Leviathan, Kalman and Matias (2022), Algorithm 1, with a rule of `verification.h`. The coupled
// rule needs `Coupled` randomness, and gives the tokens of `Plain` with the same.
class Speculative : public Loop {
 public:
  Speculative(Decoding how, Drafter& draft, Rule rule, Controller& gamma,
              const SamplingTable& kernels);
  // Goes on with a text, whose drafter is as it was.
  Speculative(Decoding how, Made made, Drafter& draft, Rule rule, Controller& gamma,
              const SamplingTable& kernels);
  Requests<std::optional<Round>> next() override;

 private:
  Drafter& draft_;
  Rule rule_;
  Controller& gamma_;
  const SamplingTable& kernels_;
};

}  // namespace edgespec
