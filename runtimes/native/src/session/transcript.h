// Transcribes sound window by window: 30 seconds, of which the next window begins where the last
// finished segment ended (Radford et al. 2022, section 4.5).
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "audio/log_mel.h"
#include "ort/speech_model.h"
#include "session/window_decoding.h"
#include "speech/segments.h"
#include "speech/transcript_options.h"
#include "speech/window_text.h"

namespace edgespec {

// A part of a transcript.
struct Segment {
  double start, end;   // seconds from the beginning of the sound
  std::string text;    // without timestamps and without white space around it
  Tokens tokens;       // with timestamps
  double temperature;  // at which its window was decoded
  double logprob;      // mean of a token of its window
  double compression;  // how many times smaller zlib makes its window's text
  double no_speech;    // probability that nothing is said in its window
};

// How far a transcript is.
struct Progress {
  std::string language;             // code; empty as long as it is not known
  double language_probability = 0;  // of a language that was found
  double seconds = 0;               // of the sound that was read
};

// What is transcribed.
struct Sound {
  std::vector<float> samples;  // mono, at `kSoundRate`, about -1 to 1
  TranscriptOptions options;
};

class Transcript {
 public:
  // `sound`: with checked options. `draft`: null where no model drafts. The models and the decoding
  // must outlive it. Throws UsageError: the sound has less than a frame, or samples that are no
  // finite numbers.
  Transcript(Sound sound, const Pair& pair, SpeechModel& target, SpeechModel* draft,
             WindowDecoding decoding);

  // The next segment; none after the last.
  std::optional<Segment> next();
  const Progress& progress() const { return progress_; }
  const Counts& counts() const { return decoding_.counts(); }

 private:
  // What is known of a window before its text.
  struct Heard {
    std::string language;  // its own, if no other is known
    double silence = 0;    // probability that nothing is said
  };

  // Transcribes the window that comes next.
  void read_window();
  // Gives the models the window. The first one with speech decides the transcript's language.
  Heard hear(const std::vector<float>& window);
  // A window's text at the first temperature whose text is good, else at the last one.
  WindowText believed(const Heard& heard);
  WindowText text(const Heard& heard, double temperature);
  // What a text begins with: maybe the end of what was said before, then language and task.
  Tokens prompt(const SpeechFormat& speech, const std::string& language, const Tokens& before,
                int64_t capacity) const;
  Segment segment(TokenSegment part, const WindowText& text) const;
  // The text of tokens, without timestamps and without white space around it.
  std::string words(const Tokens& tokens) const;

  Sound sound_;
  const Pair& pair_;
  const SpeechFormat& speech_;
  SpeechModel& target_;
  SpeechModel* draft_;
  WindowDecoding decoding_;
  Spectrogram spectrogram_;
  Progress progress_;
  int64_t start_ = 0;  // frame of the next window
  Tokens said_;        // stands before the next window's text
  std::deque<Segment> found_;
};

}  // namespace edgespec
