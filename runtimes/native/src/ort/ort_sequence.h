// One of several sequences of a model that share its calls.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/requests.h"
#include "ort/prefill.h"
#include "ort/recurrent_states.h"
#include "ort/shared_rows.h"

namespace edgespec {

class OrtBatch;

// A sequence that has a part of a shared cache. Its rows have the same bits in any call, so all
// equal leading positions of a prompt are kept, whatever computed them.
class OrtSequence : public Model {
 public:
  // `start`: the index in the cache of its first position.
  OrtSequence(OrtBatch& batch, int64_t start) : batch_(batch), start_(start), source_{start, 0} {}

  int64_t vocab_size() const override;
  int64_t capacity() const override;
  int64_t length() const override { return std::ssize(cached_); }
  bool returns_best_tokens() const override;
  bool scores_candidates() const override;
  int64_t candidate_room(int64_t count) const override;
  Waiting* waiting() override { return waiting_; }
  // In calls of its own.
  Token prefill(const Tokens& prompt, const Answers& answers) override;
  Rows score(std::span<const Token> tokens, Candidates candidates) override;
  BestTokens best_tokens(std::span<const Token> tokens, Candidates candidates,
                         int64_t skip) override;
  LikelyTokens likely_tokens(std::span<const Token> tokens) override;
  void commit_candidate(size_t number) override;
  void rewind(int64_t length) override;

  // Of recurrent layers; `number` is the sequence's there.
  void keep_states(std::vector<LayerStates>& layers, int64_t number) {
    states_.emplace(layers, number, start_);
  }
  // Where its requests wait from now on.
  void wait_in(Waiting& waiting) { waiting_ = &waiting; }
  // The last tokens of a prompt, which are part of the sequence but not computed yet: its next call
  // has their rows, too, and the first token comes a call earlier. So have positions that recurrent
  // layers need once more.
  const Tokens& unread() const { return unread_; }
  // Positions in the cache without those.
  int64_t computed_length() const { return length() - std::ssize(unread_); }

  // Throws UsageError: the prompt is empty, does not fit, or has tokens that the model lacks.
  void check_prompt(const Tokens& prompt) const;
  // A sequence whose unread tokens must be computed before this one reads a prompt; null if none.
  virtual OrtSequence* reads_first() const { return nullptr; }
  // Begins to read a prompt: what of it is not in the cache, up to its last tokens, comes in
  // pieces.
  void begin_reading(const Tokens& prompt);
  // The next piece; empty where there is none left, and `end_reading` follows.
  std::span<const Token> piece() const;
  // The rest is unread. Returns the pending token.
  Token end_reading();
  // How many positions of the prompt were read, and how many there were to read: those that the
  // cache did not hold.
  std::pair<int64_t, int64_t> progress() const;

  // What the positions of a prompt are computed from: with equal keys they are equal.
  std::vector<CachedPosition> position_keys(const Tokens& prompt) const;
  // How many leading positions with these keys the cache holds already.
  int64_t kept(const std::vector<CachedPosition>& keys) const;
  // The same with what is unread: the sequence's next call computes it.
  int64_t promised(const std::vector<CachedPosition>& keys) const;
  // Takes over the first positions of another sequence of the same model.
  void copy(const OrtSequence& other, int64_t length);

  // For the batch: the rows of unread tokens, of these, then of candidates. Throws Error: there is
  // no room.
  std::vector<SharedRow> rows_of(std::span<const Token> tokens, Candidates candidates) const;
  // What a call with so many rows of the sequence does with the states of recurrent layers.
  // `computed` ends it.
  StateStep begin_step(int64_t rows, Wanted wanted);
  // A call has computed them.
  void computed(std::span<const Token> tokens, Candidates candidates);
  int64_t start() const { return start_; }
  Token cached_token(int64_t position) const { return cached_[position].token; }
  const OrtBatch& batch() const { return batch_; }

 protected:
  // What a position depends on besides the token: another model's.
  virtual Token key_of(int64_t /*position*/) const { return -1; }
  // So many positions were computed elsewhere.
  virtual void copied(int64_t /*length*/) {}

 private:
  void append(std::span<const Token> tokens);
  void rewind_states();
  std::string capacity_advice() const;

  OrtBatch& batch_;
  int64_t start_;
  SourcePart source_;
  Waiting* waiting_ = nullptr;
  std::vector<CachedPosition> cached_;
  Tokens unread_;
  std::optional<RecurrentStates> states_;  // of a model with recurrent layers
  std::optional<StateStep> step_;          // of the call that is being made
  std::vector<LaidOut> candidates_;        // of the latest call
  Tokens prompt_;                          // that is being read
  int64_t apart_ = 0;                      // how many of its tokens are read in calls of their own,
  int64_t had_ = 0;                        // and how many the cache held already
};

}  // namespace edgespec
