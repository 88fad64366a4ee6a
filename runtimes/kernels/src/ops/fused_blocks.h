// Fused blocks: attention blocks and feed-forward blocks, from the norm to the sum with the
// residual stream. A block has the bits of the operators that it consists of; but the session's
// threads are woken once for all of them.
#pragma once

#include "ops/attention_ops.h"
#include "ops/convolved_call.h"
#include "ops/row_steps.h"
#include "ops/weights.h"
#include "threads/team.h"

namespace edgespec {

// Uses of scratch memory, shared by all blocks.
struct BlockOpened;
struct BlockAttended;
struct BlockClosed;

// What a block does with the rows that its last product makes: their sum with the residual stream,
// [m, k]. The product adds.
template <typename Schema>
class BlockSum {
 public:
  explicit BlockSum(const Setup&) {}

  // A call's weights of a norm: none.
  const float* norm(const KernelContext&, Shapes&) const { return nullptr; }

  // y = x + product; multiply(added, y) makes the product plus `added`.
  template <typename Multiply>
  void add(const float*, const float* x, int64_t, int64_t, float* y, const Threads&,
           Multiply multiply) const {
    multiply(x, y);
  }
};

// The same for a block with a norm after its last product. The norm needs whole rows first.
template <typename Schema>
  requires requires { Schema::in::post_norm; }
class BlockSum<Schema> {
 public:
  explicit BlockSum(const Setup& setup) : epsilon_(setup.attribute(Schema::attr::post_epsilon)) {}

  const float* norm(const KernelContext& context, Shapes& shapes) const {
    return context.input(Schema::in::post_norm, shapes).data;
  }

  template <typename Multiply>
  void add(const float* norm, const float* x, int64_t rows, int64_t width, float* y,
           const Threads& threads, Multiply multiply) const {
    float* product = scratch<BlockClosed>(rows * width);
    multiply(nullptr, product);
    threads.each(rows, rows * width / kNumbersPerCycle, [&](int64_t r) {
      const int64_t first = r * width;
      norm_row_or_nan(product + first, norm, epsilon_, width, y + first);
      add_row(x + first, width, y + first);
    });
  }

 private:
  float epsilon_;
};

// What all blocks share: norm and first product, [m, k] → [m, n]; last product, perhaps a norm, and
// sum with the stream, [m, inner] → [m, k].
template <typename Schema>
class BlockEnds {
 public:
  BlockEnds(const Setup& setup, Shapes& shapes)
      : opening(opening_of<typename Schema::in>(setup, shapes)),
        closing(closing_of<typename Schema::in>(setup, shapes)),
        sum(setup),
        norm_(setup, shapes) {}

  // The normed rows of a call.
  auto normed(const KernelContext& context, Shapes& shapes) const {
    return norm_.rows(context.input(Schema::in::norm, shapes).data);
  }

  WeightsOf<Schema> opening, closing;
  BlockSum<Schema> sum;

 private:
  NormOf<Schema> norm_;
};

// y [rows, width] += x [width] in each row.
inline void add_to_each_row(const float* x, int64_t rows, int64_t width, float* y,
                            const Threads& threads) {
  threads.each(rows, rows * width / kNumbersPerCycle,
               [&](int64_t r) { add_row(x, width, y + r * width); });
}

template <typename Schema>
class AttentionBlock {
 protected:
  explicit AttentionBlock(const Setup& setup)
      : heads_(Heads::of<Schema>(setup)), ends_(setup, shapes_) {
    heads_.set_sizes(shapes_[Dim::inner], shapes_);
  }

  // `attend(threads)` makes `attended` [m, inner] of `opened` [m, n]. `bias` [n] is added to each
  // row of `opened` before that; null if there is none.
  template <typename Normed, typename Attend>
  void run(KernelContext& context, const float* x, Shapes& shapes, const Normed& normed,
           const float* bias, float* opened, const float* attended, Attend attend) const {
    const int64_t rows = shapes[Dim::m], width = shapes[Dim::k];
    const float* post_norm = ends_.sum.norm(context, shapes);
    float* y = context.output(Schema::out::y, shapes);
    Team::together(context.threads(), [&](const Threads& threads) {
      ends_.opening.multiply_rows(x, rows, normed, nullptr, opened, threads);
      if (bias) add_to_each_row(bias, rows, ends_.opening.out(), opened, threads);
      attend(threads);
      ends_.sum.add(post_norm, x, rows, width, y, threads, [&](const float* added, float* to) {
        ends_.closing.multiply_rows(attended, rows, PlainRows{}, added, to, threads);
      });
    });
  }

  // Memory of the calling thread for [m, n] and [m, inner].
  float* opened(int64_t rows) const { return scratch<BlockOpened>(rows * ends_.opening.out()); }
  float* attended(int64_t rows) const { return scratch<BlockAttended>(rows * ends_.closing.in()); }

  Shapes shapes_;
  Heads heads_;
  BlockEnds<Schema> ends_;
};

// Self-attention; the first product makes queries, keys and values next to each other.
template <typename Table>
class SelfAttentionBlock : AttentionBlock<Table> {
 public:
  using Schema = Table;

  explicit SelfAttentionBlock(const Setup& setup) : AttentionBlock<Table>(setup) {
    const int64_t q_width = shapes_[Dim::inner], kv_width = shapes_[Dim::kv_width];
    if (shapes_[Dim::n] != q_width + 2 * kv_width) {
      fail("weights make ", shapes_[Dim::n], " columns; queries, keys and values have ", q_width,
           " + 2 * ", kv_width);
    }
  }

  void compute(KernelContext& context) {
    Shapes shapes = shapes_;
    const auto x = context.input(Schema::in::x, shapes);
    const auto normed = this->ends_.normed(context, shapes);
    const int64_t rows = shapes[Dim::m], q_width = shapes[Dim::inner];
    const int64_t kv_width = shapes[Dim::kv_width];
    float *opened = this->opened(rows), *attended = this->attended(rows);
    const auto columns = [&](int64_t first, int64_t count) {
      return Rows{opened + first, rows, count, shapes[Dim::n]};
    };
    auto cached = CachedCallOf<Schema>::template of<Schema>(
        context, this->heads_, columns(0, q_width), columns(q_width, kv_width),
        columns(q_width + kv_width, kv_width), shapes);
    const PositionsOf<Schema> positions(context, shapes);
    this->run(context, x.data, shapes, normed, projection_bias(context, shapes), opened, attended,
              [&](const Threads& threads) { positions.attend(cached, attended, threads); });
  }

 private:
  // A call's bias of queries, keys and values, [n]; null if the block has none.
  static const float* projection_bias(const KernelContext& context, Shapes& shapes) {
    if constexpr (requires { Schema::in::projection_bias; }) {
      return context.input(Schema::in::projection_bias, shapes).data;
    }
    return nullptr;
  }

  using AttentionBlock<Table>::shapes_;
};

// Attention to an encoder's keys and values; the first product makes queries.
template <typename Table>
class CrossAttentionBlock : AttentionBlock<Table> {
 public:
  using Schema = Table;

  explicit CrossAttentionBlock(const Setup& setup) : AttentionBlock<Table>(setup) {
    if (shapes_[Dim::n] != shapes_[Dim::inner]) {
      fail("weights make ", shapes_[Dim::n], " columns; queries have ", shapes_[Dim::inner]);
    }
  }

  void compute(KernelContext& context) {
    Shapes shapes = shapes_;
    const auto x = context.input(Schema::in::x, shapes);
    const auto normed = this->ends_.normed(context, shapes);
    const int64_t rows = shapes[Dim::m], q_width = shapes[Dim::inner];
    float *opened = this->opened(rows), *attended = this->attended(rows);
    const Rows queries{opened, rows, q_width, q_width};
    const auto source = SourceCall::of<Schema>(context, this->heads_, queries, shapes);
    this->run(context, x.data, shapes, normed, nullptr, opened, attended,
              [&](const Threads& threads) { source.attend(attended, threads); });
  }

 private:
  using AttentionBlock<Table>::shapes_;
};

// The rows that a block's last product reads: rotated, if its table has a Hadamard matrix for them.
template <typename Schema>
PlainRows closing_rows(const Setup&, Shapes&) {
  return {};
}
template <typename Schema>
  requires requires { Schema::in::closing_hadamard; }
HadamardRows closing_rows(const Setup& setup, Shapes& shapes) {
  const auto rotated = HadamardRows::of(setup.constant(Schema::in::closing_hadamard, shapes));
  rotated.check_width(shapes[Dim::inner]);
  return rotated;
}

// A gated convolution; the first product makes its three inputs next to each other.
template <typename Table>
class ShortConvolutionBlock {
 public:
  using Schema = Table;

  explicit ShortConvolutionBlock(const Setup& setup)
      : ends_(setup, shapes_), quantize_(closing_rows<Schema>(setup, shapes_)) {
    const int64_t inner = shapes_[Dim::inner];
    if (shapes_[Dim::n] != 3 * inner) {
      fail("weights make ", shapes_[Dim::n], " columns; 3 * ", inner, " fit");
    }
  }

  void compute(KernelContext& context) {
    Shapes shapes = shapes_;
    const auto x = context.input(Schema::in::x, shapes);
    const auto normed = ends_.normed(context, shapes);
    const int64_t rows = shapes[Dim::m], inner = shapes[Dim::inner], width = shapes[Dim::k];
    float* opened = scratch<BlockOpened>(rows * 3 * inner);
    float* convolved = scratch<BlockAttended>(rows * inner);
    const auto part = [&](int64_t index) {
      return Rows{opened + index * inner, rows, inner, 3 * inner};
    };
    const ConvolvedCall<Schema> convolution(context, part(0), part(1), part(2), shapes);
    const float* post_norm = ends_.sum.norm(context, shapes);
    float* y = context.output(Schema::out::y, shapes);
    Team::together(context.threads(), [&](const Threads& threads) {
      ends_.opening.multiply_rows(x.data, rows, normed, nullptr, opened, threads);
      convolution.convolve(convolved, threads);
      ends_.sum.add(post_norm, x.data, rows, width, y, threads, [&](const float* added, float* to) {
        ends_.closing.multiply_rows(convolved, rows, quantize_, added, to, threads);
      });
    });
  }

 private:
  Shapes shapes_;
  BlockEnds<Schema> ends_;
  decltype(closing_rows<Schema>(std::declval<const Setup&>(), std::declval<Shapes&>())) quantize_;
};

// Norm, product, activation, perhaps Hadamard rotation, product, sum. `activate` makes a row of
// `inner` numbers from one of kParts · inner.
template <typename Table, void (*activate)(const float*, int64_t, float*), int64_t kParts>
class FeedForwardBlock {
 public:
  using Schema = Table;

  explicit FeedForwardBlock(const Setup& setup)
      : ends_(setup, shapes_), quantize_(closing_rows<Schema>(setup, shapes_)) {
    const int64_t inner = shapes_[Dim::inner];
    if (shapes_[Dim::n] != kParts * inner) {
      fail("weights make ", shapes_[Dim::n], " columns; ", kParts, " * ", inner, " fit");
    }
  }

  void compute(KernelContext& context) {
    Shapes shapes = shapes_;
    const auto x = context.input(Schema::in::x, shapes);
    const auto normed = ends_.normed(context, shapes);
    const int64_t rows = shapes[Dim::m], inner = shapes[Dim::inner], width = shapes[Dim::k];
    const float* post_norm = ends_.sum.norm(context, shapes);
    float* opened = scratch<BlockOpened>(rows * kParts * inner);
    float* y = context.output(Schema::out::y, shapes);
    Team::together(context.threads(), [&](const Threads& threads) {
      ends_.opening.multiply_rows(x.data, rows, normed, nullptr, opened, threads);
      const auto from_opened = [&](auto& quantized, int64_t r) {
        struct Activated;
        float* activated = scratch<Activated>(inner);
        activate(opened + r * kParts * inner, inner, activated);
        quantize_(activated, quantized, r);
      };
      ends_.sum.add(post_norm, x.data, rows, width, y, threads, [&](const float* added, float* to) {
        ends_.closing.multiply(rows, from_opened, added, to, threads);
      });
    });
  }

 private:
  Shapes shapes_;
  BlockEnds<Schema> ends_;
  decltype(closing_rows<Schema>(std::declval<const Setup&>(), std::declval<Shapes&>())) quantize_;
};

// Gate and up are next to each other.
template <void (*gate_row)(const float*, const float*, int64_t, float*)>
void gate_columns(const float* gate, int64_t width, float* y) {
  gate_row(gate, gate + width, width, y);
}

template <typename Table>
using SiluFeedForwardBlock = FeedForwardBlock<Table, gate_columns<silu_gate_row>, 2>;
template <typename Table>
using GeluFeedForwardBlock = FeedForwardBlock<Table, gate_columns<gelu_gate_row>, 2>;
template <typename Table>
using ReluFeedForwardBlock = FeedForwardBlock<Table, relu_row, 1>;

}  // namespace edgespec
