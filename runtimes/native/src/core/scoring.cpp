#include "core/scoring.h"

#include <functional>

#include "core/error.h"

namespace edgespec {
namespace {

// Distributions made one row at a time, when asked for; a row that has none stands as `refused`.
class RowDistributions : public TargetDistributions {
 public:
  explicit RowDistributions(std::function<Distribution(int64_t)> make) : make_(std::move(make)) {}

  const Distribution& at(int64_t row) override {
    const auto known = made_.find(row);
    return known != made_.end() ? known->second : made_.emplace(row, made(row)).first->second;
  }

 private:
  Distribution made(int64_t row) const {
    try {
      return make_(row);
    } catch (const Error& error) {
      return refused(error.what());
    }
  }

  std::function<Distribution(int64_t)> make_;
  std::map<int64_t, Distribution> made_;
};

// The generated tokens that a row follows; the first pending token is not generated.
Tokens before(int64_t row, const Tokens& sequence, const Tokens& drafted, Candidates candidates) {
  Tokens generated(sequence.begin() + 1, sequence.end());
  const int64_t candidate = row - 1 - std::ssize(drafted);
  const int64_t accepted = candidate < 0 ? row : candidates[candidate].parent;
  generated.insert(generated.end(), drafted.begin(), drafted.begin() + accepted);
  if (candidate >= 0) generated.push_back(candidates[candidate].token);
  return generated;
}

}  // namespace

Requests<TargetDistributions*> Scoring::score(const Tokens& sequence, const Tokens& drafted,
                                              Candidates candidates) {
  Tokens tokens = {sequence.back()};
  tokens.insert(tokens.end(), drafted.begin(), drafted.end());
  if (process_.greedy() && edit_ == nullptr && !needs_logits_ && target_.returns_best_tokens()) {
    const BestTokens best = co_await BestScore{&target_, tokens, candidates};
    scored_ = std::make_unique<RowDistributions>(
        [best](int64_t row) { return arg_max_distribution(best.tokens[row], best.logits[row]); });
    co_return scored_.get();
  }
  const Rows rows = rows_ = co_await Score{&target_, tokens, candidates};
  if (edit_ == nullptr) {
    scored_ = std::make_unique<RowDistributions>(
        [this, rows](int64_t row) { return process_(rows[row]); });
    co_return scored_.get();
  }
  const std::vector<Candidate> others(candidates.begin(), candidates.end());
  scored_ =
      std::make_unique<RowDistributions>([this, rows, sequence, drafted, others](int64_t row) {
        return process_((*edit_)(rows[row], before(row, sequence, drafted, others)));
      });
  co_return scored_.get();
}

}  // namespace edgespec
