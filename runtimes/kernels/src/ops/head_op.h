// The operator after the last layer: from the residual stream to logits, or to the top tokens.
#pragma once

#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/argmax_pruned.h"
#include "kernels/sampling.h"
#include "ops/product.h"
#include "threads/team.h"

namespace edgespec {

// Hadamard rotation, RMS norm and rotation again, then quantization by each row's maximum. The norm
// has weights in the basis of the checkpoint, so rows leave the rotated basis for it.
struct RotatedNormedRows {
  const float* norm;
  float epsilon;
  HadamardRows rotated;

  void operator()(const float* row, QuantizedRows& rows, int64_t r) const {
    struct Normed;
    float* normed = scratch<Normed>(rows.width);
    hadamard_row(row, rotated.block, rows.width, normed);
    const bool finite = norm_row(normed, norm, epsilon, rows.width, normed);
    rotated(normed, rows, r);
    if (!finite) rows.scale[r] = std::numeric_limits<float>::quiet_NaN();
  }
};

// Made by the first call that needs it.
template <typename T>
class Lazy {
 public:
  template <typename... Arguments>
  const T& get(const Arguments&... arguments) {
    std::call_once(once_, [&] { made_.emplace(arguments...); });
    return *made_;
  }

 private:
  std::once_flag once_;
  std::optional<T> made_;
};

// `choose` [1] says what a call returns: 0 logits; 1 the token of the largest logit and that logit;
// 2 the kTopTokens tokens of the largest logits, these and their probabilities. Other outputs have
// no rows.
template <typename Table>
class Head {
 public:
  using Schema = Table;

  explicit Head(const Setup& setup)
      : rotated_(HadamardRows::of(setup.constant(Schema::in::hadamard, shapes_))),
        epsilon_(setup.attribute(Schema::attr::epsilon)),
        whole_store_(setup.store(Schema::in::table, "8-bit rows")),
        pruned_store_(setup.store(Schema::in::table, "upper bits")) {
    const auto weights = setup.constant(Schema::in::table, shapes_);
    const auto scale = setup.constant(Schema::in::scale, shapes_);
    const int64_t vocabulary = shapes_[Dim::vocabulary], width = shapes_[Dim::k];
    if (vocabulary < 1 || width < 1) {
      fail("table [vocabulary=", vocabulary, ", k=", width, "] is empty");
    }
    rotated_.check_width(width);
    if (setup.records_packed()) {
      const Int8Table table{weights.data, scale.data, width, vocabulary};
      whole(table);
      pruned(table, kThisThread);
    }
  }

  void compute(KernelContext& context) {
    Shapes shapes = shapes_;
    const auto x = context.input(Schema::in::x, shapes);
    const auto norm = context.input(Schema::in::norm, shapes);
    const int64_t choose = *context.input(Schema::in::choose, shapes).data;
    if (choose < 0 || choose > 2) {
      fail("choose is ", choose,
           "; give 0 for logits, 1 for the top token, 2 for top tokens and "
           "probabilities");
    }
    const Int8Table table{context.input(Schema::in::table), context.input(Schema::in::scale),
                          shapes[Dim::k], shapes[Dim::vocabulary]};
    const bool wants_tokens = choose != 0, wants_probabilities = choose == 2;
    const int64_t rows = shapes[Dim::m], top = wants_probabilities ? kTopTokens : 1;
    if (table.out < top) fail("choose asks for ", top, " tokens of a table of ", table.out);
    shapes.set(Dim::logit_rows, wants_tokens ? 0 : rows, "choose");
    shapes.set(Dim::token_rows, wants_tokens ? rows : 0, "choose");
    shapes.set(Dim::probability_rows, wants_probabilities ? rows : 0, "choose");
    shapes.set(Dim::top, top, "choose");
    float* logits = context.output(Schema::out::logits, shapes);
    const TopTokens out{top, context.output(Schema::out::tokens, shapes),
                        context.output(Schema::out::token_logits, shapes),
                        context.output(Schema::out::probabilities, shapes)};
    const RotatedNormedRows quantize{norm.data, epsilon_, rotated_};
    if (rows == 0) return;  // before anything is packed
    const bool prune = choose == 1 && calls_without_pruning_.load(std::memory_order_relaxed) <= 0;
    if (prune) {
      pruned(table, context.threads());
    } else {
      whole(table);
      if (choose == 1) calls_without_pruning_.fetch_sub(1, std::memory_order_relaxed);
    }
    Team::together(context.threads(), [&](const Threads& threads) {
      const auto from_x = [&](QuantizedRows& quantized, int64_t r) {
        quantize(x.data + r * table.in, quantized, r);
      };
      with_quantized<QuantizedRows>(rows, table.in, from_x, threads,
                                    [&](const QuantizedRows& quantized) {
                                      if (prune) {
                                        top_token_pruned(quantized, table, out, threads);
                                      } else if (wants_tokens) {
                                        top_tokens_of_all(quantized, table, out, threads);
                                      } else {
                                        multiply(quantized, table, logits, threads);
                                      }
                                    });
    });
  }

 private:
  // [m, count] each.
  struct TopTokens {
    int64_t count;
    int64_t* token;
    float* logit;
    float* probability;  // if count > 1
  };

  static constexpr int64_t kTopTokens = 3;
  static constexpr int kCallsWithoutPruning = 16;

  const PackedInt8& whole(const Int8Table& table) {
    constexpr int64_t kInStep = 1;
    return whole_.get(table.weights, table.in, table.out, kInStep, table.in, whole_store_);
  }

  const PrunedArgmax& pruned(const Int8Table& table, const Threads& threads) {
    return pruned_.get(table, threads, pruned_store_);
  }

  // Where pruning leaves too many tokens, this call and some after it compute all logits.
  void top_token_pruned(const QuantizedRows& rows, const Int8Table& table, const TopTokens& out,
                        const Threads& threads) {
    if (pruned(table, threads).argmax(rows, table, out.token, out.logit, threads)) return;
    calls_without_pruning_.store(kCallsWithoutPruning, std::memory_order_relaxed);
    top_tokens_of_all(rows, table, out, threads);
  }

  void top_tokens_of_all(const QuantizedRows& rows, const Int8Table& table, const TopTokens& out,
                         const Threads& threads) {
    struct Logits;
    float* logits = scratch<Logits>(rows.count * table.out);
    multiply(rows, table, logits, threads);
    threads.each(rows.count, rows.count * table.out / 8,
                 [&](int64_t r) { top_tokens_of_row(logits + r * table.out, table.out, r, out); });
  }

  // Overwrites the row of logits.
  static void top_tokens_of_row(float* row, int64_t vocabulary, int64_t r, const TopTokens& out) {
    int64_t* tokens = out.token + r * out.count;
    float* values = out.logit + r * out.count;
    for (int64_t i = 0; i < out.count; ++i) {
      tokens[i] = edgespec::largest(row, vocabulary);
      values[i] = std::exchange(row[tokens[i]], -std::numeric_limits<float>::infinity());
    }
    if (out.count == 1) return;
    for (int64_t i = 0; i < out.count; ++i) row[tokens[i]] = values[i];
    constexpr float kInverseTemperature = 1;
    const double total = weigh(row, vocabulary, values[0], kInverseTemperature, row);
    for (int64_t i = 0; i < out.count; ++i) {
      out.probability[r * out.count + i] = float(row[tokens[i]] / total);
    }
  }

  void multiply(const QuantizedRows& rows, const Int8Table& table, float* logits,
                const Threads& threads) {
    whole(table).multiply(rows, table.scale, nullptr, logits, threads);
  }

  Shapes shapes_;
  HadamardRows rotated_;
  float epsilon_;
  PackedStore whole_store_, pruned_store_;
  Lazy<PackedInt8> whole_;
  Lazy<PrunedArgmax> pruned_;
  std::atomic<int> calls_without_pruning_ = 0;  // how many are still to come
};

}  // namespace edgespec
