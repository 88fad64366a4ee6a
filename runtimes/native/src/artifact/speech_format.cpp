#include "artifact/speech_format.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "artifact/manifest_types.h"
#include "core/error.h"
#include "core/paths.h"
#include "core/shown.h"
#include "core/whole_numbers.h"

namespace edgespec {
namespace {

using Json = nlohmann::ordered_json;  // of equally probable languages, the first is taken

constexpr const char* kSpeech = "speech.json";
constexpr int64_t kMostBins = 4096, kMostFrames = 1'000'000;

// Throws std::runtime_error: a number is none that the model can have.
void check_number(const char* name, int64_t value, int64_t least, int64_t most) {
  if (least <= value && value <= most) return;
  throw std::runtime_error(std::string(name) + " is " + shown(value) + ", not " + shown(least) +
                           " to " + shown(most));
}

SpeechFormat format_of(const Json& data, int64_t vocab_size) {
  const auto token = [&](const char* name) {
    const auto found = data.at(name).get<Token>();
    check_number(name, found, 0, vocab_size - 1);
    return found;
  };
  const auto optional = [&](const char* name) {
    return data.at(name).is_null() ? std::nullopt : std::optional(token(name));
  };
  const auto tokens = [&](const char* name) {
    const auto found = data.at(name).get<Tokens>();
    for (const Token one : found) check_number(name, one, 0, vocab_size - 1);
    return found;
  };
  SpeechFormat speech{.mel_bins = data.at("mel_bins").get<int64_t>(),
                      .frames = data.at("frames").get<int64_t>(),
                      .end = token("end"),
                      .start = token("start"),
                      .languages = {},
                      .transcribe = optional("transcribe"),
                      .translate = optional("translate"),
                      .previous = optional("previous"),
                      .no_speech = optional("no_speech"),
                      .no_timestamps = token("no_timestamps"),
                      .first_timestamp = token("first_timestamp"),
                      .suppressed = tokens("suppressed"),
                      .suppressed_first = tokens("suppressed_first")};
  check_number("mel_bins", speech.mel_bins, 1, kMostBins);
  check_number("frames", speech.frames, 1, kMostFrames);
  check_number("first_timestamp", speech.first_timestamp, 1, vocab_size - 1);
  for (const auto& [code, language] : data.at("languages").items()) {
    speech.languages.emplace_back(code, language.get<Token>());
    check_number(code.c_str(), speech.languages.back().second, 0, vocab_size - 1);
  }
  return speech;
}

}  // namespace

std::optional<Token> SpeechFormat::language(const std::string& code) const {
  const auto found = std::ranges::find(languages, code, [](const auto& one) { return one.first; });
  return found == languages.end() ? std::nullopt : std::optional(found->second);
}

SpeechFormat read_speech_format(const std::filesystem::path& folder, const Exported& model) {
  const std::filesystem::path path = folder / kSpeech;
  try {
    const Json data = parsed<Json>(std::ifstream(path, std::ios::binary));
    check_types("SpeechFormat", data, kSpeech);
    return format_of(data, model.vocab_size);
  } catch (const std::exception& error) {
    throw Error(name_of(path) + " is damaged (" + error.what() + "); export the pair again");
  }
}

}  // namespace edgespec
