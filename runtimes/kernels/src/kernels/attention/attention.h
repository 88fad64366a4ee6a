// Attention of query positions to a cache of keys and values, in 32-bit floats.
//
// A row's result is bit-identical whatever rows are in the same call and however many threads
// compute it: keys are processed in tiles and chunks counted from key 0, and the order of a row's
// operations depends only on the number of keys that it sees. Verifying drafted positions therefore
// gives exactly the result of decoding them one by one. All rows, and all query heads that share a
// key/value head, share one read of the cache.
//
// By default a call continues one text, whose keys begin at position 0 of the buffer. The last rows
// may be others, each with a layout of its own: rows of another text that lies elsewhere in the
// same buffer, or candidates, alternatives to a later row, whose own key lies after the line. Such
// a row has the bits that it would have in a call of its own text alone.
#pragma once

#include <cstdint>

#include "kernels/cache_rows.h"
#include "threads/parallel_for.h"

namespace edgespec {

// A row at `position` of a text that begins at position `start` of the buffer sees the keys
// start … start + position - 1 and then its own, which lies at `index`. In a line of tokens that is
// start + position.
struct RowLayout {
  int64_t start, position, index;

  bool is_in_place() const { return index == start + position; }
};

// How queries meet keys, and weights values. Each has its own bits, on every processor the same.
enum class Arithmetic : uint8_t {
  kFloat32,
  kBFloat16,  // of numbers rounded to bfloat16, added up in float32 (rounded_block.h)
};

struct AttentionShape {
  int64_t rows;      // query positions of this call
  int64_t heads;     // query heads, a multiple of kv_heads
  int64_t kv_heads;  // key/value heads
  int64_t size;      // numbers of a head, a multiple of 8
  int64_t seen;      // row r sees keys 0 … seen + r * step - 1; past + 1 in a causal call
  int64_t step;      // 1 in a causal call, 0 if every row sees the same keys
  int64_t stride;    // positions that the buffer of each key/value head has room for
  float scale;       // of products of queries and keys
  const RowLayout* layouts = nullptr;  // [described], of the last rows
  int64_t described = 0;
  int64_t window = 0;  // how many of its keys a row sees, the last ones; 0: all
  Arithmetic arithmetic = Arithmetic::kFloat32;
};

// out [rows, heads * size] = softmax(scale · queries · keysᵀ + bias) · values for each head.
//
// Row r of `queries` begins at queries + r * query_stride. `keys` and `values` are
// [kv_heads, stride, size], stored as float, Float16 or int8_t; only keys that rows see are read.
// `bias` is null or [heads, rows, seen + (rows - 1) * step], its columns counted from the start of
// the row's text. A row whose keys all have a bias of -∞ becomes NaN.
template <typename Number>
void attend(const AttentionShape& shape, const float* queries, int64_t query_stride,
            const CacheRows<Number>& keys, const CacheRows<Number>& values, const float* bias,
            float* out, const Threads& threads);

}  // namespace edgespec
