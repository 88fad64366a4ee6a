#include "core/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace edgespec {
namespace {

double sum(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The standard deviation of the finite logits, summed in their order, as in Python.
double deviation(Row logits) {
  double total = 0, squares = 0, count = 0;
  for (const float logit : logits) {
    if (std::isfinite(logit)) total += logit, ++count;
  }
  const double mean = total / count;
  for (const float logit : logits) {
    if (std::isfinite(logit)) squares += (logit - mean) * (logit - mean);
  }
  return std::sqrt(squares / count);
}

// The k-th largest value.
float kth_largest(std::vector<float> values, int64_t k) {
  std::nth_element(values.begin(), values.begin() + (k - 1), values.end(), std::greater<>());
  return values[k - 1];
}

// Keeps the tokens whose value is at least `lowest`.
void keep_at_least(std::shared_ptr<const Tokens>& tokens, std::vector<float>& values,
                   float lowest) {
  auto kept = std::make_shared<Tokens>();
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= lowest)) continue;
    kept->push_back(tokens ? (*tokens)[i] : Token(i));
    values[count++] = values[i];
  }
  values.resize(count);
  tokens = std::move(kept);
}

// XTC: the mean of the distribution and of the one without its top choices, by the probability that
// these are left out.
void leave_out_top_choices(std::shared_ptr<const Tokens>& tokens, std::vector<float>& p,
                           const Sampling& sampling) {
  const float threshold = float(sampling.xtc_threshold);
  size_t tops = 0, least = 0;  // of the top choices, the least probable stays; of equals the first
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] >= threshold && (tops++ == 0 || p[i] < p[least])) least = i;
  }
  if (tops < 2) return;
  std::vector<bool> is_left_out(p.size());
  double share = 0;  // of what stays, summed in order, as in Python
  for (size_t i = 0; i < p.size(); ++i) {
    is_left_out[i] = p[i] >= threshold && i != least;
    if (!is_left_out[i]) share += p[i];
  }
  const double stays = 1 - sampling.xtc_probability;
  const double raised = stays + sampling.xtc_probability / share;
  auto kept = std::make_shared<Tokens>();
  size_t count = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (stays <= 0 && is_left_out[i]) continue;
    kept->push_back(tokens ? (*tokens)[i] : Token(i));
    p[count++] = float(p[i] * (is_left_out[i] ? stays : raised));
  }
  p.resize(count);
  tokens = std::move(kept);
}

}  // namespace

Distribution SamplingProcessor::operator()(Row logits) {
  const Token best = kernels_.largest(logits.data(), std::ssize(logits));
  if (greedy()) return arg_max_distribution(best, logits[best]);
  check_largest_logit(logits[best]);
  const double highest = logits[best];
  double total = 0;
  Left kept;
  if (!keeps_all_logits()) {
    kept = truncated(logits, highest);
    drop_improbable(kept, highest);
    logits = kept.values;
  }
  auto [tokens, weights] = weighed(std::move(kept.tokens), logits, highest, total);
  if (sampling_.min_p > 0) {  // the most probable token weighs exp(0) = 1
    keep_at_least(tokens, weights, float(sampling_.min_p));
    total = sum(weights);
  }
  const float factor = float(1 / total);
  for (float& weight : weights) weight *= factor;
  if (sampling_.xtc_probability > 0) leave_out_top_choices(tokens, weights, sampling_);
  if (tokens == nullptr) tokens = all_tokens(std::ssize(weights));
  return {std::move(tokens), std::move(weights), ""};
}

std::vector<Guess> SamplingProcessor::best(Row logits, int64_t count) const {
  const int64_t size = std::ssize(logits);
  const float highest = logits[kernels_.largest(logits.data(), size)];
  std::vector<float> weights(logits.size());
  const double total = kernels_.weigh(logits.data(), size, highest, 1, weights.data());
  std::vector<Guess> best;
  for (int64_t i = 0; i < std::min(count, size); ++i) {
    const Token token = kernels_.largest(weights.data(), size);
    best.push_back({token, weights[token] / total});
    weights[token] = -1;
  }
  return best;
}

SamplingProcessor::Left SamplingProcessor::truncated(Row logits, double highest) const {
  Left left{nullptr, {logits.begin(), logits.end()}};
  if (sampling_.top_n_sigma > 0) {
    const double lowest = highest - sampling_.top_n_sigma * deviation(logits);
    keep_at_least(left.tokens, left.values, float(lowest));
  }
  if (0 < sampling_.top_k && sampling_.top_k < std::ssize(left.values)) {
    keep_at_least(left.tokens, left.values, kth_largest(left.values, sampling_.top_k));
  }
  return left;
}

void SamplingProcessor::drop_improbable(Left& left, double highest) const {
  if (!(sampling_.min_p > 0) || sampling_.top_p < 1) return;
  // A little lower, so that rounding drops no token that the exact min-p test keeps.
  const double lowest = highest + sampling_.temperature * std::log(sampling_.min_p) - 1e-3;
  keep_at_least(left.tokens, left.values, float(lowest));
}

SamplingProcessor::Left SamplingProcessor::weighed(std::shared_ptr<const Tokens> tokens, Row logits,
                                                   double highest, double& total) {
  if (sampling_.top_p < 1) {
    Left left = nucleus(tokens, logits, highest);
    total = sum(left.values);
    return left;
  }
  std::vector<float> weights(logits.size());
  total = kernels_.weigh(logits.data(), std::ssize(logits), float(highest),
                         float(1 / sampling_.temperature), weights.data());
  return {std::move(tokens), std::move(weights)};
}

SamplingProcessor::Left SamplingProcessor::nucleus(const std::shared_ptr<const Tokens>& tokens,
                                                   Row logits, double highest) {
  if (indices_.size() < logits.size()) {
    indices_.resize(logits.size());
    weights_.resize(logits.size());
  }
  const int64_t count = kernels_.nucleus(logits.data(), std::ssize(logits), float(highest),
                                         float(1 / sampling_.temperature), sampling_.top_p,
                                         indices_.data(), weights_.data());
  auto kept = std::make_shared<Tokens>(indices_.begin(), indices_.begin() + count);
  if (tokens) {
    for (Token& index : *kept) index = (*tokens)[index];
  }
  return {std::move(kept), {weights_.begin(), weights_.begin() + count}};
}

bool SamplingProcessor::keeps_all_logits() const {
  return sampling_.top_n_sigma == 0 && sampling_.top_k == 0 &&
         (sampling_.min_p == 0 || sampling_.top_p < 1);
}

std::shared_ptr<const Tokens> SamplingProcessor::all_tokens(int64_t count) {
  if (all_ == nullptr || std::ssize(*all_) != count) {
    auto all = std::make_shared<Tokens>(count);
    std::iota(all->begin(), all->end(), 0);
    all_ = std::move(all);
  }
  return all_;
}

}  // namespace edgespec
