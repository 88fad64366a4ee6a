#include "speech/segments.h"

#include <algorithm>

namespace edgespec {
namespace {

constexpr int64_t kFramesPerStep = 2;  // of a timestamp: 20 ms

}  // namespace

WindowSegments segments_of(const Tokens& tokens, const SpeechFormat& speech, int64_t frames) {
  const int64_t count = std::ssize(tokens);
  const auto is_time = [&](int64_t at) { return tokens[at] >= speech.first_timestamp; };
  const auto frame = [&](int64_t at) {
    return std::min((tokens[at] - speech.first_timestamp) * kFramesPerStep, frames);
  };
  std::vector<int64_t> ends;
  int64_t last_time = 0;
  for (int64_t at = 0; at < count; ++at) {
    if (is_time(at)) last_time = frame(at);
    if (at > 0 && is_time(at - 1) && is_time(at)) ends.push_back(at);
  }
  if (ends.empty()) {
    if (tokens.empty()) return {{}, frames};
    return {{{0, last_time > 0 ? last_time : frames, tokens}}, frames};
  }
  const bool closed = is_time(count - 1) && !is_time(count - 2);
  if (closed) ends.push_back(count);
  WindowSegments found{{}, frames};
  int64_t start = 0;
  for (const int64_t end : ends) {
    found.segments.push_back(
        {frame(start), frame(end - 1), Tokens(tokens.begin() + start, tokens.begin() + end)});
    start = end;
  }
  // At least a step, so that the end is reached whatever a model says.
  if (!closed) found.advance = std::max(frame(start - 1), kFramesPerStep);
  return found;
}

}  // namespace edgespec
