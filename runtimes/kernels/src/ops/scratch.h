// Memory that a thread keeps from call to call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgespec {

// Room for `count` numbers of the calling thread; each type `Use` has its own.
template <typename Use>
float* scratch(int64_t count) {
  thread_local std::vector<float> numbers;
  if (numbers.size() < static_cast<size_t>(count)) numbers.resize(static_cast<size_t>(count));
  return numbers.data();
}

}  // namespace edgespec
