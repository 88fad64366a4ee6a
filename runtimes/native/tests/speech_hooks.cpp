// Functions of sounds and their texts, for tests/native: what the interface does not show.
#include <algorithm>
#include <string>
#include <vector>

#include "api/structures.h"
#include "artifact/speech_format.h"
#include "audio/log_mel.h"
#include "deflate/deflated_size.h"
#include "device/kernels.h"
#include "edgespec.h"
#include "speech/segments.h"
#include "speech/token_rules.h"
#include "speech/window_drafting.h"
#include "speech/window_text.h"

using namespace edgespec;

namespace {

// The speech format in a folder, of a model with so many tokens.
SpeechFormat format_in(const char* folder, int64_t vocab_size) {
  Exported model{};
  model.vocab_size = vocab_size;
  return read_speech_format(folder, model);
}

}  // namespace

extern "C" {

// Frames of a sound's spectrogram, [mel_bins, count].
EDGESPEC_API void edgespec_hook_log_mel(const float* samples, size_t samples_count,
                                        int64_t mel_bins, int64_t start, int64_t count,
                                        float* found) {
  Spectrogram spectrogram({samples, samples_count}, mel_bins);
  std::ranges::copy(spectrogram.window(start, count), found);
}

EDGESPEC_API int64_t edgespec_hook_deflated_size(const char* text, size_t bytes) {
  return deflated_size({text, bytes});
}

// A row of logits, changed by the tokens before it.
EDGESPEC_API void edgespec_hook_token_rules(const char* folder, float* logits, int64_t vocab_size,
                                            const int64_t* generated, size_t count,
                                            int32_t timestamps) {
  const SpeechFormat speech = format_in(folder, vocab_size);
  TokenRules rules(speech, timestamps != 0, kernels_here().sampling);
  const Row edited =
      rules({logits, static_cast<size_t>(vocab_size)}, Tokens(generated, generated + count));
  std::copy(edited.begin(), edited.end(), logits);
}

// The segments of a window's tokens: start, end and number of tokens of each, then where the next
// window begins. Returns how many numbers were written.
EDGESPEC_API int64_t edgespec_hook_segments(const char* folder, int64_t vocab_size,
                                            const int64_t* tokens, size_t count, int64_t frames,
                                            int64_t* found) {
  const SpeechFormat speech = format_in(folder, vocab_size);
  const auto [segments, advance] = segments_of(Tokens(tokens, tokens + count), speech, frames);
  int64_t* end = found;
  for (const auto& [start, last, part] : segments) {
    *end++ = start;
    *end++ = last;
    *end++ = std::ssize(part);
  }
  *end++ = advance;
  return end - found;
}

// Whether a text is decoded again (1) and left out (2), by the limits among the options.
EDGESPEC_API int32_t edgespec_hook_window_text(double logprob, double compression, double silence,
                                               const edgespec_transcript_options* options) {
  const TranscriptOptions limits = transcript_options_of(options);
  const WindowText text{{}, 0, logprob, compression, silence};
  return (needs_another(text, limits) ? 1 : 0) + (is_silent(text, limits) ? 2 : 0);
}

// Whether the draft runs for each of `count` windows, of these seconds without it and with it, and
// this number of tokens.
EDGESPEC_API void edgespec_hook_window_drafting(const double* plain, const double* drafted,
                                                const int64_t* tokens, int64_t count,
                                                int32_t* drafts) {
  WindowDrafting windows;
  for (int64_t i = 0; i < count; ++i) {
    const bool drafting = windows.drafts();
    drafts[i] = drafting ? 1 : 0;
    windows.count(drafting, drafting ? drafted[i] : plain[i], tokens[i]);
  }
}
}
