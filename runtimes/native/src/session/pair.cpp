#include "session/pair.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <map>
#include <thread>

#include "artifact/known_invariance.h"
#include "core/error.h"
#include "core/shown.h"
#include "device/machine.h"
#include "ort/eagle_model.h"
#include "text/message_text.h"
#include "text/prompt.h"

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
  const std::string folder = manifest.folder.string();
  const auto refuse = [&](const std::string& what) {
    throw UsageError(folder + " " + what + ", which libedgespec does not run; use Python");
  };
  if (manifest.target.family == "whisper") refuse("is a speech model (whisper)");
  if (!manifest.host.empty() && manifest.host != "web") {
    throw UsageError(folder + " was exported with --for " + shown(std::string_view(manifest.host)) +
                     "; export it without, or with --for web");
  }
  for (const Exported* model : {&manifest.target, manifest.draft ? &*manifest.draft : nullptr}) {
    if (model != nullptr && model->is_recurrent) {
      refuse("has a model with recurrent layers (" + model->family + ")");
    }
  }
  const std::map<std::string, std::string> unknown = {
      {"block", "a block draft"},
      {"gemma4_assistant", "an assistant that reads its target's cache"},
      {"shared_encoder", "one that reads its target's encoder"}};
  if (manifest.draft && unknown.contains(manifest.draft->family)) {
    throw UsageError("the pair's draft is " + unknown.at(manifest.draft->family) +
                     ", which libedgespec does not run; export it with another draft or without "
                     "one");
  }
  return manifest;
}

int checked_threads(int threads) {
  const int most = std::max(16U, 4 * std::thread::hardware_concurrency());
  if (0 <= threads && threads <= most) return threads;
  throw UsageError("threads is " + shown(int64_t(threads)) + "; give a whole number from 1 to " +
                   shown(int64_t(most)));
}

}  // namespace

Pair::Pair(const std::string& folder, const LoadOptions& options)
    : manifest_(runnable(read_manifest(folder))),
      kernels_(kernels_here()),
      runtime_(options.onnxruntime.empty() ? kLibrary : options.onnxruntime),
      target_(runtime_, kernels_, manifest_, manifest_.target,
              manifest_.target.variant(options.target_format, "target"),
              checked_threads(options.threads)) {
  set_capacity(options.capacity);
  if (manifest_.draft) {
    const Exported& draft = *manifest_.draft;
    draft_.emplace(runtime_, kernels_, manifest_, draft,
                   draft.variant(options.draft_format, "draft"), options.threads);
    vocabulary_ = open_vocabulary(manifest_);
  }
  const auto known = known_invariance(manifest_, target_.variant,
                                      machine_digest(runtime_.version(), options.threads));
  min_rows_ = known ? known->min_rows : 2;
  max_rows_ = known ? known->max_rows : kMaxRows;
  may_speculate_ = options.allow_inexact || (known && known->is_row_invariant);
}

void Pair::check_may_speculate() const {
  if (may_speculate_) return;
  throw Error(
      "this target was not found row-invariant on this machine, so speculation might change its "
      "text; decode without a draft, measure with edgespec inspect --measure, or load it with "
      "allow_inexact");
}

void Pair::set_capacity(int64_t asked) {
  const auto limit_of = [](const Exported& model) {
    return model.positions.value_or(std::numeric_limits<int64_t>::max());
  };
  int64_t limit = limit_of(manifest_.target);
  if (manifest_.draft) limit = std::min(limit, limit_of(*manifest_.draft));
  capacity_ = asked == 0 ? std::min(manifest_.target.capacity, limit) : asked;
  if (1 <= capacity_ && capacity_ <= limit) return;
  const bool has_limit = limit != std::numeric_limits<int64_t>::max();
  throw UsageError("capacity is " + shown(capacity_) + "; " + manifest_.target.source + " takes " +
                   (has_limit ? "1 to " + shown(limit) : "1 or more"));
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

Tokens Pair::chat_prompt(const std::vector<Message>& messages) const {
  if (!manifest_.chat) {
    throw UsageError(
        "this model has no chat format that is known here; give a text, or ask from "
        "Python");
  }
  return chat_tokens(tokenizer(), manifest_.chat->text(messages, std::time(nullptr)));
}

std::unique_ptr<OrtModel> Pair::make_target(const std::atomic<bool>& cancelled) const {
  const bool keep_features = draft_ && draft_->fusion;
  return std::make_unique<OrtModel>(target_, Calls{capacity_, min_rows_, keep_features, cancelled});
}

std::unique_ptr<OrtModel> Pair::make_draft(const OrtModel& target,
                                           const std::atomic<bool>& cancelled) const {
  const Calls calls{capacity_, 1, false, cancelled};
  if (draft_->fusion) return std::make_unique<EagleModel>(*draft_, calls, target);
  return std::make_unique<OrtModel>(*draft_, calls);
}

}  // namespace edgespec
