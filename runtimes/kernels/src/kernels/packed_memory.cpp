#include "kernels/packed_memory.h"

#include <cstdint>
#include <mutex>
#include <new>

#ifdef _WIN32
#define NOMINMAX
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <sys/mman.h>
#endif

namespace edgespec {
namespace {

constexpr std::size_t kPage = std::size_t{1} << 21;
constexpr std::size_t kRegion = 16 * kPage;  // shared by matrices smaller than it
constexpr std::size_t kLine = 64;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

#ifdef _WIN32

// Zero bytes from the system; null if it has none.
void* map(std::size_t bytes) {
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}
void unmap(void* start, std::size_t) { VirtualFree(start, 0, MEM_RELEASE); }
// Large pages need a privilege there that users lack.
void ask_for_huge_pages(void*, std::size_t) {}

#else

void* map(std::size_t bytes) {
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
}
void unmap(void* start, std::size_t bytes) { munmap(start, bytes); }
void ask_for_huge_pages([[maybe_unused]] void* start, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE  // of Linux
  madvise(start, bytes, MADV_HUGEPAGE);
#endif
}

#endif

PackedMemory region(std::size_t bytes) {
  const std::size_t mapped = bytes + kPage;
  void* start = map(mapped);
  if (start == nullptr) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  auto* aligned = static_cast<std::byte*>(start) + (rounded_up(address, kPage) - address);
  ask_for_huge_pages(aligned, bytes);
  return PackedMemory(aligned, [start, mapped](std::byte*) { unmap(start, mapped); });
}

}  // namespace

PackedMemory allocate(std::size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<std::byte> current;  // weak: freed with its model
  static std::size_t used = 0;

  const std::size_t size = rounded_up(bytes, kLine);
  if (size >= kRegion) return region(rounded_up(size, kPage));
  const std::lock_guard lock(mutex);
  PackedMemory shared = current.lock();
  if (!shared || used + size > kRegion) {
    shared = region(kRegion);
    current = shared;
    used = 0;
  }
  std::byte* start = shared.get() + used;
  used += size;
  return PackedMemory(shared, start);
}

PackedMemory in_private_memory(std::size_t bytes, const Fill& fill) {
  PackedMemory memory = allocate(bytes);
  fill(memory.get());
  return memory;
}

}  // namespace edgespec
