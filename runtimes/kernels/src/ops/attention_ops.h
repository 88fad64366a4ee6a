// Attention operators: self-attention, which writes its keys and values into a cache, and attention
// to an encoder's keys and values.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/attention.h"
#include "kernels/cache_rows.h"
#include "kernels/rows.h"
#include "ops/scratch.h"
#include "ort/op.h"

namespace edgespec {

// The attributes of attention operators; only some have the last two.
struct Heads {
  int64_t count, kv_count;
  float scale;
  float norm_epsilon = 0;
  int64_t window = 0;  // positions that a query sees, its own included; 0 if it sees all before it

  template <typename Schema>
  static Heads of(const Setup& setup) {
    Heads heads{setup.attribute(Schema::attr::num_heads),
                setup.attribute(Schema::attr::kv_num_heads), setup.attribute(Schema::attr::scale)};
    if constexpr (requires { Schema::attr::head_epsilon; }) {
      heads.norm_epsilon = setup.attribute(Schema::attr::head_epsilon);
    }
    if constexpr (requires { Schema::attr::window; }) {
      heads.window = setup.attribute(Schema::attr::window);
      if (heads.window < 1) fail("window is ", heads.window, "; a query sees at least itself");
    }
    if (heads.kv_count < 1 || heads.count < 1 || heads.count % heads.kv_count) {
      fail("num_heads is ", heads.count, ", no multiple of kv_num_heads=", heads.kv_count);
    }
    return heads;
  }

  // Sets the sizes that follow from the width of the queries, heads · size.
  void set_sizes(int64_t q_width, Shapes& shapes) const {
    const int64_t size = q_width / count;
    if (size < 8 || size % 8 || q_width != size * count) {
      fail("queries of ", q_width, " numbers for ", count,
           " heads; a head has 8, 16, 24, … numbers");
    }
    shapes.set(Dim::heads, count, "num_heads");
    shapes.set(Dim::kv_heads, kv_count, "kv_num_heads");
    shapes.set(Dim::size, size, "head size");
    shapes.set(Dim::half_size, size / 2, "half of the head size");
    shapes.set(Dim::kv_width, kv_count * size, "kv_num_heads * head size");
  }
};

// Rows of `width` numbers; row r begins at data + r * stride.
struct Rows {
  const float* data;
  int64_t count, width, stride;

  static Rows of(const Tensor<const float>& x) {
    return {x.data, x.shape[0], x.shape[1], x.shape[1]};
  }
  const float* at(int64_t r) const { return data + r * stride; }
};

// Keys or values of a layer in the cache: [kv_heads, capacity, size].
template <typename Number>
struct CacheBuffer {
  Number* numbers;

  void write(const float* row, int64_t size, int64_t index) const {
    if constexpr (std::is_same_v<Number, float>) {
      std::copy_n(row, size, numbers + index * size);
    } else {
      store_row(row, size, numbers + index * size);
    }
  }
  CacheRows<Number> rows() const { return {numbers}; }
};

template <>
struct CacheBuffer<int8_t> {
  int8_t* numbers;
  float* scales;  // [kv_heads, capacity]

  void write(const float* row, int64_t size, int64_t index) const {
    scales[index] = store_row(row, size, numbers + index * size);
  }
  CacheRows<int8_t> rows() const { return {numbers, scales}; }
};

// The type of what the cache of an operator stores.
template <typename Schema>
struct CachedType : CachedType<decltype(Schema::in::past_key)> {};
template <typename Number>
struct CachedType<const Operand<Number>> {
  using type = Number;
};

// The layouts of a call's last rows, [described, 3] as one struct each.
inline const RowLayout* layouts_of(const Tensor<const int64_t>& layouts, int64_t rows) {
  static_assert(sizeof(RowLayout) == 3 * sizeof(int64_t));
  if (layouts.shape[1] != 3 || layouts.shape[0] > rows) {
    fail("layouts [", layouts.shape[0], ", ", layouts.shape[1], "] for a call of ", rows,
         " rows; a row has 3 numbers");
  }
  return reinterpret_cast<const RowLayout*>(layouts.data);
}

// One call of self-attention: its rows and its cache, which stores numbers of this type.
template <typename Number>
class CachedCall {
 public:
  // q [m, heads · size], k and v [m, kv_heads · size]; the cache and the layouts are inputs of the
  // operator `Schema`. `shapes` has the sizes of heads.
  template <typename Schema>
  static CachedCall of(Call& call, const Heads& heads, const Rows& q, const Rows& k, const Rows& v,
                       Shapes& shapes) {
    using in = typename Schema::in;
    using out = typename Schema::out;
    CachedCall self(heads, q, k, v, shapes[Dim::size]);
    const auto keys = call.input(in::past_key, shapes);
    const auto values = call.input(in::past_value, shapes);
    self.capacity_ = shapes[Dim::capacity];
    const int64_t last = *call.input(in::last, shapes).data;
    self.past_ = last + 1 - q.count;
    if (self.past_ < 0 || last >= self.capacity_) {
      fail("positions ", self.past_, " to ", last, " in a cache of ", self.capacity_);
    }
    shapes.set(Dim::keys, last + 1, "last + 1");
    self.take_layouts(call.input(in::layouts, shapes));
    self.keys_.numbers = present(keys.data, out::present_key, call, shapes);
    self.values_.numbers = present(values.data, out::present_value, call, shapes);
    if constexpr (std::is_same_v<Number, int8_t>) {
      const auto key_scale = call.input(in::past_key_scale, shapes);
      const auto value_scale = call.input(in::past_value_scale, shapes);
      self.keys_.scales = present(key_scale.data, out::present_key_scale, call, shapes);
      self.values_.scales = present(value_scale.data, out::present_value_scale, call, shapes);
    }
    return self;
  }

  // Applies RoPE to queries and keys, by cos and sin [m, size / 2], and writes the keys. Each head
  // is normalised before that, unless the norms' weights [size] are null.
  void write_keys_rotated(const float* cos, const float* sin, const float* q_norm,
                          const float* k_norm, const Threads& threads) {
    struct RotatedQueries;
    float* queries = scratch<RotatedQueries>(rows_ * q_.width);
    const int64_t half = size_ / 2, heads = heads_.count + heads_.kv_count;
    constexpr int64_t kNumbersPerCycle = 4;  // about
    threads.each(rows_, rows_ * heads * size_ / kNumbersPerCycle, [&](int64_t r) {
      struct RotatedKey;
      float* key = scratch<RotatedKey>(size_);
      const auto rotate = [&](const float* head, const float* norm, float* y) {
        if (norm) norm_row_or_nan(head, norm, heads_.norm_epsilon, size_, y);
        rope_row(norm ? y : head, cos + r * half, sin + r * half, half, y);
      };
      for (int64_t head = 0; head < heads_.count; ++head) {
        const int64_t column = head * size_;
        rotate(q_.at(r) + column, q_norm, queries + r * q_.width + column);
      }
      for (int64_t head = 0; head < heads_.kv_count; ++head) {
        rotate(k_.at(r) + head * size_, k_norm, key);
        keys_.write(key, size_, index(head, r));
      }
    });
    q_ = {queries, rows_, q_.width, q_.width};
  }

  void write_keys() { write(k_, keys_); }

  // Writes the values and attends: out [m, heads · size]. `bias` [1, heads, m, keys] may be null.
  void attend(const float* bias, float* out, const Threads& threads) {
    write(v_, values_);
    const AttentionShape shape{
        rows_,     heads_.count, heads_.kv_count, size_,      past_ + 1,    1,
        capacity_, heads_.scale, layouts_,        described_, heads_.window};
    edgespec::attend(shape, q_.data, q_.stride, keys_.rows(), values_.rows(), bias, out, threads);
  }

 private:
  CachedCall(const Heads& heads, const Rows& q, const Rows& k, const Rows& v, int64_t size)
      : heads_(heads), q_(q), k_(k), v_(v), rows_(q.count), size_(size) {}

  // Memory of an output of the cache with this call's positions. The caller usually binds it to
  // the memory of the past; if not, the past is copied.
  template <typename T>
  static T* present(const T* past, const Operand<T>& spec, Call& call, const Shapes& shapes) {
    T* now = call.output(spec, shapes);
    size_t bytes = sizeof(T);
    for (const int64_t size : shapes.of(spec)) bytes *= static_cast<size_t>(size);
    if (now != past) std::memcpy(now, past, bytes);
    return now;
  }

  // Rows may lie anywhere in the cache; their text has at most the positions of this call.
  void take_layouts(const Tensor<const int64_t>& layouts) {
    layouts_ = layouts_of(layouts, rows_);
    described_ = layouts.shape[0];
    for (int64_t i = 0; i < described_; ++i) {
      const RowLayout& row = layouts_[i];
      if (row.start < 0 || row.position < 0 || row.index < 0 || row.index >= capacity_ ||
          row.start + row.position > capacity_ || row.position >= past_ + rows_) {
        fail("layout ", i, " has start ", row.start, ", position ", row.position, " and index ",
             row.index, " in a cache of ", capacity_, " and a call up to position ",
             past_ + rows_ - 1);
      }
    }
  }

  // Where a row of this call is in a buffer.
  int64_t index(int64_t head, int64_t row) const {
    const int64_t described = row - (rows_ - described_);
    return head * capacity_ + (described < 0 ? past_ + row : layouts_[described].index);
  }

  void write(const Rows& rows, const CacheBuffer<Number>& buffer) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t head = 0; head < heads_.kv_count; ++head) {
        buffer.write(rows.at(r) + head * size_, size_, index(head, r));
      }
    }
  }

  const Heads& heads_;
  Rows q_, k_, v_;
  int64_t rows_, size_, capacity_ = 0, past_ = 0;
  const RowLayout* layouts_ = nullptr;
  int64_t described_ = 0;
  CacheBuffer<Number> keys_{}, values_{};
};

// The call of the operator `Schema`.
template <typename Schema>
using CachedCallOf = CachedCall<typename CachedType<Schema>::type>;

// Positions as RoPE: inputs cos and sin, perhaps norms of heads.
template <typename Schema>
class PositionsOf {
 public:
  PositionsOf(const Call& call, Shapes& shapes)
      : cos_(call.input(Schema::in::cos, shapes).data),
        sin_(call.input(Schema::in::sin, shapes).data) {
    if constexpr (requires { Schema::in::q_norm; }) {
      q_norm_ = call.input(Schema::in::q_norm, shapes).data;
      k_norm_ = call.input(Schema::in::k_norm, shapes).data;
    }
  }

  void attend(CachedCallOf<Schema>& cached, float* out, const Threads& threads) const {
    cached.write_keys_rotated(cos_, sin_, q_norm_, k_norm_, threads);
    cached.attend(nullptr, out, threads);
  }

 private:
  const float *cos_, *sin_, *q_norm_ = nullptr, *k_norm_ = nullptr;
};

// Positions as a bias of scores: input bias.
template <typename Schema>
  requires requires { Schema::in::bias; }
class PositionsOf<Schema> {
 public:
  PositionsOf(const Call& call, Shapes& shapes)
      : bias_(call.input(Schema::in::bias, shapes).data) {}

  void attend(CachedCallOf<Schema>& cached, float* out, const Threads& threads) const {
    cached.write_keys();
    cached.attend(bias_, out, threads);
  }

 private:
  const float* bias_;
};

template <typename Table>
class SelfAttention {
 public:
  using Schema = Table;

  explicit SelfAttention(const Setup& setup) : heads_(Heads::of<Schema>(setup)) {}

  void compute(Call& call) {
    using in = typename Schema::in;
    Shapes shapes;
    const auto q = call.input(in::q, shapes);
    heads_.set_sizes(shapes[Dim::q_width], shapes);
    const auto k = call.input(in::k, shapes), v = call.input(in::v, shapes);
    auto cached = CachedCallOf<Schema>::template of<Schema>(call, heads_, Rows::of(q), Rows::of(k),
                                                            Rows::of(v), shapes);
    const PositionsOf<Schema> positions(call, shapes);
    positions.attend(cached, call.output(Schema::out::y, shapes), call.threads());
  }

 private:
  Heads heads_;
};

// One call of attention to an encoder's keys and values.
class SourceCall {
 public:
  // q [m, heads · size]; keys, values and the parts of them that rows see are inputs of the
  // operator `Schema`. `shapes` has the sizes of heads.
  template <typename Schema>
  static SourceCall of(const Call& call, const Heads& heads, const Rows& q, Shapes& shapes) {
    const auto keys = call.input(Schema::in::key, shapes);
    const auto values = call.input(Schema::in::value, shapes);
    const int64_t source = shapes[Dim::source];
    if (source < 1) fail("a source of ", source, " positions");
    constexpr int64_t kEveryRowSeesAll = 0;
    AttentionShape shape{q.count, heads.count,      heads.kv_count, shapes[Dim::size],
                         source,  kEveryRowSeesAll, source,         heads.scale};
    const auto parts = call.input(Schema::in::sources, shapes);
    shape.layouts = layouts_of(parts, source, q.count);
    shape.described = parts.shape[0];
    return {q, keys.data, values.data, shape};
  }

  // out [m, heads · size]
  void attend(float* out, const Threads& threads) const {
    edgespec::attend(shape_, q_.data, q_.stride, CacheRows<float>{keys_}, CacheRows<float>{values_},
                     nullptr, out, threads);
  }

 private:
  SourceCall(const Rows& q, const float* keys, const float* values, const AttentionShape& shape)
      : q_(q), keys_(keys), values_(values), shape_(shape) {}

  // A row sees `count` positions from `start` on: parts [described, 2].
  static const RowLayout* layouts_of(const Tensor<const int64_t>& parts, int64_t source,
                                     int64_t rows) {
    struct Layouts;
    const int64_t described = parts.shape[0];
    if (parts.shape[1] != 2 || described > rows) {
      fail("sources [", described, ", ", parts.shape[1], "] for a call of ", rows,
           " rows; a row has 2 numbers");
    }
    auto* layouts = scratch<Layouts, RowLayout>(described);
    for (int64_t i = 0; i < described; ++i) {
      const int64_t start = parts.data[2 * i], count = parts.data[2 * i + 1];
      if (start < 0 || count < 1 || start + count > source) {
        fail("row ", i, " sees ", count, " positions from ", start, " on of a source of ", source);
      }
      layouts[i] = {start, count - 1, start + count - 1};
    }
    return layouts;
  }

  Rows q_;
  const float *keys_, *values_;
  AttentionShape shape_;
};

class SourceRowAttention {
 public:
  using Schema = schema::SourceRowAttention;

  explicit SourceRowAttention(const Setup& setup) : heads_(Heads::of<Schema>(setup)) {}

  void compute(Call& call) {
    Shapes shapes;
    const auto q = call.input(Schema::in::q, shapes);
    heads_.set_sizes(shapes[Dim::q_width], shapes);
    const auto source = SourceCall::of<Schema>(call, heads_, Rows::of(q), shapes);
    source.attend(call.output(Schema::out::y, shapes), call.threads());
  }

 private:
  Heads heads_;
};

// Attention of an encoder's rows to each other.
class EncoderAttention {
 public:
  using Schema = schema::EncoderAttention;

  explicit EncoderAttention(const Setup& setup) : heads_(Heads::of<Schema>(setup)) {}

  void compute(Call& call) {
    struct Keys;
    struct Values;
    Shapes shapes;
    const auto q = call.input(Schema::in::q, shapes);
    heads_.set_sizes(shapes[Dim::q_width], shapes);
    const auto k = call.input(Schema::in::k, shapes), v = call.input(Schema::in::v, shapes);
    const auto bias = call.input(Schema::in::bias, shapes);
    const int64_t rows = shapes[Dim::m], size = shapes[Dim::size];
    constexpr int64_t kEveryRowSeesAll = 0;
    const AttentionShape shape{rows, heads_.count, heads_.kv_count, size, rows, kEveryRowSeesAll,
                               rows, heads_.scale};
    const CacheRows<float> keys{by_head<Keys>(k.data, rows, size)};
    const CacheRows<float> values{by_head<Values>(v.data, rows, size)};
    attend(shape, q.data, heads_.count * size, keys, values, bias.data,
           call.output(Schema::out::y, shapes), call.threads());
  }

 private:
  // Rows [m, kv_heads · size] as [kv_heads, m, size].
  template <typename Use>
  const float* by_head(const float* from, int64_t rows, int64_t size) const {
    const int64_t width = heads_.kv_count * size;
    float* to = scratch<Use>(rows * width);
    for (int64_t head = 0; head < heads_.kv_count; ++head) {
      for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(from + r * width + head * size, size, to + (head * rows + r) * size);
      }
    }
    return to;
  }

  Heads heads_;
};

}  // namespace edgespec
