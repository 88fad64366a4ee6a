// Operators that are half a layer: what is added to the residual stream, from its norm to its sum.
// Each computes what the operators of which it consists would, bit by bit; but threads come once.
#pragma once

#include <array>

#include "attentions.h"
#include "products.h"
#include "team.h"

namespace edgespec {

// x, the norm's weight, weights and scale of queries, keys and values side by side, past keys and
// values, last and total, cos and sin, the output's weights and scale.
struct RotarySelfAttention {
  static constexpr const char* name = "RotarySelfAttention";
  static constexpr std::array inputs{
      ElementType::float32, ElementType::float32, ElementType::int8,    ElementType::float32,
      ElementType::float32, ElementType::float32, ElementType::int32,   ElementType::int32,
      ElementType::float32, ElementType::float32, ElementType::int8,    ElementType::float32};
  static constexpr size_t outputs = 3;
  Heads heads;
  NormedWeights asking;
  Weights answering;

  explicit RotarySelfAttention(const Setup& setup)
      : heads(setup), asking(setup, 2), answering(setup, 10, false) {
    if (asking.weights.in() != answering.out() ||
        asking.weights.out() * heads.count != answering.in() * (heads.count + 2 * heads.kv_count)) {
      throw Failure("the weights of queries, keys, values and output do not fit the heads");
    }
  }

  void compute(Call& call) {
    const auto x = call.input<float>(0);
    asking.weights.check_width(x);
    const NormedRows normed = asking.rows(call.input<float>(1));
    const int64_t rows = x.rows(), width = asking.weights.out(), queries = answering.in();
    const int64_t keys = (width - queries) / 2;
    struct Asked;
    struct Answer;
    float *asked = kept<Asked>(rows * width), *answer = kept<Answer>(rows * queries);
    CachedCall cached(call, heads, {asked, rows, queries, width},
                      {asked + queries, rows, keys, width},
                      {asked + queries + keys, rows, keys, width}, 4);
    const auto cos = call.input<float>(8), sin = call.input<float>(9);
    float* y = call.output(0, x.shape);
    Team::together(call.threads(), [&](const Threads& threads) {
      const auto from_x = [&](RoundedRows& to, int64_t r) {
        normed(x.data + r * x.last(), to, r);
      };
      asking.weights.multiply(rows, from_x, nullptr, asked, threads);
      cached.rotate(cos, sin);
      cached.attend(nullptr, answer, threads);
      const auto from_answer = [&](RoundedRows& to, int64_t r) {
        round_row_by_largest(answer + r * queries, to, r);
      };
      answering.multiply(rows, from_answer, x.data, y, threads);
    });
  }
};

// x, the norm's weight, weights and scale of gate and up side by side, a Hadamard matrix, the
// output's weights and scale.
template <void (*gate_row)(const float*, const float*, int64_t, float*)>
struct FeedForward {
  static constexpr std::array inputs{
      ElementType::float32, ElementType::float32, ElementType::int8,   ElementType::float32,
      ElementType::float32, ElementType::int8,    ElementType::float32};
  static constexpr size_t outputs = 1;
  NormedWeights opening;
  TurnedRows turned;
  Weights closing;

  explicit FeedForward(const Setup& setup)
      : opening(setup, 2),
        turned(TurnedRows::by(setup.constant<float>(4, "the Hadamard matrix"))),
        closing(setup, 5, false) {
    turned.check_width(closing.in());
    if (opening.weights.in() != closing.out() || opening.weights.out() != 2 * closing.in()) {
      throw Failure("the weights of gate, up and output do not fit");
    }
  }

  void compute(Call& call) {
    const auto x = call.input<float>(0);
    opening.weights.check_width(x);
    const NormedRows normed = opening.rows(call.input<float>(1));
    const int64_t rows = x.rows(), width = closing.in();
    struct Opened;
    float* opened = kept<Opened>(rows * 2 * width);
    float* y = call.output(0, x.shape);
    Team::together(call.threads(), [&](const Threads& threads) {
      const auto from_x = [&](RoundedRows& to, int64_t r) {
        normed(x.data + r * x.last(), to, r);
      };
      opening.weights.multiply(rows, from_x, nullptr, opened, threads);
      const auto from_gate = [&](RoundedRows& to, int64_t r) {
        const float* gate = opened + r * 2 * width;
        struct Gated;
        float* gated = kept<Gated>(width);
        gate_row(gate, gate + width, width, gated);
        turned(gated, to, r);
      };
      closing.multiply(rows, from_gate, x.data, y, threads);
    });
  }
};

struct SiluFeedForward : FeedForward<silu_gate_row> {
  static constexpr const char* name = "SiluFeedForward";
  using FeedForward::FeedForward;
};

}  // namespace edgespec
