// What a speech model reads and which of its tokens have a role: `speech.json` of an exported pair,
// as docs/reference/folder-format.md describes it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "artifact/manifest.h"

namespace edgespec {

struct SpeechFormat {
  int64_t mel_bins;  // bands of the spectrogram
  int64_t frames;    // of 10 ms, in a window: 3000
  Token end;         // ends a text. Text tokens come before it, all others after it
  Token start;       // first token of the decoder
  std::vector<std::pair<std::string, Token>> languages;  // by code; none of English alone
  std::optional<Token> transcribe, translate;            // the tasks; none of English alone
  std::optional<Token> previous;                         // stands before what was said before
  std::optional<Token> no_speech;  // its probability after `start` is that of silence
  Token no_timestamps;             // asks for a text without timestamps
  Token first_timestamp;           // 0.00 s; each later token is 20 ms later
  Tokens suppressed;               // never come
  Tokens suppressed_first;         // do not come first

  bool is_multilingual() const { return !languages.empty(); }
  // The token of a language; none where the model does not know it.
  std::optional<Token> language(const std::string& code) const;
};

// Reads the file in the folder of a model. Throws Error: it is missing or damaged, or names tokens
// that the model lacks.
SpeechFormat read_speech_format(const std::filesystem::path& folder, const Exported& model);

}  // namespace edgespec
