// One call of attention: its rows in the order in which they share reads of the cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/sizes.h"
#include "kernels/cache_rows.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

// Rows of one text that share a read of its keys: `count` entries of a call's order.
struct Span {
  int64_t first, count;
};

template <typename Number>
struct AttentionCall {
  AttentionShape shape;
  const float* queries;
  int64_t query_stride;
  CacheRows<Number> keys;
  CacheRows<Number> values;
  const float* bias;
  float* out;

  int64_t group;  // query heads of a key/value head
  int64_t width;  // `size` rounded up to a multiple of 16
  int64_t rows_per_block;
  std::vector<int64_t> order;  // rows by text, then by the keys that they see; empty if they are
  std::vector<Span> spans;

  AttentionCall(const AttentionShape& shape, const float* queries, int64_t query_stride,
                const CacheRows<Number>& keys, const CacheRows<Number>& values, const float* bias,
                float* out)
      : shape(shape),
        queries(queries),
        query_stride(query_stride),
        keys(keys),
        values(values),
        bias(bias),
        out(out),
        group(shape.heads / shape.kv_heads),
        width(rounded_up(shape.size, kLanes)),
        rows_per_block(std::min(shape.rows, std::max<int64_t>(1, kBlock / group))) {
    if (shape.described) sort_rows();
    split();
  }

  int64_t row(int64_t index) const { return order.empty() ? index : order[index]; }
  RowLayout layout(int64_t row) const {
    const int64_t described = row - (shape.rows - shape.described);
    if (described >= 0) return shape.layouts[described];
    const int64_t position = shape.seen + row * shape.step - 1;
    return {0, position, position};
  }
  // Columns of the bias.
  int64_t biases() const { return shape.seen + (shape.rows - 1) * shape.step; }
  int64_t blocks() const { return static_cast<int64_t>(spans.size()); }
  // How many keys the last row of a block sees, and no row before it more.
  int64_t seen(const Span& span) const {
    return layout(row(span.first + span.count - 1)).position + 1;
  }
  // How many of its keys the first row of a block does not see, and no row after it fewer.
  int64_t hidden(const Span& span) const { return hidden_of(layout(row(span.first)).position + 1); }
  // Of the keys that a row could see, those before its window.
  int64_t hidden_of(int64_t keys) const {
    return shape.window ? std::max<int64_t>(0, keys - shape.window) : 0;
  }
  int64_t chunks() const {
    int64_t most = 0;
    for (const Span& span : spans) most = std::max(most, seen(span));
    return (most + kChunk - 1) / kChunk;
  }

 private:
  // Of rows that see as many keys, those whose own key lies elsewhere come first: they see fewer in
  // place.
  void sort_rows() {
    const auto rank = [&](int64_t r) {
      const RowLayout at = layout(r);
      return std::tuple(at.start, at.position, at.is_in_place());
    };
    for (int64_t r = 0; r < shape.rows; ++r) order.push_back(r);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return rank(a) < rank(b); });
  }

  void split() {
    for (int64_t first = 0; first < shape.rows;) {
      const int64_t start = layout(row(first)).start;
      int64_t end = first + 1;
      while (end < shape.rows && end < first + rows_per_block && layout(row(end)).start == start) {
        ++end;
      }
      spans.push_back({first, end - first});
      first = end;
    }
  }
};

}  // namespace edgespec
