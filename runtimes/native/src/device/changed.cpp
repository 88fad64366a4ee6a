#include "device/changed.h"

#ifdef _WIN32
#define NOMINMAX
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <sys/stat.h>
#endif

namespace edgespec {

#ifdef _WIN32

int64_t changed_nanoseconds(const std::filesystem::path& file) {
  constexpr int64_t kUnits = 116'444'736'000'000'000;  // of 100 ns, from 1601 to 1970
  WIN32_FILE_ATTRIBUTE_DATA data;
  if (!GetFileAttributesExW(file.c_str(), GetFileExInfoStandard, &data)) return 0;
  const auto [low, high] = data.ftLastWriteTime;
  return ((int64_t(high) << 32 | low) - kUnits) * 100;
}

#else

int64_t changed_nanoseconds(const std::filesystem::path& file) {
  struct stat status{};
  if (stat(file.c_str(), &status) != 0) return 0;
#ifdef __APPLE__
  const timespec changed = status.st_mtimespec;
#else
  const timespec changed = status.st_mtim;
#endif
  return int64_t(changed.tv_sec) * 1'000'000'000 + changed.tv_nsec;
}

#endif

}  // namespace edgespec
