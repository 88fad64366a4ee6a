#include "ort/eagle_batch.h"

#include <algorithm>

#include "ort/fusion.h"

namespace edgespec {

Token EagleSequence::key_of(int64_t position) const {
  return position < target.length() ? target.cached_token(position) : -1;
}

EagleBatch::EagleBatch(const ModelGraphs& graphs, const SamplingTable& sampling, OrtBatch& target)
    : OrtBatch(graphs, sampling, {target.count(), target.capacity()}),
      target_(target),
      width_(graphs.decoder.width_of("hidden")) {
  sequences_.clear();
  for (int64_t number = 0; number < target.count(); ++number) {
    sequences_.push_back(std::make_unique<EagleSequence>(*this, number * capacity(),
                                                         target.sequence(number), width_));
  }
}

// Rows take the fused features of the position before them, zeros before the first, or the hidden
// state of the row before them.
void EagleBatch::set_states(Call& call, const SharedRows& rows) {
  const std::span<float> states = call.state("fused_states");
  std::vector<int64_t> filled;  // rows that take features
  std::vector<float> features;
  for (const RowsOfSequence& part : rows.parts()) {
    auto& sequence = static_cast<EagleSequence&>(*part.sequence);
    const std::vector<int64_t> numbers = rows.numbers_of(part);
    const int64_t first = sequence.computed_length(), end = first + std::ssize(numbers);
    if (!sequence.head.takes_features(first, end, sequence.target.computed_length())) {
      std::ranges::copy(sequence.head.hidden(), states.begin() + numbers[0] * width_);
      continue;
    }
    for (int64_t position = first; position < end; ++position) {
      const int64_t row = numbers[position - first];
      if (position == 0) {
        std::fill_n(states.begin() + row * width_, width_, 0.0F);
        continue;
      }
      const auto before = target_.features(sequence.target.start() + position - 1);
      features.insert(features.end(), before.begin(), before.end());
      filled.push_back(row);
    }
  }
  if (filled.empty()) return;
  const auto found = fused(*graphs_.fusion, std::move(features), std::ssize(filled), width_);
  for (size_t i = 0; i < filled.size(); ++i) {
    std::copy_n(found.begin() + int64_t(i) * width_, width_, states.begin() + filled[i] * width_);
  }
}

void EagleBatch::store_states(Call& call, const SharedRows& rows) {
  const std::span<const float> hidden = call.state("hidden");
  for (const RowsOfSequence& part : rows.parts()) {
    auto& sequence = static_cast<EagleSequence&>(*part.sequence);
    const int64_t last = rows.numbers_of(part).back();
    sequence.head.keep_hidden(hidden.subspan(last * width_, width_),
                              sequence.length() + std::ssize(part.tokens) - 1);
  }
}

}  // namespace edgespec
