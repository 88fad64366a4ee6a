#include "speech/window_text.h"

#include "deflate/deflated_size.h"

namespace edgespec {

double compression(std::string_view text) {
  return double(text.size()) / double(deflated_size(text));
}

bool needs_another(const WindowText& text, const TranscriptOptions& options) {
  const bool improbable = text.logprob < options.min_logprob;
  if (improbable && text.silence > options.no_speech) return false;
  return improbable || text.compression > options.max_compression;
}

bool is_silent(const WindowText& text, const TranscriptOptions& options) {
  return text.silence > options.no_speech && !(text.logprob > options.min_logprob);
}

}  // namespace edgespec
