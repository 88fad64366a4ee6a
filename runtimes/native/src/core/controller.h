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
  // Reports a round: how many tokens were drafted, looked at by the rule, and accepted, and how
  // many candidates were scored beside them.
  virtual void observe(int64_t drafted, int64_t evaluated, int64_t accepted,
                       int64_t candidates) = 0;
  // What it has learned from a text's rounds.
  virtual void archive(Archive&) {}
};

// The controller of one drafter of several: its expected speed-up is compared with the others'.
class Judged : public Controller {
 public:
  // Of drafting now, over plain decoding.
  virtual double expected_speedup() const = 0;
  // Another drafter ran in this round.
  virtual void decay() = 0;
};

// Always the same γ. All expect the same speed-up, so that of several drafters the first is used.
class Fixed : public Judged {
 public:
  explicit Fixed(int64_t gamma) : gamma_(gamma) {}

  int64_t gamma() override { return gamma_; }
  void observe(int64_t, int64_t, int64_t, int64_t) override {}
  double expected_speedup() const override { return 1; }
  void decay() override {}

 private:
  int64_t gamma_;
};

}  // namespace edgespec
