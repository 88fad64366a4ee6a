// Which calls compute a prompt, so that the cache of a conversation can be reused.
//
// A long call may round differently from a short one. The tokens that a model generated were
// computed in short calls, which all agree; everything else is computed by the same long calls each
// time. edgespec_runtimes/ort/prefill.py has the same plan.
#pragma once

#include <vector>

#include "core/archive.h"
#include "core/model.h"

namespace edgespec {

// A long call: its positions, begin … end - 1, and whether they belong to an answer.
struct LongCall {
  int64_t begin = -1;
  int64_t end = -1;
  bool is_answer = false;

  bool operator==(const LongCall&) const = default;
  void archive(Archive& archive) { archive(begin, end, is_answer); }
};

// Any short call.
constexpr LongCall kShortCall = {};

// How one position of the cache was computed.
struct CachedPosition {
  // What its keys and values depend on besides earlier positions: the token, and for an EAGLE head
  // also the target's.
  Token token;
  Token target_token = -1;
  LongCall call = kShortCall;

  bool operator==(const CachedPosition&) const = default;
  void archive(Archive& archive) { archive(token, target_token, call); }
};

// The call that computes each of a prompt's first `count` positions. `short_answers`: answers are
// computed in short calls again, else in long calls of their own.
std::vector<LongCall> plan_prefill(int64_t count, const std::vector<Range>& answers,
                                   bool short_answers);

// The number of leading positions in the cache that equal those computed from scratch. A long call
// that would hold other tokens is not reused in part.
int64_t reusable_length(const std::vector<CachedPosition>& cached,
                        const std::vector<CachedPosition>& wanted);

// Where the call that begins at `begin` ends; a short one has at most `max_short_rows` rows.
int64_t call_end(int64_t begin, const std::vector<LongCall>& plan, int64_t max_short_rows);

}  // namespace edgespec
