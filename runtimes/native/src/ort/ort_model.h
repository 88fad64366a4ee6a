// Runs an exported decoder on ONNX Runtime.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/archive.h"
#include "core/model.h"
#include "ort/call.h"
#include "ort/model_graphs.h"
#include "ort/prefill.h"

namespace edgespec {

// What other threads say to a session, and are told by it.
struct Signals {
  std::atomic<bool> cancelled = false;  // no call is begun while it is true
  // Positions of the latest prompt that its cache did not hold: those read so far, and all.
  std::atomic<int64_t> read = 0, to_read = 0;
};

// How a model is called.
struct Calls {
  int64_t capacity;  // positions that the cache holds
  int64_t min_rows;  // a call with fewer rows is padded with dummy tokens, forgotten again
  // Rows of a call up to which a position is computed identically; none where that is not known, as
  // of drafts.
  std::optional<int64_t> max_rows;
  bool keep_features;  // keep what the target returns at each position for an EAGLE head
  bool candidates;     // score candidates, if the graph can
  const std::atomic<bool>& cancelled;
};

// Positions of a cache that a call may overwrite after its own.
constexpr int64_t kSparePositions = 1;

// The memory of calls with up to `rows` rows, of a cache of so many positions, and of the states of
// so many sequences. Throws UsageError: there is no memory. Error: the graph returns other features
// than the manifest says.
CallMemory call_memory(const ModelGraphs& graphs, int64_t positions, int64_t rows,
                       int64_t sequences, bool keep_features);

// An exported target or draft that computes one text at a time, with a cache of its own. The graphs
// are shared.
class OrtModel : public Model {
 public:
  // Its calls throw Error: ONNX Runtime failed. CancelledError.
  OrtModel(const ModelGraphs& graphs, const Calls& calls);

  int64_t vocab_size() const override { return exported_.vocab_size; }
  int64_t capacity() const override { return calls_.capacity; }
  int64_t length() const override { return std::ssize(cached_); }
  bool returns_best_tokens() const override { return graphs_.decoder.has_optional("output_mode"); }
  bool scores_candidates() const override { return calls_.candidates && graphs_.take_candidates(); }
  int64_t candidate_room(int64_t count) const override;
  Token prefill(const Tokens& prompt, const Answers& answers) override;
  Rows score(std::span<const Token> tokens, Candidates candidates) override;
  BestTokens best_tokens(std::span<const Token> tokens, Candidates candidates,
                         int64_t skip) override;
  LikelyTokens likely_tokens(std::span<const Token> tokens) override;
  void commit_candidate(size_t number) override;
  void rewind(int64_t length) override;

  // What the target returned at positions first … end - 1, [end - first, features].
  std::span<const float> features(int64_t first, int64_t end) const;
  // The token of each position of the cache.
  Token cached_token(int64_t position) const { return cached_[position].token; }

  const std::vector<CacheBuffer>& cache() const { return memory_.cache; }
  // The latest source of an encoder-decoder, and its encoder's states, null without.
  const Tokens& source_tokens() const { return source_tokens_; }
  const OrtValue* encoder_states() const { return source_.states.get(); }

  // Everything that later calls depend on.
  virtual void archive(Archive& archive);
  double seconds() const override { return seconds_; }
  // Is told how far a prompt is read.
  void report_to(Signals& signals) { signals_ = &signals; }

 protected:
  // What a position depends on besides the token: another model's.
  virtual Token key_of(int64_t /*position*/) const { return -1; }
  // Sets the hidden states that the first `count` rows of a call take; most models take none.
  virtual void set_states(Call&, int64_t /*count*/) {}
  // Keeps what later calls, or an EAGLE head, need of a call's first `count` rows.
  virtual void store_states(Call& call, int64_t count);
  // What the encoder makes of a source.
  virtual Source encode(const Tokens& prompt);
  // Forgets the source, and all positions after it.
  void forget_source();
  // Takes what the next positions attend to; the cache must be empty.
  void take_source(Source source) { source_ = std::move(source); }

  void check_cancelled() const;
  void check_prompt(const Tokens& prompt) const;
  void check_room(int64_t count) const;
  void append(std::span<const Token> tokens);
  // Runs the call of tokens that follow the text, and of candidates; they are not part of it yet.
  Call& run(std::span<const Token> tokens, Candidates candidates, const CallShape& shape);
  Call& call_of(const CallShape& shape);

  // Adds the time that it lives to the model's.
  class Timed {
   public:
    explicit Timed(OrtModel& model) : model_(model) {}
    ~Timed();

   private:
    OrtModel& model_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  };

  const ModelGraphs& graphs_;
  std::vector<CachedPosition> cached_;

 private:
  // Runs calls of tokens whose logits nobody asks for.
  void read(std::span<const Token> tokens);
  std::optional<StateStep> state_step(int64_t rows, int64_t count);
  void compute_again(int64_t start);
  void archive_cache(Archive& archive);
  void check_read(const Archive& archive);
  void report(int64_t read, int64_t to_read) const;
  std::string capacity_advice() const;

  const Exported& exported_;
  Calls calls_;
  Tokens source_tokens_;  // of an encoder-decoder: of the latest prompt
  Source source_;
  std::vector<LaidOut> candidates_;  // of the latest call
  int64_t most_rows_;                // of calls whose bindings are kept
  CallMemory memory_;
  std::optional<RecurrentStates> states_;  // of a model with recurrent layers
  Signals* signals_ = nullptr;
  double seconds_ = 0;
  std::unique_ptr<LazyZeros> features_;
  std::map<CallShape, std::unique_ptr<Call>> kept_;  // short calls
  std::unique_ptr<Call> long_;                       // the latest that computed a prompt
};

}  // namespace edgespec
