// A loaded pair: what its texts share. It never changes, so threads may share it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "artifact/manifest.h"
#include "artifact/speech_format.h"
#include "costs/costs.h"
#include "device/kernels.h"
#include "drafters/vocabulary.h"
#include "invariance/measure.h"
#include "ort/ort_batch.h"
#include "ort/speech_model.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

namespace edgespec {

// How a pair is opened; empty texts and zeros leave the choice to the library.
struct LoadOptions {
  std::string onnxruntime;  // file of ONNX Runtime's library
  std::string target_format, draft_format;
  int threads = 0;       // of each model
  int64_t capacity = 0;  // positions of a session's caches
  bool allow_inexact = false;
};

// Positions of a session's caches. Throws UsageError: more than the models have, or none.
int64_t capacity_of(const Manifest& manifest, int64_t asked);

// A manifest that this library can run. Throws UsageError: by name, what only Python does.
Manifest runnable_manifest(const std::string& folder);

class Pair {
 public:
  // Throws Error: the folder is not a pair, is damaged, or cannot be run here. UsageError: an
  // option is out of its range.
  Pair(const std::string& folder, const LoadOptions& options);

  const Manifest& manifest() const { return manifest_; }
  const SamplingTable& sampling() const { return kernels_.sampling; }
  bool has_draft() const { return draft_.has_value(); }
  const Vocabulary& vocabulary() const { return *vocabulary_; }
  // Whether it transcribes sounds, and continues no text; then the target's speech format, and that
  // of the draft, if there is one.
  bool is_speech() const { return speech_.has_value(); }
  const SpeechFormat& speech() const { return *speech_; }
  const SpeechFormat& draft_speech() const { return *draft_speech_; }
  // Throw UsageError: the pair transcribes sounds; it continues texts.
  void check_continues_texts() const;
  void check_transcribes() const;
  // The longest verification: positions of a call up to which the target's bits are the same.
  int64_t max_rows() const { return max_rows_; }
  // Costs of rounds with the draft model, or with prompt lookup, before any is timed.
  Costs guessed_costs(bool with_model) const { return guessed_costs(with_model, max_rows_ - 1); }
  Costs guessed_costs(bool with_model, int64_t longest) const;
  // Throws Error: drafts might change the target's text on this machine.
  void check_may_speculate() const;
  // Throws Error: texts that share calls might differ from those alone on this machine.
  void check_may_share() const;

  // Read when it is first needed: programs that give token ids do without. Throws Error: the file
  // is no tokenizer, or has what is not known here, by name.
  const Tokenizer& tokenizer() const;
  // Token ids of a text as it is, and of a conversation. Throws UsageError: it is empty or no
  // Unicode, the model does not chat, or its chat format does not cover the messages.
  Tokens text_prompt(std::string_view text) const;
  Prompt chat_prompt(const std::vector<Message>& messages) const;

  int64_t capacity() const { return capacity_; }
  // Names of the variants; the draft's is empty where there is none.
  const std::string& target_format() const { return target_.variant.name; }
  std::string draft_format() const { return draft_ ? draft_->variant.name : ""; }
  // Whether what a cache holds of a conversation has the bits of what would be computed again.
  bool is_row_invariant() const { return is_row_invariant_; }

  // Models with caches of their own, which refuse to run while `cancelled` is true. A draft that
  // reads its target keeps a reference to it.
  std::unique_ptr<OrtModel> make_target(const std::atomic<bool>& cancelled) const;
  std::unique_ptr<OrtModel> make_draft(const OrtModel& target,
                                       const std::atomic<bool>& cancelled) const;

  // The same of a pair that transcribes.
  std::unique_ptr<SpeechModel> make_speech_target(const std::atomic<bool>& cancelled) const;
  std::unique_ptr<SpeechModel> make_speech_draft(const std::atomic<bool>& cancelled) const;

  // Sequences with caches of their own that share the calls of the target, and of the draft. Drafts
  // that read their target keep a reference to it.
  std::unique_ptr<OrtBatch> make_targets(int64_t count) const;
  std::unique_ptr<OrtBatch> make_drafts(OrtBatch& targets) const;

 private:
  // Whether the target is row-invariant here: known, or measured now, which takes seconds once.
  // None where it is not known and may be inexact.
  std::optional<RowInvariance> invariance_here(const LoadOptions& options) const;

  // Makes the calls that measure it, with a cache of so many positions.
  Findings measured(int64_t capacity) const;
  Calls target_calls(const std::atomic<bool>& cancelled) const;

  // Whether these texts have the same logits in calls that they share.
  bool keeps_bits(const std::vector<Passage>& passages, int64_t capacity) const;

  Manifest manifest_;
  Kernels kernels_;
  OrtRuntime runtime_;
  ModelGraphs target_;
  std::optional<ModelGraphs> draft_;
  std::unique_ptr<Vocabulary> vocabulary_;
  std::optional<SpeechFormat> speech_, draft_speech_;
  int64_t capacity_ = 0;
  int64_t min_rows_, max_rows_;
  bool is_row_invariant_, may_speculate_, keeps_bits_in_shared_calls_, scores_candidates_;
  mutable std::once_flag tokenizer_read_;
  mutable std::unique_ptr<const Tokenizer> tokenizer_;
};

}  // namespace edgespec
