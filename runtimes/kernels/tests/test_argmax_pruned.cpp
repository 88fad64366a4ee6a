// The pruned arg-max is the arg-max of the whole product, NaN and ties included.
#include <cmath>
#include <limits>

#include "check.h"
#include "kernels/argmax_pruned.h"
#include "kernels/matmul_int8.h"
#include "kernels/sampling.h"

namespace edgespec::test {
namespace {

// A table in which output 7 * r + 3 stands out for row r, so that pruning succeeds.
std::vector<int8_t> table_for(const QuantizedRows& rows, int64_t out) {
  auto weights = int8s(out * rows.width);
  for (auto& weight : weights) weight = static_cast<int8_t>(weight / 8);
  for (int64_t r = 0; r < rows.count; ++r) {
    for (int64_t i = 0; i < rows.width; ++i) weights[(7 * r + 3) * rows.width + i] = rows.row(r)[i];
  }
  return weights;
}

// False where the search left too many outputs; with several threads that depends on their timing.
bool search(int64_t in, int64_t out, int64_t count, int64_t threads, bool stands_out, bool nan) {
  Pool pool(threads);
  QuantizedRows rows;
  rows.resize(count, in);
  const auto x = floats(count * in);
  for (int64_t r = 0; r < count; ++r) quantize_row_by_max(x.data() + r * in, rows, r);
  const auto weights = stands_out ? table_for(rows, out) : int8s(out * in);
  if (nan) rows.scale[0] = std::numeric_limits<float>::quiet_NaN();
  auto scale = floats(out, 0.01f);
  for (float& number : scale) number = 0.01f + std::abs(number) / 8;
  const Int8Table table{weights.data(), scale.data(), in, out};
  const PrunedArgmax pruned(table, pool.threads());
  std::vector<int64_t> index(static_cast<size_t>(count));
  std::vector<float> highest(static_cast<size_t>(count));
  if (!pruned.argmax(rows, table, index.data(), highest.data(), pool.threads())) return false;
  std::vector<float> logits(static_cast<size_t>(count * out));
  const PackedInt8 whole(weights.data(), in, out, 1, in);
  whole.multiply(rows, scale.data(), nullptr, logits.data(), pool.threads());
  for (int64_t r = 0; r < count; ++r) {
    CHECK(index[r] == largest(logits.data() + r * out, out));
    CHECK(same_bits(&highest[r], &logits[r * out + index[r]], 1));
  }
  return true;
}

}  // namespace
}  // namespace edgespec::test

int main() {
  using edgespec::test::search;
  for (const int64_t in : {64, 100, 129}) {
    for (const int64_t count : {1, 4, 13}) {
      CHECK(search(in, 3001, count, 1, true, false));
      search(in, 3001, count, 3, true, false);
      search(in, 333, count, 2, false, false);
    }
  }
  search(100, 3001, 13, 2, true, true);
  search(1, 1, 1, 2, false, false);
}
