// Memory that a thread keeps from call to call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/aligned_vector.h"

namespace edgespec {

// Room for `count` numbers of the calling thread; each type `Use` has its own.
template <typename Use, typename Number = float>
Number* scratch(int64_t count) {
  thread_local AlignedVector<Number> numbers;
  if (numbers.size() < static_cast<size_t>(count)) numbers.resize(static_cast<size_t>(count));
  return numbers.data();
}

}  // namespace edgespec
