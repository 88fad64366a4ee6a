// The cost of a round and the tokens it is expected to bring, in units of a plain decoding step.
//
// Leviathan et al. (2022), Theorem 3.8, assume that verification is free. On a device it is not, so
// v(γ + 1) replaces 1, and the loop's own time o is added. edgespec/costs has the same model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace edgespec {

// Times of a target and a draft, in units of a plain step (the loop's share included).
class Costs {
 public:
  // `verify`: v(1), v(2), …, where v(m) = t_target(m) / t_target(1). `draft`: c = t_draft(1) /
  // t_target(1), 0 for prompt lookup. `overhead`: the loop's extra time for a drafted round.
  Costs(std::vector<double> verify, double draft, double overhead);

  const std::vector<double>& verify() const { return verify_; }
  double draft() const { return draft_; }
  double overhead() const { return overhead_; }
  int64_t longest() const { return std::ssize(verify_) - 1; }  // the largest γ
  // Cost of a round that drafts γ tokens.
  double round(int64_t gamma) const { return rounds_[gamma]; }
  // Cost of one more position in a verification of `rows` positions, from 1.
  double marginal(int64_t rows) const {
    return marginals_[std::min<int64_t>(rows, std::ssize(marginals_)) - 1];
  }
  // The γ with the largest speed-up (0 where drafting does not pay), and that speed-up.
  std::pair<int64_t, double> best(double acceptance) const;

 private:
  std::vector<double> verify_;
  double draft_, overhead_;
  std::vector<double> rounds_, marginals_;
};

// Where a controller takes the costs from: fixed ones, or what the clock says by now.
class CostSource {
 public:
  virtual ~CostSource() = default;
  // Whether a draft that cannot pay by the costs of now may do so later.
  virtual bool may_change() const = 0;
  virtual std::shared_ptr<const Costs> now() = 0;
};

class FixedCosts : public CostSource {
 public:
  explicit FixedCosts(Costs costs) : costs_(std::make_shared<const Costs>(std::move(costs))) {}

  bool may_change() const override { return false; }
  std::shared_ptr<const Costs> now() override { return costs_; }

 private:
  std::shared_ptr<const Costs> costs_;
};

// What one more position costs in a call of a target, by the number format of its weights.
struct RowCost {
  double marginal = 0.045;  // in addition to a fixed time
  double arithmetic = 0;    // of a position, which binds calls of many; 0 if it is not known
};

// Costs for a device that was not measured. `draft_bytes`: 0 for a draft that is no model.
// `min_rows`: the fewest positions that the target is called with.
Costs estimated_costs(double target_bytes, double draft_bytes, int64_t longest, RowCost row_cost,
                      int64_t min_rows);

}  // namespace edgespec
