// How work is shared among threads: the caller says by what, kernels say what.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgespec {

struct Threads {
  // Executes body(data, i) for i in 0 … count - 1, possibly in parallel.
  void (*run)(void* context, void (*body)(void* data, size_t index), size_t count, void* data);
  void* context;
  int64_t worth;  // cycles of work: less takes one thread no longer than to call others

  template <typename Body>
  void each(int64_t count, Body body) const {
    const auto call = [](void* data, size_t index) {
      (*static_cast<Body*>(data))(static_cast<int64_t>(index));
    };
    run(context, call, static_cast<size_t>(count), &body);
  }

  // The same for work of so many cycles in all.
  template <typename Body>
  void each(int64_t count, int64_t cycles, Body body) const {
    if (cycles >= worth) return each(count, body);
    for (int64_t i = 0; i < count; ++i) body(i);
  }
};

}  // namespace edgespec
