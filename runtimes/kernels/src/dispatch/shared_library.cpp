#include "dispatch/shared_library.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace edgespec {

#ifdef _WIN32

void* function_of_sibling(const std::string& library, const char* function, std::string& problem) {
  HMODULE own = nullptr;
  GetModuleHandleExA(
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
      reinterpret_cast<LPCSTR>(&function_of_sibling), &own);
  char path[MAX_PATH];
  std::string folder(path, GetModuleFileNameA(own, path, MAX_PATH));
  folder.resize(folder.find_last_of("\\/") + 1);
  const HMODULE loaded = LoadLibraryA((folder + library + ".dll").c_str());
  if (loaded == nullptr) {
    problem = "cannot load " + folder + library + ".dll; install edgespec-kernels again";
    return nullptr;
  }
  return reinterpret_cast<void*>(GetProcAddress(loaded, function));
}

#else

void* function_of_sibling(const std::string& library, const char* function, std::string& problem) {
  Dl_info own;
  dladdr(reinterpret_cast<const void*>(&function_of_sibling), &own);
  std::string path = own.dli_fname;
  path.resize(path.find_last_of('/') + 1);
  path += "lib" + library + ".so";
  void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* found = loaded ? dlsym(loaded, function) : nullptr;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc and macOS keep the message for each thread.
  if (found == nullptr) problem = std::string(dlerror()) + "; install edgespec-kernels again";
  return found;
}

#endif

}  // namespace edgespec
