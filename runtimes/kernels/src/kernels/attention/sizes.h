// Sizes that attention works in. A row's bits depend on them: keys are counted from key 0.
#pragma once

#include <cstdint>

namespace edgespec {

constexpr int64_t kKeyTile = 32;    // keys that are transposed together: they stay in the cache
constexpr int64_t kValueTile = 64;  // values that all queries use together; they stay in the cache
constexpr int64_t kChunk = 256;     // keys of one softmax part
constexpr int64_t kBlock = 96;      // queries that share a read of the cache
constexpr int64_t kAll = INT64_MAX;

inline int64_t rounded_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

}  // namespace edgespec
