#include "ort/source.h"

#include <utility>

#include "ort/memory.h"

namespace edgespec {
namespace {

constexpr const char* kTokens = "tokens";
constexpr const char* kStates = "features";  // input of a draft's encoder, output of its target's
constexpr const char* kLogMel = "log_mel";
constexpr const char* kCross = "cross_";

// Runs an encoder on its only input.
Source returned(const Graph& encoder, const char* input, const OrtValue& given) {
  const OrtRuntime& runtime = encoder.runtime();
  Source source;
  std::vector<const char*> names;
  for (const std::string& output : encoder.outputs()) names.push_back(output.c_str());
  std::vector<OrtValue*> made(names.size());
  const OrtValue* taken = &given;
  runtime.check(runtime.api().Run(encoder.session(), nullptr, &input, &taken, 1, names.data(),
                                  names.size(), made.data()));
  for (size_t i = 0; i < made.size(); ++i) {
    OrtOwned<OrtValue> tensor(made[i], runtime.api().ReleaseValue);
    if (is_cross(names[i])) {
      source.names.emplace_back(names[i]);
      source.tensors.push_back(std::move(tensor));
    } else {
      source.states = std::move(tensor);
    }
  }
  return source;
}

}  // namespace

bool is_cross(const std::string& output) { return output.starts_with(kCross); }

Source encoded(const Graph& encoder, std::span<const Token> tokens) {
  std::vector<int64_t> ids(tokens.begin(), tokens.end());
  const auto input = tensor_over(encoder.runtime(), ids, {std::ssize(ids)});
  return returned(encoder, kTokens, *input);
}

Source encoded(const Graph& encoder, std::vector<float>& log_mel, int64_t mel_bins) {
  const auto input =
      tensor_over(encoder.runtime(), log_mel, {mel_bins, std::ssize(log_mel) / mel_bins});
  return returned(encoder, kLogMel, *input);
}

Source encoded(const Graph& encoder, const OrtValue& states) {
  return returned(encoder, kStates, states);
}

}  // namespace edgespec
