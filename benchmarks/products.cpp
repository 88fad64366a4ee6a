// Time of int8 products by the kernels of one instruction set, without ONNX Runtime, on one thread.
//
//     cmake -S runtimes/kernels -B build/products -DEDGESPEC_KERNELS_TESTS=ON
//     cmake --build build/products --target kernels_amx kernels_avx512
//     for target in amx avx512; do
//       g++ -O2 -std=c++20 -mavx2 -mfma -mf16c -Iruntimes/kernels/src benchmarks/products.cpp
//         build/products/tests/libkernels_$target.a -o build/products/$target
//       build/products/$target 576 1536 1 5 9 16 40   # inputs, outputs, numbers of rows
//     done
//
// Prints the fastest of many calls: microseconds of this thread's time, and 10^12 operations a
// second.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "dispatch/processor.h"
#include "kernels/matmul_int8.h"

namespace {

double seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

template <typename Call>
double fastest(Call call) {
  double best = 1e9;
  for (const double begin = seconds(); seconds() < begin + 0.3;) {
    const double start = seconds();
    call();
    best = std::min(best, seconds() - start);
  }
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  using namespace edgespec;
  if (count < 4) return std::fputs("products INPUTS OUTPUTS ROWS…\n", stderr), 2;
  system_grants_tiles();
  const int64_t in = std::atoi(arguments[1]), out = std::atoi(arguments[2]);
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<int8_t> weights(in * out);
  for (int8_t& weight : weights) weight = int8_t(generator());
  const std::vector<float> scale(out, 0.01f);
  const PackedInt8 packed(weights.data(), in, out, out, 1);
  for (int i = 3; i < count; ++i) {
    const int64_t m = std::atoi(arguments[i]);
    std::vector<float> x(in), y(m * out);
    QuantizedRows rows;
    rows.resize(m, in);
    for (int64_t r = 0; r < m; ++r) {
      for (float& number : x) number = normal(generator);
      quantize_row_by_max(x.data(), rows, r);
    }
    const double time =
        fastest([&] { packed.multiply(rows, scale.data(), nullptr, y.data(), kThisThread); });
    std::printf("%5ld rows: %8.1f us, %.2f\n", long(m), 1e6 * time, 2e-12 * in * out * m / time);
  }
}
