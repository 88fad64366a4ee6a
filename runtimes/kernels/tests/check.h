// What the stand-alone tests share: CHECK, random numbers, threads, exact buffers.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "threads/parallel_for.h"

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                  \
    }                                                                                \
  } while (false)

namespace edgespec::test {

// Loops of up to `count` threads that are started for each loop.
class Pool {
 public:
  explicit Pool(int64_t count) : count_(count) {}
  Threads threads() { return {run, this, 0}; }

 private:
  static void run(void* pool, void (*body)(void*, size_t), size_t count, void* data) {
    const int64_t members = static_cast<Pool*>(pool)->count_;
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < count; i = next++) body(data, i);
    };
    std::vector<std::thread> others;
    for (int64_t i = 1; i < members; ++i) others.emplace_back(work);
    work();
    for (auto& other : others) other.join();
  }

  int64_t count_;
};

inline std::mt19937& generator() {
  static std::mt19937 generator(7);
  return generator;
}

// As long as `count`, so that the address sanitizer sees a read or write after the end.
inline std::vector<float> floats(int64_t count, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = normal(generator());
  return numbers;
}

inline std::vector<int8_t> int8s(int64_t count) {
  std::uniform_int_distribution<int> uniform(-128, 127);
  std::vector<int8_t> numbers(static_cast<size_t>(count));
  for (int8_t& number : numbers) number = static_cast<int8_t>(uniform(generator()));
  return numbers;
}

inline bool same_bits(const float* a, const float* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) return false;
  }
  return true;
}

}  // namespace edgespec::test
