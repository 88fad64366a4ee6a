// A tokenizer.json of any bytes is read or refused, and one that is read encodes and decodes:
// libFuzzer's entry. Behind a 0 the bytes are a text.
#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "scratch.h"
#include "text/tokenizer.h"

using edgespec::Tokenizer;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const edgespec::Scratch folder;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t border = std::min(bytes.find('\0'), size);
  folder.write("tokenizer.json", bytes.substr(0, border));
  const std::string_view own = bytes.substr(std::min(border + 1, size));
  try {
    const auto tokenizer = Tokenizer::open(folder.path() / "tokenizer.json");
    for (const std::string_view text : {own, std::string_view("A b <s> 12 Ünï\n\n x\t世界 🙂…")}) {
      try {
        const auto tokens = tokenizer->encode(text, Tokenizer::Special::kAround);
        tokenizer->decode(tokens, false);
      } catch (const edgespec::Error&) {  // no UTF-8, or no token for it
      }
    }
    tokenizer->decode({-1, 0, 1, 5, 1'000'000'000});
  } catch (const edgespec::Error&) {
  }
  return 0;
}
