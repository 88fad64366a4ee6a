// Loads the kernels' library as ONNX Runtime does, where no Python is: check_library TARGET
// The library and the runtime's are in the folder that it is started in.
#include <cstdio>
#include <cstring>
#include <string>

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "onnxruntime_c_api.h"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const HMODULE kernels = LoadLibraryA("edgespec_kernels.dll");
  if (kernels == nullptr) {
    std::printf("edgespec_kernels.dll cannot be loaded: error %lu\n", GetLastError());
    return 1;
  }
  using Name = const char* (*)();
  const auto name = reinterpret_cast<Name>(GetProcAddress(kernels, "edgespec_kernels_target"));
  const char* target = name ? name() : nullptr;
  if (target == nullptr || std::strcmp(target, arguments[1]) != 0) {
    std::printf("the target is %s, not %s\n", target ? target : "none", arguments[1]);
    return 1;
  }
  const OrtApi* api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  OrtEnv* environment = nullptr;
  OrtSessionOptions* options = nullptr;
  OrtStatus* status = api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "check", &environment);
  if (status == nullptr) status = api->CreateSessionOptions(&options);
  if (status == nullptr) {
    status = api->RegisterCustomOpsLibrary_V2(options, L"edgespec_kernels.dll");
  }
  if (status != nullptr) {
    std::printf("ONNX Runtime does not take the library: %s\n", api->GetErrorMessage(status));
    return 1;
  }
  std::printf("ONNX Runtime %s takes the kernels of %s\n", OrtGetApiBase()->GetVersionString(),
              target);
  api->ReleaseSessionOptions(options);
  api->ReleaseEnv(environment);
  return 0;
}
