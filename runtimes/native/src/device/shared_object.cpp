#include "device/shared_object.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "core/error.h"
#include "core/paths.h"

namespace edgespec {

#ifdef _WIN32

SharedObject::SharedObject(const std::string& path) : handle_(LoadLibraryW(path_of(path).c_str())) {
  if (handle_ != nullptr) return;
  throw UsageError(path + " cannot be loaded (error " + std::to_string(GetLastError()) +
                   "); give the path of ONNX Runtime's library");
}

void* SharedObject::function(const char* name) const {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), name));
}

#else

SharedObject::SharedObject(const std::string& path)
    : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc and macOS keep the message for each thread.
  throw UsageError(path + " cannot be loaded (" + dlerror() +
                   "); give the path of ONNX Runtime's library");
}

void* SharedObject::function(const char* name) const { return dlsym(handle_, name); }

#endif

}  // namespace edgespec
