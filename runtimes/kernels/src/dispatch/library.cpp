// The library that ONNX Runtime and Python are given: it passes calls on to the library of the
// chosen target.
#include <string>

#include "dispatch/target.h"
#include "onnxruntime_c_api.h"
#include "ort/export.h"

namespace {

OrtStatus* failure(const OrtApiBase* base, const std::string& problem) {
  constexpr uint32_t kFirstVersion = 1;
  return base->GetApi(kFirstVersion)->CreateStatus(ORT_FAIL, problem.c_str());
}

}  // namespace

extern "C" {

// ONNX Runtime calls this when a session is given this library.
EDGESPEC_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using Register = OrtStatus* (*)(OrtSessionOptions*, const OrtApiBase*);
  std::string problem;
  const auto chosen =
      reinterpret_cast<Register>(edgespec::chosen_function("RegisterCustomOps", problem));
  return chosen ? chosen(options, base) : failure(base, problem);
}

// See ops/register.cpp, in the library of the target.
EDGESPEC_EXPORT int edgespec_kernels_packed_begin(const char* path, const char* identity) {
  using Begin = int (*)(const char*, const char*);
  std::string problem;
  const auto chosen =
      reinterpret_cast<Begin>(edgespec::chosen_function("edgespec_packed_begin", problem));
  return chosen ? chosen(path, identity) : 0;
}
EDGESPEC_EXPORT int edgespec_kernels_packed_end(const char* path) {
  using End = int (*)(const char*);
  std::string problem;
  const auto chosen =
      reinterpret_cast<End>(edgespec::chosen_function("edgespec_packed_end", problem));
  return chosen ? chosen(path) : 0;
}

// The name of the target in use; null if there is none. Valid until the thread's next call.
EDGESPEC_EXPORT const char* edgespec_kernels_target() {
  thread_local std::string target;
  target = edgespec::chosen_target().target;
  return target.empty() ? nullptr : target.c_str();
}

// Why there is no target; null if there is one. Valid until the thread's next call.
EDGESPEC_EXPORT const char* edgespec_kernels_problem() {
  thread_local std::string problem;
  problem = edgespec::chosen_target().problem;
  return problem.empty() ? nullptr : problem.c_str();
}
}
