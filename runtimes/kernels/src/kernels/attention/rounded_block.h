// The queries of a block, and their products in bfloat16.
//
// Queries and weights are rounded to bfloat16; a key or value of 8 bits is the product of its
// codes, which are such numbers, and its scale. A key's scale multiplies the sum of products in
// float32, a value's the weight before it is rounded. Softmax and its sums are float32. A key that
// a query does not see has weight 0, which adds nothing: so whole tiles are multiplied, and a
// query's bits depend on nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/attention/block_keys.h"
#include "kernels/attention/chains.h"
#include "kernels/attention/partials.h"
#include "kernels/attention/rounded_products.h"
#include "kernels/attention/rounded_rows.h"
#include "kernels/attention/scratch_lines.h"
#include "kernels/attention/sizes.h"
#include "kernels/cache_rows.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

template <typename Number>
class RoundedBlock : public BlockKeys<Number> {
  using Keys = BlockKeys<Number>;
  using Keys::call_, Keys::size_, Keys::start_, Keys::keys_, Keys::values_;
  using Keys::hidden, Keys::visible, Keys::has_own, Keys::own_key, Keys::seen;
  using Packed = RoundedProducts::Packed;

 public:
  using Keys::count;

  // A thread's working memory for one block.
  struct Work {
    static constexpr int64_t kRowUnit = 32;  // products may write whole tiles of rows

    Work(const AttentionCall<Number>& call, const RoundedBlock& block) {
      const int64_t queries_here = rounded_up(block.count(), kRowUnit);
      const int64_t rows = std::min(kQueries, queries_here), size = call.shape.size;
      thread_local ScratchLines scratch;
      const int64_t own = (kLanes + 2) * call.width + kChain * call.width;
      float* next =
          scratch.floats(2 * rows * kChunk + 2 * kChunk + rows * kChain + own +
                         queries_here * RoundedProducts::query_numbers(size) +
                         RoundedProducts::key_numbers(size) + RoundedProducts::value_numbers(size));
      const auto take = [&](int64_t floats) { return std::exchange(next, next + floats); };
      scores = take(rows * kChunk);
      key_scales = take(kChunk);
      value_scales = take(kChunk);
      own_weights = take(rows * kChain);
      own_rows = take(own);
      weights = reinterpret_cast<Packed*>(take(rows * kChunk));
      queries =
          reinterpret_cast<Packed*>(take(queries_here * RoundedProducts::query_numbers(size)));
      keys = reinterpret_cast<Packed*>(take(RoundedProducts::key_numbers(size)));
      values = reinterpret_cast<Packed*>(take(RoundedProducts::value_numbers(size)));
      block.load_queries(queries);
    }

    RoundedProducts::Registers registers;
    float *scores, *key_scales, *value_scales, *own_weights, *own_rows;
    Packed *weights, *queries, *keys, *values;
  };

  RoundedBlock(const AttentionCall<Number>& call, int64_t kv_head, int64_t block)
      : Keys(call, kv_head, block), products_(call.shape.size) {}

  void attend_chunk(int64_t chunk, const Work& work, const Partials& parts) const {
    const int64_t first = chunk * kChunk;
    const int64_t keys = visible(count() - 1, first, kChunk);
    const int64_t skipped = hidden(0, first, kChunk);  // by all queries
    if (skipped == keys) return;
    const int64_t held = std::min(keys, call_.shape.stride - start_ - first);
    load_scales(first, skipped, held, work);
    for (int64_t q = 0; q < count(); q += std::min(kQueries, count())) {
      const int64_t rows = std::min(kQueries, count() - q);
      score_keys(first, skipped, held, q, rows, work);
      for (int64_t i = 0; i < rows; ++i) {
        if (has_own(q + i, first, kChunk)) {
          weigh_with_own(q + i, chunk, i, work, parts);
        } else {
          weigh(q + i, chunk, i, work, parts);
        }
      }
      add_values(chunk, skipped, held, q, rows, work, parts);
      for (int64_t i = 0; i < rows; ++i) {
        if (has_own(q + i, first, kChunk)) add_own(q + i, chunk, i, work, parts);
      }
    }
  }

 private:
  // A chunk's products are by tiles of keys and values, and for some queries at a time. Either one
  // tile is all of the chunk or the queries are all: so a tile is packed once, for the first ones.
  static constexpr int64_t kQueries = RoundedProducts::kQueries;
  static_assert(kQueries == kAll ||
                (RoundedProducts::kKeys == kChunk && RoundedProducts::kValues == kChunk));

  void load_queries(Packed* queries) const {
    for (int64_t q = 0; q < count(); ++q) {
      products_.pack_query(this->query(q), call_.shape.scale, q, queries);
    }
  }

  void load_scales(int64_t first, int64_t begin, int64_t end, const Work& work) const {
    for (int64_t k = begin; k < end; ++k) {
      work.key_scales[k] = scale_of(keys_.from(first + k, size_), size_) * kLog2E;
      work.value_scales[k] = scale_of(values_.from(first + k, size_), size_);
    }
  }

  void score_keys(int64_t first, int64_t skipped, int64_t end, int64_t query, int64_t rows,
                  const Work& work) const {
    constexpr int64_t kTile = RoundedProducts::kKeys;
    for (int64_t tile = skipped / kTile * kTile; tile < end; tile += kTile) {
      const int64_t keys = std::min(kTile, end - tile);
      if (query == 0) products_.pack_keys(keys_.from(first + tile, size_), keys, work.keys);
      products_.score(work.queries + query * RoundedProducts::query_numbers(size_), rows, work.keys,
                      keys, work.scores + tile);
    }
  }

  // Makes weights of a query's scores: 2 to the power of each, relative to the largest, times the
  // scale of its value.
  [[gnu::flatten]] void weigh(int64_t query, int64_t chunk, int64_t row, const Work& work,
                              const Partials& parts) const {
    const int64_t keys = visible(query, chunk * kChunk, kChunk);
    const int64_t before = hidden(query, chunk * kChunk, kChunk);
    Packed* weights = work.weights + row * kChunk;
    if (keys == before) return fill_weights(weights, 0, kChunk);
    float* scores = work.scores + row * kChunk;
    scale_scores(query, chunk, keys, work.key_scales, scores);
    std::fill_n(scores, before, -kInfinity);
    F32x16 most = splat(-kInfinity);
    for (int64_t k = 0; k < keys; k += kLanes) most = max(most, load(scores + k));
    const float largest = largest_of(most);
    const F32x16 base = splat(largest == -kInfinity ? 0.0f : largest);
    F32x16 total = zeros();
    for (int64_t k = 0; k < keys; k += kLanes) {
      const F32x16 weight = exp2_of_negative(load(scores + k) - base);
      total = total + weight;
      products_.store_weights(weights + k, weight, load(work.value_scales + k));
    }
    fill_weights(weights, rounded_up(keys, kLanes), kChunk);
    parts.largest[query * parts.padded + chunk] = largest * kLn2;
    parts.sums[query * parts.padded + chunk] = sum(total);
  }

  // Multiplies scores by the scales of their keys and adds the bias. After the last key that the
  // query sees they are -infinity.
  void scale_scores(int64_t query, int64_t chunk, int64_t keys, const float* scales,
                    float* scores) const {
    const int64_t whole = keys / kLanes * kLanes;
    for (int64_t k = 0; k < whole; k += kLanes) {
      store(scores + k, load(scores + k) * load(scales + k));
    }
    if (whole < keys) {
      const F32x16 last = load(scores + whole) * load(scales + whole);
      store(scores + whole, select(first_lanes(keys - whole), last, splat(-kInfinity)));
    }
    if (call_.bias == nullptr) return;
    const float* bias = this->bias(query) + chunk * kChunk;
    for_each_16(keys, [&](int64_t k, int64_t left) {
      store(scores + k, fma(load(bias + k, left), splat(kLog2E), load(scores + k)));
    });
  }

  // The same with an own key that lies elsewhere. The weights of its kChain keys are set apart: of
  // the values in place, the last is another's.
  void weigh_with_own(int64_t query, int64_t chunk, int64_t row, const Work& work,
                      const Partials& parts) const {
    const int64_t own = seen(query) - 1 - chunk * kChunk, begin = own / kChain * kChain;
    const auto key = keys_.from(own_key(query), size_);
    const float key_scale = std::exchange(work.key_scales[own], scale_of(key, size_) * kLog2E);
    const float value_scale =
        std::exchange(work.value_scales[own], scale_of(values_.from(own_key(query), size_), size_));
    work.scores[row * kChunk + own] = score(query, key, work);
    weigh(query, chunk, row, work, parts);
    work.key_scales[own] = key_scale;
    work.value_scales[own] = value_scale;
    Packed* weights = work.weights + row * kChunk + begin;
    for (int64_t i = 0; i < kChain; ++i) {
      work.own_weights[row * kChain + i] = RoundedProducts::weight(weights[i]);
    }
    fill_weights(weights, 0, kChain);
  }

  // Of one query and one key.
  float score(int64_t query, const CacheRows<Number>& key, const Work& work) const {
    alignas(64) float sums[kLanes];
    for_each_16(size_, [&](int64_t i, int64_t left) {
      const F32x16 scaled = load(this->query(query) + i, left) * splat(call_.shape.scale);
      store(work.own_rows + i, rounded(scaled));
    });
    float* column = work.own_rows + call_.width;  // of kLanes columns, the first
    float* codes_in_order = column + size_ * kLanes;
    codes(key, size_, codes_in_order);
    for (int64_t i = 0; i < size_; ++i) column[i * kLanes] = codes_in_order[i];
    multiply_by_chains(
        {work.own_rows, call_.width, column, kLanes, size_, sums, kLanes, 1, kLanes, true});
    return sums[0];
  }

  void add_own(int64_t query, int64_t chunk, int64_t row, const Work& work,
               const Partials& parts) const {
    const int64_t first = chunk * kChunk, own = seen(query) - 1 - first;
    const int64_t begin = own / kChain * kChain, rows = own - begin + 1;
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t from = i + 1 < rows ? first + begin + i : own_key(query);
      codes(values_.from(from, size_), size_, work.own_rows + i * call_.width);
    }
    multiply_by_chains({work.own_weights + row * kChain, kChain, work.own_rows, call_.width, rows,
                        parts.values + (query * parts.chunks + chunk) * parts.width, call_.width, 1,
                        call_.width, false});
  }

  void fill_weights(Packed* weights, int64_t first, int64_t end) const {
    std::fill(weights + first, weights + end, Packed{});
  }

  void add_values(int64_t chunk, int64_t skipped, int64_t end, int64_t query, int64_t rows,
                  const Work& work, const Partials& parts) const {
    constexpr int64_t kTile = RoundedProducts::kValues;
    const int64_t first = chunk * kChunk, from = skipped / kTile * kTile;
    if (from >= end) clear_sums(chunk, query, rows, parts);  // but for own keys there are none
    for (int64_t tile = from; tile < end; tile += kTile) {
      const int64_t keys = std::min(kTile, end - tile);
      if (query == 0) products_.pack_values(values_.from(first + tile, size_), keys, work.values);
      products_.add_values(work.weights + tile, rows, work.values, keys,
                           parts.values + (query * parts.chunks + chunk) * parts.width,
                           parts.chunks * parts.width, tile == from);
    }
  }

  void clear_sums(int64_t chunk, int64_t query, int64_t rows, const Partials& parts) const {
    for (int64_t q = query; q < query + rows; ++q) {
      std::fill_n(parts.values + (q * parts.chunks + chunk) * parts.width, parts.width, 0.0f);
    }
  }

  RoundedProducts products_;
};

}  // namespace edgespec
