#include "ort/source.h"

#include "ort/memory.h"

namespace edgespec {
namespace {

constexpr const char* kTokens = "tokens";
constexpr const char* kCross = "cross_";

}  // namespace

bool is_cross(const std::string& output) { return output.starts_with(kCross); }

Source encoded(const Graph& encoder, std::span<const Token> tokens) {
  const OrtRuntime& runtime = encoder.runtime();
  std::vector<int64_t> ids(tokens.begin(), tokens.end());
  const auto input = tensor_over(runtime, ids, {std::ssize(ids)});
  Source source;
  for (const std::string& output : encoder.outputs()) {
    if (is_cross(output)) source.names.push_back(output);
  }
  std::vector<const char*> names;
  for (const std::string& name : source.names) names.push_back(name.c_str());
  std::vector<OrtValue*> made(names.size());
  const OrtValue* taken = input.get();
  runtime.check(runtime.api().Run(encoder.session(), nullptr, &kTokens, &taken, 1, names.data(),
                                  names.size(), made.data()));
  for (OrtValue* tensor : made) source.tensors.emplace_back(tensor, runtime.api().ReleaseValue);
  return source;
}

}  // namespace edgespec
