#include "core/randomness.h"

#include <string>

#include "core/blake2b.h"

namespace edgespec {

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
  const NoiseKey key = noise_key(seed_, prompt_tokens_ + emitted_ + ahead);
  return kernels_
      .race(tokens.data(), distribution.probabilities.data(), distribution.size(), key, 1.0)
      .front()
      .token;
}

NoiseKey noise_key(uint64_t seed, int64_t position) {
  const auto words = blake2b(std::to_string(seed) + ":" + std::to_string(position), 16);
  return {uint32_t(words[0]), uint32_t(words[0] >> 32), uint32_t(words[1]),
          uint32_t(words[1] >> 32)};
}

}  // namespace edgespec
