// Attention operators: self-attention, which writes its keys and values into a cache, attention to
// what another layer has written there, attention to an encoder's keys and values, and that of an
// encoder's rows to each other.
#pragma once

#include <algorithm>

#include "ops/cached_call.h"
#include "ops/call_rows.h"
#include "ops/heads.h"
#include "ops/positions.h"
#include "ops/scratch.h"
#include "ops/source_call.h"
#include "ort/op.h"

namespace edgespec {

template <typename Table>
class SelfAttention {
 public:
  using Schema = Table;

  explicit SelfAttention(const Setup& setup) : heads_(Heads::of<Schema>(setup)) {}

  void compute(KernelContext& context) {
    using in = typename Schema::in;
    Shapes shapes;
    const auto q = context.input(in::q, shapes);
    heads_.set_sizes(shapes[Dim::q_width], shapes);
    const auto k = context.input(in::k, shapes), v = context.input(in::v, shapes);
    auto cached = CachedCallOf<Schema>::template of<Schema>(context, heads_, Rows::of(q),
                                                            Rows::of(k), Rows::of(v), shapes);
    const PositionsOf<Schema> positions(context, shapes);
    positions.attend(cached, context.output(Schema::out::y, shapes), context.threads());
  }

 private:
  Heads heads_;
};

// Attention to keys and values that another layer has written, those of this call's rows too.
template <typename Table>
class KeptAttention {
 public:
  using Schema = Table;

  explicit KeptAttention(const Setup& setup) : heads_(Heads::of<Schema>(setup)) {}

  void compute(KernelContext& context) {
    using in = typename Schema::in;
    Shapes shapes;
    const auto q = Rows::of(context.input(in::q, shapes));
    heads_.set_sizes(q.width, shapes);
    const auto keys = context.input(in::past_key, shapes);
    const auto values = context.input(in::past_value, shapes);
    const auto rows = CallRows::of<Schema>(context, q.count, shapes);
    const auto shape = rows.shape(heads_, shapes[Dim::size]);
    float* y = context.output(Schema::out::y, shapes);
    if constexpr (requires { in::past_key_scale; }) {
      const CacheRows<int8_t> stored_keys{keys.data,
                                          context.input(in::past_key_scale, shapes).data};
      const CacheRows<int8_t> stored_values{values.data,
                                            context.input(in::past_value_scale, shapes).data};
      attend(shape, q.data, q.stride, stored_keys, stored_values, nullptr, y, context.threads());
    } else {
      using Number = typename decltype(in::past_key)::Number;
      attend(shape, q.data, q.stride, CacheRows<Number>{keys.data}, CacheRows<Number>{values.data},
             nullptr, y, context.threads());
    }
  }

 private:
  Heads heads_;
};

template <typename Table>
class SourceAttention {
 public:
  using Schema = Table;

  explicit SourceAttention(const Setup& setup) : heads_(Heads::of<Schema>(setup)) {}

  void compute(KernelContext& context) {
    Shapes shapes;
    const auto q = context.input(Schema::in::q, shapes);
    heads_.set_sizes(shapes[Dim::q_width], shapes);
    const auto source = SourceCall::of<Schema>(context, heads_, Rows::of(q), shapes);
    source.attend(context.output(Schema::out::y, shapes), context.threads());
  }

 private:
  Heads heads_;
};

// Attention of an encoder's rows to each other.
template <typename Table>
class EncoderAttention {
 public:
  using Schema = Table;

  explicit EncoderAttention(const Setup& setup) : heads_(Heads::of<Schema>(setup)) {}

  void compute(KernelContext& context) {
    struct Keys;
    struct Values;
    Shapes shapes;
    const auto q = context.input(Schema::in::q, shapes);
    heads_.set_sizes(shapes[Dim::q_width], shapes);
    const auto k = context.input(Schema::in::k, shapes), v = context.input(Schema::in::v, shapes);
    const auto bias = context.input(Schema::in::bias, shapes);
    const int64_t rows = shapes[Dim::m], size = shapes[Dim::size];
    constexpr int64_t kEveryRowSeesAll = 0;
    const AttentionShape shape{rows, heads_.count, heads_.kv_count, size, rows, kEveryRowSeesAll,
                               rows, heads_.scale};
    const CacheRows<float> keys{by_head<Keys>(k.data, rows, size)};
    const CacheRows<float> values{by_head<Values>(v.data, rows, size)};
    attend(shape, q.data, heads_.count * size, keys, values, bias.data,
           context.output(Schema::out::y, shapes), context.threads());
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
