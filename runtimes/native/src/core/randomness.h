// The only two kinds of random draws in the library.
//
// Everything random goes through `Randomness`, so a test can answer each draw itself and walk every
// branch of the loops.
#pragma once

#include <cstdint>
#include <vector>

#include "core/distribution.h"
#include "kernels/sampling.h"

namespace edgespec {

// A token that a draft may propose, and how probable it is that the target takes it.
struct Guess {
  Token token;
  double probability;
};

// A source of random draws.
class Randomness {
 public:
  virtual ~Randomness() = default;
  // Begins the round that comes after `emitted` tokens.
  virtual void begin_round(int64_t emitted) = 0;
  // True with this probability: always from 1 on, never at 0 or below.
  virtual bool bernoulli(double probability) = 0;
  // A token, drawn with probability proportional to its weight; `ahead` tokens of the round come
  // before it.
  virtual Token categorical(const Distribution& distribution, int64_t ahead) = 0;
  // The token that `categorical` draws from a draft's q, then others that the target may draw in
  // its stead, the likeliest first, with guesses of the probability that it does.
  virtual std::vector<Guess> guesses(const Distribution& q, int64_t ahead);
};

// Counter-based random numbers: a hash of the seed, the round, and the draw's index in it.
//
// A round is identified by the number of tokens emitted before it. So draws for tokens that were
// rejected leave no trace in later rounds, and the same seed gives the same text in every language:
// BLAKE2b with digest size 8 of the text "seed:emitted:draw", read as a little-endian integer, of
// which the upper 53 bits make a number in [0, 1).
class Seeded : public Randomness {
 public:
  Seeded(const SamplingTable& kernels, uint64_t seed) : kernels_(kernels), seed_(seed) {}

  void begin_round(int64_t emitted) override;
  bool bernoulli(double probability) override;
  Token categorical(const Distribution& distribution, int64_t ahead) override;
  // The next number in [0, 1) of this round.
  double uniform();

 protected:
  const SamplingTable& kernels_;
  uint64_t seed_;
  int64_t emitted_ = 0;

 private:
  int64_t draws_ = 0;
};

// Tokens chosen by the noise of their position, for the coupled rule.
//
// Whoever asks for a position's token uses the same noise: the target's choice does not depend on
// what was drafted, and a draft close to the target makes the same choice. A position is the number
// of tokens before it, the prompt's and the emitted ones.
class Coupled : public Seeded {
 public:
  Coupled(const SamplingTable& kernels, uint64_t seed, int64_t prompt_tokens)
      : Seeded(kernels, seed), prompt_tokens_(prompt_tokens) {}

  Token categorical(const Distribution& distribution, int64_t ahead) override;
  // Each token's share of a power of all speeds in the race.
  std::vector<Guess> guesses(const Distribution& q, int64_t ahead) override;

 private:
  const std::vector<Arrival>& race(const Distribution& distribution, int64_t ahead,
                                   double reach) const;

  int64_t prompt_tokens_;
};

// The key of one position of a text: BLAKE2b with digest size 16 of "seed:position".
NoiseKey noise_key(uint64_t seed, int64_t position);

}  // namespace edgespec
