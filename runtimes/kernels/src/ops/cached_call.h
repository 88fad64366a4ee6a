// One call of self-attention, which writes its keys and values into a cache.
#pragma once

#include <type_traits>

#include "kernels/attention/attention.h"
#include "kernels/rows.h"
#include "ops/cache_buffer.h"
#include "ops/call_rows.h"
#include "ops/heads.h"
#include "ops/scratch.h"
#include "ort/op.h"

namespace edgespec {

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
    self.rows_ = CallRows::of<Schema>(context, q.count, shapes);
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
    const int64_t count = rows_.count();
    float* queries = scratch<RotatedQueries>(count * q_.width);
    const int64_t half = size_ / 2, heads = heads_.count + heads_.kv_count;
    threads.each(count, count * heads * size_ / kNumbersPerCycle, [&](int64_t r) {
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
        keys_.write(key, size_, rows_.index(head, r));
      }
    });
    q_ = {queries, count, q_.width, q_.width};
  }

  void write_keys() { write(k_, keys_); }

  // Writes the values and attends: out [m, heads · size]. `bias` [1, heads, m, keys] may be null.
  void attend(const float* bias, float* out, const Threads& threads) {
    write(v_, values_);
    edgespec::attend(rows_.shape(heads_, size_), q_.data, q_.stride, keys_.rows(), values_.rows(),
                     bias, out, threads);
  }

 private:
  CachedCall(const Heads& heads, const Rows& q, const Rows& k, const Rows& v, int64_t size)
      : heads_(heads), q_(q), k_(k), v_(v), size_(size) {}

  void write(const Rows& rows, const CacheBuffer<Number>& buffer) {
    for (int64_t r = 0; r < rows_.count(); ++r) {
      for (int64_t head = 0; head < heads_.kv_count; ++head) {
        buffer.write(rows.at(r) + head * size_, size_, rows_.index(head, r));
      }
    }
  }

  const Heads& heads_;
  Rows q_, k_, v_;
  int64_t size_;
  CallRows rows_;
  CacheBuffer<Number> keys_{}, values_{};
};

// The call of the operator `Schema`.
template <typename Schema>
using CachedCallOf = CachedCall<CachedNumber<Schema>>;

}  // namespace edgespec
