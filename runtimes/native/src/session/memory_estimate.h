// What a pair and its sessions will take, before it is loaded.
#pragma once

#include <cstdint>
#include <string>

#include "session/pair.h"

namespace edgespec {

struct MemoryEstimate {
  uint64_t weights;  // bytes of the graphs and weights, once for all sessions
  uint64_t caches;   // bytes of a session's caches when they are full
};

// Reads the manifest alone. Throws what loading throws for a folder and options that cannot be.
MemoryEstimate estimated_memory(const std::string& folder, const LoadOptions& options);

}  // namespace edgespec
