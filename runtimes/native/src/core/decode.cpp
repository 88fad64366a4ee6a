#include "core/decode.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace edgespec {
namespace {

// The tokens up to the one that ends the text, which may be an accepted one, or up to a row that
// has no token; and whether the text ends. Such a row is an error only where the text comes to it.
struct Emitted {
  Tokens tokens;
  bool ended;
};

Emitted until_end(const Tokens& run, const std::function<bool(Token)>& ends) {
  Emitted emitted{{}, false};
  for (const Token token : run) {
    if (token == kRefused) break;
    emitted.tokens.push_back(token);
    emitted.ended = ends(token);
    if (emitted.ended) break;
  }
  return emitted;
}

// The candidates that the target can score: alternatives to drafted tokens, as many as fit.
std::vector<Candidate> scored_candidates(const Model& target, const Proposal& proposal) {
  const int64_t count = std::ssize(proposal.tokens);
  std::vector<Candidate> candidates;
  std::ranges::copy_if(proposal.candidates, std::back_inserter(candidates),
                       [&](const auto& one) { return 0 <= one.parent && one.parent < count; });
  const auto room = static_cast<size_t>(target.candidate_room(1 + count));
  if (candidates.size() > room) candidates.resize(room);
  return candidates;
}

// Keeps the candidate that the correction equals in the target's cache, and returns its number.
//
// The correction is drawn as if there were no candidates. If it equals one, the distribution after
// it is known, because candidates are scored in the same call, and a bonus token follows. `run`:
// accepted tokens, then the correction. `start`: length of the target's cache before the call.
std::optional<int64_t> commit(Model& target, const std::vector<Candidate>& candidates,
                              const Tokens& run, int64_t start) {
  const int64_t count = std::ssize(run);
  const auto found = std::ranges::find(candidates, Candidate{count - 1, run.back()});
  if (found == candidates.end()) return std::nullopt;
  target.rewind(start + count);
  target.commit_candidate(found - candidates.begin());
  return found - candidates.begin();
}

}  // namespace

Requests<int64_t> Loop::begin() {
  const Token pending = co_await Prefill{&how_.target, &how_.prompt, &how_.answers};
  made_.sequence = {pending};
  made_.left = std::min(how_.max_new_tokens, how_.target.capacity() - how_.target.length());
  co_return made_.left;
}

Requests<std::optional<Round>> Plain::next() {
  auto& [sequence, left, refusal] = made_;
  if (left <= 0) co_return std::nullopt;
  how_.randomness.begin_round(std::ssize(sequence) - 1);
  const Tokens none;
  TargetDistributions* rows = co_await how_.score.score(sequence, none, {});
  const Distribution& p = rows->at(0);
  const Token token = how_.randomness.categorical(p, 0);
  if (token == kRefused) throw Error(p.refusal);
  sequence.push_back(token);
  left = how_.ends(token) ? 0 : left - 1;
  co_return Round{{token}, {0}};
}

Speculative::Speculative(Decoding how, Drafter& draft, Rule rule, Controller& gamma,
                         const SamplingTable& kernels)
    : Loop(std::move(how)), draft_(draft), rule_(rule), gamma_(gamma), kernels_(kernels) {
  draft_.begin(how_.prompt);
}

Speculative::Speculative(Decoding how, Made made, Drafter& draft, Rule rule, Controller& gamma,
                         const SamplingTable& kernels)
    : Loop(std::move(how), std::move(made)),
      draft_(draft),
      rule_(rule),
      gamma_(gamma),
      kernels_(kernels) {}

Requests<std::optional<Round>> Speculative::next() {
  auto& [sequence, left, refusal] = made_;
  if (!refusal.empty()) throw Error(refusal);
  if (left <= 0) co_return std::nullopt;
  Randomness& draws = how_.randomness;
  draws.begin_round(std::ssize(sequence) - 1);
  const int64_t most = std::min(gamma_.gamma(), left - 1);
  Proposal proposal;
  if (most > 0) proposal = co_await draft_.propose(sequence, most, draws);
  const std::vector<Candidate> candidates = scored_candidates(how_.target, proposal);
  const int64_t drafted = std::ssize(proposal.tokens), start = how_.target.length();
  TargetDistributions& p = *co_await how_.score.score(sequence, proposal.tokens, candidates);
  const VerificationResult result = rule_(proposal, p, draws, kernels_);
  Tokens run(proposal.tokens.begin(), proposal.tokens.begin() + result.accepted);
  run.push_back(draws.categorical(result.next, result.accepted));
  std::vector<int64_t> rows(run.size());
  std::iota(rows.begin(), rows.end(), 0);
  if (const auto number = commit(how_.target, candidates, run, start)) {
    draws.begin_round(std::ssize(sequence) - 1 + std::ssize(run));
    rows.push_back(1 + drafted + *number);
    run.push_back(draws.categorical(p.at(rows.back()), 0));
  }
  const auto [tokens, ended] = until_end(run, how_.ends);
  const int64_t count = std::ssize(tokens);
  if (count < std::ssize(run) && !ended) refusal = p.at(rows[count]).refusal;
  if (count == 0) throw Error(refusal);
  how_.target.rewind(start + count);
  sequence.insert(sequence.end(), tokens.begin(), tokens.end());
  left = ended ? 0 : left - count;
  gamma_.observe(drafted, result.evaluated, result.accepted, std::ssize(candidates));
  co_return Round{tokens, std::move(rows), drafted, std::min(result.evaluated, count),
                  std::min(result.accepted, count)};
}

}  // namespace edgespec
