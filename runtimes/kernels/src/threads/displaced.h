// Whether other threads help, on a machine that other programs use too.
//
// A thread that is displaced in the middle of its piece keeps all others waiting until the system
// lets it go on: for milliseconds, where a step takes a tenth of one. After that the work is done
// by one thread for a while, and for twice as long each time that the next attempt ends so. Where
// attempts last as long as a pause, the next one is half as long: a machine in use stays near the
// longest, at which attempts cost a hundredth or two.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace edgespec {

class Displaced {
 public:
  static constexpr int64_t kNoticed = 500'000;  // ns of waiting, if it is also
  static constexpr int64_t kShare = 4;          // this part of the whole: large pieces take longer
  static constexpr int64_t kFirstPause = 10'000'000;
  static constexpr int64_t kLongestPause = 1'000'000'000;

  static int64_t now() {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }

  bool pauses(int64_t now) const { return now < until_.load(std::memory_order_relaxed); }

  // Work of so many threads took so many ns, `waited` of them waiting for one of them. Work of a
  // single one says nothing about others. Of two calls at the same time one may be forgotten, which
  // does no harm.
  void helped(int64_t now, int64_t took, int64_t waited, int64_t threads) {
    const int64_t pause = pause_.load(std::memory_order_relaxed);
    if (waited >= kNoticed && waited >= took / kShare) {
      const int64_t next = std::clamp(2 * pause, kFirstPause, kLongestPause);
      pause_.store(next, std::memory_order_relaxed);
      until_.store(now + next, std::memory_order_relaxed);
    } else if (pause && threads > 1 && now - until_.load(std::memory_order_relaxed) > pause) {
      pause_.store(pause / 2 < kFirstPause ? 0 : pause / 2, std::memory_order_relaxed);
      until_.store(now, std::memory_order_relaxed);
    }
  }

 private:
  std::atomic<int64_t> until_ = 0;  // the end of the latest pause, or when it was last halved
  std::atomic<int64_t> pause_ = 0;  // the latest, or half of it; 0 where nothing is displaced
};

// Of this process, for all its operators: what displaces the threads of one displaces all.
inline Displaced displaced_threads;

}  // namespace edgespec
