// What the decoding loop asks of a model: an interface that any runtime can implement.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/archive.h"
#include "core/distribution.h"

namespace edgespec {

using Row = std::span<const float>;

// Rows of logits, [count, width]; valid until the model's next call.
struct Rows {
  const float* logits;
  int64_t count;
  int64_t width;

  Row operator[](int64_t row) const { return {logits + row * width, static_cast<size_t>(width)}; }
};

// The best token of each row of logits, and its logit; valid until the model's next call.
struct BestTokens {
  std::span<const Token> tokens;
  std::span<const float> logits;
};

// The best tokens of one row, the best one first, their logits, and their probabilities at
// temperature 1; as long valid.
struct LikelyTokens {
  std::span<const Token> tokens;
  std::span<const float> logits, probabilities;
};

// An alternative to tokens[parent + 1] of a call; it follows tokens[parent]. It is scored in the
// same call, and becomes part of the text only when it is committed.
struct Candidate {
  int64_t parent;
  Token token;

  bool operator==(const Candidate&) const = default;
};

using Candidates = std::span<const Candidate>;

// Positions begin … end - 1.
struct Range {
  int64_t begin, end;

  bool operator==(const Range&) const = default;
  void archive(Archive& archive) { archive(begin, end); }
};

// Positions of a conversation's earlier answers, in order, which were scored while they were
// generated. None: the prompt is no conversation.
using Answers = std::optional<std::vector<Range>>;

struct Waiting;

// A model with a cache of fixed capacity, rewound by setting its length.
class Model {
 public:
  virtual ~Model() = default;

  virtual int64_t vocab_size() const = 0;
  virtual int64_t capacity() const = 0;  // positions that the cache can hold
  virtual int64_t length() const = 0;    // positions in the cache now
  // Prefix of the cache that is final as long as the text keeps its tokens. Equal to `length`, but
  // for EAGLE heads: they compute again what they drafted from their own hidden states.
  virtual int64_t valid_length() const { return length(); }
  // How many tokens a block draft, whose one call predicts several, can draft in a row; none of
  // others.
  virtual std::optional<int64_t> block() const { return std::nullopt; }
  // Of a block draft: the probability that the token after this one, which comes next, is accepted
  // if this one is; 0 where the block ends. 1 of others.
  virtual double confidence_after(Token) { return 1; }
  // Time spent computing so far.
  virtual double seconds() const { return 0; }
  // Whether `best_tokens` and `likely_tokens` can be called, and are faster than `score`.
  virtual bool returns_best_tokens() const { return false; }
  // Whether calls may have candidates, whose rows have the bits of an ordinary call.
  virtual bool scores_candidates() const { return false; }
  // How many of them fit into a call of `count` tokens now.
  virtual int64_t candidate_room(int64_t /*count*/) const { return 0; }
  // Where requests wait for a call that other texts share (core/requests.h); null: they are
  // answered at once.
  virtual Waiting* waiting() { return nullptr; }

  // Starts a new text and returns the *pending* token: its row of logits is the first that the loop
  // needs. It is the prompt's last token and not in the cache yet. Throws UsageError: the prompt is
  // empty or does not fit the cache.
  //
  // Answers are scored as they were when they were generated, so what the cache holds of a
  // conversation is reused, and the result has the same bits. None: nothing is reused.
  virtual Token prefill(const Tokens& prompt, const Answers& answers) = 0;
  // Appends `tokens` to the cache and returns the logits after each, then after each candidate.
  virtual Rows score(std::span<const Token> tokens, Candidates candidates) = 0;
  // The same, with the best token of each row alone; the first `skip` rows are left out.
  virtual BestTokens best_tokens(std::span<const Token> tokens, Candidates candidates,
                                 int64_t skip) = 0;
  // The same, with the best tokens after the last one alone, and how probable they are.
  virtual LikelyTokens likely_tokens(std::span<const Token> tokens) = 0;
  // Appends a candidate of the latest call to the cache, which was rewound to end with its parent.
  virtual void commit_candidate(size_t /*number*/) {}
  // Drops all positions from `length` on. Costs nothing.
  virtual void rewind(int64_t length) = 0;
};

}  // namespace edgespec
