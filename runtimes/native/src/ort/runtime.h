// ONNX Runtime's C interface, from a library that is loaded at run time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device/shared_object.h"
#include "onnxruntime_c_api.h"

namespace edgespec {

// An object of ONNX Runtime with the function that releases it.
template <typename T>
using OrtOwned = std::unique_ptr<T, void (*)(T*)>;

// A loaded ONNX Runtime; objects of it must not outlive it.
class OrtRuntime {
 public:
  // `library`: the file of its shared library, or a name that the system searches for. Throws
  // UsageError: it cannot be loaded, is no ONNX Runtime, or too old.
  explicit OrtRuntime(const std::string& library);
  ~OrtRuntime();
  OrtRuntime(const OrtRuntime&) = delete;

  const OrtApi& api() const { return *api_; }
  const OrtApiBase* base() const { return base_; }
  OrtEnv* env() const { return env_; }
  OrtAllocator* allocator() const { return allocator_; }
  const OrtMemoryInfo* memory() const { return memory_; }  // the processor's
  const std::string& version() const { return version_; }
  // Whether it is this release or a later one.
  bool since(int major, int minor) const;
  // Throws Error where a call failed: what, ONNX Runtime's message in one line, and a way out.
  void check(OrtStatus* status, std::string_view what = "the model cannot be run",
             std::string_view way_out = "export the pair again") const;

 private:
  SharedObject library_;
  const OrtApiBase* base_;
  const OrtApi* api_;
  std::string version_;
  OrtEnv* env_ = nullptr;
  OrtAllocator* allocator_ = nullptr;
  OrtMemoryInfo* memory_ = nullptr;
};

}  // namespace edgespec
