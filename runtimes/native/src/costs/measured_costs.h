// Costs of rounds by the clock: what they took in this session, guesses until then.
//
// Only for text that does not depend on γ: greedy text, and sampled text with the coupled rule.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "costs/costs.h"
#include "costs/time_curve.h"

namespace edgespec {

// What rounds took without their drafting, by rows of the target's call and by cache length.
//
// They include the loop's own work. A range of lengths without measurements takes over the curve of
// the range before it in time.
class VerificationTimes {
 public:
  // `guess`: costs of rounds whose drafter runs no model.
  explicit VerificationTimes(const Costs& guess);
  VerificationTimes(const VerificationTimes&) = delete;

  int64_t rounds() const { return rounds_; }
  // Starts a round with so many positions in the target's cache.
  void begin(int64_t length);
  // Reports the round.
  void add(int64_t rows, double seconds);
  // Times of calls with 1, 2, … rows at the present length, if known.
  std::optional<std::vector<double>> seconds() { return curve_->seconds(rounds_); }
  // Whether a plain step should be timed again: where drafting always pays there is none.
  bool is_plain_step_due() const;

 private:
  std::map<int, TimeCurve> curves_;  // by the size of the cache
  TimeCurve* curve_;
  int64_t rounds_ = 0, last_plain_;
};

// What drafting took in rounds, by the number of drafted tokens.
class DraftingTimes {
 public:
  // `guess`: costs of rounds with the draft. `without`: of rounds whose drafter runs no model; the
  // overheads' difference is the draft's.
  DraftingTimes(const Costs& guess, const Costs& without);

  void add(int64_t tokens, double seconds, int64_t round) { curve_.add(tokens, seconds, round); }
  // c and what a round's drafting costs in addition, in plain steps of `step` seconds.
  std::pair<double, double> costs(double step, int64_t round);

 private:
  std::pair<double, double> guess_;
  TimeCurve curve_;
};

// Costs of rounds with one drafter, as far as the clock knows them.
class MeasuredCosts : public CostSource {
 public:
  // `guess`: until the first rounds were timed. `drafting`: null for a drafter that runs no model.
  // Both times must outlive it.
  MeasuredCosts(Costs guess, VerificationTimes& verification, DraftingTimes* drafting);

  bool may_change() const override { return true; }
  std::shared_ptr<const Costs> now() override;

 private:
  std::shared_ptr<const Costs> computed(int64_t round);

  std::shared_ptr<const Costs> guess_, costs_;
  VerificationTimes& verification_;
  DraftingTimes* drafting_;
  int64_t next_ = 0;  // round in which they are computed anew
};

}  // namespace edgespec
