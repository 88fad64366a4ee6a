#include "kernels/mapped_file.h"

#ifdef _WIN32
#define NOMINMAX
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace edgespec {

#ifdef _WIN32

MappedFile map_file(const std::string& path) {
  const int length = MultiByteToWideChar(CP_UTF8, 0, path.c_str(), -1, nullptr, 0);
  std::wstring wide(length, L'\0');
  MultiByteToWideChar(CP_UTF8, 0, path.c_str(), -1, wide.data(), length);
  const HANDLE file = CreateFileW(wide.c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE,
                                  nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return {};
  LARGE_INTEGER size{};
  GetFileSizeEx(file, &size);
  const HANDLE mapping = CreateFileMappingW(file, nullptr, PAGE_READONLY, 0, 0, nullptr);
  CloseHandle(file);
  if (mapping == nullptr) return {};
  void* start = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
  CloseHandle(mapping);
  if (start == nullptr) return {};
  const auto unmap = [](std::byte* from) { UnmapViewOfFile(from); };
  return {{static_cast<std::byte*>(start), unmap}, static_cast<std::size_t>(size.QuadPart)};
}

#else

MappedFile map_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);  // NOLINT(*-vararg)
  if (file < 0) return {};
  struct stat status{};
  const bool known = fstat(file, &status) == 0 && status.st_size > 0;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* start = known ? mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (start == MAP_FAILED) return {};
#ifdef MADV_HUGEPAGE  // of Linux: where the file system can, it is read onto huge pages
  madvise(start, bytes, MADV_HUGEPAGE);
#endif
  return {{static_cast<std::byte*>(start), [bytes](std::byte* from) { munmap(from, bytes); }},
          bytes};
}

#endif

}  // namespace edgespec
