// Attention in bfloat16: near a plain loop; a row has the same bits alone, with others, after any
// cut of its text, as a candidate, in a buffer of several texts, and whatever lies after it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "check.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/chains.h"
#include "threads/team.h"

namespace edgespec::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Keys or values in a buffer of exactly their size.
template <typename Number>
struct Stored {
  std::vector<Number> numbers;
  std::vector<float> scales;

  Stored(const std::vector<float>& rows, int64_t size) : numbers(rows.size()) {
    for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(size)) {
      if constexpr (std::is_same_v<Number, int8_t>) {
        scales.push_back(store_row(&rows[i], size, &numbers[i]));
      } else if constexpr (std::is_same_v<Number, Float16>) {
        store_row(&rows[i], size, &numbers[i]);
      } else {
        std::copy_n(&rows[i], size, &numbers[i]);
      }
    }
  }
  CacheRows<Number> rows() const {
    if constexpr (std::is_same_v<Number, int8_t>) return {numbers.data(), scales.data()};
    if constexpr (!std::is_same_v<Number, int8_t>) return {numbers.data()};
  }
};

// A text: queries of its last rows and floats for its keys and values.
struct Text {
  AttentionShape shape;
  std::vector<float> queries, keys, values, bias;

  // Positions without a number in `keys` are NaN: no row may see them.
  Text(const AttentionShape& of, int64_t positions)
      : shape(of),
        queries(floats(shape.rows * width())),
        keys(floats(shape.kv_heads * shape.stride * shape.size)),
        values(floats(shape.kv_heads * shape.stride * shape.size)),
        bias(floats(shape.heads * shape.rows * (shape.seen + (shape.rows - 1) * shape.step))) {
    shape.arithmetic = Arithmetic::kBFloat16;
    for (int64_t head = 0; head < shape.kv_heads; ++head) {
      for (int64_t p = positions; p < shape.stride; ++p) set(head, p, kNan);
    }
  }
  int64_t width() const { return shape.heads * shape.size; }
  void set(int64_t head, int64_t position, float number) {
    const auto at = (head * shape.stride + position) * shape.size;
    std::fill_n(keys.begin() + at, shape.size, number);
    std::fill_n(values.begin() + at, shape.size, number);
  }
  void copy(int64_t from, int64_t to) {
    for (auto* buffer : {&keys, &values}) {
      for (int64_t head = 0; head < shape.kv_heads; ++head) {
        const auto first = buffer->begin() + head * shape.stride * shape.size;
        std::copy_n(first + from * shape.size, shape.size, first + to * shape.size);
      }
    }
  }
};

template <typename Number>
std::vector<float> attended(const Text& text, const AttentionShape& shape, const float* queries,
                            const float* bias, int64_t threads) {
  const Stored<Number> keys(text.keys, shape.size), values(text.values, shape.size);
  std::vector<float> out(static_cast<size_t>(shape.rows * text.width()));
  Pool pool(threads);
  Team::together(pool.threads(), [&](const Threads& team) {
    attend(shape, queries, text.width(), keys.rows(), values.rows(), bias, out.data(), team);
  });
  return out;
}

template <typename Number>
std::vector<float> attended(const Text& text, int64_t threads = 2) {
  return attended<Number>(text, text.shape, text.queries.data(), nullptr, threads);
}

void check_row(const Text& text, const std::vector<float>& row, const std::vector<float>& all,
               int64_t r) {
  CHECK(same_bits(row.data(), all.data() + r * text.width(), text.width()));
}

void check_near(const std::vector<float>& found, const std::vector<float>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    error += std::pow(found[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  CHECK(std::sqrt(error / size) < 0.01);
}

// The same call in float32, with and without a bias.
template <typename Number>
void near_float32(const Text& text) {
  AttentionShape float32 = text.shape;
  float32.arithmetic = Arithmetic::kFloat32;
  for (const float* bias : {static_cast<const float*>(nullptr), text.bias.data()}) {
    const float* queries = text.queries.data();
    check_near(attended<Number>(text, text.shape, queries, bias, 2),
               attended<Number>(text, float32, queries, bias, 2));
  }
}

// Rows of a call, each alone and in pieces of a prompt. Keys and values after a row are NaN then.
template <typename Number>
void alone_and_in_pieces(int64_t heads, int64_t kv_heads, int64_t size, int64_t rows, int64_t past,
                         int64_t window) {
  AttentionShape shape{rows, heads, kv_heads, size, past + 1, 1, past + rows + 2, 0.2f};
  shape.window = window;
  Text text(shape, past + rows);
  if (window) {
    for (int64_t head = 0; head < kv_heads; ++head) {
      for (int64_t p = 0; p < past + 1 - window; ++p) text.set(head, p, kNan);
    }
  }
  near_float32<Number>(text);
  const auto all = attended<Number>(text);
  const auto check_piece = [&](int64_t first, int64_t count) {
    Text so_far = text;
    for (int64_t head = 0; head < kv_heads; ++head) {
      for (int64_t p = past + first + count; p < shape.stride; ++p) so_far.set(head, p, kNan);
    }
    AttentionShape piece = text.shape;
    piece.rows = count;
    piece.seen += first;
    const float* queries = text.queries.data() + first * text.width();
    const auto out = attended<Number>(so_far, piece, queries, nullptr, 1);
    CHECK(same_bits(out.data(), all.data() + first * text.width(), count * text.width()));
  };
  for (int64_t r = 0; r < rows; r += rows > 20 ? 7 : 1) check_piece(r, 1);
  for (int64_t first = 0, count = 1; first < rows; first += count, count = count * 2 + 1) {
    check_piece(first, std::min(count, rows - first));
  }
}

// The last three rows are alternatives to earlier ones: each has the bits of a row right there.
template <typename Number>
void candidates(int64_t size, int64_t past) {
  constexpr int64_t kRows = 9, kLine = 6, kAfter[] = {2, 1, 4};
  std::vector<RowLayout> layouts;
  for (int64_t i = 0; i < 3; ++i) layouts.push_back({0, past + kAfter[i], past + kLine + i});
  const AttentionShape shape{kRows, 6, 2, size, past + 1, 1, past + kRows, 0.2f, layouts.data(), 3};
  const Text text(shape, past + kRows);
  const auto all = attended<Number>(text);
  for (int64_t i = 0; i < 3; ++i) {
    Text moved = text;
    moved.copy(past + kLine + i, past + kAfter[i]);
    AttentionShape one{1, 6, 2, size, past + kAfter[i] + 1, 1, past + kRows, 0.2f};
    one.arithmetic = Arithmetic::kBFloat16;
    const float* query = text.queries.data() + (kLine + i) * text.width();
    check_row(text, attended<Number>(moved, one, query, nullptr, 1), all, kLine + i);
  }
}

// Rows of two texts in turns, the second one from `first` + 7 on.
template <typename Number>
void two_texts(int64_t first, int64_t second) {
  constexpr int64_t kRows = 7;
  const int64_t start = first + kRows, stride = start + second + kRows;
  std::vector<RowLayout> layouts;
  for (int64_t r = 0; r < kRows; ++r) {
    layouts.push_back({0, first + r, first + r});
    layouts.push_back({start, second + r, start + second + r});
  }
  const int64_t rows = 2 * kRows, last = std::max(first, second) + kRows;
  const Text text(
      {rows, 4, 2, 24, std::max<int64_t>(1, last - rows), 1, stride, 0.2f, layouts.data(), rows},
      stride);
  const auto all = attended<Number>(text);
  for (int64_t r = 0; r < rows; ++r) {
    const RowLayout one[] = {layouts[static_cast<size_t>(r)]};
    AttentionShape alone{1, 4, 2, 24, one[0].position + 1, 1, stride, 0.2f, one, 1};
    alone.arithmetic = Arithmetic::kBFloat16;
    const float* query = text.queries.data() + r * text.width();
    check_row(text, attended<Number>(text, alone, query, nullptr, 1), all, r);
  }
}

// A value that is no number is one for the rows that see it, and nothing for those before it.
template <typename Number>
void nan_for_those_who_see_it() {
  Text text({8, 2, 1, 24, 41, 1, 48, 0.2f}, 48);
  const auto before = attended<Number>(text);
  text.values[44 * 24] = kNan;
  const auto after = attended<Number>(text);
  CHECK(same_bits(before.data(), after.data(), 4 * text.width()));
  for (size_t i = 4 * 48; i < after.size(); ++i) CHECK(std::isnan(after[i]));
}

// 40 000 equal values of the largest code are that value: no sum overflows.
void many_equal_keys() {
  constexpr int64_t kKeys = 40000, kSize = 32;
  Text text({2, 1, 1, kSize, kKeys - 1, 1, kKeys, 0.2f}, kKeys);
  std::fill(text.keys.begin(), text.keys.end(), 1.0f);
  std::fill(text.values.begin(), text.values.end(), 127.0f);
  for (const float x : attended<int8_t>(text)) CHECK(std::abs(x - 127.0f) < 0.5f);
}

// The order of additions, number by number.
void chains_in_order() {
  constexpr int64_t kRows = 7, kDepth = 75, kColumns = 48;
  const auto a = floats(kRows * kDepth), b = floats(kDepth * kColumns);
  auto c = floats(kRows * kColumns), expected = c;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t n = 0; n < kColumns; ++n) {
      for (int64_t first = 0; first < kDepth; first += 32) {
        float sums[2] = {0, 0};
        for (int64_t k = first; k < std::min(first + 32, kDepth); ++k) {
          sums[k % 2] = std::fma(a[r * kDepth + k], b[k * kColumns + n], sums[k % 2]);
        }
        expected[r * kColumns + n] += sums[0] + sums[1];
      }
    }
  }
  multiply_by_chains(
      {a.data(), kDepth, b.data(), kColumns, kDepth, c.data(), kColumns, kRows, kColumns, false});
  CHECK(same_bits(c.data(), expected.data(), kRows * kColumns));
}

template <typename Number>
void every_way() {
  for (const int64_t past : {0, 30, 250, 600}) {
    for (const int64_t window : {0, 1, 33, 300}) {
      alone_and_in_pieces<Number>(9, 3, 64, 5, past, window);
      alone_and_in_pieces<Number>(4, 1, 24, 17, past, window);
      alone_and_in_pieces<Number>(2, 2, 128, 3, past, window);
    }
    candidates<Number>(24, past);
    candidates<Number>(64, past);
    two_texts<Number>(past, 35);
  }
  candidates<Number>(72, 252);  // own keys of a chunk and of the next one
  alone_and_in_pieces<Number>(6, 2, 72, 150, 200, 0);
  nan_for_those_who_see_it<Number>();
}

}  // namespace
}  // namespace edgespec::test

int main() {
  using namespace edgespec::test;
  chains_in_order();
  every_way<float>();
  every_way<edgespec::Float16>();
  every_way<int8_t>();
  many_equal_keys();
  const Text source({7, 2, 2, 24, 33, 0, 33, 0.3f}, 33);
  near_float32<float>(source);
}
