// One call of self-attention, which writes its keys and values into a cache.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/attention/attention.h"
#include "kernels/cache_rows.h"
#include "kernels/rows.h"
#include "ops/heads.h"
#include "ops/scratch.h"
#include "ort/op.h"

namespace edgespec {

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
using CachedNumber = typename decltype(Schema::in::past_key)::Number;

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
  static CachedCall of(KernelContext& context, const Heads& heads, const Rows& q, const Rows& k,
                       const Rows& v, Shapes& shapes) {
    using in = typename Schema::in;
    using out = typename Schema::out;
    CachedCall self(heads, q, k, v, shapes[Dim::size]);
    const auto keys = context.input(in::past_key, shapes);
    const auto values = context.input(in::past_value, shapes);
    self.capacity_ = shapes[Dim::capacity];
    const int64_t last = *context.input(in::last, shapes).data;
    self.past_ = last + 1 - q.count;
    if (self.past_ < 0 || last >= self.capacity_) {
      fail("positions ", self.past_, " to ", last, " in a cache of ", self.capacity_);
    }
    shapes.set(Dim::keys, last + 1, "last + 1");
    self.take_layouts(context.input(in::layouts, shapes));
    self.keys_.numbers = present(keys.data, out::present_key, context, shapes);
    self.values_.numbers = present(values.data, out::present_value, context, shapes);
    if constexpr (std::is_same_v<Number, int8_t>) {
      const auto key_scale = context.input(in::past_key_scale, shapes);
      const auto value_scale = context.input(in::past_value_scale, shapes);
      self.keys_.scales = present(key_scale.data, out::present_key_scale, context, shapes);
      self.values_.scales = present(value_scale.data, out::present_value_scale, context, shapes);
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
  static T* present(const T* past, const Operand<T>& spec, KernelContext& context,
                    const Shapes& shapes) {
    T* now = context.output(spec, shapes);
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
using CachedCallOf = CachedCall<CachedNumber<Schema>>;

}  // namespace edgespec
