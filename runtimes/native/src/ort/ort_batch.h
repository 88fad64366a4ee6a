// Several sequences of one model that share its calls.
//
// Their caches are parts of one buffer. Each row of a call says which part it belongs to, and has
// the bits that it would have alone: kernels compute a row from its own numbers only.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "kernels/sampling.h"
#include "ort/model_graphs.h"
#include "ort/ort_model.h"
#include "ort/ort_sequence.h"
#include "ort/shared_call.h"

namespace edgespec {

// Rows of a call, at most; one sequence that asks for more gets a call of its own.
constexpr int64_t kSharedRows = 256;

// Whether rows of a model's calls may be of several sequences.
bool shares_calls(const ModelGraphs& graphs);

// How sequences share a cache.
struct SharedCache {
  int64_t count;               // of sequences
  int64_t capacity;            // positions of each
  bool keep_features = false;  // what the target returns at each is kept for an EAGLE head
  bool candidates = false;     // score candidates, if the graph can
};

class OrtBatch {
 public:
  // Throws UsageError: there is no memory for their caches.
  OrtBatch(const ModelGraphs& graphs, const SamplingTable& sampling, const SharedCache& shared);
  virtual ~OrtBatch() = default;
  OrtBatch(const OrtBatch&) = delete;

  OrtSequence& sequence(int64_t number) { return *sequences_[number]; }
  int64_t count() const { return std::ssize(sequences_); }
  const Exported& exported() const { return graphs_.exported; }
  int64_t capacity() const { return shared_.capacity; }
  bool returns_best_tokens() const { return graphs_.decoder.has_optional("output_mode"); }
  bool scores_candidates() const { return shared_.candidates && graphs_.take_candidates(); }
  // Of all calls so far, and of their rows.
  int64_t calls() const { return calls_; }
  int64_t rows() const { return rows_; }

  // Computes what sequences request, in as few calls as possible; at most one request of each.
  // Throws Error: ONNX Runtime failed.
  std::vector<SharedAnswer> compute(const std::vector<SharedRequest>& requests);
  // Keeps what the encoder returns of a source from a position on; it does not run where another
  // sequence has the same source.
  virtual SourcePart encode(const Tokens& source, int64_t start);
  // Copies what indices of the cache hold over what others hold.
  void copy_positions(int64_t source, int64_t destination, int64_t count);
  // What the target returned at an index of the cache.
  std::span<const float> features(int64_t index) const;

 protected:
  const ModelGraphs& graphs_;
  std::vector<std::unique_ptr<OrtSequence>> sequences_;

  // Sets the hidden states that rows take; most models take none.
  virtual void set_states(Call&, const SharedRows&) {}
  // Keeps the hidden states that rows return, where others need them.
  virtual void store_states(Call& call, const SharedRows& rows);

 private:
  const Call& run(Output output, const SharedRows& rows);
  std::vector<StateStep> begun_steps(const SharedRows& rows);
  SharedCall& call_of(const CallShape& shape);
  SharedAnswer answer(const Call& call, Output output, const RowsOfSequence& part) const;
  void find_best(const Call& call, Output output, const SharedRows& rows);
  void make_cross_memory(int64_t positions);

  const SamplingTable& sampling_;
  SharedCache shared_;
  CallMemory memory_;
  std::unique_ptr<LazyZeros> features_;
  std::vector<LazyZeros> cross_memory_;  // of the sources of all sequences
  Source cross_;                         // tensors over it
  std::map<int64_t, Tokens> sources_;    // in it, by their first position
  std::map<CallShape, std::unique_ptr<SharedCall>> kept_;
  Tokens best_tokens_;  // where others of the call want more
  std::vector<float> best_logits_;
  int64_t calls_ = 0, rows_ = 0;
};

}  // namespace edgespec
