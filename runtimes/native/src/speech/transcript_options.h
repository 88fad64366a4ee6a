// What may be asked of a transcript, and its checks; edgespec/speech/speech_options.py has the
// same.
#pragma once

#include <string>
#include <vector>

#include "artifact/speech_format.h"

namespace edgespec {

struct TranscriptOptions {
  std::string language;       // code of the spoken language; empty: found in the first window
  bool translate = false;     // to English
  bool timestamps = true;     // let the model say when; without, a window is one segment
  bool use_previous = false;  // the text of earlier windows is the beginning of the next one's
  // Stands before the first window's text as if it had been said: names, spelling.
  std::string prompt;
  // Of the text; 0 is greedy. A window's text is decoded at the first; where it is improbable or
  // repeats itself, again at the next one.
  std::vector<double> temperatures = {0.0, 0.2, 0.4, 0.6, 0.8, 1.0};
  // Limits; NaN: none. Comparisons with it are false.
  double no_speech = 0.6;        // a window's probability of silence above which it is silent
  double min_logprob = -1;       // mean log p of a token below which a text is improbable
  double max_compression = 2.4;  // how many times smaller zlib makes a text that does not repeat
                                 // itself
};

// The options with their checks done. Throws UsageError: one is out of its range.
TranscriptOptions checked(TranscriptOptions options, const SpeechFormat& speech);

}  // namespace edgespec
