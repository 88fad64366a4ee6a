// A saved session of any bytes is loaded or refused, and one that is loaded goes on: libFuzzer's
// entry. EDGESPEC_FUZZ_PAIR is the folder that they are of, EDGESPEC_FUZZ_RUNTIME ONNX Runtime's
// library. The digest at the end of the bytes is made to fit, since none would be read without.
#include <cstdlib>
#include <memory>
#include <string>

#include "artifact/sha256.h"
#include "core/error.h"
#include "scratch.h"
#include "session/pair.h"
#include "session/saved_session.h"
#include "session/session.h"

using namespace edgespec;

namespace {

constexpr size_t kDigest = 64;
constexpr int kPieces = 4;  // of a text that goes on

std::shared_ptr<const Pair> opened() {
  LoadOptions options;
  options.onnxruntime = std::getenv("EDGESPEC_FUZZ_RUNTIME");
  options.threads = 1;
  return std::make_shared<const Pair>(std::getenv("EDGESPEC_FUZZ_PAIR"), options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch folder;
  static const std::shared_ptr<const Pair> pair = opened();
  std::string bytes(reinterpret_cast<const char*>(data), size < kDigest ? size : size - kDigest);
  bytes += sha256(bytes);
  folder.write("session", bytes);
  try {
    const auto session = load_session(pair, folder.path() / "session");
    for (int i = 0; i < kPieces; ++i) session->next();
  } catch (const Error&) {
  }
  return 0;
}
