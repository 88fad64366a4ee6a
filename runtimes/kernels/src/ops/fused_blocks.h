// Fused blocks: attention blocks and feed-forward blocks, from the norm to the sum with the
// residual stream. A block has the bits of the operators that it consists of; but the session's
// threads are woken once for all of them.
#pragma once

#include <utility>

#include "ops/attention_ops.h"
#include "ops/convolved_call.h"
#include "ops/product.h"
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

// y [rows, width] += x [width] in each row.
inline void add_to_each_row(const float* x, int64_t rows, int64_t width, float* y,
                            const Threads& threads) {
  threads.each(rows, rows * width / kNumbersPerCycle,
               [&](int64_t r) { add_row(x, width, y + r * width); });
}

// Norm and first product, [m, k] → [m, n]; attention; last product, perhaps a norm, and sum with
// the stream, [m, inner] → [m, k].
template <typename Frame>
class AttentionBody {
 protected:
  AttentionBody(const Setup& setup, Products products)
      : products_(std::move(products)), heads_(Heads::of<Frame>(setup)), sum_(setup) {
    heads_.set_sizes(products_.shapes[Dim::inner], products_.shapes);
  }

  // `attend(threads)` makes `attended` [m, inner] of `opened` [m, n]. `bias` [n] is added to each
  // row of `opened` before that; null if there is none.
  template <typename Attend>
  void run(KernelContext& context, const float* x, Shapes& shapes, const float* norm,
           const float* bias, float* opened, const float* attended, Attend attend) const {
    const Product &opening = *products_.opening, &closing = *products_.closing;
    const int64_t rows = shapes[Dim::m], width = shapes[Dim::k];
    const float* post_norm = sum_.norm(context, shapes);
    float* y = context.output(Frame::out::y, shapes);
    Team::together(context.threads(), [&](const Threads& threads) {
      opening.multiply(x, rows, norm, nullptr, opened, threads);
      if (bias) add_to_each_row(bias, rows, opening.out(), opened, threads);
      attend(threads);
      sum_.add(post_norm, x, rows, width, y, threads, [&](const float* added, float* to) {
        closing.multiply(attended, rows, nullptr, added, to, threads);
      });
    });
  }

  // Memory of the calling thread for [m, n] and [m, inner].
  float* opened(int64_t rows) const {
    return scratch<BlockOpened>(rows * products_.opening->out());
  }
  float* attended(int64_t rows) const {
    return scratch<BlockAttended>(rows * products_.closing->in());
  }

  Products products_;
  Heads heads_;
  BlockSum<Frame> sum_;
};

// Self-attention; the first product makes queries, keys and values next to each other.
template <typename Frame>
class SelfAttentionBody : AttentionBody<Frame> {
  using in = typename Frame::in;

 protected:
  SelfAttentionBody(const Setup& setup, Products products)
      : AttentionBody<Frame>(setup, std::move(products)) {
    const Shapes& shapes = this->products_.shapes;
    const int64_t q_width = shapes[Dim::inner], kv_width = shapes[Dim::kv_width];
    if (shapes[Dim::n] != q_width + 2 * kv_width) {
      fail("weights make ", shapes[Dim::n], " columns; queries, keys and values have ", q_width,
           " + 2 * ", kv_width);
    }
  }

  void compute(KernelContext& context) {
    Shapes shapes = this->products_.shapes;
    const auto x = context.input(in::x, shapes);
    const float* norm = context.input(in::norm, shapes).data;
    const int64_t rows = shapes[Dim::m], q_width = shapes[Dim::inner];
    const int64_t kv_width = shapes[Dim::kv_width];
    float *opened = this->opened(rows), *attended = this->attended(rows);
    const auto columns = [&](int64_t first, int64_t count) {
      return Rows{opened + first, rows, count, shapes[Dim::n]};
    };
    auto cached = CachedCallOf<Frame>::template of<Frame>(
        context, this->heads_, columns(0, q_width), columns(q_width, kv_width),
        columns(q_width + kv_width, kv_width), shapes);
    const PositionsOf<Frame> positions(context, shapes);
    this->run(context, x.data, shapes, norm, projection_bias(context, shapes), opened, attended,
              [&](const Threads& threads) { positions.attend(cached, attended, threads); });
  }

 private:
  // A call's bias of queries, keys and values, [n]; null if the block has none.
  static const float* projection_bias(const KernelContext& context, Shapes& shapes) {
    if constexpr (requires { in::projection_bias; }) {
      return context.input(in::projection_bias, shapes).data;
    }
    return nullptr;
  }
};

// Attention to an encoder's keys and values; the first product makes queries.
template <typename Frame>
class CrossAttentionBody : AttentionBody<Frame> {
 protected:
  CrossAttentionBody(const Setup& setup, Products products)
      : AttentionBody<Frame>(setup, std::move(products)) {
    const Shapes& shapes = this->products_.shapes;
    if (shapes[Dim::n] != shapes[Dim::inner]) {
      fail("weights make ", shapes[Dim::n], " columns; queries have ", shapes[Dim::inner]);
    }
  }

  void compute(KernelContext& context) {
    Shapes shapes = this->products_.shapes;
    const auto x = context.input(Frame::in::x, shapes);
    const float* norm = context.input(Frame::in::norm, shapes).data;
    const int64_t rows = shapes[Dim::m], q_width = shapes[Dim::inner];
    float *opened = this->opened(rows), *attended = this->attended(rows);
    const Rows queries{opened, rows, q_width, q_width};
    const auto source = SourceCall::of<Frame>(context, this->heads_, queries, shapes);
    this->run(context, x.data, shapes, norm, nullptr, opened, attended,
              [&](const Threads& threads) { source.attend(attended, threads); });
  }
};

// A gated convolution; the first product makes its three inputs next to each other.
template <typename Frame>
class ShortConvolutionBody {
 protected:
  ShortConvolutionBody(const Setup& setup, Products products)
      : products_(std::move(products)), sum_(setup) {
    const Shapes& shapes = products_.shapes;
    const int64_t inner = shapes[Dim::inner];
    if (shapes[Dim::n] != 3 * inner) {
      fail("weights make ", shapes[Dim::n], " columns; 3 * ", inner, " fit");
    }
  }

  void compute(KernelContext& context) {
    Shapes shapes = products_.shapes;
    const auto x = context.input(Frame::in::x, shapes);
    const float* norm = context.input(Frame::in::norm, shapes).data;
    const int64_t rows = shapes[Dim::m], inner = shapes[Dim::inner], width = shapes[Dim::k];
    float* opened = scratch<BlockOpened>(rows * 3 * inner);
    float* convolved = scratch<BlockAttended>(rows * inner);
    const auto part = [&](int64_t index) {
      return Rows{opened + index * inner, rows, inner, 3 * inner};
    };
    const ConvolvedCall<Frame> convolution(context, part(0), part(1), part(2), shapes);
    const float* post_norm = sum_.norm(context, shapes);
    float* y = context.output(Frame::out::y, shapes);
    Team::together(context.threads(), [&](const Threads& threads) {
      products_.opening->multiply(x.data, rows, norm, nullptr, opened, threads);
      convolution.convolve(convolved, threads);
      sum_.add(post_norm, x.data, rows, width, y, threads, [&](const float* added, float* to) {
        products_.closing->multiply(convolved, rows, nullptr, added, to, threads);
      });
    });
  }

 private:
  Products products_;
  BlockSum<Frame> sum_;
};

// Norm, product, activation, perhaps Hadamard rotation, product, sum. `activate` makes a row of
// `inner` numbers from one of kParts · inner.
template <typename Frame, void (*activate)(const float*, int64_t, float*), int64_t kParts>
class FeedForwardBody {
 protected:
  FeedForwardBody(const Setup& setup, Products products)
      : products_(std::move(products)), sum_(setup) {
    const Shapes& shapes = products_.shapes;
    const int64_t inner = shapes[Dim::inner];
    if (shapes[Dim::n] != kParts * inner) {
      fail("weights make ", shapes[Dim::n], " columns; ", kParts, " * ", inner, " fit");
    }
  }

  void compute(KernelContext& context) {
    Shapes shapes = products_.shapes;
    const auto x = context.input(Frame::in::x, shapes);
    const float* norm = context.input(Frame::in::norm, shapes).data;
    const int64_t rows = shapes[Dim::m], inner = shapes[Dim::inner], width = shapes[Dim::k];
    const float* post_norm = sum_.norm(context, shapes);
    float* opened = scratch<BlockOpened>(rows * kParts * inner);
    float* y = context.output(Frame::out::y, shapes);
    const auto activated_row = [&](int64_t r) {
      struct Activated;
      float* activated = scratch<Activated>(inner);  // of the thread that asks for the row
      activate(opened + r * kParts * inner, inner, activated);
      return activated;
    };
    Team::together(context.threads(), [&](const Threads& threads) {
      products_.opening->multiply(x.data, rows, norm, nullptr, opened, threads);
      sum_.add(post_norm, x.data, rows, width, y, threads, [&](const float* added, float* to) {
        products_.closing->multiply(rows, RowMaker(activated_row), nullptr, added, to, threads);
      });
    });
  }

 private:
  Products products_;
  BlockSum<Frame> sum_;
};

// Gate and up are next to each other.
template <void (*gate_row)(const float*, const float*, int64_t, float*)>
void gate_columns(const float* gate, int64_t width, float* y) {
  gate_row(gate, gate + width, width, y);
}

template <typename Frame>
using SiluFeedForwardBody = FeedForwardBody<Frame, gate_columns<silu_gate_row>, 2>;
template <typename Frame>
using GeluFeedForwardBody = FeedForwardBody<Frame, gate_columns<gelu_gate_row>, 2>;
template <typename Frame>
using ReluFeedForwardBody = FeedForwardBody<Frame, relu_row, 1>;

template <typename Table>
using SelfAttentionBlock = Framed<Table, SelfAttentionBody>;
template <typename Table>
using CrossAttentionBlock = Framed<Table, CrossAttentionBody>;
template <typename Table>
using ShortConvolutionBlock = Framed<Table, ShortConvolutionBody>;
template <typename Table>
using SiluFeedForwardBlock = Framed<Table, SiluFeedForwardBody>;
template <typename Table>
using GeluFeedForwardBlock = Framed<Table, GeluFeedForwardBody>;
template <typename Table>
using ReluFeedForwardBlock = Framed<Table, ReluFeedForwardBody>;

}  // namespace edgespec
