// Attention in bfloat16 against float32, one layer with an int8 cache, one thread, calls in turns:
// least CPU time of many, and how far the results are apart. Prints a table row for each call.
//
//   cd runtimes/kernels && g++ -std=c++20 -O3 -ffp-contract=off -march=sapphirerapids -Isrc
//     ../../benchmarks/attention_arithmetic.cpp src/kernels/attention/*.cpp
//     src/kernels/cache_rows.cpp src/kernels/rows.cpp -o /tmp/attention && /tmp/attention 3000
//
// Another instruction set: -march=icelake-server, -march=haswell.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "dispatch/processor.h"
#include "kernels/attention/attention.h"
#include "kernels/cache_rows.h"

using namespace edgespec;

namespace {

std::mt19937 generator(1);

struct Stored {
  std::vector<int8_t> numbers;
  std::vector<float> scales;

  Stored(int64_t rows, int64_t size) : numbers(rows * size), scales(rows) {
    for (int64_t r = 0; r < rows; ++r) {
      scales[r] = store_row(floats(size).data(), size, &numbers[r * size]);
    }
  }
  static std::vector<float> floats(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> made(count);
    for (float& x : made) x = normal(generator);
    return made;
  }
  CacheRows<int8_t> rows() const { return {numbers.data(), scales.data()}; }
};

double seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

void compare(const char* model, int64_t heads, int64_t kv_heads, int64_t size, int64_t keys,
             int64_t rows) {
  const int64_t capacity = keys + 64, width = heads * size;
  const Stored cached_keys(kv_heads * capacity, size), values(kv_heads * capacity, size);
  const auto queries = Stored::floats(rows * width);
  AttentionShape shape{
      rows, heads, kv_heads, size, keys - rows + 1, 1, capacity, 1.5f / std::sqrt(float(size))};
  double least[2] = {1e9, 1e9};
  std::vector<float> out[2];
  for (int64_t repeat = 0; repeat < (rows > 16 ? 4 : 40); ++repeat) {
    for (int way = 0; way < 2; ++way) {
      shape.arithmetic = way ? Arithmetic::kBFloat16 : Arithmetic::kFloat32;
      out[way].resize(queries.size());
      const double began = seconds();
      attend(shape, queries.data(), width, cached_keys.rows(), values.rows(), nullptr,
             out[way].data(), kThisThread);
      least[way] = std::min(least[way], seconds() - began);
    }
  }
  double error = 0, sum = 0;
  for (size_t i = 0; i < queries.size(); ++i) {
    error += std::pow(out[1][i] - out[0][i], 2);
    sum += std::pow(out[0][i], 2);
  }
  std::printf("| %s | %ld | %ld | %.0f | %.0f | %.2f | %.4f |\n", model, long(keys), long(rows),
              least[0] * 1e6, least[1] * 1e6, least[0] / least[1], std::sqrt(error / sum));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  system_grants_tiles();
  const int64_t longest = count > 1 ? std::atol(arguments[1]) : 16000;
  std::puts("| heads | keys | rows | float32, µs | bfloat16, µs | ratio | relative difference |");
  for (const int64_t keys : {1024, 3000, 8000, 16000}) {
    for (const int64_t rows : {1, 5, 9, 512}) {
      if (keys > longest) continue;
      compare("9/3 of 64", 9, 3, 64, keys, rows);
      compare("12/2 of 128", 12, 2, 128, keys, rows);
    }
  }
}
