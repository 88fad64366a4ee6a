// How work is shared among threads: the caller says by what, kernels say what.
#pragma once

#include <cstddef>

namespace edgespec {

// Executes body(data, i) for i in 0 … count - 1, possibly in parallel.
using ParallelFor = void (*)(void* context, void (*body)(void* data, size_t index), size_t count,
                             void* data);

}  // namespace edgespec
