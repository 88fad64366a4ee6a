// A speech.json of any bytes is read or refused, and one that is read names its segments and
// languages: libFuzzer's entry.
#include <cstdlib>

#include "artifact/speech_format.h"
#include "core/error.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const edgespec::Scratch folder;
  folder.write("speech.json", {reinterpret_cast<const char*>(data), size});
  edgespec::Exported model;
  model.vocab_size = 400;
  try {
    const auto speech = edgespec::read_speech_format(folder.path(), model);
    for (const auto& [code, token] : speech.languages) {
      if (speech.language(code) != token) std::abort();
    }
  } catch (const edgespec::Error&) {
  }
  return 0;
}
