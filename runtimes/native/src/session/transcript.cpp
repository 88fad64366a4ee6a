#include "session/transcript.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/log_probability.h"
#include "core/shown.h"
#include "text/message_text.h"

namespace edgespec {
namespace {

// A text that was decoded above this is no good beginning for the next window's.
constexpr double kHighestOfPrevious = 0.5;

// No sound is: such samples are whole numbers as floats, which models hear as noise.
constexpr float kTooLoud = 100;

// Throws UsageError: there is nothing to hear.
Sound audible(Sound sound) {
  const auto& samples = sound.samples;
  if (!std::ranges::all_of(samples, [](float sample) { return std::isfinite(sample); })) {
    throw UsageError("the sound has samples that are no finite numbers; give others");
  }
  const auto loud =
      std::ranges::find_if(samples, [](float sample) { return std::fabs(sample) >= kTooLoud; });
  if (loud != samples.end()) {
    throw UsageError("the sound has the sample " + shown(double(*loud)) +
                     "; give -1 to 1: 16-bit samples divided by 32,768");
  }
  if (std::ssize(samples) >= kHop) return sound;
  throw UsageError("the sound has " + shown(int64_t(std::ssize(samples))) +
                   " samples; give at least 10 milliseconds of sound");
}

// Whether all of a window's first frames are the same number, as where nothing sounds.
bool is_even(const std::vector<float>& window, int64_t width, int64_t frames) {
  for (auto row = window.begin(); row != window.end(); row += width) {
    if (std::any_of(row, row + frames, [&](float one) { return one != window[0]; })) return false;
  }
  return true;
}

// The tokens of what is taken for said before.
Tokens encoded(const Pair& pair, const std::string& prompt) {
  const std::string text = trimmed(prompt);
  if (text.empty()) return {};
  Tokens tokens = pair.tokenizer().encode(" " + text, Tokenizer::Special::kSpelled);
  std::erase_if(tokens, [&](Token token) { return token >= pair.speech().end; });
  return tokens;
}

}  // namespace

Transcript::Transcript(Sound sound, const Pair& pair, SpeechModel& target, SpeechModel* draft,
                       WindowDecoding decoding)
    : sound_(audible(std::move(sound))),
      pair_(pair),
      speech_(pair.speech()),
      target_(target),
      draft_(draft),
      decoding_(std::move(decoding)),
      spectrogram_(sound_.samples, speech_.mel_bins),
      said_(encoded(pair, sound_.options.prompt)) {
  progress_.language = sound_.options.language;
}

std::optional<Segment> Transcript::next() {
  while (found_.empty() && start_ < spectrogram_.frames()) read_window();
  if (found_.empty()) return std::nullopt;
  Segment segment = std::move(found_.front());
  found_.pop_front();
  return segment;
}

void Transcript::read_window() {
  const int64_t frames = std::min(speech_.frames, spectrogram_.frames() - start_);
  const std::vector<float> window = spectrogram_.window(start_, speech_.frames);
  const double end = double(start_ + frames) / kFramesPerSecond;
  if (is_even(window, speech_.frames, frames)) {
    // Nothing is above the floor, and models would invent something, such as "you".
    start_ += frames;
    progress_.seconds = end;
    return;
  }
  const WindowText text = believed(hear(window));
  progress_.seconds = end;
  if (is_silent(text, sound_.options)) {
    start_ += frames;
    return;
  }
  auto [parts, advance] = segments_of(text.tokens, speech_, frames);
  for (TokenSegment& part : parts) {
    Segment made = segment(std::move(part), text);
    if (made.text.empty()) continue;
    said_.insert(said_.end(), made.tokens.begin(), made.tokens.end());
    found_.push_back(std::move(made));
  }
  if (!sound_.options.use_previous || text.temperature > kHighestOfPrevious) said_.clear();
  start_ += advance;
}

Transcript::Heard Transcript::hear(const std::vector<float>& window) {
  const SamplingTable& kernels = pair_.sampling();
  target_.hear(window);
  if (draft_ != nullptr) draft_->hear(window);
  const Token pending = target_.prefill({speech_.start}, std::nullopt);
  const Row logits = target_.score({&pending, 1}, {})[0];
  Heard heard{progress_.language};
  if (speech_.no_speech) {
    heard.silence = std::exp(log_probability(logits, *speech_.no_speech, kernels));
  }
  if (!heard.language.empty()) return heard;
  std::vector<float> of_languages;
  for (const auto& [_, token] : speech_.languages) of_languages.push_back(logits[token]);
  const auto likeliest = std::ranges::max_element(of_languages) - of_languages.begin();
  heard.language = speech_.languages[likeliest].first;
  if (!(heard.silence > sound_.options.no_speech)) {
    progress_.language = heard.language;
    progress_.language_probability = std::exp(log_probability(of_languages, likeliest, kernels));
  }
  return heard;
}

WindowText Transcript::believed(const Heard& heard) {
  const std::vector<double>& temperatures = sound_.options.temperatures;
  for (size_t i = 0; i + 1 < temperatures.size(); ++i) {
    WindowText made = text(heard, temperatures[i]);
    if (!needs_another(made, sound_.options)) return made;
  }
  return text(heard, temperatures.back());
}

WindowText Transcript::text(const Heard& heard, double temperature) {
  TextStart start{prompt(speech_, heard.language, said_, target_.capacity()),
                  {},
                  temperature,
                  sound_.options.timestamps};
  if (draft_ != nullptr) {
    start.draft_prompt = prompt(pair_.draft_speech(), heard.language,
                                pair_.vocabulary().to_draft(said_), draft_->capacity());
  }
  auto [tokens, logprob] = decoding_.text(start);
  if (!tokens.empty() && tokens.back() == speech_.end) tokens.pop_back();
  // The token that ends a text counts, also where the cache was full before it came.
  const double mean = logprob / double(tokens.size() + 1);
  return {tokens, temperature, mean, compression(words(tokens)), heard.silence};
}

Tokens Transcript::prompt(const SpeechFormat& speech, const std::string& language,
                          const Tokens& before, int64_t capacity) const {
  Tokens prompt;
  if (!before.empty() && speech.previous) {
    const int64_t most = std::min<int64_t>(capacity / 2 - 1, std::ssize(before));
    prompt = {*speech.previous};
    prompt.insert(prompt.end(), before.end() - most, before.end());
  }
  prompt.push_back(speech.start);
  if (speech.is_multilingual() && !language.empty()) {
    // A draft may know fewer languages than its target.
    for (const auto& token : {speech.language(language),
                              sound_.options.translate ? speech.translate : speech.transcribe}) {
      if (token) prompt.push_back(*token);
    }
  }
  if (!sound_.options.timestamps) prompt.push_back(speech.no_timestamps);
  return prompt;
}

Segment Transcript::segment(TokenSegment part, const WindowText& text) const {
  const auto seconds = [&](int64_t frame) { return double(start_ + frame) / kFramesPerSecond; };
  std::string said = words(part.tokens);
  return {seconds(part.start), seconds(part.end), std::move(said),  std::move(part.tokens),
          text.temperature,    text.logprob,      text.compression, text.silence};
}

std::string Transcript::words(const Tokens& tokens) const {
  Tokens written;
  std::ranges::copy_if(tokens, std::back_inserter(written),
                       [&](Token token) { return token < speech_.end; });
  return trimmed(pair_.tokenizer().decode(written));
}

}  // namespace edgespec
