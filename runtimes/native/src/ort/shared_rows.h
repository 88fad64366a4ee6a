// The rows of a call that several sequences share.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "ort/layout.h"

namespace edgespec {

class OrtSequence;

// What a request wants to know of its rows.
enum class Wanted { kNothing, kLogits, kBest, kLikely };

// What a sequence asks of a call: rows of its unread tokens, then of these, then of candidates.
struct SharedRequest {
  OrtSequence* sequence;
  std::span<const Token> tokens;
  int64_t skip = 0;  // leading tokens without output
  Wanted wanted = Wanted::kNothing;
  Candidates candidates = {};
};

// Valid until the batch's next call; none for a request that wants nothing.
using SharedAnswer = std::variant<std::monostate, Rows, BestTokens, LikelyTokens>;

// Which part of the memory of sources a row sees ("sources").
struct SourcePart {
  int64_t start, count;
};

struct SharedRow {
  Token token;
  Layout layout;
  SourcePart source;
};

// The rows of one sequence: `skip` without output, then `outputs`. `first_skipped` and `first` are
// their numbers among all rows of their kind.
struct RowsOfSequence {
  size_t request;  // its number
  OrtSequence* sequence;
  std::span<const Token> tokens;
  Candidates candidates;
  int64_t first_skipped, skip, first, outputs;
  Wanted wanted;
};

// The rows of a call: those without output come first.
class SharedRows {
 public:
  void add(size_t number, const SharedRequest& request);
  // All rows, in the order of the call.
  std::vector<SharedRow> ordered() const;
  int64_t count() const { return std::ssize(skipped_) + std::ssize(kept_); }
  int64_t skip() const { return std::ssize(skipped_); }
  const std::vector<RowsOfSequence>& parts() const { return parts_; }
  // The numbers of a part's rows in the call: of its unread tokens, its tokens and its candidates.
  std::vector<int64_t> numbers_of(const RowsOfSequence& part) const;

 private:
  std::vector<SharedRow> skipped_, kept_;
  std::vector<RowsOfSequence> parts_;
};

}  // namespace edgespec
