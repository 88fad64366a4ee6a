// Which keys the queries of a block see, and where they are.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/call.h"
#include "kernels/attention/partials.h"
#include "kernels/attention/sizes.h"
#include "kernels/cache_rows.h"

namespace edgespec {

// The queries of some rows that share a key/value head: by row, then by head. A query sees at least
// as many keys as those before it.
template <typename Number>
class BlockKeys {
 public:
  BlockKeys(const AttentionCall<Number>& call, int64_t kv_head, int64_t block)
      : call_(call),
        kv_head_(kv_head),
        span_(call.spans[static_cast<size_t>(block)]),
        start_(call.layout(call.row(span_.first)).start),
        size_(call.shape.size),
        keys_(call.keys.from(kv_head * call.shape.stride + start_, size_)),
        values_(call.values.from(kv_head * call.shape.stride + start_, size_)) {}

  int64_t count() const { return span_.count * call_.group; }
  int64_t chunks(int64_t query) const { return (seen(query) + kChunk - 1) / kChunk; }
  int64_t chunks() const { return chunks(count() - 1); }
  int64_t first_chunk(int64_t query) const { return hidden(query) / kChunk; }
  int64_t first_chunk() const { return first_chunk(0); }

  // Combines the parts of each query's result.
  void finish(const Partials& parts) const {
    for (int64_t q = 0; q < count(); ++q) {
      float* out = call_.out + (row(q) * call_.shape.heads + head(q)) * size_;
      combine(parts, q, first_chunk(q), chunks(q) - first_chunk(q), size_, out);
    }
  }

 protected:
  int64_t row(int64_t query) const { return call_.row(span_.first + query / call_.group); }
  int64_t head(int64_t query) const { return kv_head_ * call_.group + query % call_.group; }
  RowLayout layout(int64_t query) const { return call_.layout(row(query)); }
  int64_t seen(int64_t query) const { return layout(query).position + 1; }
  int64_t hidden(int64_t query) const { return call_.hidden_of(seen(query)); }

  // How many of the `count` keys from `first` on are before a query's window.
  int64_t hidden(int64_t query, int64_t first, int64_t count) const {
    return std::clamp<int64_t>(hidden(query) - first, 0, count);
  }

  // How many of them are up to a query, those before its window included.
  int64_t visible(int64_t query, int64_t first, int64_t count) const {
    return std::clamp<int64_t>(seen(query) - first, 0, count);
  }

  // The same without an own key that lies elsewhere.
  int64_t in_place(int64_t query, int64_t first, int64_t count) const {
    return std::clamp<int64_t>(seen(query) - !layout(query).is_in_place() - first, 0, count);
  }

  // Whether a query has an own key elsewhere that counts as one of the `count` keys from `first`
  // on.
  bool has_own(int64_t query, int64_t first, int64_t count) const {
    const int64_t own = seen(query) - 1 - first;
    return own >= 0 && own < count && !layout(query).is_in_place();
  }

  // Where that key is, from the start of the text.
  int64_t own_key(int64_t query) const { return layout(query).index - start_; }

  const float* query(int64_t query) const {
    return call_.queries + row(query) * call_.query_stride + head(query) * size_;
  }

  // Where a query's row of the bias begins, at its first key.
  const float* bias(int64_t query) const {
    return call_.bias + (head(query) * call_.shape.rows + row(query)) * call_.biases();
  }

  const AttentionCall<Number>& call_;
  int64_t kv_head_;
  Span span_;
  int64_t start_;
  int64_t size_;
  CacheRows<Number> keys_;
  CacheRows<Number> values_;
};

}  // namespace edgespec
