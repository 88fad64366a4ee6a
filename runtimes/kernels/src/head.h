// The operator behind the last layer: from the residual stream to logits, or to the tokens of the
// largest ones.
#pragma once

#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "coarse.h"
#include "laws.h"
#include "products.h"
#include "team.h"

namespace edgespec {

// Rows turned, normed and turned again, each rounded by its largest number.
struct TurnedNormedRows {
  const float* norm;
  float epsilon;
  TurnedRows turned;

  void operator()(const float* row, RoundedRows& rows, int64_t r) const {
    struct Turned;
    float* numbers = kept<Turned>(rows.width);
    turn_row(row, turned.block, rows.width, numbers);
    const bool finite = norm_row(numbers, norm, epsilon, rows.width, numbers);
    turned(numbers, rows, r);
    if (!finite) rows.scale[r] = std::numeric_limits<float>::quiet_NaN();
  }
};

// Made when it is first asked for.
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

// Inputs: x, the norm's weight, a Hadamard matrix by which rows are turned before and behind the
// norm, a table [out, in] and its scale [out], what is asked for [1]: 0 logits, 1 the best token, 2 the
// best kChoices and how probable they are.
// Outputs: logits [m, out], tokens [m, best], their logits and probabilities [m, best]; no rows of what
// is not asked for.
struct Int8Head {
  static constexpr const char* name = "Int8Head";
  static constexpr std::array inputs{ElementType::float32, ElementType::float32,
                                     ElementType::float32, ElementType::int8,
                                     ElementType::float32, ElementType::int64};
  static constexpr std::array outputs{ElementType::float32, ElementType::int64,
                                      ElementType::float32, ElementType::float32};
  TurnedRows turned;
  float epsilon;
  Lazy<PackedMatrix> whole;
  Lazy<CoarseTable> coarse;
  std::atomic<int> calls_without_bits = 0;  // to come

  explicit Int8Head(const Setup& setup)
      : turned(TurnedRows::by(setup.constant<float>(2, "the Hadamard matrix"))),
        epsilon(setup.attribute<float>("epsilon")) {
    setup.constant<int8_t>(3, "the table");
    setup.constant<float>(4, "scale");
  }

  void compute(Call& call) {
    const auto x = call.input<float>(0), norm = call.input<float>(1);
    const Table table = this->table(call);
    turned.check_width(table.in);
    if (x.shape.size() != 2 || x.last() != table.in || norm.shape != std::vector{table.in}) {
      throw Failure("rows, the norm's weight and the table differ in width");
    }
    const auto asked = call.input<int64_t>(5);
    if (asked.shape != std::vector{int64_t{1}} || *asked.data < 0 || *asked.data > 2) {
      throw Failure("0, 1 or 2 asks for logits, the best token, or the best ones and chances");
    }
    const bool tokens = *asked.data != 0, sure = *asked.data == 2;
    const int64_t rows = x.rows(), chosen = tokens ? rows : 0, best = sure ? kChoices : 1;
    if (table.out < best) throw Failure("the table has fewer outputs than are asked for");
    float* logits = call.output<float>(0, {rows - chosen, table.out});
    const Chosen out{best, call.output<int64_t>(1, {chosen, best}),
                     call.output<float>(2, {chosen, best}),
                     call.output<float>(3, {sure ? rows : 0, best})};
    const TurnedNormedRows round{norm.data, epsilon, turned};
    if (rows == 0) return;  // nothing is packed for them
    const bool by_bits = tokens && !sure && calls_without_bits.load(std::memory_order_relaxed) <= 0;
    if (by_bits) {
      coarse.get(table, call.threads());
    } else {
      whole.get(table.weights, table.in, table.out, 1, table.in);
      if (tokens && !sure) calls_without_bits.fetch_sub(1, std::memory_order_relaxed);
    }
    Team::together(call.threads(), [&](const Threads& threads) {
      const auto from_x = [&](RoundedRows& rounded, int64_t r) {
        round(x.data + r * table.in, rounded, r);
      };
      with_rounded(rows, table.in, from_x, threads, [&](const RoundedRows& rounded) {
        if (by_bits) {
          choose_by_bits(rounded, table, out, threads);
        } else if (tokens) {
          choose_of_all(rounded, table, out, threads);
        } else {
          multiply(rounded, table, logits, threads);
        }
      });
    });
  }

 private:
  // [m, best] each.
  struct Chosen {
    int64_t best;
    int64_t* token;
    float* logit;
    float* chance;  // if more than one is asked for
  };

  static constexpr int64_t kChoices = 3;
  static constexpr int kLater = 16;  // calls, until the upper bits are tried again

  // Where the upper bits leave too much open, by all logits, also in some calls to come.
  void choose_by_bits(const RoundedRows& rows, const Table& table, const Chosen& out,
                      const Threads& threads) {
    if (coarse.get(table, threads).largest(rows, table, out.token, out.logit, threads)) return;
    calls_without_bits.store(kLater, std::memory_order_relaxed);
    choose_of_all(rows, table, out, threads);
  }

  void choose_of_all(const RoundedRows& rows, const Table& table, const Chosen& out,
                     const Threads& threads) {
    struct Logits;
    float* logits = kept<Logits>(rows.count * table.out);
    multiply(rows, table, logits, threads);
    threads.each(rows.count, rows.count * table.out / 8, [&](int64_t r) {
      best_of(logits + r * table.out, table.out, r, out);
    });
  }

  // Of a row of logits, which is not needed any more.
  static void best_of(float* row, int64_t count, int64_t r, const Chosen& out) {
    int64_t* tokens = out.token + r * out.best;
    float* values = out.logit + r * out.best;
    for (int64_t i = 0; i < out.best; ++i) {
      tokens[i] = edgespec::largest(row, count);
      values[i] = std::exchange(row[tokens[i]], -std::numeric_limits<float>::infinity());
    }
    if (out.best == 1) return;
    for (int64_t i = 0; i < out.best; ++i) row[tokens[i]] = values[i];
    const double total = weigh(row, count, values[0], 1, row);
    for (int64_t i = 0; i < out.best; ++i) {
      out.chance[r * out.best + i] = float(row[tokens[i]] / total);
    }
  }

  void multiply(const RoundedRows& rows, const Table& table, float* logits, const Threads& threads) {
    const PackedMatrix& all = whole.get(table.weights, table.in, table.out, 1, table.in);
    all.multiply(rows, table.scale, nullptr, logits, threads);
  }

  static Table table(const Call& call) {
    const auto weights = call.input<int8_t>(3);
    const auto scale = call.input<float>(4);
    if (weights.shape.size() != 2 || scale.shape != std::vector{weights.shape[0]}) {
      throw Failure("there must be a scale for each row of the table");
    }
    if (weights.shape[0] < 1 || weights.shape[1] < 1) throw Failure("the table is empty");
    return {weights.data, scale.data, weights.shape[1], weights.shape[0]};
  }
};

}  // namespace edgespec
