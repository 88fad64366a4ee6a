#include "invariance/measure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "artifact/manifest.h"
#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

// Cached positions before a text. Kernels may change with the length of the cache, or treat the end
// of a block of positions differently: the texts cross 32, 64 and 128, and these numbers differ
// modulo 4 and 8.
constexpr std::array<int64_t, 4> kStarts = {1, 20, 58, 119};
constexpr int64_t kPositionsAfterStart = 2 * kMaxRows;

// A call with the next tokens of a text, and random ones that are rejected afterwards.
struct MeasuredCall {
  int64_t kept;
  int64_t rejected = 0;
};

// The calls that score a text, or its beginning, one after the other.
using Walk = std::vector<MeasuredCall>;
using Logits = std::vector<float>;

// Every number of rows from 2, at the start and further on; then rounds that accept 0 to 4 tokens
// of 1 to 16: what a call rejects must leave no trace.
std::vector<Walk> walks() {
  std::vector<Walk> walks;
  for (int64_t rows = 2; rows < kMaxRows; ++rows) {
    const int64_t rest = kMaxRows - rows;
    walks.push_back({{rows}, {rest, rest == 1 ? 1 : 0}});
  }
  walks.push_back({{1, 16}, {2, 3}, {3, 9}, {4, 1}, {5, 7}, {2, 15}});
  return walks;
}

// Random tokens, the same each time.
class Draws {
 public:
  explicit Draws(int64_t vocab_size) : vocab_size_(vocab_size) {}

  Tokens tokens(int64_t count) {
    Tokens tokens(count);
    for (Token& token : tokens) token = below(vocab_size_);
    return tokens;
  }
  // A number from 0 to `end` - 1.
  int64_t below(int64_t end) { return int64_t(numbers_() % uint64_t(end)); }

 private:
  std::mt19937_64 numbers_{0};
  int64_t vocab_size_;
};

// Fills the cache, as a prompt; an encoder takes the prompt itself.
Passage filled(Model& model, int64_t start, Draws& draws) {
  Passage passage{draws.tokens(start + 1), {}, {}, {}};
  model.prefill(passage.prompt, std::nullopt);
  while (model.length() < start) {
    const Tokens more = draws.tokens(std::min(start - model.length(), kMaxRows));
    model.score(more, {});
    passage.before.insert(passage.before.end(), more.begin(), more.end());
  }
  return passage;
}

// The logits after each token of `text` that the calls keep; the cache is as before.
Logits scored(Model& model, const Tokens& text, const Walk& walk, Draws& draws) {
  const int64_t start = model.length();
  Logits logits;
  int64_t end = 0;
  for (const auto& [kept, rejected] : walk) {
    Tokens tokens(text.begin() + end, text.begin() + end + kept);
    const Tokens others = draws.tokens(rejected);
    tokens.insert(tokens.end(), others.begin(), others.end());
    const Rows rows = model.score(tokens, {});
    logits.insert(logits.end(), rows.logits, rows.logits + kept * rows.width);
    end += kept;
    model.rewind(start + end);
  }
  model.rewind(start);
  return logits;
}

// Rows of the calls that score a text with candidates, repeated until its end.
constexpr std::array<std::array<int64_t, 5>, 2> kCandidateWalks = {
    {{3, 17, 9, 4, 13}, {6, 5, 11, 15, 8}}};

// The logits after each token of `text`, perhaps without the last, in calls with so many rows; the
// cache is as before.
//
// A call has the next tokens of the text, then random tokens, then random candidates of which one
// is the token of the text that the random tokens replaced. This one is committed.
Logits scored_as_candidates(Model& model, const Tokens& text, std::span<const int64_t> walk,
                            Draws& draws) {
  const int64_t begin = model.length(), width = model.vocab_size();
  Logits logits;
  for (int64_t end = 0, call = 0; end + 1 < std::ssize(text); ++call) {
    const int64_t rows = walk[call % std::ssize(walk)];
    const int64_t count = 1 + draws.below(rows - 2), tokens = rows - count;
    const int64_t parent = std::min(draws.below(tokens - 1), std::ssize(text) - end - 2);
    const int64_t right = draws.below(count);
    std::vector<Candidate> candidates;
    for (const Token token : draws.tokens(count)) {
      candidates.push_back({draws.below(tokens - 1), token});
    }
    candidates[right] = {parent, text[end + parent + 1]};
    Tokens line(text.begin() + end, text.begin() + end + parent + 1);
    const Tokens others = draws.tokens(tokens - parent - 1);
    line.insert(line.end(), others.begin(), others.end());
    const Rows scored = model.score(line, candidates);
    logits.insert(logits.end(), scored.logits, scored.logits + (parent + 1) * width);
    const Row candidate = scored[tokens + right];
    logits.insert(logits.end(), candidate.begin(), candidate.end());
    model.rewind(begin + end + parent + 1);
    model.commit_candidate(right);
    end += parent + 2;
  }
  model.rewind(begin);
  return logits;
}

// 0 only if all bits are the same, but for the sign of a zero.
double largest_difference(const Logits& found, const Logits& expected) {
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(double(found[i]) - double(expected[i]));
    if (!std::isfinite(difference)) {
      throw Error(
          "the model's logits are not finite numbers: the checkpoint is damaged, or its weights do "
          "not fit the number format; download it again or choose another format");
    }
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace

int64_t measured_capacity() { return kStarts.back() + kPositionsAfterStart; }

Findings measure_row_invariance(Model& model) {
  const int64_t least = kStarts.front() + kPositionsAfterStart;
  if (model.capacity() < least) {
    throw Error("the cache holds " + shown(model.capacity()) + " positions; row-invariance needs " +
                shown(least) + " to be measured");
  }
  Draws draws(model.vocab_size());
  Findings findings{true, 1, 0, model.scores_candidates(), {}};
  for (const int64_t start : kStarts) {
    if (start + kPositionsAfterStart > model.capacity()) break;
    Passage passage = filled(model, start, draws);
    const Tokens text = passage.text = draws.tokens(kMaxRows);
    const Logits expected = passage.logits = scored(model, text, {{kMaxRows}}, draws);
    // Single rows up to every residue modulo 8: what they leave in the cache may differ.
    const Logits single = scored(model, text, Walk(8, MeasuredCall{1}), draws);
    findings.one_row_difference =
        std::max(findings.one_row_difference, largest_difference(single, expected));
    for (const Walk& walk : walks()) {
      const Logits logits = scored(model, text, walk, draws);
      findings.is_row_invariant &= largest_difference(logits, expected) == 0;
    }
    if (model.scores_candidates()) {
      for (const auto& walk : kCandidateWalks) {
        const Logits logits = scored_as_candidates(model, text, walk, draws);
        findings.candidates &= largest_difference(logits, expected) == 0;
      }
    }
    findings.passages.push_back(std::move(passage));
  }
  if (findings.one_row_difference != 0) findings.min_rows = 2;
  return findings;
}

}  // namespace edgespec
