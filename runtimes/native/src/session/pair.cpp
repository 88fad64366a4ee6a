#include "session/pair.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <random>
#include <thread>

#include "artifact/known_invariance.h"
#include "core/error.h"
#include "core/paths.h"
#include "core/shown.h"
#include "device/machine.h"
#include "invariance/measure_shared.h"
#include "ort/assistant_model.h"
#include "ort/block_model.h"
#include "ort/eagle_batch.h"
#include "ort/eagle_model.h"
#include "ort/masked_block_model.h"
#include "ort/shared_encoder_model.h"
#include "text/message_text.h"

namespace edgespec {
namespace {

#if defined(_WIN32)
constexpr const char* kLibrary = "onnxruntime.dll";
#elif defined(__APPLE__)
constexpr const char* kLibrary = "libonnxruntime.1.dylib";
#else
constexpr const char* kLibrary = "libonnxruntime.so.1";
#endif

// Refuses what only Python runs, or Python and JavaScript.
Manifest runnable(Manifest manifest) {
  if (!manifest.host.empty() && manifest.host != "web") {
    throw UsageError(name_of(manifest.folder) + " was exported with --for " +
                     shown(std::string_view(manifest.host)) +
                     "; export it without, or with --for web");
  }
  return manifest;
}

// Numbers in the range of a spectrogram of speech, the same each time.
std::vector<float> noise(int64_t count) {
  std::mt19937_64 numbers{0};
  std::vector<float> noise(count);
  for (float& one : noise) one = float(double(numbers()) * 0x1p-63 - 1);
  return noise;
}

int checked_threads(int threads) {
  const int most = std::max(16U, 4 * std::thread::hardware_concurrency());
  if (0 <= threads && threads <= most) return threads;
  throw UsageError("threads is " + shown(int64_t(threads)) + "; give a whole number from 1 to " +
                   shown(int64_t(most)));
}

}  // namespace

Manifest runnable_manifest(const std::string& folder) {
  return runnable(read_manifest(path_of(folder)));
}

int64_t capacity_of(const Manifest& manifest, int64_t asked) {
  const auto limit_of = [](const Exported& model) {
    return model.positions.value_or(std::numeric_limits<int64_t>::max());
  };
  int64_t limit = limit_of(manifest.target);
  if (manifest.draft) limit = std::min(limit, limit_of(*manifest.draft));
  const int64_t capacity = asked == 0 ? std::min(manifest.target.capacity, limit) : asked;
  if (1 <= capacity && capacity <= limit) return capacity;
  const bool has_limit = limit != std::numeric_limits<int64_t>::max();
  throw UsageError("capacity is " + shown(capacity) + "; " + manifest.target.source + " takes " +
                   (has_limit ? "1 to " + shown(limit) : "1 or more"));
}

Pair::Pair(const std::string& folder, const LoadOptions& options)
    : manifest_(runnable_manifest(folder)),
      kernels_(kernels_here()),
      runtime_(options.onnxruntime.empty() ? kLibrary : options.onnxruntime),
      target_(runtime_, kernels_, manifest_, manifest_.target,
              manifest_.target.variant(options.target_format, "target"),
              checked_threads(options.threads)) {
  capacity_ = capacity_of(manifest_, options.capacity);
  if (manifest_.draft) {
    const Exported& draft = *manifest_.draft;
    const Variant* variant = &draft.variant(options.draft_format, "draft");
    if (draft.reads_target_cache()) {
      variant = &draft.reading(*variant, target_.variant.cache_format);
    }
    draft_.emplace(runtime_, kernels_, manifest_, draft, *variant, options.threads);
    vocabulary_ = open_vocabulary(manifest_);
  }
  if (manifest_.target.is_speech()) {
    speech_ = read_speech_format(manifest_.folder / "target", manifest_.target);
    if (draft_) draft_speech_ = read_speech_format(manifest_.folder / "draft", *manifest_.draft);
  }
  const auto known = invariance_here(options);
  min_rows_ = known ? known->min_rows : 2;
  max_rows_ = known ? known->max_rows : kMaxRows;
  is_row_invariant_ = known && known->is_row_invariant;
  may_speculate_ = options.allow_inexact || is_row_invariant_;
  keeps_bits_in_shared_calls_ = known && known->texts;
  scores_candidates_ = known && known->candidates;
}

std::optional<RowInvariance> Pair::invariance_here(const LoadOptions& options) const {
  const std::string machine = machine_digest(runtime_.version(), options.threads);
  const std::string own = own_digest(machine);
  if (auto known = known_invariance(manifest_, target_.variant, machine)) return known;
  if (auto known = known_invariance(manifest_, target_.variant, own)) return known;
  if (options.allow_inexact) return std::nullopt;
  const int64_t capacity =
      std::min(measured_capacity(), manifest_.target.positions.value_or(measured_capacity()));
  const Findings found = measured(capacity);
  const bool texts = found.is_row_invariant && found.min_rows == 1 && !is_speech() &&
                     shares_calls(target_) && keeps_bits(found.passages, capacity);
  const RowInvariance result{found.is_row_invariant, found.min_rows, kMaxRows, own,
                             found.candidates,       texts};
  keep_invariance(manifest_, target_.variant, result,
                  machine_sentence(runtime_.version(), options.threads), found.one_row_difference);
  return result;
}

Findings Pair::measured(int64_t capacity) const {
  const std::atomic<bool> never = false;
  const Calls calls{capacity, 1, std::nullopt, false, true, never};
  if (!is_speech()) {
    OrtModel model(target_, calls);
    return measure_row_invariance(model);
  }
  SpeechModel model(target_, calls, speech_->mel_bins);
  model.hear(noise(speech_->mel_bins * speech_->frames));
  return measure_row_invariance(model);
}

bool Pair::keeps_bits(const std::vector<Passage>& passages, int64_t capacity) const {
  OrtBatch batch(target_, sampling(), {std::ssize(passages) + 1, capacity});
  return is_batch_invariant(batch, passages);
}

Costs Pair::guessed_costs(bool with_model, int64_t longest) const {
  const auto bytes = [&](const ModelGraphs& graphs) {
    return double(manifest_.bytes_of(graphs.variant));
  };
  return estimated_costs(bytes(target_), with_model ? bytes(*draft_) : 0, longest,
                         target_.variant.row_cost.with(kernels_.target), min_rows_);
}

void Pair::check_may_speculate() const {
  if (may_speculate_) return;
  throw Error(
      "this target is not row-invariant on this machine, so speculation might change its text; "
      "decode without a draft, export another format, or load it with allow_inexact");
}

void Pair::check_continues_texts() const {
  if (!is_speech()) return;
  throw UsageError(manifest_.target.source +
                   " makes text of sound, not of a prompt; use: edgespec_begin_transcript");
}

void Pair::check_transcribes() const {
  if (is_speech()) return;
  throw UsageError(manifest_.target.source +
                   " reads text and transcribes nothing; export a speech model, such as a Whisper");
}

void Pair::check_may_share() const {
  check_continues_texts();
  const std::string way_out = "; make each text in a session of its own";
  const auto refuse_draft = [&](const std::string& what) {
    throw UsageError("the pair's draft " + what + ", and computes one text in a call" + way_out);
  };
  if (draft_ && draft_->exported.shares_encoder()) refuse_draft("reads its target's encoder");
  if (draft_ && draft_->exported.is_block_draft()) refuse_draft("drafts blocks");
  if (draft_ && draft_->exported.reads_target_cache()) refuse_draft("reads its target's cache");
  if (!shares_calls(target_) || (draft_ && !shares_calls(*draft_))) {
    throw UsageError(name_of(manifest_.folder) + " has graphs that compute one text in a call" +
                     way_out + ", or export the pair again");
  }
  if (!target_.variant.run_by_kernels) {
    throw Error("the target's format " + shown(std::string_view(target_.variant.name)) +
                " is not computed by edgespec's kernels alone, so texts that share calls might "
                "differ from those alone" +
                way_out + ", or load or export another format");
  }
  if (!keeps_bits_in_shared_calls_) {
    throw Error(
        "on this machine, texts that share calls of this target were found to differ from those "
        "alone, or this was not measured" +
        way_out);
  }
}

const Tokenizer& Pair::tokenizer() const {
  std::call_once(tokenizer_read_,
                 [&] { tokenizer_ = Tokenizer::open(manifest_.folder / kTokenizer); });
  return *tokenizer_;
}

Tokens Pair::text_prompt(std::string_view text) const {
  check_text(text, "the prompt");
  return tokenizer().encode(text, Tokenizer::Special::kAround);
}

Prompt Pair::chat_prompt(const std::vector<Message>& messages) const {
  check_continues_texts();
  if (!manifest_.chat) {
    throw UsageError(
        "this model has no chat format that is known here; give a text, or ask from "
        "Python");
  }
  return prompt_of(tokenizer(), manifest_.chat->text(messages, std::time(nullptr)));
}

Calls Pair::target_calls(const std::atomic<bool>& cancelled) const {
  const bool keep_features = draft_ && (draft_->fusion || draft_->exported.reads_target_cache());
  std::optional<int64_t> max_rows;
  if (is_row_invariant_) max_rows = max_rows_;
  return {capacity_, min_rows_, max_rows, keep_features, scores_candidates_, cancelled};
}

std::unique_ptr<OrtModel> Pair::make_target(const std::atomic<bool>& cancelled) const {
  return std::make_unique<OrtModel>(target_, target_calls(cancelled));
}

std::unique_ptr<SpeechModel> Pair::make_speech_target(const std::atomic<bool>& cancelled) const {
  return std::make_unique<SpeechModel>(target_, target_calls(cancelled), speech_->mel_bins);
}

std::unique_ptr<SpeechModel> Pair::make_speech_draft(const std::atomic<bool>& cancelled) const {
  const Calls calls{capacity_, 1, std::nullopt, false, false, cancelled};
  return std::make_unique<SpeechModel>(*draft_, calls, draft_speech_->mel_bins);
}

std::unique_ptr<OrtModel> Pair::make_draft(const OrtModel& target,
                                           const std::atomic<bool>& cancelled) const {
  const Calls calls{capacity_, 1, std::nullopt, false, false, cancelled};
  const Exported& draft = draft_->exported;
  if (draft.shares_encoder()) return std::make_unique<SharedEncoderModel>(*draft_, calls, target);
  if (draft.reads_target_cache()) return std::make_unique<AssistantModel>(*draft_, calls, target);
  if (draft.block_rows) return std::make_unique<MaskedBlockModel>(*draft_, calls, target);
  if (draft.is_block_draft()) return std::make_unique<BlockModel>(*draft_, calls, target);
  if (draft_->fusion) return std::make_unique<EagleModel>(*draft_, calls, target);
  return std::make_unique<OrtModel>(*draft_, calls);
}

std::unique_ptr<OrtBatch> Pair::make_targets(int64_t count) const {
  const bool keep_features = draft_ && draft_->fusion;
  return std::make_unique<OrtBatch>(
      target_, sampling(), SharedCache{count, capacity_, keep_features, scores_candidates_});
}

std::unique_ptr<OrtBatch> Pair::make_drafts(OrtBatch& targets) const {
  if (draft_->fusion) return std::make_unique<EagleBatch>(*draft_, sampling(), targets);
  return std::make_unique<OrtBatch>(*draft_, sampling(), SharedCache{targets.count(), capacity_});
}

}  // namespace edgespec
