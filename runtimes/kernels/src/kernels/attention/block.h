// The queries of a call that share a read of the cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/call.h"
#include "kernels/attention/partials.h"
#include "kernels/attention/product.h"
#include "kernels/attention/sizes.h"
#include "kernels/attention/tiles.h"
#include "kernels/cache_rows.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

// The queries of some rows that share a key/value head: by row, then by head. A query sees at least
// as many keys as those before it.
template <typename Number>
class Block {
 public:
  Block(const AttentionCall<Number>& call, int64_t kv_head, int64_t block)
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

  // Copies the queries, scaled.
  void load_queries(float* queries) const {
    const F32x16 scale = splat(call_.shape.scale);
    for (int64_t q = 0; q < count(); ++q) {
      const float* from = call_.queries + row(q) * call_.query_stride + head(q) * size_;
      for_each_16(size_, [&](int64_t i, int64_t left) {
        store(queries + q * call_.width + i, load(from + i, left) * scale);
      });
    }
  }

  // `scores` [count, kChunk], `transposed` [size, kKeyTile] and `wide` [kValueTile, size] are
  // working memory.
  void attend_chunk(int64_t chunk, const float* queries, float* transposed, float* wide,
                    float* scores, const Partials& parts) const {
    const int64_t first = chunk * kChunk;
    const int64_t keys = visible(count() - 1, first, kChunk);
    const int64_t skipped = hidden(0, first, kChunk);  // by all queries
    if (skipped == keys) return;
    for (int64_t tile = skipped / kKeyTile * kKeyTile; tile < keys; tile += kKeyTile) {
      const int64_t here = std::min(kKeyTile, keys - tile);
      const float* tile_keys = widened(keys_.from(first + tile, size_), here, size_, wide);
      transpose_keys(tile_keys, here, size_, transposed);
      const bool more = tile + kKeyTile < keys;
      const CacheRows<Number> next =
          more ? keys_.from(first + tile + kKeyTile, size_) : values_.from(first, size_);
      score_tile(first + tile, queries, transposed, scores + tile, next.numbers);
    }
    if (call_.shape.described) score_own_keys(first, queries, transposed, wide, scores);
    for (int64_t q = 0; q < count(); ++q) weigh(q, chunk, scores + q * kChunk, parts);
    for (int64_t tile = skipped / kValueTile * kValueTile; tile < keys; tile += kValueTile) {
      const int64_t here = std::min(kValueTile, keys - tile);
      const float* tile_values = widened(values_.from(first + tile, size_), here, size_, wide);
      add_values(chunk, tile, tile_values, scores + tile, parts);
    }
    if (call_.shape.described) add_own_values(chunk, wide, scores, parts);
  }

  void finish(const Partials& parts) const {
    for (int64_t q = 0; q < count(); ++q) {
      float* out = call_.out + (row(q) * call_.shape.heads + head(q)) * size_;
      combine(parts, q, first_chunk(q), chunks(q) - first_chunk(q), size_, out);
    }
  }

 private:
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

  // Calls body(first, count, part, parts) for the queries, in parts of equal size, at most kMaxRows
  // each.
  template <typename Body>
  void by_parts(Body body) const {
    const int64_t parts = (count() + kMaxRows - 1) / kMaxRows;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = part * count() / parts;
      body(first, (part + 1) * count() / parts - first, part, parts);
    }
  }

  // With several parts of queries, the next tile is prefetched meanwhile.
  void score_tile(int64_t first_key, const float* queries, const float* transposed, float* scores,
                  const Number* next) const {
    by_parts([&](int64_t q, int64_t rows, int64_t part, int64_t parts) {
      if (parts > 1) fetch_part(next, kKeyTile * size_ * int64_t{sizeof(Number)}, part, parts);
      const int64_t keys = visible(q + rows - 1, first_key, kKeyTile);
      if (keys == 0) return;
      multiply(rows, {queries + q * call_.width, call_.width, transposed, kKeyTile, size_,
                      scores + q * kChunk, kChunk, rounded_up(keys, kLanes), true});
    });
  }

  // Replaces the score at an own key that lies elsewhere, which so far is that of the key in place.
  void score_own_keys(int64_t first, const float* queries, float* transposed, float* wide,
                      float* scores) const {
    for (int64_t q = 0; q < count(); q += call_.group) {
      if (!has_own(q, first, kChunk)) continue;
      const float* key = widened(keys_.from(own_key(q), size_), 1, size_, wide);
      transpose_keys(key, 1, size_, transposed);
      for (int64_t i = q; i < q + call_.group; ++i) {
        alignas(64) float own[kLanes];
        multiply(1, {queries + i * call_.width, call_.width, transposed, kKeyTile, size_, own,
                     kLanes, kLanes, true});
        scores[i * kChunk + seen(q) - 1 - first] = own[0];
      }
    }
  }

  // Replaces the scores of the keys up to a query by their exponentials, which are 0 before its
  // window. There the sum of its values begins as 0, too.
  void weigh(int64_t query, int64_t chunk, float* scores, const Partials& parts) const {
    const int64_t keys = visible(query, chunk * kChunk, kChunk);
    const int64_t before = hidden(query, chunk * kChunk, kChunk);
    if (keys == before) return;
    if (before) {
      std::fill_n(scores, before, -kInfinity);
      std::fill_n(parts.values + (query * parts.chunks + chunk) * parts.width, parts.width, 0.0f);
    }
    if (call_.bias != nullptr) add_bias(query, chunk * kChunk, keys, scores);
    F32x16 most = splat(-kInfinity);
    for_each_16(keys,
                [&](int64_t k, int64_t left) { most = max(most, load(scores + k, left, most)); });
    const float largest = largest_of(most);
    F32x16 total = zeros();
    for_each_16(keys, [&](int64_t k, int64_t left) {
      const F32x16 weight = relative_exp(load(scores + k), largest);
      total = total + first(weight, left);
      store(scores + k, weight);
    });
    parts.largest[query * parts.padded + chunk] = largest;
    parts.sums[query * parts.padded + chunk] = sum(total);
  }

  void add_bias(int64_t query, int64_t first_key, int64_t keys, float* scores) const {
    const float* bias =
        call_.bias + first_key + (head(query) * call_.shape.rows + row(query)) * call_.biases();
    for_each_16(keys, [&](int64_t k, int64_t left) {
      store(scores + k, load(scores + k) + load(bias + k, left));
    });
  }

  // A value that a query does not see must not be added even with weight 0: it may be NaN. So each
  // query adds the values that only it sees itself, before and after those that all see.
  void add_values(int64_t chunk, int64_t tile, const float* values, const float* weights,
                  const Partials& parts) const {
    const int64_t first_key = chunk * kChunk + tile;
    by_parts([&](int64_t q, int64_t rows, int64_t, int64_t) {
      if (visible(q + rows - 1, first_key, kValueTile) == 0) return;
      const auto add = [&](int64_t query, int64_t count, int64_t begin, int64_t end) {
        if (begin >= end) return;
        const float* from = values + begin * size_;
        add_values(chunk, tile, query, count, begin, end, from, weights, parts);
      };
      const int64_t begin = hidden(q + rows - 1, first_key, kValueTile);
      const int64_t end = std::max(begin, in_place(q, first_key, kValueTile));
      for (int64_t i = q; i < q + rows; ++i) {
        const int64_t own_end = in_place(i, first_key, kValueTile);
        add(i, 1, hidden(i, first_key, kValueTile), std::min(begin, own_end));
      }
      add(q, rows, begin, end);
      for (int64_t i = q; i < q + rows; ++i) {
        add(i, 1, end, in_place(i, first_key, kValueTile));
      }
    });
  }

  // Adds the value of an own key that lies elsewhere, which is the last that a query sees.
  void add_own_values(int64_t chunk, float* wide, const float* weights,
                      const Partials& parts) const {
    const int64_t first = chunk * kChunk;
    for (int64_t q = 0; q < count(); q += call_.group) {
      if (!has_own(q, first, kChunk)) continue;
      const float* value = widened(values_.from(own_key(q), size_), 1, size_, wide);
      const int64_t own = seen(q) - 1 - first;
      for (int64_t i = q; i < q + call_.group; ++i) {
        add_values(chunk, 0, i, 1, own, own + 1, value, weights, parts);
      }
    }
  }

  // Adds the values of keys begin … end - 1 of a tile; `from` is the first of them. `weights` are
  // those of the tile.
  void add_values(int64_t chunk, int64_t tile, int64_t query, int64_t rows, int64_t begin,
                  int64_t end, const float* from, const float* weights,
                  const Partials& parts) const {
    float* to = parts.values + (query * parts.chunks + chunk) * parts.width;
    multiply(rows, {weights + query * kChunk + begin, kChunk, from, size_, end - begin, to,
                    parts.chunks * parts.width, size_, tile == 0 && begin == 0});
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
