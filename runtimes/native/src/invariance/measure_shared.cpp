#include "invariance/measure_shared.h"

#include <algorithm>
#include <array>
#include <random>

namespace edgespec {
namespace {

// Tokens that a text has in each call: kept, and rejected afterwards.
constexpr std::array<std::pair<int64_t, int64_t>, 5> kCalls = {
    {{3, 2}, {1, 0}, {5, 4}, {2, 0}, {6, 1}}};
constexpr int64_t kRead = 40;  // rows of a prompt in each call, one text's that is only read

// Brings the sequences to where their passages begin, a piece of each in a call.
void read_prompts(OrtBatch& batch, const std::vector<Passage>& passages) {
  for (size_t i = 0; i < passages.size(); ++i) batch.sequence(i).begin_reading(passages[i].prompt);
  while (true) {
    std::vector<SharedRequest> requests;
    for (size_t i = 0; i < passages.size(); ++i) {
      OrtSequence& sequence = batch.sequence(i);
      if (!sequence.piece().empty()) requests.push_back({&sequence, sequence.piece()});
    }
    if (requests.empty()) break;
    batch.compute(requests);
  }
  for (size_t i = 0; i < passages.size(); ++i) {
    batch.sequence(i).end_reading();
    const std::span before(passages[i].before);
    for (size_t first = 0; first < before.size(); first += kRead) {
      batch.sequence(i).score(before.subspan(first, std::min<size_t>(kRead, before.size() - first)),
                              {});
    }
  }
}

class Measurement {
 public:
  Measurement(OrtBatch& batch, const std::vector<Passage>& passages)
      : batch_(batch),
        passages_(passages),
        read_(batch.sequence(std::ssize(passages))),
        ends_(passages.size()) {}

  // Makes a call of all sequences; whether their logits are those of the passages.
  bool is_same(size_t shift) {
    std::vector<Tokens> rows;
    for (size_t i = 0; i < passages_.size(); ++i) rows.push_back(next_rows(i, shift));
    rows.push_back(random(kRead));
    std::vector<SharedRequest> requests;
    for (size_t i = 0; i < passages_.size(); ++i) {
      requests.push_back({&batch_.sequence(i), rows[i], 0, Wanted::kLogits});
    }
    read_.rewind(0);
    const auto place = requests.begin() + int64_t(shift % requests.size());
    requests.insert(place, {&read_, rows.back()});
    bool same = true;
    for (const SharedAnswer& answer : batch_.compute(requests)) {
      if (const Rows* logits = std::get_if<Rows>(&answer)) pending_.push_back(*logits);
    }
    for (size_t i = 0; i < passages_.size(); ++i) same &= keep(i, shift, pending_[i]);
    pending_.clear();
    return same;
  }

 private:
  Tokens random(int64_t count) {
    Tokens tokens(count);
    for (Token& token : tokens) token = Token(numbers_() % uint64_t(read_.vocab_size()));
    return tokens;
  }
  int64_t kept(size_t i, size_t shift) const {
    const int64_t left = std::ssize(passages_[i].text) - ends_[i];
    return std::min(kCalls[(shift + i) % kCalls.size()].first, left);
  }
  // The text's next tokens, then some that are rejected.
  Tokens next_rows(size_t i, size_t shift) {
    const auto first = passages_[i].text.begin() + ends_[i];
    Tokens rows(first, first + kept(i, shift));
    const Tokens others = random(kCalls[(shift + i) % kCalls.size()].second);
    rows.insert(rows.end(), others.begin(), others.end());
    return rows;
  }
  bool keep(size_t i, size_t shift, const Rows& logits) {
    const int64_t count = kept(i, shift);
    const float* expected = passages_[i].logits.data() + ends_[i] * logits.width;
    OrtSequence& sequence = batch_.sequence(i);
    sequence.rewind(sequence.length() - logits.count + count);
    ends_[i] += count;
    return std::equal(logits.logits, logits.logits + count * logits.width, expected);
  }

  OrtBatch& batch_;
  const std::vector<Passage>& passages_;
  OrtSequence& read_;
  std::vector<int64_t> ends_;  // tokens of each passage that were kept
  std::vector<Rows> pending_;
  std::mt19937_64 numbers_{2};
};

}  // namespace

bool is_batch_invariant(OrtBatch& batch, const std::vector<Passage>& passages) {
  batch.sequence(std::ssize(passages))
      .prefill(passages[0].prompt, {});  // an encoder needs a source
  read_prompts(batch, passages);
  Measurement measurement(batch, passages);
  bool same = true;
  for (size_t shift = 0; shift < kCalls.size(); ++shift) same &= measurement.is_same(shift);
  return same;
}

}  // namespace edgespec
