#include "core/verification.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

// max(0, weight · p - q) over the tokens of p: [k].
std::vector<float> excess_of(const Distribution& p, const Distribution& q, double weight,
                             const SamplingTable& kernels) {
  std::vector<int64_t> indices(q.tokens->size());
  std::ranges::transform(*q.tokens, indices.begin(),
                         [&](Token token) { return p.index_of(token); });
  std::vector<float> left(p.size());
  kernels.excess(p.probabilities.data(), p.size(), float(weight), q.probabilities.data(),
                 indices.data(), q.size(), left.data());
  return left;
}

double sum(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Distribution of the token that replaces a rejected one: norm(max(0, weight · p - q)).
//
// Where p ≤ q everywhere up to rounding, nothing is left. The rejection that asked for it had
// probability zero up to rounding, and p itself is returned. A one-hot p is returned as it is.
Distribution residual(const Distribution& p, const Distribution& q, double weight,
                      const SamplingTable& kernels) {
  if (p.size() == 1) return p;
  std::vector<float> left = excess_of(p, q, weight, kernels);
  return sum(left) > 0 ? Distribution{p.tokens, std::move(left), ""} : p;
}

// p(token) / q(token).
double ratio(const Distribution& p, const Distribution& q, Token token) {
  const double probability = q.of(token);
  if (probability > 0) return p.of(token) / probability;
  throw Error("the draft proposed token " + shown(token) +
              ", to which its distribution q gives probability 0; a drafter must report the "
              "distribution that it drew from");
}

}  // namespace

VerificationResult token_rule(const Proposal& proposal, TargetDistributions& p,
                              Randomness& randomness, const SamplingTable& kernels) {
  const int64_t drafted = std::ssize(proposal.tokens);
  for (int64_t i = 0; i < drafted; ++i) {
    const Distribution& q = proposal.q[i];
    if (!randomness.bernoulli(ratio(p.at(i), q, proposal.tokens[i]))) {
      return {i, i + 1, residual(p.at(i), q, 1, kernels)};
    }
  }
  return {drafted, drafted, p.at(drafted)};
}

VerificationResult block_rule(const Proposal& proposal, TargetDistributions& p,
                              Randomness& randomness, const SamplingTable& kernels) {
  const int64_t drafted = std::ssize(proposal.tokens);
  std::vector<double> w = {1};
  for (int64_t i = 0; i < drafted && w.back() > 0; ++i) {
    w.push_back(std::min(w.back() * ratio(p.at(i), proposal.q[i], proposal.tokens[i]), 1.0));
  }
  if (randomness.bernoulli(w.back())) return {drafted, drafted, p.at(drafted)};
  for (int64_t i = std::ssize(w) - 2; i > 0; --i) {
    const double z = sum(excess_of(p.at(i), proposal.q[i], w[i], kernels));
    if (z > 0 && randomness.bernoulli(z / (z + (1 - w[i])))) {
      return {i, i + 1, residual(p.at(i), proposal.q[i], w[i], kernels)};
    }
  }
  return {0, 1, residual(p.at(0), proposal.q[0], 1, kernels)};
}

VerificationResult coupled_rule(const Proposal& proposal, TargetDistributions& p,
                                Randomness& randomness, const SamplingTable&) {
  const int64_t drafted = std::ssize(proposal.tokens);
  for (int64_t i = 0; i < drafted; ++i) {
    const Token chosen = randomness.categorical(p.at(i), i);
    if (chosen != proposal.tokens[i]) return {i, i + 1, one_hot(chosen)};
  }
  return {drafted, drafted, p.at(drafted)};
}

}  // namespace edgespec
