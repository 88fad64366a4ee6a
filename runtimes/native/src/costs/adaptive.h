// γ by the expected speed-up, and the clock that times its rounds.
#pragma once

#include <functional>
#include <memory>

#include "core/controller.h"
#include "costs/costs.h"
#include "costs/measured_costs.h"

namespace edgespec {

// The γ with the largest expected speed-up, from the cost curve and the acceptance rate so far.
//
// γ = 0 switches drafting off. The acceptance rate is a running mean over evaluated tokens, and
// starts at a prior of small weight, to which rounds of another drafter move it. While drafting is
// off, one token is drafted now and then, at growing intervals, to see whether it pays again: the
// first time soon, since a busy machine or bad luck may have ended it, and again at once where the
// token was accepted and so paid for itself. Never if it could not pay at acceptance 1 and the
// costs do not change. It reads no clock.
class Adaptive : public Judged {
 public:
  // `costs`: asked after each round; must outlive it.
  explicit Adaptive(CostSource& costs);

  int64_t gamma() override;
  void observe(int64_t drafted, int64_t evaluated, int64_t accepted, int64_t candidates) override;
  void archive(Archive& archive) override;
  double expected_speedup() const override { return speedup_; }
  void decay() override;

 protected:
  int64_t best() const { return best_; }
  const Costs& costs() const { return *costs_; }
  double acceptance() const { return accepted_ / evaluated_; }

 private:
  void update(double accepted, double evaluated);
  bool can_pay() const;
  double pause() const;  // rounds between two probes

  CostSource& source_;
  std::shared_ptr<const Costs> costs_;
  double accepted_ = 0, evaluated_ = 0;
  int64_t best_ = 0;
  double speedup_ = 1;
  int64_t failed_probes_ = 1;  // since drafting paid; that a text begins without it counts as one
  int64_t idle_rounds_ = 0;    // since the last draft
};

// `Adaptive`, and token by token one more while its expected gain exceeds its cost.
//
// For drafters that know the probability of their own tokens. The acceptance rate decides whether
// to draft at all, and allows at most twice the best fixed γ: a draft that is sure and wrong is
// soon found out.
class Confident : public Adaptive {
 public:
  using Adaptive::Adaptive;

  int64_t gamma() override;
  // Whether another drafted token brings more than its time would bring elsewhere. `probability`:
  // that all tokens drafted so far in this round are accepted. `rows`: positions of the
  // verification without it.
  bool should_continue(double probability, int64_t rows) const;
  // Whether a token that costs no call of a draft model brings more than its time. `probability`:
  // that it is accepted, with all before it.
  bool worth_candidate(double probability, int64_t rows) const;
};

// What a clock reads, in seconds.
using Clock = std::function<double()>;

// A controller whose rounds are timed, from the question for γ to the report.
//
// What the caller does between rounds does not count. The first draft of a text is not counted
// either, since it may include reading the prompt.
class Timed : public Controller {
 public:
  // `length`: positions in the target's cache. `drafting`: null if the drafter runs no model;
  // `drafted_seconds` are what drafting took so far. All must outlive it.
  Timed(std::shared_ptr<Controller> controller, std::function<int64_t()> length,
        VerificationTimes& verification, DraftingTimes* drafting, Clock drafted_seconds,
        Clock clock);

  int64_t gamma() override;
  void observe(int64_t drafted, int64_t evaluated, int64_t accepted, int64_t candidates) override;
  void archive(Archive& archive) override { controller_->archive(archive); }

 private:
  std::shared_ptr<Controller> controller_;
  std::function<int64_t()> length_;
  VerificationTimes& verification_;
  DraftingTimes* drafting_;
  Clock drafted_seconds_, clock_;
  double began_ = 0, drafted_before_ = 0;
  bool has_drafted_ = false;
};

}  // namespace edgespec
