#include "session/request.h"

#include <random>

#include "core/error.h"
#include "core/shown.h"
#include "text/message_text.h"

namespace edgespec {
namespace {

constexpr int kSeedBits = 53;  // a JSON reader that has only doubles reads no more

uint64_t new_seed() {
  std::random_device random;
  return (uint64_t(random()) << 32 | random()) >> (64 - kSeedBits);
}

void check_gamma(const Request& request, const Pair& pair) {
  const int64_t longest = pair.max_rows() - 1;
  if (request.gamma < kGammaAuto) {
    throw UsageError("gamma is " + shown(request.gamma) + "; give a whole number from 0, or " +
                     shown(kGammaAuto) + " for as many as pay");
  }
  if (request.gamma > longest) {
    throw UsageError("gamma is " + shown(request.gamma) +
                     "; this target was found exact for at most " + shown(longest) +
                     " drafted tokens");
  }
}

// Throws UsageError: answers are not in order.
void check_answers(const Request& request) {
  if (!request.answers) return;
  int64_t free = 0;
  for (const auto& [begin, end] : *request.answers) {
    if (free > begin || begin > end) {
      throw UsageError("answers has the positions from " + shown(begin) + " up to " + shown(end) +
                       " after those up to " + shown(free) + "; give them in order");
    }
    free = end;
  }
}

}  // namespace

void Request::archive(Archive& archive) {
  archive(prompt, answers, sampling, edits, stop, stop_tokens, ignore_eos, max_new_tokens, logprobs,
          seed, gamma);
  archive.choice(text, TextForm::kAlone);
  archive.choice(draft, DraftName::kBoth);
  archive.choice(rule, RuleName::kBlock);
}

bool uses_model(const Request& request) {
  return request.draft == DraftName::kModel || request.draft == DraftName::kBoth;
}

RuleName rule_of(const Request& request) {
  if (request.rule != RuleName::kDefault) return request.rule;
  return request.sampling.greedy() ? RuleName::kToken : RuleName::kCoupled;
}

bool keeps_text(const Request& request, const Pair& pair) {
  return pair.is_row_invariant() &&
         (request.sampling.greedy() || rule_of(request) == RuleName::kCoupled);
}

Request checked(Request request, const Pair& pair) {
  check(request.sampling);
  check_answers(request);
  check(request.edits, pair.manifest().target.vocab_size);
  if (request.max_new_tokens < -1) {
    throw UsageError("max_new_tokens is " + shown(request.max_new_tokens) +
                     "; give a whole number from 0, or -1 for no limit");
  }
  for (const Token token : request.stop_tokens) {
    if (0 <= token && token < pair.manifest().target.vocab_size) continue;
    throw UsageError("stop_tokens has the token " + shown(token) + "; this model's are 0 to " +
                     shown(pair.manifest().target.vocab_size - 1));
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty()) throw UsageError("a stop string is empty; give at least one character");
    check_text(stop, "a stop string");
  }
  if (uses_model(request) && !pair.has_draft()) request.draft = DraftName::kLookup;
  if (request.draft != DraftName::kNone) {
    check_gamma(request, pair);
    pair.check_may_speculate();
  }
  if (!pair.is_row_invariant()) request.answers.reset();
  if (!request.seed) request.seed = new_seed();
  return request;
}

}  // namespace edgespec
