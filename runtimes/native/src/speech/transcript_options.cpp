#include "speech/transcript_options.h"

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/options.h"
#include "core/shown.h"
#include "text/message_text.h"

namespace edgespec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_language(const std::string& language, const SpeechFormat& speech) {
  std::string known = speech.is_multilingual() ? "" : "en";
  bool is_known = language.empty() || language == known;
  for (const auto& [code, _] : speech.languages) {
    is_known = is_known || code == language;
    known += (known.empty() ? "" : ", ") + code;
  }
  if (is_known) return;
  throw UsageError("language is " + shown(std::string_view(language)) + "; this model knows " +
                   known);
}

void check_limit(const char* name, double value, double low, double high, const char* give) {
  if (std::isnan(value) || (low <= value && value <= high)) return;
  throw UsageError(std::string(name) + " is " + shown(value) + "; give " + give + ", or NaN");
}

}  // namespace

TranscriptOptions checked(TranscriptOptions options, const SpeechFormat& speech) {
  if (options.translate && !speech.translate) {
    throw UsageError("this model knows English only and translates nothing");
  }
  check_language(options.language, speech);
  if (!options.prompt.empty()) {
    check_text(options.prompt, "prompt");
    if (!speech.previous) {
      throw UsageError("this model has no token for what was said before, so it takes no prompt");
    }
  }
  check_limit("no_speech", options.no_speech, 0, 1, "0 to 1");
  check_limit("min_logprob", options.min_logprob, -kInfinity, 0, "0 or less");
  check_limit("max_compression", options.max_compression, 0, kInfinity, "0 or more");
  if (options.temperatures.empty()) {
    throw UsageError("temperature is an empty list; give at least one, such as 0");
  }
  for (const double temperature : options.temperatures) {
    check(Sampling{.temperature = temperature});
  }
  if (!speech.is_multilingual()) options.language = "en";
  return options;
}

}  // namespace edgespec
