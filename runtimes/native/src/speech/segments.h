// From the tokens of a window to segments with times, and to where the next window begins.
#pragma once

#include <vector>

#include "artifact/speech_format.h"

namespace edgespec {

// A part of a window's text: frames in the window, and tokens with timestamps.
struct TokenSegment {
  int64_t start, end;
  Tokens tokens;
};

struct WindowSegments {
  std::vector<TokenSegment> segments;
  int64_t advance;  // frames from the window's beginning to the next window's
};

// Splits a window's text at its timestamps. `frames`: of the window that are sound.
//
// A segment that the window cuts off has a start and no end: the next window begins where it does.
// If the text ends with a single timestamp, nothing is said after it in this window.
WindowSegments segments_of(const Tokens& tokens, const SpeechFormat& speech, int64_t frames);

}  // namespace edgespec
