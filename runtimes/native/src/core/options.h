// The options that change a distribution, with their ranges; edgespec/core/distribution_options.py
// has the same table, and a test compares the two.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/archive.h"
#include "core/distribution.h"

namespace edgespec {

// Sampling options; the target and the draft share them. They are applied in this order:
// temperature, top-n-sigma, top-k, top-p, min-p, XTC. Greedy text depends on none but the first.
struct Sampling {
  double temperature = 0;      // 0 is greedy; otherwise logits are divided by it
  int64_t top_k = 0;           // keep the k largest logits (and those equal to the k-th); 0: all
  double top_p = 1;            // keep the smallest set of most probable tokens of this mass; 1: all
  double min_p = 0;            // keep tokens at least this fraction as probable as the largest
  double top_n_sigma = 0;      // keep logits so many deviations below the largest; 0: all
  double xtc_probability = 0;  // how often the top choices are left out; 0: never
  double xtc_threshold = 0.1;  // probability that a token must have to be left out by it

  bool greedy() const { return temperature == 0; }
  void archive(Archive& archive) {
    archive(temperature, top_k, top_p, min_p, top_n_sigma, xtc_probability, xtc_threshold);
  }
};

// Changes of logits, applied in this order, before temperature and truncation.
struct LogitEdits {
  double repetition_penalty = 1;  // of tokens in the prompt and the text; 1 changes nothing
  double presence_penalty = 0;    // subtracted from the logits of generated tokens, once
  double frequency_penalty = 0;   // subtracted as often as the token was generated
  std::vector<std::pair<Token, double>> logit_bias;  // added to the logits of these tokens
  int64_t min_tokens = 0;  // a token that ends the text cannot come before so many others

  bool none() const;
  void archive(Archive& archive) {
    archive(repetition_penalty, presence_penalty, frequency_penalty, logit_bias, min_tokens);
  }
};

// Throws UsageError: an option is out of its range.
void check(const Sampling& sampling);

// Throws UsageError: an option is out of its range, or a token is not of the model's `vocab_size`.
void check(const LogitEdits& edits, int64_t vocab_size);

}  // namespace edgespec
