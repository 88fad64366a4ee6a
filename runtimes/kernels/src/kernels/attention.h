// Attention of a few query positions behind a cache of keys and values, in 32-bit floats.
//
// A row's numbers are the same bit for bit whatever rows are computed with it, in one call or in
// several, on any number of threads: keys are taken in tiles and chunks counted from key 0, and
// the order of a row's operations depends on nothing but the number of keys that it sees.
// Verifying drafted positions therefore gives exactly what decoding one by one would have given.
// All rows, and all query heads that share a key/value head, share one read of the cache.
//
// Of a causal call the last rows may be candidates: each stands behind an earlier row in place of the
// next one. It sees what that one sees and its own key, and has the numbers that it would have there.
#pragma once

#include <cstdint>

#include "threads/parallel_for.h"

namespace edgespec {

struct AttentionShape {
  int64_t rows;      // query positions of this call
  int64_t heads;     // of queries
  int64_t kv_heads;  // of keys and values; `heads` is a multiple
  int64_t size;      // of a head, a multiple of 8
  int64_t seen;      // row r sees keys 0 … seen + r * step - 1: past + 1 if causal,
  int64_t step;      // 1 if causal, 0 if every row sees the same keys
  int64_t stride;    // positions that a head's buffer of keys has room for
  float scale;       // of products of queries and keys
  const int64_t* parents = nullptr;  // [candidates]: the row that each of the last rows stands behind,
  int64_t candidates = 0;              // before the last one that is no candidate
};

// out [rows, heads * size] = softmax(scale · queries · keysᵀ + bias) · values for each head.
// A row of `queries` begins `query_stride` after the one before; `keys` and `values` are
// [kv_heads, stride, size] and are not read behind what the last row sees; row r's own key, if it is
// a candidate, is number seen + r - 1. `bias` is null or [heads, rows, seen + (rows - 1) * step]. A row
// from which a bias of -∞ hides every key is NaN.
void attend(const AttentionShape& shape, const float* queries, int64_t query_stride,
            const float* keys, const float* values, const float* bias, float* out,
            const Threads& threads);

}  // namespace edgespec
