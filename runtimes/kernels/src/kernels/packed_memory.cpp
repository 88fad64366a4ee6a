#include "kernels/packed_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <new>

namespace edgespec {
namespace {

constexpr std::size_t kPage = std::size_t{1} << 21;
constexpr std::size_t kRegion = 16 * kPage;  // shared by matrices smaller than it
constexpr std::size_t kLine = 64;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

PackedMemory region(std::size_t bytes) {
  const std::size_t mapped = bytes + kPage;
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  auto* aligned = static_cast<std::byte*>(start) + (rounded_up(address, kPage) - address);
  madvise(aligned, bytes, MADV_HUGEPAGE);  // only a hint
  return PackedMemory(aligned, [start, mapped](std::byte*) { munmap(start, mapped); });
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

}  // namespace edgespec
