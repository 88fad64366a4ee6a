// Attention against a plain loop; a row has the same bits alone, with others, and as a candidate.
// Attention to a narrow cache has the bits of attention to its numbers in float32.
#include <cmath>
#include <limits>
#include <type_traits>

#include "check.h"
#include "kernels/attention/attention.h"
#include "threads/team.h"

namespace edgespec::test {
namespace {

struct Buffers {
  std::vector<float> queries, keys, values, bias;
};

Buffers buffers_for(const AttentionShape& shape, int64_t keys_in_call) {
  Buffers made{floats(shape.rows * shape.heads * shape.size),
               floats(shape.kv_heads * shape.stride * shape.size),
               floats(shape.kv_heads * shape.stride * shape.size),
               floats(shape.heads * shape.rows * keys_in_call)};
  // What no row sees must not be added, even with weight 0.
  for (int64_t head = 0; head < shape.kv_heads; ++head) {
    for (int64_t i = keys_in_call * shape.size; i < shape.stride * shape.size; ++i) {
      made.values[head * shape.stride * shape.size + i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return made;
}

std::vector<float> attended(const AttentionShape& shape, const float* queries, const Buffers& with,
                            const float* bias, int64_t threads) {
  Pool pool(threads);
  std::vector<float> out(static_cast<size_t>(shape.rows * shape.heads * shape.size));
  Team::together(pool.threads(), [&](const Threads& team) {
    attend(shape, queries, shape.heads * shape.size, CacheRows<float>{with.keys.data()},
           CacheRows<float>{with.values.data()}, bias, out.data(), team);
  });
  return out;
}

void compare_with_a_loop(const AttentionShape& shape, const Buffers& with, const float* bias,
                         int64_t columns, const std::vector<float>& out) {
  const int64_t group = shape.heads / shape.kv_heads;
  for (int64_t r = 0; r < shape.rows; ++r) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      const int64_t seen = shape.seen + r * shape.step;
      const float* keys = with.keys.data() + head / group * shape.stride * shape.size;
      const float* values = with.values.data() + head / group * shape.stride * shape.size;
      const float* query = with.queries.data() + (r * shape.heads + head) * shape.size;
      std::vector<double> sums(static_cast<size_t>(shape.size));
      double total = 0;
      for (int64_t k = shape.window ? std::max<int64_t>(0, seen - shape.window) : 0; k < seen;
           ++k) {
        double score = bias ? bias[(head * shape.rows + r) * columns + k] : 0;
        for (int64_t i = 0; i < shape.size; ++i) {
          score += double(shape.scale) * query[i] * keys[k * shape.size + i];
        }
        const double weight = std::exp(score);
        total += weight;
        for (int64_t i = 0; i < shape.size; ++i) sums[i] += weight * values[k * shape.size + i];
      }
      for (int64_t i = 0; i < shape.size; ++i) {
        const float found = out[(r * shape.heads + head) * shape.size + i];
        CHECK(std::abs(found - sums[i] / total) < 1e-4);
      }
    }
  }
}

void causal(int64_t heads, int64_t kv_heads, int64_t size, int64_t rows, int64_t past) {
  const float scale = 1 / std::sqrt(float(size));
  const AttentionShape shape{rows, heads, kv_heads, size, past + 1, 1, past + rows + 2, scale};
  const Buffers with = buffers_for(shape, past + rows);
  for (const float* bias : {static_cast<const float*>(nullptr), with.bias.data()}) {
    const auto out = attended(shape, with.queries.data(), with, bias, 2);
    compare_with_a_loop(shape, with, bias, past + rows, out);
  }
  const auto out = attended(shape, with.queries.data(), with, nullptr, 3);
  const int64_t width = heads * size;
  for (int64_t r = 0; r < rows; ++r) {
    const AttentionShape one{1, heads, kv_heads, size, past + r + 1, 1, past + rows + 2, scale};
    const auto alone = attended(one, with.queries.data() + r * width, with, nullptr, 1);
    CHECK(same_bits(alone.data(), out.data() + r * width, width));
  }
}

// Rows with a window: as a plain loop has them, and with the bits that each has alone. Values
// before all windows must not be added.
void windowed(int64_t heads, int64_t kv_heads, int64_t size, int64_t rows, int64_t past,
              int64_t window) {
  AttentionShape shape{rows, heads, kv_heads, size, past + 1, 1, past + rows, 0.2f};
  shape.window = window;
  Buffers with = buffers_for(shape, past + rows);
  for (int64_t head = 0; head < kv_heads; ++head) {
    for (int64_t i = 0; i < (past + 1 - window) * size; ++i) {
      with.values[head * shape.stride * size + i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  const auto out = attended(shape, with.queries.data(), with, nullptr, 2);
  compare_with_a_loop(shape, with, nullptr, past + rows, out);
  const int64_t width = heads * size;
  for (int64_t r = 0; r < rows; ++r) {
    AttentionShape one = shape;
    one.rows = 1;
    one.seen += r;
    const auto alone = attended(one, with.queries.data() + r * width, with, nullptr, 1);
    CHECK(same_bits(alone.data(), out.data() + r * width, width));
  }
}

// Row 4 is an alternative to row 2: it has the bits of a row right after row 1 with its own key.
void candidates(int64_t past) {
  constexpr int64_t kHeads = 4, kKvHeads = 2, kSize = 24, kChain = 4, kRows = 5;
  const RowLayout layouts[] = {{0, past + 2, past + kChain}};
  AttentionShape shape{kRows, kHeads, kKvHeads, kSize, past + 1, 1, past + kRows, 0.2f, layouts, 1};
  Buffers with = buffers_for(shape, past + kRows);
  const auto out = attended(shape, with.queries.data(), with, nullptr, 2);
  const int64_t own = past + kChain, after_parent = past + 2;
  for (auto* buffer : {&with.keys, &with.values}) {
    for (int64_t head = 0; head < kKvHeads; ++head) {
      float* first = buffer->data() + head * shape.stride * kSize;
      std::copy_n(first + own * kSize, kSize, first + after_parent * kSize);
    }
  }
  const AttentionShape one{1, kHeads, kKvHeads, kSize, past + 3, 1, past + kRows, 0.2f};
  const int64_t width = kHeads * kSize;
  const auto alone = attended(one, with.queries.data() + kChain * width, with, nullptr, 1);
  CHECK(same_bits(alone.data(), out.data() + kChain * width, width));
}

// Two texts in one buffer, the second one from `first` on, with their rows in turns: each row has
// the bits that it has in a call of its own text.
void two_texts(int64_t first, int64_t second) {
  constexpr int64_t kHeads = 4, kKvHeads = 2, kSize = 24, kRows = 7;
  const int64_t stride = first + second + 2 * kRows, start = first + kRows;
  std::vector<RowLayout> layouts;
  for (int64_t r = 0; r < kRows; ++r) {
    layouts.push_back({0, first + r, first + r});
    layouts.push_back({start, second + r, start + second + r});
  }
  const int64_t rows = 2 * kRows, last = std::max(first, second) + kRows;
  const AttentionShape shape{
      rows, kHeads, kKvHeads, kSize,          std::max<int64_t>(1, last - rows),
      1,    stride, 0.2f,     layouts.data(), rows};
  const Buffers with = buffers_for(shape, stride);
  const auto out = attended(shape, with.queries.data(), with, nullptr, 2);
  const int64_t width = kHeads * kSize;
  for (int64_t r = 0; r < rows; ++r) {
    const RowLayout one[] = {layouts[static_cast<size_t>(r)]};
    const AttentionShape alone{1, kHeads, kKvHeads, kSize, one[0].position + 1,
                               1, stride, 0.2f,     one,   1};
    const auto expected = attended(alone, with.queries.data() + r * width, with, nullptr, 1);
    CHECK(same_bits(expected.data(), out.data() + r * width, width));
  }
}

// Rows stored as `Number`; a vector for each buffer has exactly their size.
template <typename Number>
struct Stored {
  std::vector<Number> numbers;
  std::vector<float> scales;
};

template <typename Number>
Stored<Number> stored(const std::vector<float>& rows, int64_t size) {
  Stored<Number> made{std::vector<Number>(rows.size()), {}};
  for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(size)) {
    if constexpr (std::is_same_v<Number, int8_t>) {
      made.scales.push_back(store_row(&rows[i], size, &made.numbers[i]));
    } else {
      store_row(&rows[i], size, &made.numbers[i]);
    }
  }
  return made;
}

CacheRows<Float16> rows_of(const Stored<Float16>& from) { return {from.numbers.data()}; }
CacheRows<int8_t> rows_of(const Stored<int8_t>& from) {
  return {from.numbers.data(), from.scales.data()};
}

template <typename Number>
void narrow(int64_t size, int64_t past) {
  constexpr int64_t kHeads = 4, kKvHeads = 2, kRows = 9;
  // Alternatives to rows 2, 1 and 4 of a line of six.
  const RowLayout layouts[] = {
      {0, past + 2, past + 6}, {0, past + 1, past + 7}, {0, past + 4, past + 8}};
  const AttentionShape shape{kRows, kHeads,       kKvHeads, size,    past + 1,
                             1,     past + kRows, 0.2f,     layouts, 3};
  Buffers with = buffers_for(shape, past + kRows);
  const auto keys = stored<Number>(with.keys, size), values = stored<Number>(with.values, size);
  std::vector<float> out(static_cast<size_t>(kRows * kHeads * size));
  Pool pool(2);
  Team::together(pool.threads(), [&](const Threads& team) {
    attend(shape, with.queries.data(), kHeads * size, rows_of(keys), rows_of(values), nullptr,
           out.data(), team);
  });
  const int64_t count = kKvHeads * shape.stride;
  widened(rows_of(keys), count, size, with.keys.data());
  widened(rows_of(values), count, size, with.values.data());
  const auto wide = attended(shape, with.queries.data(), with, nullptr, 2);
  CHECK(same_bits(wide.data(), out.data(), int64_t(out.size())));
}

void rounding() {
  const float rows[8] = {1.0f, 65520.0f, 65519.0f, -0.0f, 2.98023224e-8f, 3e-8f, 0.1f, 1.00048828f};
  const uint16_t expected[8] = {0x3c00, 0x7c00, 0x7bff, 0x8000, 0, 1, 0x2e66, 0x3c00};
  Float16 halves[8];
  store_row(rows, 8, halves);
  for (int i = 0; i < 8; ++i) CHECK(halves[i].bits == expected[i]);
  const float numbers[8] = {-127, 64.5f, 0.5f, 1.5f, -0.5f, 0, 50, 127};
  const int8_t codes[8] = {-127, 64, 0, 2, 0, 0, 50, 127};
  int8_t found[8];
  CHECK(store_row(numbers, 8, found) == 1.0f);
  for (int i = 0; i < 8; ++i) CHECK(found[i] == codes[i]);
}

}  // namespace
}  // namespace edgespec::test

int main() {
  using namespace edgespec::test;
  for (const int64_t past : {0, 30, 250, 600}) {
    causal(9, 3, 64, 5, past);
    causal(1, 1, 8, 3, past);
    causal(4, 2, 24, 17, past);
    for (const int64_t window : {1, 33, 256, 300}) {
      windowed(4, 1, 24, 5, past, window);
      windowed(2, 2, 64, 40, past, window);
    }
    candidates(past);
    two_texts(past, 35);
    narrow<edgespec::Float16>(24, past);
    narrow<edgespec::Float16>(64, past);
    narrow<int8_t>(8, past);
    narrow<int8_t>(64, past);
  }
  rounding();
  causal(6, 6, 64, 40, 255);
  const edgespec::AttentionShape source{7, 2, 2, 24, 33, 0, 33, 0.3f};
  const auto with = buffers_for(source, 33);
  compare_with_a_loop(source, with, nullptr, 33,
                      attended(source, with.queries.data(), with, nullptr, 2));
}
