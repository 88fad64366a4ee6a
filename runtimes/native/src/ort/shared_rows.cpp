#include "ort/shared_rows.h"

#include "ort/ort_sequence.h"

namespace edgespec {

void SharedRows::add(size_t number, const SharedRequest& request) {
  const OrtSequence& sequence = *request.sequence;
  const std::vector<SharedRow> rows = sequence.rows_of(request.tokens, request.candidates);
  const int64_t count = std::ssize(rows);
  const bool has_output = request.wanted != Wanted::kNothing;
  const int64_t skip = has_output ? std::ssize(sequence.unread()) + request.skip : count;
  parts_.push_back({number, request.sequence, request.tokens, request.candidates,
                    std::ssize(skipped_), skip, std::ssize(kept_), count - skip, request.wanted});
  skipped_.insert(skipped_.end(), rows.begin(), rows.begin() + skip);
  kept_.insert(kept_.end(), rows.begin() + skip, rows.end());
}

std::vector<SharedRow> SharedRows::ordered() const {
  std::vector<SharedRow> all = skipped_;
  all.insert(all.end(), kept_.begin(), kept_.end());
  return all;
}

std::vector<int64_t> SharedRows::numbers_of(const RowsOfSequence& part) const {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < part.skip; ++i) numbers.push_back(part.first_skipped + i);
  for (int64_t i = 0; i < part.outputs; ++i) numbers.push_back(skip() + part.first + i);
  return numbers;
}

}  // namespace edgespec
