#include "core/randomness.h"

#include <cmath>
#include <string>

#include "core/blake2b.h"

namespace edgespec {
namespace {

// How much slower than the first the last token of a race may be that a guess looks at, and the
// power of speeds whose shares are right most often (docs/measurements/drafting.md).
constexpr double kReach = 64, kPower = 0.6;

}  // namespace

std::vector<Guess> Randomness::guesses(const Distribution& q, int64_t ahead) {
  const Token token = categorical(q, ahead);
  return {{token, q.of(token)}};
}

void Seeded::begin_round(int64_t emitted) {
  emitted_ = emitted;
  draws_ = 0;
}

double Seeded::uniform() {
  const std::string name =
      std::to_string(seed_) + ":" + std::to_string(emitted_) + ":" + std::to_string(draws_++);
  return double(blake2b(name, 8)[0] >> 11) * 0x1p-53;
}

bool Seeded::bernoulli(double probability) {
  if (probability >= 1 || probability <= 0) return probability > 0;  // certain: nothing is drawn
  return uniform() < probability;
}

Token Seeded::categorical(const Distribution& distribution, int64_t) {
  const Tokens& tokens = *distribution.tokens;
  if (tokens.size() == 1) return tokens[0];
  return tokens[kernels_.draw(distribution.probabilities.data(), distribution.size(), uniform())];
}

Token Coupled::categorical(const Distribution& distribution, int64_t ahead) {
  const Tokens& tokens = *distribution.tokens;
  if (tokens.size() == 1) return tokens[0];
  return race(distribution, ahead, 1.0).front().token;
}

std::vector<Guess> Coupled::guesses(const Distribution& q, int64_t ahead) {
  std::vector<Guess> guesses;
  double total = 0;
  for (const auto& [token, speed] : race(q, ahead, kReach)) {
    guesses.push_back({token, std::pow(speed, kPower)});
    total += guesses.back().probability;
  }
  for (Guess& guess : guesses) guess.probability /= total;
  return guesses;
}

const std::vector<Arrival>& Coupled::race(const Distribution& distribution, int64_t ahead,
                                          double reach) const {
  const NoiseKey key = noise_key(seed_, prompt_tokens_ + emitted_ + ahead);
  return kernels_.race(distribution.tokens->data(), distribution.probabilities.data(),
                       distribution.size(), key, reach);
}

NoiseKey noise_key(uint64_t seed, int64_t position) {
  const auto words = blake2b(std::to_string(seed) + ":" + std::to_string(position), 16);
  return {uint32_t(words[0]), uint32_t(words[0] >> 32), uint32_t(words[1]),
          uint32_t(words[1] >> 32)};
}

}  // namespace edgespec
