// One call of a gated convolution over the last positions, which keeps what it reads in the cache.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/rows.h"
#include "ops/cache_buffer.h"
#include "ops/call_rows.h"
#include "ops/heads.h"
#include "ops/scratch.h"
#include "ort/op.h"

namespace edgespec {

// y = after · Σᵢ factors[i] · (before · x)[position - i]. The numbers of a position fill the keys
// and values of one layer of the cache or of two, head by head; zeros fill the rest of the last.
template <typename Schema>
class ConvolvedCall {
  using in = typename Schema::in;
  using out = typename Schema::out;
  using Number = CachedNumber<Schema>;
  static constexpr bool kTwoLayers = requires { in::past_next_key; };
  static constexpr int64_t kBuffers = kTwoLayers ? 4 : 2;

 public:
  // before, after, x [m, inner]; `shapes` has their sizes.
  ConvolvedCall(KernelContext& context, const Rows& before, const Rows& after, const Rows& x,
                Shapes& shapes)
      : before_(before), after_(after), x_(x), rows_(take_cache(context, x.count, shapes)) {
    const auto factors = context.input(in::factors, shapes);
    factors_ = factors.data;
    taps_ = factors.shape[0];
    kv_heads_ = shapes[Dim::kv_heads];
    size_ = shapes[Dim::size];
    held_ = kBuffers * kv_heads_ * size_;
    if (taps_ < 1 || x.width > held_) {
      fail("a convolution of ", taps_, " taps keeps ", x.width, " numbers of a position in ",
           held_);
    }
  }

  // y [m, inner]
  void convolve(float* y, const Threads& threads) const {
    struct Kept;
    const int64_t rows = x_.count, width = x_.width;
    float* kept = scratch<Kept>(rows * held_);
    threads.each(rows, rows * width / kNumbersPerCycle, [&](int64_t r) {
      float* row = kept + r * held_;
      multiply_row(before_.at(r), x_.at(r), width, row);
      std::fill(row + width, row + held_, 0.0f);
      for (int64_t part = 0; part * size_ < held_; ++part) {
        buffers_[part / kv_heads_].write(row + part * size_, size_,
                                         index(part, rows_.layout(r).index));
      }
    });
    threads.each(rows, rows * width * taps_ / kNumbersPerCycle, [&](int64_t r) {
      for (int64_t part = 0; part * size_ < width; ++part) {
        convolve_part(part, rows_.layout(r), kept + r * held_, after_.at(r), y + r * width);
      }
    });
  }

 private:
  // The buffers of a call's cache, and where its rows are in it.
  CallRows take_cache(KernelContext& context, int64_t rows, Shapes& shapes) {
    const auto take = [&](const auto& past, const auto& now) {
      return present(context.input(past, shapes).data, now, context, shapes);
    };
    buffers_[0].numbers = take(in::past_key, out::present_key);
    buffers_[1].numbers = take(in::past_value, out::present_value);
    if constexpr (kTwoLayers) {
      buffers_[2].numbers = take(in::past_next_key, out::present_next_key);
      buffers_[3].numbers = take(in::past_next_value, out::present_next_value);
    }
    if constexpr (std::is_same_v<Number, int8_t>) {
      buffers_[0].scales = take(in::past_key_scale, out::present_key_scale);
      buffers_[1].scales = take(in::past_value_scale, out::present_value_scale);
      if constexpr (kTwoLayers) {
        buffers_[2].scales = take(in::past_next_key_scale, out::present_next_key_scale);
        buffers_[3].scales = take(in::past_next_value_scale, out::present_next_value_scale);
      }
    }
    return CallRows::of<Schema>(context, rows, shapes);
  }

  // The row of a buffer that holds a part of `size` numbers of a position.
  int64_t index(int64_t part, int64_t position) const {
    return rows_.at(part % kv_heads_, position);
  }

  // One product and sum after the other, as the function of standard operators has them.
  void convolve_part(int64_t part, const RowLayout& row, const float* kept, const float* after,
                     float* y) const {
    struct Earlier;
    const int64_t first = part * size_, count = std::min(size_, x_.width - first);
    const auto cached = buffers_[part / kv_heads_].rows();
    multiply_row(kept + first, factors_ + first, count, y + first);
    for (int64_t i = 1; i < taps_ && i <= row.position; ++i) {
      const auto from = cached.from(index(part, row.start + row.position - i), size_);
      const float* earlier = widened(from, 1, size_, scratch<Earlier>(size_));
      add_product_row(earlier, factors_ + i * x_.width + first, count, y + first);
    }
    multiply_row(after + first, y + first, count, y + first);
  }

  Rows before_, after_, x_;
  CacheBuffer<Number> buffers_[kBuffers] = {};
  CallRows rows_;
  const float* factors_;
  int64_t taps_, kv_heads_, size_, held_;
};

}  // namespace edgespec
