#include "costs/load_costs.h"

#include <algorithm>

namespace edgespec {
namespace {

constexpr double kDraftRow = 0.02;  // guess of one more row of a draft's call, in calls of one row
constexpr int64_t kFirst = 8, kKept = 64;  // calls after which times are made anew: at first, later

std::vector<double> draft_guess(double token, size_t rows) {
  std::vector<double> times;
  for (size_t row = 0; row < rows; ++row) times.push_back(token * (1 + kDraftRow * double(row)));
  return times;
}

}  // namespace

CallTimes::CallTimes(const Costs& lookup, double draft)
    : times_{lookup.verify(), draft_guess(draft, lookup.verify().size()), 0},
      target_curve_(times_.target) {
  if (draft > 0) draft_curve_.emplace(times_.draft);
}

void CallTimes::add(int64_t rows, double seconds, bool is_draft) {
  ++calls_;
  if (!is_draft) target_curve_.add(rows, seconds, calls_);
  if (is_draft && draft_curve_) draft_curve_->add(rows, seconds, calls_);
}

void CallTimes::add_draft_reading(double seconds, int64_t prompts) {
  reading_seconds_ += seconds;
  readings_ += prompts;
}

void CallTimes::add_text(int64_t tokens) {
  ++texts_;
  tokens_ += tokens;
}

const CallTimes::Times& CallTimes::now() {
  if (calls_ < next_) return times_;
  next_ = calls_ + std::clamp(calls_, kFirst, kKept);
  auto target = target_curve_.seconds(calls_);
  if (!target) return times_;
  auto draft = draft_curve_ ? draft_curve_->seconds(calls_) : std::nullopt;
  if (!draft) {
    const double unit = target->front() / times_.target.front();  // in what they are guessed in
    draft = times_.draft;
    for (double& seconds : *draft) seconds *= unit;
  }
  times_ = {*std::move(target), *std::move(draft), draft_reading()};
  ++edition_;
  return times_;
}

double CallTimes::draft_reading() const {
  if (readings_ == 0 || tokens_ == 0) return 0;
  return reading_seconds_ / double(readings_) / (double(tokens_) / double(texts_));
}

std::shared_ptr<const Costs> LoadCosts::now() {
  const auto& [target, draft, reading] = load_.times.now();
  const int64_t most = std::ssize(target), live = std::min(load_.live, most);
  if (live == live_ && edition_ == load_.times.edition()) return known_;
  live_ = live;
  edition_ = load_.times.edition();
  const double step = target[live - 1];
  std::vector<double> verify;
  for (int64_t gamma = 0; gamma <= longest_; ++gamma) {
    verify.push_back(target[std::min(live * (1 + gamma), most) - 1] / step);
  }
  const double token = uses_model_ ? (draft[live - 1] + double(live) * reading) / step : 0;
  known_ = std::make_shared<const Costs>(std::move(verify), token, 0);
  return known_;
}

void AfterFirst::observe(int64_t drafted, int64_t evaluated, int64_t accepted, int64_t candidates) {
  if (!is_first_) controller_->observe(drafted, evaluated, accepted, candidates);
  is_first_ = false;
}

}  // namespace edgespec
