// A decoder's cache: keys and values, bound as inputs and outputs of the same calls.
#pragma once

#include <string>
#include <vector>

#include "artifact/manifest.h"
#include "ort/memory.h"

namespace edgespec {

// One of its buffers, [1, heads, positions, width]. Calls write into it, and nothing copies it.
struct CacheBuffer {
  std::string past;     // its name as input
  std::string present;  // and as output
  int64_t heads;
  uint64_t head_bytes, position_bytes;  // of a head, and of one of its positions
  LazyZeros memory;
  OrtOwned<OrtValue> tensor;
};

// Copies what some positions of a cache hold over what others hold.
void copy_positions(const std::vector<CacheBuffer>& cache, int64_t source, int64_t destination,
                    int64_t count);

// Bytes of each position of a model's cache.
uint64_t cache_bytes(const Exported& exported, const std::string& cache_format);

// All buffers of a model's cache of so many positions. Throws UsageError: there is no memory.
std::vector<CacheBuffer> make_cache(const OrtRuntime& runtime, const Exported& exported,
                                    const std::string& cache_format, int64_t positions);

}  // namespace edgespec
