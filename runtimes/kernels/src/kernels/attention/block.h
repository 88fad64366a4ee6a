// The queries of a call that share a read of the cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/block_keys.h"
#include "kernels/attention/partials.h"
#include "kernels/attention/product.h"
#include "kernels/attention/scratch_lines.h"
#include "kernels/attention/sizes.h"
#include "kernels/attention/tiles.h"
#include "kernels/cache_rows.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

// The queries of a block, and their products in float32.
template <typename Number>
class Block : public BlockKeys<Number> {
  using Keys = BlockKeys<Number>;
  using Keys::call_, Keys::size_, Keys::keys_, Keys::values_;
  using Keys::hidden, Keys::in_place, Keys::visible, Keys::has_own, Keys::own_key, Keys::seen;

 public:
  using BlockKeys<Number>::BlockKeys, Keys::count;

  // A thread's working memory for one block: its queries, a tile of keys or values, scores.
  struct Work {
    Work(const AttentionCall<Number>& call, const Block& block) {
      thread_local ScratchLines scratch;
      queries = scratch.floats(block.count() * (call.width + kChunk) +
                               call.width * (kKeyTile + kValueTile));
      transposed = queries + block.count() * call.width;
      wide = transposed + call.width * kKeyTile;
      scores = wide + call.width * kValueTile;
      block.load_queries(queries);
    }

    float* queries;
    float* transposed;  // [size, kKeyTile]
    float* wide;        // [kValueTile, size]
    float* scores;      // [count, kChunk]
  };

  void attend_chunk(int64_t chunk, const Work& work, const Partials& parts) const {
    attend_chunk(chunk, work.queries, work.transposed, work.wide, work.scores, parts);
  }

 private:
  // Copies the queries, scaled.
  void load_queries(float* queries) const {
    const F32x16 scale = splat(call_.shape.scale);
    for (int64_t q = 0; q < count(); ++q) {
      const float* from = this->query(q);
      for_each_16(size_, [&](int64_t i, int64_t left) {
        store(queries + q * call_.width + i, load(from + i, left) * scale);
      });
    }
  }

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
    const float* bias = this->bias(query) + first_key;
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
};

}  // namespace edgespec
