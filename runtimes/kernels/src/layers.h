// Operators that are half a layer: what is added to the residual stream, from its norm to its sum.
// Each computes what the operators that it consists of would, bit by bit; but threads come once.
#pragma once

#include <array>

#include "attentions.h"
#include "products.h"
#include "team.h"

namespace edgespec {

// From the stream to attention and back to it. Inputs: x, the norm's weight, weights and scale of
// what asks, what attention needs besides (from kMore on), weights and scale of what answers.
struct Attending {
  static constexpr size_t kMore = 4;
  Heads heads;
  NormedWeights asking;
  Weights answering;

  Attending(const Setup& setup, size_t inputs)
      : heads(setup), asking(setup, 2), answering(setup, inputs - 2) {
    if (asking.weights.in() != answering.out()) throw Failure("the output does not fit the stream");
  }

  // `attend(threads)` makes answers [m, heads · size] of what was asked, [m, asking.out()].
  template <typename Attend>
  void compute(Call& call, const Tensor<const float>& x, float* asked, const float* answers,
               Attend attend) const {
    const NormedRows normed = asking.rows(call.input<float>(1));
    float* y = call.output(0, x.shape);
    Team::together(call.threads(), [&](const Threads& threads) {
      asking.weights.multiply_rows(x.data, x.rows(), normed, nullptr, asked, threads);
      attend(threads);
      answering.multiply_rows(answers, x.rows(), round_row_by_largest, x.data, y, threads);
    });
  }

  Tensor<const float> stream(const Call& call) const {
    auto x = call.input<float>(0);
    asking.weights.check_width(x);
    return x;
  }

  // Room for what is asked and for answers, of the thread that calls.
  float* asked(int64_t rows) const {
    struct Asked;
    return kept<Asked>(rows * asking.weights.out());
  }
  float* answers(int64_t rows) const {
    struct Answers;
    return kept<Answers>(rows * answering.in());
  }
};

// Attention to the text so far; queries, keys and values are asked for side by side.
struct SelfAttending : Attending {
  SelfAttending(const Setup& setup, size_t inputs) : Attending(setup, inputs) {
    const int64_t queries = answering.in();
    if (asking.weights.out() * heads.count != queries * (heads.count + 2 * heads.kv_count)) {
      throw Failure("the weights of queries, keys, values and output do not fit the heads");
    }
  }

  // `prepare(cached)` writes the keys; returns the bias, if there is one.
  template <typename Prepare>
  void compute(Call& call, Prepare prepare) const {
    const auto x = stream(call);
    const int64_t rows = x.rows(), width = asking.weights.out(), queries = answering.in();
    const int64_t keys = (width - queries) / 2;
    float *asked = this->asked(rows), *answers = this->answers(rows);
    const auto part = [&](int64_t first, int64_t count) {
      return Rows{asked + first, rows, count, width};
    };
    CachedCall cached(call, heads, part(0, queries), part(queries, keys),
                      part(queries + keys, keys), kMore);
    Attending::compute(call, x, asked, answers, [&](const Threads& threads) {
      const float* bias = prepare(cached);
      cached.attend(bias, answers, threads);
    });
  }
};

// … , past keys and values, last, total, parents, cos, sin, … : rotary positions.
struct RotaryTreeSelfAttention : SelfAttending {
  static constexpr const char* name = "RotaryTreeSelfAttention";
  static constexpr std::array inputs{
      ElementType::float32, ElementType::float32, ElementType::int8,    ElementType::float32,
      ElementType::float32, ElementType::float32, ElementType::int32,   ElementType::int32,
      ElementType::int64,   ElementType::float32, ElementType::float32, ElementType::int8,
      ElementType::float32};
  static constexpr std::array outputs{ElementType::float32, ElementType::float32,
                                      ElementType::float32};

  explicit RotaryTreeSelfAttention(const Setup& setup) : SelfAttending(setup, inputs.size()) {}
  void compute(Call& call) {
    const auto cos = call.input<float>(9), sin = call.input<float>(10);
    SelfAttending::compute(call, [&](CachedCall& cached) -> const float* {
      cached.rotate(cos, sin);
      return nullptr;
    });
  }
};

// … , past keys and values, last, total, parents, bias, … : relative positions.
struct BiasedTreeSelfAttention : SelfAttending {
  static constexpr const char* name = "BiasedTreeSelfAttention";
  static constexpr std::array inputs{
      ElementType::float32, ElementType::float32, ElementType::int8,  ElementType::float32,
      ElementType::float32, ElementType::float32, ElementType::int32, ElementType::int32,
      ElementType::int64,   ElementType::float32, ElementType::int8,  ElementType::float32};
  static constexpr std::array outputs{ElementType::float32, ElementType::float32,
                                      ElementType::float32};

  explicit BiasedTreeSelfAttention(const Setup& setup) : SelfAttending(setup, inputs.size()) {}
  void compute(Call& call) {
    const auto bias = call.input<float>(9);
    SelfAttending::compute(call, [&](CachedCall& cached) {
      const float* fitting = cached.fitting(bias);
      cached.write_keys();
      return fitting;
    });
  }
};

// … , keys and values of a source, … .
struct CrossAttention : Attending {
  static constexpr const char* name = "CrossAttention";
  static constexpr std::array inputs{
      ElementType::float32, ElementType::float32, ElementType::int8, ElementType::float32,
      ElementType::float32, ElementType::float32, ElementType::int8, ElementType::float32};
  static constexpr std::array outputs{ElementType::float32};

  explicit CrossAttention(const Setup& setup) : Attending(setup, inputs.size()) {
    if (asking.weights.out() != answering.in()) throw Failure("queries and output do not fit");
  }
  void compute(Call& call) {
    const auto x = stream(call);
    float *asked = this->asked(x.rows()), *answers = this->answers(x.rows());
    const Rows queries{asked, x.rows(), answering.in(), answering.in()};
    const SourceCall source(call, heads, queries, kMore);
    Attending::compute(call, x, asked, answers,
                       [&](const Threads& threads) { source.attend(answers, threads); });
  }
};

// Inputs: x, the norm's weight, weights and scale of what opens, a Hadamard matrix, weights and scale
// of what closes. `activate` makes a closing row of an opening one, which is `parts` times as wide.
template <void (*activate)(const float*, int64_t, float*), int64_t parts>
struct FeedForward {
  static constexpr std::array inputs{
      ElementType::float32, ElementType::float32, ElementType::int8,   ElementType::float32,
      ElementType::float32, ElementType::int8,    ElementType::float32};
  static constexpr std::array outputs{ElementType::float32};
  NormedWeights opening;
  TurnedRows turned;
  Weights closing;

  explicit FeedForward(const Setup& setup)
      : opening(setup, 2),
        turned(TurnedRows::by(setup.constant<float>(4, "the Hadamard matrix"))),
        closing(setup, 5) {
    turned.check_width(closing.in());
    if (opening.weights.in() != closing.out() || opening.weights.out() != parts * closing.in()) {
      throw Failure("the weights of the feed-forward do not fit");
    }
  }

  void compute(Call& call) {
    const auto x = call.input<float>(0);
    opening.weights.check_width(x);
    const NormedRows normed = opening.rows(call.input<float>(1));
    const int64_t width = closing.in();
    struct Opened;
    float* opened = kept<Opened>(x.rows() * parts * width);
    float* y = call.output(0, x.shape);
    Team::together(call.threads(), [&](const Threads& threads) {
      opening.weights.multiply_rows(x.data, x.rows(), normed, nullptr, opened, threads);
      const auto from_opened = [&](RoundedRows& rows, int64_t r) {
        struct Activated;
        float* activated = kept<Activated>(width);
        activate(opened + r * parts * width, width, activated);
        turned(activated, rows, r);
      };
      closing.multiply(x.rows(), from_opened, x.data, y, threads);
    });
  }
};

// Of gate and up side by side.
template <void (*gate_row)(const float*, const float*, int64_t, float*)>
void gate_columns(const float* gate, int64_t width, float* y) {
  gate_row(gate, gate + width, width, y);
}

struct SiluFeedForward : FeedForward<gate_columns<silu_gate_row>, 2> {
  static constexpr const char* name = "SiluFeedForward";
  using FeedForward::FeedForward;
};

struct GeluFeedForward : FeedForward<gate_columns<gelu_gate_row>, 2> {
  static constexpr const char* name = "GeluFeedForward";
  using FeedForward::FeedForward;
};

struct ReluFeedForward : FeedForward<relu_row, 1> {
  static constexpr const char* name = "ReluFeedForward";
  using FeedForward::FeedForward;
};

}  // namespace edgespec
