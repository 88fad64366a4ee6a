#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/lanes/lanes.h"

namespace edgespec {
namespace {

// 16 · kMaxParts columns and kMaxRows rows of one product: the sums stay in registers.
#if defined(__AVX512F__) && !defined(EDGESPEC_NO_AVX512)
constexpr int64_t kMaxParts = 4;
#else
constexpr int64_t kMaxParts = 1;
#endif
constexpr int64_t kMaxRows = 6;
constexpr int64_t kKeyTile = 32;    // keys that are transposed together: they stay in the cache
constexpr int64_t kValueTile = 64;  // values that all queries use together; they stay in the cache
constexpr int64_t kChunk = 256;     // keys of one softmax part
constexpr int64_t kBlock = 96;      // queries that share a read of the cache
constexpr int64_t kMinTasks = 12;   // tasks that keep the threads of a small machine busy
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t rounded_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

// Memory that a thread keeps from call to call, aligned to cache lines.
class Scratch {
 public:
  float* floats(int64_t count) {
    const auto lines = static_cast<size_t>((count + kLanes - 1) / kLanes);
    if (lines_.size() < lines) lines_.resize(lines);
    return reinterpret_cast<float*>(lines_.data());
  }

 private:
  struct alignas(64) Line {
    float numbers[kLanes];
  };
  std::vector<Line> lines_ = std::vector<Line>(1);
};

// c [rows, columns] = a [rows, depth] · b [depth, columns], plus c unless `fresh`; one addition
// after the other along `depth`. Whole multiples of 16 columns of c are written.
struct Product {
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  int64_t depth;
  float* c;
  int64_t c_stride;
  int64_t columns;
  bool fresh;  // c is not read
};

template <typename Body, size_t... i>
[[gnu::always_inline]] inline void unrolled(Body body, std::index_sequence<i...>) {
  (body(i), ...);
}

// body(0) … body(count - 1), unrolled early enough for GCC to keep arrays in registers.
template <size_t count, typename Body>
[[gnu::always_inline]] inline void unrolled(Body body) {
  unrolled(body, std::make_index_sequence<count>());
}

// `flatten`: in a file of this length GCC would not inline all of the small functions; it was 2.4
// times as slow with AVX-512.
template <size_t rows, size_t parts>
[[gnu::flatten]] void multiply(const Product& product) {
  F32x16 sums[rows][parts];
  unrolled<rows>([&](size_t r) {
    const float* c = product.c + r * product.c_stride;
    unrolled<parts>([&](size_t i) { sums[r][i] = product.fresh ? zeros() : load(c + i * kLanes); });
  });
  const float* a = product.a;
  const float* b = product.b;
  const int64_t last = product.columns - int64_t(parts - 1) * kLanes;
  for (int64_t k = 0; k < product.depth; ++k, ++a, b += product.b_stride) {
    F32x16 across[parts];
    unrolled<parts>(
        [&](size_t i) { across[i] = load(b + i * kLanes, i + 1 < parts ? kLanes : last); });
    unrolled<rows>([&](size_t r) {
      const F32x16 down = splat(a[r * product.a_stride]);
      unrolled<parts>([&](size_t i) { sums[r][i] = fma(down, across[i], sums[r][i]); });
    });
  }
  unrolled<rows>([&](size_t r) {
    float* c = product.c + r * product.c_stride;
    unrolled<parts>([&](size_t i) { store(c + i * kLanes, sums[r][i]); });
  });
}

using Multiply = void (*)(const Product&);

template <size_t rows, size_t... parts>
constexpr std::array<Multiply, kMaxParts> by_parts(std::index_sequence<parts...>) {
  return {multiply<rows, parts + 1>...};
}

template <size_t... rows>
constexpr std::array<std::array<Multiply, kMaxParts>, kMaxRows> by_rows(
    std::index_sequence<rows...>) {
  return {by_parts<rows + 1>(std::make_index_sequence<kMaxParts>())...};
}

constexpr auto kMultiply = by_rows(std::make_index_sequence<kMaxRows>());

void multiply(int64_t rows, Product product) {
  const int64_t end = product.columns;
  for (int64_t first = 0; first < end; first += kMaxParts * kLanes) {
    product.columns = std::min(end - first, kMaxParts * kLanes);
    kMultiply[rows - 1][(product.columns - 1) / kLanes](product);
    product.b += product.columns;
    product.c += product.columns;
  }
}

// Prefetches part `part` of a tile that is split into `parts`.
void fetch_part(const void* tile, int64_t bytes, int64_t part, int64_t parts) {
  constexpr int64_t kLine = 64;
  const char* end = static_cast<const char*>(tile) + (part + 1) * bytes / parts;
  for (const char* line = static_cast<const char*>(tile) + part * bytes / parts; line < end;
       line += kLine) {
    __builtin_prefetch(line);
  }
}

// Transposes up to kKeyTile keys [count, size] to [size, kKeyTile]. Columns without a key repeat
// the last key.
void transpose_keys(const float* keys, int64_t count, int64_t size, float* transposed) {
  for (int64_t first = 0; first < count; first += kLanes) {
    const int64_t last = std::min(first + kLanes, count) - 1;
    // Prefetched in the order of memory, which the hardware prefetcher continues; it does not
    // recognise the order of the loads below.
    fetch_part(keys + first * size, (last + 1 - first) * size * int64_t{sizeof(float)}, 0, 1);
    const float* columns[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) columns[k] = keys + std::min(first + k, last) * size;
    for (int64_t i = 0; i < size; i += 4) {
      F32x16 numbers[4];
      transpose_4x16(columns, i, numbers);
      for (int j = 0; j < 4; ++j) store(transposed + (i + j) * kKeyTile + first, numbers[j]);
    }
  }
}

// For each query of a block and each chunk of keys: the weighted values and the sum of weights,
// relative to the chunk's largest score.
struct Partials {
  float* values;   // [queries, chunks, width]
  float* sums;     // [queries, padded chunks]
  float* largest;  // [queries, padded chunks]
  int64_t chunks, padded, width;

  static int64_t floats(int64_t queries, int64_t chunks, int64_t width) {
    return queries * (chunks * width + 2 * rounded_up(chunks, kLanes));
  }
  Partials(float* memory, int64_t queries, int64_t chunks, int64_t width)
      : values(memory),
        sums(values + queries * chunks * width),
        largest(sums + queries * rounded_up(chunks, kLanes)),
        chunks(chunks),
        padded(rounded_up(chunks, kLanes)),
        width(width) {}
};

// e^(x - largest); 0 where all scores are -∞. Inline, as numbers of several registers are passed in
// memory.
EDGESPEC_INLINE F32x16 relative_exp(F32x16 x, float largest) {
  return exp(x - splat(largest == -kInfinity ? 0.0f : largest));
}

// Combines `chunks` of a query's chunks from `first_chunk` on: out = sum of weighted values / sum
// of weights.
void combine(const Partials& parts, int64_t query, int64_t first_chunk, int64_t chunks,
             int64_t size, float* out) {
  float* largest = parts.largest + query * parts.padded + first_chunk;
  const float* sums = parts.sums + query * parts.padded + first_chunk;
  F32x16 most = splat(-kInfinity);
  for_each_16(chunks,
              [&](int64_t c, int64_t count) { most = max(most, load(largest + c, count, most)); });
  const float most_of_all = largest_of(most);
  F32x16 total = zeros();
  float* weights = largest;  // reuses the memory
  for_each_16(chunks, [&](int64_t c, int64_t count) {
    const F32x16 weight = relative_exp(load(largest + c, count), most_of_all);
    total = fma(first(weight, count), load(sums + c, count), total);
    store(weights + c, count, weight);
  });
  const F32x16 divisor = splat(sum(total));
  const float* values = parts.values + (query * parts.chunks + first_chunk) * parts.width;
  for_each_16(size, [&](int64_t i, int64_t count) {
    F32x16 weighted = zeros();
    for (int64_t c = 0; c < chunks; ++c) {
      weighted = fma(splat(weights[c]), load(values + c * parts.width + i), weighted);
    }
    store(out + i, count, weighted / divisor);
  });
}

// Rows of one text that share a read of its keys: `count` entries of a call's order.
struct Span {
  int64_t first, count;
};

template <typename Number>
struct Call {
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

  Call(const AttentionShape& shape, const float* queries, int64_t query_stride,
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

// The queries of some rows that share a key/value head: by row, then by head. A query sees at least
// as many keys as those before it.
template <typename Number>
class Block {
 public:
  Block(const Call<Number>& call, int64_t kv_head, int64_t block)
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

  const Call<Number>& call_;
  int64_t kv_head_;
  Span span_;
  int64_t start_;
  int64_t size_;
  CacheRows<Number> keys_;
  CacheRows<Number> values_;
};

// A thread's working memory for one block: its queries, a tile of keys or values, scores.
struct Workspace {
  float* queries;
  float* transposed;
  float* wide;
  float* scores;

  template <typename Number>
  Workspace(const Call<Number>& call, const Block<Number>& block) {
    thread_local Scratch scratch;
    queries = scratch.floats(block.count() * (call.width + kChunk) +
                             call.width * (kKeyTile + kValueTile));
    transposed = queries + block.count() * call.width;
    wide = transposed + call.width * kKeyTile;
    scores = wide + call.width * kValueTile;
    block.load_queries(queries);
  }
};

// With many blocks, each is one task over all of its keys. The last blocks see most keys and come
// first.
template <typename Number>
void attend_block(const Call<Number>& call, int64_t task) {
  const int64_t kv_heads = call.shape.kv_heads;
  const Block<Number> block(call, task % kv_heads, call.blocks() - 1 - task / kv_heads);
  const Workspace work(call, block);
  thread_local Scratch scratch;
  const int64_t chunks = block.chunks();
  const Partials parts(scratch.floats(Partials::floats(block.count(), chunks, call.width)),
                       block.count(), chunks, call.width);
  for (int64_t chunk = block.first_chunk(); chunk < chunks; ++chunk) {
    block.attend_chunk(chunk, work.queries, work.transposed, work.wide, work.scores, parts);
  }
  block.finish(parts);
}

// With few blocks, each chunk of keys is a task.
template <typename Number>
void attend_chunks(const Call<Number>& call, int64_t cycles, const Threads& threads) {
  thread_local Scratch scratch;
  const int64_t chunks = call.chunks(), blocks = call.blocks() * call.shape.kv_heads;
  const int64_t queries = call.rows_per_block * call.group;
  const int64_t floats = Partials::floats(queries, chunks, call.width);
  float* memory = scratch.floats(blocks * floats);
  const auto block_at = [&](int64_t i) {
    return Block<Number>(call, i % call.shape.kv_heads, i / call.shape.kv_heads);
  };
  const auto partials_at = [&](int64_t i) {
    return Partials(memory + i * floats, queries, chunks, call.width);
  };
  threads.each(blocks * chunks, cycles, [&](int64_t task) {
    const int64_t i = task / chunks, chunk = task % chunks;
    const Block<Number> block = block_at(i);
    if (chunk < block.first_chunk() || chunk >= block.chunks()) return;
    const Workspace work(call, block);
    block.attend_chunk(chunk, work.queries, work.transposed, work.wide, work.scores,
                       partials_at(i));
  });
  // About one cycle for each register.
  threads.each(blocks, blocks * floats / kLanes,
               [&](int64_t i) { block_at(i).finish(partials_at(i)); });
}

// An estimate in cycles: reading keys and values, and two products with 16 multiplications a cycle.
template <typename Number>
int64_t cycles(const Call<Number>& call) {
  int64_t sum = 0;
  for (const Span& span : call.spans) {
    sum += (call.seen(span) - call.hidden(span)) * (12 + span.count * call.group);
  }
  return call.shape.kv_heads * call.shape.size * sum / 8;
}

}  // namespace

template <typename Number>
void attend(const AttentionShape& shape, const float* queries, int64_t query_stride,
            const CacheRows<Number>& keys, const CacheRows<Number>& values, const float* bias,
            float* out, const Threads& threads) {
  if (shape.rows == 0) return;
  const Call<Number> call(shape, queries, query_stride, keys, values, bias, out);
  const int64_t blocks = call.blocks() * shape.kv_heads;
  if (call.chunks() > 1 && blocks < kMinTasks) {
    attend_chunks(call, cycles(call), threads);
  } else {
    threads.each(blocks, cycles(call), [&](int64_t task) { attend_block(call, task); });
  }
}

template void attend(const AttentionShape&, const float*, int64_t, const CacheRows<float>&,
                     const CacheRows<float>&, const float*, float*, const Threads&);
template void attend(const AttentionShape&, const float*, int64_t, const CacheRows<Float16>&,
                     const CacheRows<Float16>&, const float*, float*, const Threads&);
template void attend(const AttentionShape&, const float*, int64_t, const CacheRows<int8_t>&,
                     const CacheRows<int8_t>&, const float*, float*, const Threads&);

}  // namespace edgespec
