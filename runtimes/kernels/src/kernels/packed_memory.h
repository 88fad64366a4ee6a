// Memory for packed weights, on pages of 2 MB where the system grants them.
#pragma once

#include <cstddef>
#include <memory>

namespace edgespec {

// A part of a region that several matrices share; the region is freed with its last part.
using PackedMemory = std::shared_ptr<std::byte>;

// `bytes` zero bytes, aligned to a cache line. Throws std::bad_alloc.
PackedMemory allocate(std::size_t bytes);

}  // namespace edgespec
