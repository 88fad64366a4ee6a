#include "costs/adaptive.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace edgespec {
namespace {

constexpr double kGuess = 0.7;                 // prior acceptance rate
constexpr double kWeight = 1.5;                // of the prior, in evaluated tokens
constexpr double kMemory = 0.96;               // decay per evaluated token
constexpr double kFirstPause = 16;             // rounds before the first probe
constexpr double kProbe = 0.015;               // largest share of the time for later ones
constexpr int64_t kDoublings = 4;              // of the pause, at most
constexpr int64_t kRounds = int64_t{1} << 40;  // more than a text has

}  // namespace

Adaptive::Adaptive(CostSource& costs) : source_(costs) { update(kGuess * kWeight, kWeight); }

int64_t Adaptive::gamma() {
  if (best_ == 0 && can_pay() && double(idle_rounds_) >= pause()) return 1;
  return best_;
}

void Adaptive::observe(int64_t drafted, int64_t evaluated, int64_t accepted, int64_t) {
  if (drafted == 0) {
    ++idle_rounds_;
    if (source_.now() != costs_) update(accepted_, evaluated_);
    return;
  }
  const bool was_probe = double(idle_rounds_) >= pause();
  const double decay = std::pow(kMemory, double(evaluated));
  update(decay * accepted_ + double(accepted), decay * evaluated_ + double(evaluated));
  if (best_ > 0) {
    failed_probes_ = 0;
  } else if (was_probe) {
    if (accepted > 0 && costs_->round(1) < 2) return;  // it paid for itself
    ++failed_probes_;
  }
  idle_rounds_ = 0;
}

void Adaptive::archive(Archive& archive) {
  double accepted = accepted_, evaluated = evaluated_;
  archive(accepted, evaluated, failed_probes_, idle_rounds_);
  archive.check(0 <= accepted && accepted <= evaluated && 0 < evaluated &&
                std::isfinite(evaluated));
  archive.check(0 <= failed_probes_ && failed_probes_ < kRounds);
  archive.check(0 <= idle_rounds_ && idle_rounds_ < kRounds);
  update(accepted, evaluated);
}

void Adaptive::decay() {
  const double accepted = kGuess * kWeight, evaluated = kWeight;
  update(accepted + kMemory * (accepted_ - accepted),
         evaluated + kMemory * (evaluated_ - evaluated));
}

// Sets the acceptance counts, and the best γ and speed-up that follow from them.
void Adaptive::update(double accepted, double evaluated) {
  accepted_ = accepted;
  evaluated_ = evaluated;
  costs_ = source_.now();
  std::tie(best_, speedup_) = costs_->best(accepted / evaluated);
}

bool Adaptive::can_pay() const {
  return costs_->longest() > 0 && (source_.may_change() || costs_->best(1).first > 0);
}

double Adaptive::pause() const {
  if (failed_probes_ == 0) return kFirstPause;
  const double rounds = std::max(kFirstPause, (costs_->round(1) - 1) / kProbe);
  return rounds * std::exp2(double(std::min(failed_probes_ - 1, kDoublings)));
}

int64_t Confident::gamma() {
  return best() > 0 ? std::min(2 * best(), costs().longest()) : Adaptive::gamma();
}

bool Confident::should_continue(double probability, int64_t rows) const {
  const double cost = costs().draft() + costs().marginal(rows);
  return probability * acceptance() > cost * std::max(1.0, expected_speedup());
}

bool Confident::worth_candidate(double probability, int64_t rows) const {
  return probability > costs().marginal(rows) * std::max(1.0, expected_speedup());
}

Timed::Timed(std::shared_ptr<Controller> controller, std::function<int64_t()> length,
             VerificationTimes& verification, DraftingTimes* drafting, Clock drafted_seconds,
             Clock clock)
    : controller_(std::move(controller)),
      length_(std::move(length)),
      verification_(verification),
      drafting_(drafting),
      drafted_seconds_(std::move(drafted_seconds)),
      clock_(std::move(clock)) {}

int64_t Timed::gamma() {
  verification_.begin(length_());
  drafted_before_ = drafting_ ? drafted_seconds_() : 0;
  began_ = clock_();
  return verification_.is_plain_step_due() ? 0 : controller_->gamma();
}

void Timed::observe(int64_t drafted, int64_t evaluated, int64_t accepted, int64_t candidates) {
  const double drafting = drafting_ ? drafted_seconds_() - drafted_before_ : 0;
  const double seconds = clock_() - began_ - drafting;
  verification_.add(1 + drafted + candidates, seconds);
  if (drafting > 0) {
    if (has_drafted_) drafting_->add(drafted, drafting, verification_.rounds());
    has_drafted_ = true;
  }
  controller_->observe(drafted, evaluated, accepted, candidates);
}

}  // namespace edgespec
