#include "costs/measured_costs.h"

#include <algorithm>
#include <bit>

namespace edgespec {
namespace {

constexpr int64_t kShort = 256;     // times are kept for caches of up to so many positions, twice …
constexpr int64_t kPlain = 64;      // rounds between two measurements of a plain step
constexpr int64_t kFirstPlain = 6;  // rounds before the first
constexpr double kLeast = 1e-3;     // guess of c for a draft that says it costs nothing
constexpr int64_t kKept = 8;        // rounds for which costs are not computed anew

std::vector<double> with_overhead(const Costs& guess) {
  std::vector<double> verify = guess.verify();
  for (size_t i = 1; i < verify.size(); ++i) verify[i] += guess.overhead();
  return verify;
}

std::vector<double> drafting_guess(const Costs& guess, double first) {
  std::vector<double> times;
  const double token = std::max(guess.draft(), kLeast);
  for (int64_t n = 1; n <= std::max<int64_t>(1, guess.longest()); ++n) {
    times.push_back(first + token * double(n));
  }
  return times;
}

}  // namespace

VerificationTimes::VerificationTimes(const Costs& guess) : last_plain_(kFirstPlain - kPlain) {
  curve_ = &curves_.emplace(0, with_overhead(guess)).first->second;
}

void VerificationTimes::begin(int64_t length) {
  ++rounds_;
  const int size = std::bit_width(uint64_t(length / kShort));
  const auto found = curves_.find(size);
  if (found != curves_.end()) {
    curve_ = &found->second;
  } else if (auto guess = seconds()) {
    curve_ = &curves_.emplace(size, *std::move(guess)).first->second;
  }
}

void VerificationTimes::add(int64_t rows, double seconds) {
  curve_->add(rows, seconds, rounds_);
  if (rows == 1) last_plain_ = rounds_;
}

bool VerificationTimes::is_plain_step_due() const { return rounds_ - last_plain_ >= kPlain; }

DraftingTimes::DraftingTimes(const Costs& guess, const Costs& without)
    : guess_(guess.draft(), std::max(0.0, guess.overhead() - without.overhead())),
      curve_(drafting_guess(guess, guess_.second)) {}

std::pair<double, double> DraftingTimes::costs(double step, int64_t round) {
  const auto found = curve_.seconds(round);
  if (!found) return guess_;
  const double token =
      (found->back() - found->front()) / double(std::max<size_t>(1, found->size() - 1));
  return {token / step, std::max(0.0, found->front() - token) / step};
}

MeasuredCosts::MeasuredCosts(Costs guess, VerificationTimes& verification, DraftingTimes* drafting)
    : guess_(std::make_shared<const Costs>(std::move(guess))),
      costs_(guess_),
      verification_(verification),
      drafting_(drafting) {}

std::shared_ptr<const Costs> MeasuredCosts::now() {
  const int64_t rounds = verification_.rounds();
  if (rounds >= next_) {
    next_ = rounds + kKept;
    costs_ = computed(rounds);
  }
  return costs_;
}

std::shared_ptr<const Costs> MeasuredCosts::computed(int64_t round) {
  auto seconds = verification_.seconds();
  if (!seconds) return guess_;
  const double step = seconds->front();
  const auto [draft, overhead] =
      drafting_ ? drafting_->costs(step, round) : std::pair<double, double>(0, 0);
  for (double& value : *seconds) value /= step;
  return std::make_shared<const Costs>(*std::move(seconds), draft, overhead);
}

}  // namespace edgespec
