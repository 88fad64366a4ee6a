#include "ort/runtime.h"

#include <cstdio>
#include <utility>

#include "core/error.h"

namespace edgespec {
namespace {

constexpr int kMajor = 1, kMinor = 25;  // the first with TensorScatter of opset 24
constexpr size_t kLongestLine = 160;

// A message's first line that is not blank, at most 160 bytes; a longer one keeps its two ends.
std::string one_line(std::string_view message) {
  while (!message.empty() && (message[0] == '\n' || message[0] == ' ')) message.remove_prefix(1);
  const std::string line(message.substr(0, message.find('\n')));
  constexpr size_t kHalf = kLongestLine / 2;
  return line.size() <= kLongestLine
             ? line
             : line.substr(0, kHalf - 1) + "…" + line.substr(line.size() - kHalf);
}

const OrtApiBase* base_of(const SharedObject& library, const std::string& path) {
  using GetBase = const OrtApiBase* (*)();
  const auto base = reinterpret_cast<GetBase>(library.function("OrtGetApiBase"));
  if (base == nullptr) {
    throw UsageError(path + " is no ONNX Runtime; give the path of its library");
  }
  return base();
}

std::pair<int, int> release(const std::string& version) {
  int major = 0, minor = 0;
  std::sscanf(version.c_str(), "%d.%d", &major, &minor);
  return {major, minor};
}

}  // namespace

OrtRuntime::OrtRuntime(const std::string& library)
    : library_(library),
      base_(base_of(library_, library)),
      api_(base_->GetApi(ORT_API_VERSION)),
      version_(base_->GetVersionString()) {
  if (!since(kMajor, kMinor) || api_ == nullptr) {
    throw UsageError("onnxruntime " + version_ + " lacks operators of these graphs, which need " +
                     std::to_string(kMajor) + "." + std::to_string(kMinor) +
                     " or newer; give the path of a newer library");
  }
  check(api_->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "edgespec", &env_));
  check(api_->GetAllocatorWithDefaultOptions(&allocator_));
  check(api_->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory_));
}

OrtRuntime::~OrtRuntime() {
  if (api_ == nullptr) return;
  if (memory_ != nullptr) api_->ReleaseMemoryInfo(memory_);
  if (env_ != nullptr) api_->ReleaseEnv(env_);
}

bool OrtRuntime::since(int major, int minor) const {
  return release(version_) >= std::pair(major, minor);
}

void OrtRuntime::check(OrtStatus* status, std::string_view what, std::string_view way_out) const {
  if (status == nullptr) return;
  const std::string message = one_line(api_->GetErrorMessage(status));
  api_->ReleaseStatus(status);
  throw Error(std::string(what) + " (" + message + "); " + std::string(way_out));
}

}  // namespace edgespec
