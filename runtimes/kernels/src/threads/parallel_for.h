// A parallel for loop; the caller of a kernel brings the threads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgespec {

struct Threads {
  // Calls body(data, i) for each i below `count`, possibly in parallel, and returns when all are
  // done.
  void (*run)(void* context, void (*body)(void* data, size_t index), size_t count, void* data);
  void* context;
  int64_t wake_cycles;  // what it costs to wake the threads: less work stays on one

  template <typename Body>
  void each(int64_t count, Body body) const {
    const auto call = [](void* data, size_t index) {
      (*static_cast<Body*>(data))(static_cast<int64_t>(index));
    };
    run(context, call, static_cast<size_t>(count), &body);
  }

  // The same where all calls together take about `cycles`: too little work stays on this thread.
  template <typename Body>
  void each(int64_t count, int64_t cycles, Body body) const {
    if (cycles >= wake_cycles) return each(count, body);
    for (int64_t i = 0; i < count; ++i) body(i);
  }
};

// The same on this thread alone; `context` is not used.
inline void run_alone(void* context, void (*body)(void* data, size_t), size_t count, void* data) {
  static_cast<void>(context);
  for (size_t i = 0; i < count; ++i) body(data, i);
}
constexpr Threads kThisThread{run_alone, nullptr, 0};

}  // namespace edgespec
