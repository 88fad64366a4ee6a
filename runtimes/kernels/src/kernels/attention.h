// Attention of query positions to a cache of keys and values, in 32-bit floats.
//
// A row's result is bit-identical whatever rows are in the same call and however many threads
// compute it: keys are processed in tiles and chunks counted from key 0, and the order of a row's
// operations depends only on the number of keys that it sees. Verifying drafted positions therefore
// gives exactly the result of decoding them one by one. All rows, and all query heads that share a
// key/value head, share one read of the cache.
//
// The last rows of a causal call may be candidates, alternatives to a later row of the chain before
// them. A candidate's parent is a row of the chain; the candidate sees the keys that its parent
// sees and its own key, and has the bits that it would have right after its parent.
#pragma once

#include <cstdint>

#include "kernels/cache_rows.h"
#include "threads/parallel_for.h"

namespace edgespec {

struct AttentionShape {
  int64_t rows;      // query positions of this call, candidates included
  int64_t heads;     // query heads, a multiple of kv_heads
  int64_t kv_heads;  // key/value heads
  int64_t size;      // numbers of a head, a multiple of 8
  int64_t seen;      // row r sees keys 0 … seen + r * step - 1; past + 1 in a causal call
  int64_t step;      // 1 in a causal call, 0 if every row sees the same keys
  int64_t stride;    // positions that the buffer of each key/value head has room for
  float scale;       // of products of queries and keys
  const int64_t* parents = nullptr;  // [candidates]: row of each candidate's parent in the chain
  int64_t candidates = 0;            // how many of the last rows are candidates
};

// out [rows, heads * size] = softmax(scale · queries · keysᵀ + bias) · values for each head.
//
// Row r of `queries` begins at queries + r * query_stride. `keys` and `values` are
// [kv_heads, stride, size], stored as float, Float16 or int8_t; nothing after the keys of this
// call's rows is read. The key of row r is key seen + r - 1, also if r is a candidate. `bias` is
// null or [heads, rows, seen + (rows - 1) * step]. A row whose keys all have a bias of -∞ becomes
// NaN.
template <typename Number>
void attend(const AttentionShape& shape, const float* queries, int64_t query_stride,
            const CacheRows<Number>& keys, const CacheRows<Number>& values, const float* bias,
            float* out, const Threads& threads);

}  // namespace edgespec
