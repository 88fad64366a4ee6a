#include "costs/costs.h"

#include <algorithm>

namespace edgespec {
namespace {

// Guesses for devices that were not measured, see edgespec/costs/cost_model.py. Fixed times, in
// bytes of weights that are read meanwhile:
constexpr double kCallBytes = 6'000'000;  // any call of a model, in addition to its weights
constexpr double kRowBytes = 1'000'000;   // one more position, in addition to its products
constexpr double kLoopBytes = 8'000'000;  // a drafted round, in addition to a plain step
constexpr double kSmallestTargetBytes = 27'000'000;  // the smallest target that was measured
constexpr double kCachedDraftBytes = 16'000'000;     // of a draft that stay in the cache
// A target of at most so many bytes may stay in the last-level cache and is read faster.
constexpr double kCacheBytes = 32'000'000, kCacheSpeedup = 2.5;

}  // namespace

Costs::Costs(std::vector<double> verify, double draft, double overhead)
    : verify_(std::move(verify)), draft_(draft), overhead_(overhead) {
  for (int64_t gamma = 0; gamma < std::ssize(verify_); ++gamma) {
    const double drafting = gamma > 0 ? double(gamma) * draft_ + overhead_ : 0.0;
    rounds_.push_back(verify_[gamma] + drafting);
  }
  // Measured curves are not smooth: a slope is the mean of its neighbours', and no less than 0.
  for (int64_t rows = 1; rows <= std::max<int64_t>(1, longest()); ++rows) {
    const int64_t first = std::max<int64_t>(0, rows - 2), last = std::min(longest(), rows + 1);
    const double rise = verify_[last] - verify_[first];
    marginals_.push_back(std::max(0.0, rise / double(std::max<int64_t>(1, last - first))));
  }
}

std::pair<int64_t, double> Costs::best(double acceptance) const {
  int64_t best = 0;
  double largest = 0, tokens = 0, reached = 1;
  for (int64_t gamma = 0; gamma < std::ssize(rounds_); ++gamma) {
    tokens += reached;
    reached *= acceptance;
    if (tokens > largest * rounds_[gamma]) {
      best = gamma;
      largest = tokens / rounds_[gamma];
    }
  }
  return {best, largest};
}

Costs estimated_costs(double target_bytes, double draft_bytes, int64_t longest, RowCost row_cost,
                      int64_t min_rows) {
  double reading = std::max(target_bytes, kSmallestTargetBytes);
  if (reading <= kCacheBytes) reading /= kCacheSpeedup;
  const double step = reading + kCallBytes;
  const double slope = row_cost.marginal + kRowBytes / step;
  std::vector<double> verify;
  for (int64_t rows = 1; rows <= longest + 1; ++rows) {
    verify.push_back(std::max(1 + slope * double(std::max<int64_t>(0, rows - min_rows)),
                              row_cost.arithmetic * double(rows)));
  }
  const double drafting = draft_bytes / step, call = kCallBytes / step, loop = kLoopBytes / step;
  if (draft_bytes == 0) return {verify, 0, loop};
  if (draft_bytes > kCachedDraftBytes) return {verify, drafting + call, loop};
  return {verify, call, loop + drafting};
}

}  // namespace edgespec
