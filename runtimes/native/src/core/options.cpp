#include "core/options.h"

#include <cmath>
#include <string>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

constexpr double kMinTemperature = 1e-6;  // below it, logits / temperature would leave the range
constexpr double kMaxTemperature = 1e30;  // far beyond it, 0 times a masked logit is no number
constexpr double kMaxPenalty = 2;         // OpenAI's limits
constexpr double kMaxBias = 100;

template <typename Number>
void require(bool holds, const char* name, Number value, const char* give) {
  if (!holds) throw UsageError(std::string(name) + " is " + shown(value) + "; give " + give);
}

void check_penalty(const char* name, double value) {
  require(-kMaxPenalty <= value && value <= kMaxPenalty, name, value, "a number from -2 to 2");
}

bool is_share(double value) { return 0 <= value && value <= 1; }

}  // namespace

bool LogitEdits::none() const {
  return repetition_penalty == 1 && presence_penalty == 0 && frequency_penalty == 0 &&
         logit_bias.empty() && min_tokens == 0;
}

void check(const Sampling& sampling) {
  const double t = sampling.temperature, sigma = sampling.top_n_sigma;
  require(t == 0 || (kMinTemperature <= t && t <= kMaxTemperature), "temperature", t,
          "0 (greedy) or 1e-06 or more, up to 1e+30");
  require(sampling.top_k >= 0, "top_k", sampling.top_k, "0 (off) or a whole number above it");
  require(0 < sampling.top_p && sampling.top_p <= 1, "top_p", sampling.top_p,
          "a number above 0 and at most 1 (off)");
  require(is_share(sampling.min_p), "min_p", sampling.min_p, "a number from 0 (off) to 1");
  require(0 <= sigma && sigma < HUGE_VAL, "top_n_sigma", sigma, "0 (off) or a number above it");
  require(is_share(sampling.xtc_probability), "xtc_probability", sampling.xtc_probability,
          "a number from 0 (off) to 1");
  require(is_share(sampling.xtc_threshold), "xtc_threshold", sampling.xtc_threshold,
          "a number from 0 to 1");
}

void check(const LogitEdits& edits, int64_t vocab_size) {
  const double repetition = edits.repetition_penalty;
  require(0 < repetition && repetition < HUGE_VAL, "repetition_penalty", repetition,
          "a number above 0 (1 is off)");
  check_penalty("presence_penalty", edits.presence_penalty);
  check_penalty("frequency_penalty", edits.frequency_penalty);
  require(edits.min_tokens >= 0, "min_tokens", edits.min_tokens,
          "0 (off) or a whole number above it");
  for (const auto& [token, bias] : edits.logit_bias) {
    if (token < 0) throw UsageError("logit_bias has the token " + shown(token) + "; give its id");
    if (!(-kMaxBias <= bias && bias <= kMaxBias)) {
      throw UsageError("the logit_bias of token " + shown(token) + " is " + shown(bias) +
                       "; give a number from -100 to 100");
    }
  }
  for (const auto& [token, bias] : edits.logit_bias) {
    if (token < vocab_size) continue;
    throw UsageError("logit_bias has the token " + shown(token) + "; this model's are 0 to " +
                     shown(vocab_size - 1));
  }
}

}  // namespace edgespec
