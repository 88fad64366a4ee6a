// Operators that attend: to a cache that they write their own positions into, or to a source.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "attention.h"
#include "kernel.h"
#include "rows.h"

namespace edgespec {

using ort::ElementType;

// Heads and scale, as every operator here has them as attributes.
struct Heads {
  int64_t count, kv_count;
  float scale;

  explicit Heads(const Setup& setup)
      : count(setup.attribute<int64_t>("num_heads")),
        kv_count(setup.attribute<int64_t>("kv_num_heads")),
        scale(setup.attribute<float>("scale")) {
    if (kv_count < 1 || count < 1 || count % kv_count) {
      throw Failure("heads must be a multiple of key heads");
    }
  }
};

// Of queries [m, heads · size]; the kernel takes sizes of whole groups of eight numbers.
inline int64_t head_size(int64_t width, const Heads& heads) {
  const int64_t size = width / heads.count;
  if (size < 8 || size % 8 || width != size * heads.count) {
    throw Failure("queries do not fit the heads, of 8, 16, 24 … numbers");
  }
  return size;
}

// Rows of numbers, each `stride` behind the one before.
struct Rows {
  const float* data;
  int64_t count, width, stride;

  static Rows of(const Tensor<const float>& x) { return {x.data, x.rows(), x.last(), x.last()}; }
  const float* at(int64_t r) const { return data + r * stride; }
};

// What a causal call is about: its rows, and where its cache is.
class CachedCall {
 public:
  // q [m, heads · size], k and v [m, kv_heads · size]. From the input `first` on: past keys and
  // values [1, kv_heads, capacity, size], the last valid position behind this call [1], another
  // number, the rows that siblings stand behind [siblings].
  CachedCall(Call& call, const Heads& heads, Rows q, Rows k, Rows v, size_t first)
      : heads_(heads), q_(q), k_(k), v_(v), rows_(q.count), size_(head_size(q.width, heads)) {
    const int64_t width = heads.kv_count * size_;
    if (k.width != width || v.width != width) {
      throw Failure("queries, keys and values do not fit the heads");
    }
    if (k.count != rows_ || v.count != rows_) {
      throw Failure("there must be a key and a value for each query");
    }
    const auto last = call.input<int32_t>(first + 2);
    if (last.shape != std::vector<int64_t>{1}) throw Failure("there must be one last position");
    const auto keys = call.input<float>(first), values = call.input<float>(first + 1);
    if (keys.shape != values.shape) throw Failure("keys and values differ in shape");
    if (keys.shape.size() != 4 || keys.shape[0] != 1 || keys.shape[1] != heads.kv_count ||
        keys.shape[3] != size_) {
      throw Failure("the cache does not fit the heads");
    }
    capacity_ = keys.shape[2];
    past_ = *last.data + int64_t{1} - rows_;
    if (past_ < 0 || past_ + rows_ > capacity_) throw Failure("the cache has no such positions");
    parents_ = checked(call.input<int64_t>(first + 4));
    keys_ = present(call, keys, 1);
    values_ = present(call, values, 2);
  }

  // Of an operator whose first inputs are q, k, v.
  CachedCall(Call& call, const Heads& heads)
      : CachedCall(call, heads, Rows::of(call.input<float>(0)), Rows::of(call.input<float>(1)),
                   Rows::of(call.input<float>(2)), 3) {}

  // Turns queries and keys by angles, cos and sin [1, m, size / 2]; keys go into the cache.
  void rotate(const Tensor<const float>& cos, const Tensor<const float>& sin) {
    if (cos.last() * 2 != size_ || cos.rows() != rows_ || sin.shape != cos.shape) {
      throw Failure("there must be angles for each position");
    }
    thread_local std::vector<float> turned;
    turned.resize(static_cast<size_t>(rows_ * q_.width));
    for (int64_t r = 0; r < rows_; ++r) {
      const float *c = cos.data + r * size_ / 2, *s = sin.data + r * size_ / 2;
      for (int64_t head = 0; head < heads_.count; ++head) {
        const int64_t at = head * size_;
        rotate_row(q_.at(r) + at, c, s, size_ / 2, turned.data() + r * q_.width + at);
      }
      for (int64_t head = 0; head < heads_.kv_count; ++head) {
        rotate_row(k_.at(r) + head * size_, c, s, size_ / 2, place(keys_, head, past_ + r));
      }
    }
    q_ = {turned.data(), rows_, q_.width, q_.width};
  }

  void write_keys() { write(k_, keys_); }

  // Writes the values and attends: out [m, heads · size]. A bias fits, or is null.
  void attend(const float* bias, float* out, const Threads& threads) {
    write(v_, values_);
    const AttentionShape shape{rows_,         heads_.count,  heads_.kv_count, size_,
                               past_ + 1,     1,             capacity_,       heads_.scale,
                               parents_.data, parents_.last()};
    edgespec::attend(shape, q_.data, q_.stride, keys_, values_, bias, out, threads);
  }

  // A bias [1, heads, m, total].
  const float* fitting(const Tensor<const float>& bias) const {
    if (bias.shape != std::vector{int64_t{1}, heads_.count, rows_, past_ + rows_}) {
      throw Failure("there must be a bias for each head, query and key");
    }
    return bias.data;
  }

 private:
  // The buffer of an output. A caller binds it to that of the past; if it is another one, it begins
  // with what was in that.
  static float* present(Call& call, const Tensor<const float>& past, size_t output) {
    float* now = call.output(output, past.shape);
    const auto count = static_cast<size_t>(past.rows() * past.last());
    if (now != past.data) std::memcpy(now, past.data, count * sizeof(float));
    return now;
  }

  Tensor<const int64_t> checked(Tensor<const int64_t> parents) const {
    if (parents.shape.size() != 1) throw Failure("there must be a parent for each sibling");
    const int64_t line = rows_ - parents.last();
    for (int64_t i = 0; i < parents.last(); ++i) {
      if (parents.data[i] < 0 || parents.data[i] + 1 >= line) {
        throw Failure("a sibling stands behind a row that another one follows");
      }
    }
    return parents;
  }

  float* place(float* buffer, int64_t head, int64_t position) const {
    return buffer + (head * capacity_ + position) * size_;
  }

  void write(const Rows& rows, float* buffer) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t head = 0; head < heads_.kv_count; ++head) {
        std::copy_n(rows.at(r) + head * size_, size_, place(buffer, head, past_ + r));
      }
    }
  }

  const Heads& heads_;
  Rows q_, k_, v_;
  int64_t rows_, size_, capacity_ = 0, past_ = 0;
  Tensor<const int64_t> parents_;
  float *keys_ = nullptr, *values_ = nullptr;
};

// … , cos, sin: rotary positions.
struct RotaryTreeAttention {
  static constexpr const char* name = "RotaryTreeAttention";
  static constexpr std::array inputs{
      ElementType::float32, ElementType::float32, ElementType::float32,
      ElementType::float32, ElementType::float32, ElementType::int32,
      ElementType::int32,   ElementType::int64,   ElementType::float32,
      ElementType::float32};
  static constexpr std::array outputs{ElementType::float32, ElementType::float32,
                                      ElementType::float32};
  Heads heads;

  explicit RotaryTreeAttention(const Setup& setup) : heads(setup) {}
  void compute(Call& call) {
    CachedCall cached(call, heads);
    cached.rotate(call.input<float>(8), call.input<float>(9));
    cached.attend(nullptr, call.output(0, call.input<float>(0).shape), call.threads());
  }
};

// … , bias [1, heads, m, total]: relative positions.
struct BiasedTreeAttention {
  static constexpr const char* name = "BiasedTreeAttention";
  static constexpr std::array inputs{
      ElementType::float32, ElementType::float32, ElementType::float32, ElementType::float32,
      ElementType::float32, ElementType::int32,   ElementType::int32,   ElementType::int64,
      ElementType::float32};
  static constexpr std::array outputs{ElementType::float32, ElementType::float32,
                                      ElementType::float32};
  Heads heads;

  explicit BiasedTreeAttention(const Setup& setup) : heads(setup) {}
  void compute(Call& call) {
    CachedCall cached(call, heads);
    const float* bias = cached.fitting(call.input<float>(8));
    cached.write_keys();
    cached.attend(bias, call.output(0, call.input<float>(0).shape), call.threads());
  }
};

// A call about a source.
class SourceCall {
 public:
  // q [m, heads · size]; from the input `first` on: keys and values [1, heads, source, size].
  SourceCall(const Call& call, const Heads& heads, Rows q, size_t first)
      : q_(q), keys_(call.input<float>(first)), values_(call.input<float>(first + 1)) {
    const int64_t size = head_size(q.width, heads);
    const auto& shape = keys_.shape;
    if (shape.size() != 4 || shape[0] != 1 || shape[1] != heads.kv_count || shape[2] < 1 ||
        shape[3] != size || values_.shape != shape) {
      throw Failure("queries, keys and values do not fit the heads");
    }
    shape_ = {q.count,  heads.count, heads.kv_count, size,
              shape[2], 0,           shape[2],       heads.scale};
  }

  // out [m, heads · size]
  void attend(float* out, const Threads& threads) const {
    edgespec::attend(shape_, q_.data, q_.stride, keys_.data, values_.data, nullptr, out, threads);
  }

 private:
  Rows q_;
  Tensor<const float> keys_, values_;
  AttentionShape shape_;
};

struct SourceAttention {
  static constexpr const char* name = "SourceAttention";
  static constexpr std::array inputs{ElementType::float32, ElementType::float32,
                                     ElementType::float32};
  static constexpr std::array outputs{ElementType::float32};
  Heads heads;

  explicit SourceAttention(const Setup& setup) : heads(setup) {}
  void compute(Call& call) {
    const auto q = call.input<float>(0);
    const SourceCall source(call, heads, Rows::of(q), 1);
    source.attend(call.output(0, q.shape), call.threads());
  }
};

}  // namespace edgespec
