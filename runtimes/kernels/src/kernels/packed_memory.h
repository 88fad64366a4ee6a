// Memory for packed weights: private, on pages of 2 MB where the system grants them; or of a file
// (packed_file.h).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace edgespec {

// A part of a region that several matrices share; the region is freed with its last part.
using PackedMemory = std::shared_ptr<std::byte>;

// `bytes` zero bytes, aligned to a cache line. Throws std::bad_alloc.
PackedMemory allocate(std::size_t bytes);

// Gives weights their memory: `fill` writes them into zero bytes, unless they are packed already.
using Fill = std::function<void(std::byte*)>;
using PackedStore = std::function<PackedMemory(std::size_t bytes, const Fill& fill)>;

PackedMemory in_private_memory(std::size_t bytes, const Fill& fill);

}  // namespace edgespec
