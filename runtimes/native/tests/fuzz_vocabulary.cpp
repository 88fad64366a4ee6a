// The maps of a draft's tokens, of any bytes, are read or refused, and those that are read map
// every token: libFuzzer's entry.
#include <cstdlib>
#include <numeric>

#include "core/error.h"
#include "drafters/vocabulary.h"
#include "scratch.h"

using namespace edgespec;

namespace {

constexpr int64_t kTokens = 272;  // of the target and of the draft

void use(const Vocabulary& vocabulary) {
  Tokens tokens(kTokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (const Token token : vocabulary.to_draft(tokens)) {
    if (token < 0 || token >= kTokens) std::abort();
    vocabulary.to_target(token);
  }
  vocabulary.prompt(tokens, Answers{{{2, 5}, {9, kTokens}}});
  vocabulary.covers(kTokens);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch folder;
  folder.write("maps.json", {reinterpret_cast<const char*>(data), size});
  Manifest manifest;
  manifest.folder = folder.path();
  manifest.draft.emplace();
  manifest.draft->vocabulary = "maps.json";
  for (Exported* model : {&manifest.target, &*manifest.draft}) {
    model->vocab_size = model->read_tokens = kTokens;
  }
  try {
    use(*open_vocabulary(manifest));
  } catch (const Error&) {
  }
  return 0;
}
