// How many tokens to draft in a round: γ.
#pragma once

#include <cstdint>

#include "core/archive.h"

namespace edgespec {

// Chooses γ for each round.
class Controller {
 public:
  virtual ~Controller() = default;
  // How many tokens to draft next.
  virtual int64_t gamma() = 0;
  // Reports a round: how many tokens were drafted, looked at by the rule, and accepted.
  virtual void observe(int64_t drafted, int64_t evaluated, int64_t accepted) = 0;
  // What it has learned from a text's rounds.
  virtual void archive(Archive&) {}
};

// Always the same γ.
class Fixed : public Controller {
 public:
  explicit Fixed(int64_t gamma) : gamma_(gamma) {}

  int64_t gamma() override { return gamma_; }
  void observe(int64_t, int64_t, int64_t) override {}

 private:
  int64_t gamma_;
};

}  // namespace edgespec
