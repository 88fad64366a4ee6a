// The text of one window, and whether it is to be believed, decoded again, or left out.
//
// The rules of Whisper's own program (Radford et al. 2022, section 4.5, and openai/whisper,
// `transcribe.py`).
#pragma once

#include <string_view>

#include "core/distribution.h"
#include "speech/transcript_options.h"

namespace edgespec {

struct WindowText {
  Tokens tokens;  // with timestamps, without the token that ends them
  double temperature;
  double logprob;      // mean of a token, the one that ends the text included, at temperature 1
  double compression;  // how many times smaller zlib makes the text
  double silence;      // probability that nothing is said in the window
};

// Bytes of a text for each byte that zlib makes of it: repetitions raise it.
double compression(std::string_view text);

// Whether a text repeats itself or is improbable, in a window that is not silent.
bool needs_another(const WindowText& text, const TranscriptOptions& options);

// Whether a window says nothing, whatever its text.
bool is_silent(const WindowText& text, const TranscriptOptions& options);

}  // namespace edgespec
