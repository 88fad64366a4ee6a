#include "drafters/alternating.h"

#include <algorithm>
#include <functional>

namespace edgespec {

void AlternatingDrafter::begin(const Tokens& prompt) {
  for (const Part& part : parts_) part.drafter->begin(prompt);
}

Requests<Proposal> AlternatingDrafter::propose(const Tokens& sequence, int64_t gamma,
                                               Randomness& randomness) {
  proposer_ = nullptr;
  std::vector<const Part*> by_speedup;
  for (const Part& part : parts_) by_speedup.push_back(&part);
  const auto speedup = [](const Part* part) { return part->gamma->expected_speedup(); };
  std::ranges::stable_sort(by_speedup, std::greater(), speedup);
  for (const Part* part : by_speedup) {
    const int64_t most = std::min(gamma, part->gamma->gamma());
    if (most == 0) continue;
    Proposal proposal = co_await part->drafter->propose(sequence, most, randomness);
    if (proposal.tokens.empty()) continue;
    proposer_ = part->gamma.get();
    co_return proposal;
  }
  co_return Proposal();
}

void AlternatingDrafter::archive(Archive& archive, const Tokens& sequence) {
  for (const Part& part : parts_) part.drafter->archive(archive, sequence);
}

int64_t AlternatingDrafter::gamma() {
  int64_t most = 0;
  for (const Part& part : parts_) most = std::max(most, part.gamma->gamma());
  return most;
}

void AlternatingDrafter::observe(int64_t drafted, int64_t evaluated, int64_t accepted,
                                 int64_t candidates) {
  for (const Part& part : parts_) {
    if (drafted > 0 && part.gamma.get() != proposer_) {
      part.gamma->decay();
    } else {
      part.gamma->observe(drafted, evaluated, accepted, candidates);
    }
  }
}

void AlternatingDrafter::archive(Archive& archive) {
  for (const Part& part : parts_) part.gamma->archive(archive);
}

}  // namespace edgespec
