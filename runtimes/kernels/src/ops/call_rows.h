// Where the rows of a call are in the cache, and which positions they see.
#pragma once

#include "kernels/attention/attention.h"
#include "ops/heads.h"
#include "ort/op.h"

namespace edgespec {

// The layouts of a call's last rows, [described, 3] as one struct each.
inline const RowLayout* layouts_of(const Tensor<const int64_t>& layouts, int64_t rows) {
  static_assert(sizeof(RowLayout) == 3 * sizeof(int64_t));
  if (layouts.shape[1] != 3 || layouts.shape[0] > rows) {
    fail("layouts [", layouts.shape[0], ", ", layouts.shape[1], "] for a call of ", rows,
         " rows; a row has 3 numbers");
  }
  return reinterpret_cast<const RowLayout*>(layouts.data);
}

class CallRows {
 public:
  CallRows() = default;

  // `last` and `layouts` are inputs of the operator `Schema`; `shapes` has the cache's capacity.
  template <typename Schema>
  static CallRows of(const KernelContext& context, int64_t count, Shapes& shapes) {
    using in = typename Schema::in;
    CallRows self;
    self.count_ = count;
    self.capacity_ = shapes[Dim::capacity];
    const int64_t last = *context.input(in::last, shapes).data;
    self.past_ = last + 1 - count;
    if (self.past_ < 0 || last >= self.capacity_) {
      fail("positions ", self.past_, " to ", last, " in a cache of ", self.capacity_);
    }
    shapes.set(Dim::keys, last + 1, "last + 1");
    self.take_layouts(context.input(in::layouts, shapes));
    return self;
  }

  int64_t count() const { return count_; }

  RowLayout layout(int64_t row) const {
    const int64_t described = row - (count_ - described_);
    return described < 0 ? RowLayout{0, past_ + row, past_ + row} : layouts_[described];
  }

  // Where a row of this call is in a buffer.
  int64_t index(int64_t head, int64_t row) const { return at(head, layout(row).index); }

  // Where a position of the cache is in a buffer.
  int64_t at(int64_t head, int64_t position) const { return head * capacity_ + position; }

  AttentionShape shape(const Heads& heads, int64_t size) const {
    return {count_,    heads.count, heads.kv_count, size,       past_ + 1,    1,
            capacity_, heads.scale, layouts_,       described_, heads.window, heads.arithmetic};
  }

 private:
  // Rows may lie anywhere in the cache; their text has at most the positions of this call.
  void take_layouts(const Tensor<const int64_t>& layouts) {
    layouts_ = layouts_of(layouts, count_);
    described_ = layouts.shape[0];
    for (int64_t i = 0; i < described_; ++i) {
      const RowLayout& row = layouts_[i];
      if (row.start < 0 || row.position < 0 || row.index < 0 || row.index >= capacity_ ||
          row.start + row.position > capacity_ || row.position >= past_ + count_) {
        fail("layout ", i, " has start ", row.start, ", position ", row.position, " and index ",
             row.index, " in a cache of ", capacity_, " and a call up to position ",
             past_ + count_ - 1);
      }
    }
  }

  int64_t count_ = 0, capacity_ = 0, past_ = 0;
  const RowLayout* layouts_ = nullptr;
  int64_t described_ = 0;
};

}  // namespace edgespec
