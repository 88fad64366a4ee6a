// A manifest of any bytes is read or refused, never a crash: libFuzzer's entry.

#include "artifact/manifest.h"
#include "core/error.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const edgespec::Scratch folder;
  folder.write("edgespec.json", {reinterpret_cast<const char*>(data), size});
  try {
    edgespec::read_manifest(folder.path());
  } catch (const edgespec::Error&) {
  }
  return 0;
}
