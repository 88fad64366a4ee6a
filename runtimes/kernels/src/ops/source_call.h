// One call of attention to an encoder's keys and values.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/cache_rows.h"
#include "ops/heads.h"
#include "ops/scratch.h"
#include "ort/op.h"

namespace edgespec {

// One call of attention to an encoder's keys and values.
class SourceCall {
 public:
  // q [m, heads · size]; keys, values and the parts of them that rows see are inputs of the
  // operator `Schema`. `shapes` has the sizes of heads.
  template <typename Schema>
  static SourceCall of(const KernelContext& context, const Heads& heads, const Rows& q,
                       Shapes& shapes) {
    const auto keys = context.input(Schema::in::key, shapes);
    const auto values = context.input(Schema::in::value, shapes);
    const int64_t source = shapes[Dim::source];
    if (source < 1) fail("a source of ", source, " positions");
    constexpr int64_t kEveryRowSeesAll = 0;
    AttentionShape shape{q.count, heads.count,      heads.kv_count, shapes[Dim::size],
                         source,  kEveryRowSeesAll, source,         heads.scale};
    const auto parts = context.input(Schema::in::sources, shapes);
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

}  // namespace edgespec
