// Memory for packed weights, on pages of 2 MB where the system makes them.
#pragma once

#include <cstddef>
#include <memory>

namespace edgespec {

// A piece of a region that pieces share; the region goes when its last piece does.
using PackedMemory = std::shared_ptr<std::byte>;

// `bytes` zeros, aligned to a cache line; throws std::bad_alloc.
PackedMemory allocate(std::size_t bytes);

}  // namespace edgespec
