// Memory that a thread keeps from call to call, aligned to cache lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/lanes/lanes.h"

namespace edgespec {

class ScratchLines {
 public:
  float* floats(int64_t count) {
    const auto lines = static_cast<size_t>((count + kLanes - 1) / kLanes);
    if (lines_.size() < lines) lines_.resize(lines);
    return reinterpret_cast<float*>(lines_.data());
  }

 private:
  struct alignas(64) Line {
    float numbers[kLanes];
  };
  std::vector<Line> lines_ = std::vector<Line>(1);
};

}  // namespace edgespec
