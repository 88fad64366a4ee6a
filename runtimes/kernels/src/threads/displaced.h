// Whether other threads help, on a machine that other programs use too.
//
// A thread that is displaced in the middle of its piece keeps all others waiting until the system
// lets it go on: for milliseconds, where a step takes a tenth of one. Now and then that costs less
// than to do without: virtual machines do it to every program, for a hundredth of the time. Where
// the waits are more than an eighth of the time, the work is done by one thread for a while, and
// for twice as long each time that the next attempt ends so. Where attempts last as long as a
// pause, the next one is half as long: a machine in use stays near the longest, at which attempts
// cost a hundredth or two.
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
  static constexpr int64_t kAllowed = 8;        // this part of the time may be waited
  static constexpr int64_t kSaved = 5'000'000;  // ns that may be waited at once after a long time
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
    if (waited >= kNoticed && waited >= took / kShare && !allowed(now, waited)) {
      const int64_t next = std::clamp(2 * pause, kFirstPause, kLongestPause);
      pause_.store(next, std::memory_order_relaxed);
      until_.store(now + next, std::memory_order_relaxed);
      allowance_.store(0, std::memory_order_relaxed);
      counted_.store(now + next, std::memory_order_relaxed);
    } else if (pause && threads > 1 && now - until_.load(std::memory_order_relaxed) > pause) {
      pause_.store(pause / 2 < kFirstPause ? 0 : pause / 2, std::memory_order_relaxed);
      until_.store(now, std::memory_order_relaxed);
    }
  }

 private:
  // Takes the wait from what the time since the last one allows; false if that is not enough.
  bool allowed(int64_t now, int64_t waited) {
    const int64_t passed = now - counted_.load(std::memory_order_relaxed);
    const int64_t allowance = allowance_.load(std::memory_order_relaxed) + passed / kAllowed;
    const int64_t left = std::min(allowance, kSaved) - waited;
    if (left < 0) return false;
    allowance_.store(left, std::memory_order_relaxed);
    counted_.store(now, std::memory_order_relaxed);
    return true;
  }

  std::atomic<int64_t> until_ = 0;  // the end of the latest pause, or when it was last halved
  std::atomic<int64_t> pause_ = 0;  // the latest, or half of it; 0 where nothing is displaced
  std::atomic<int64_t> allowance_ = 0;  // ns that may still be waited, at the time of `counted_`
  std::atomic<int64_t> counted_ = 0;
};

// Of this process, for all its operators: what displaces the threads of one displaces all.
inline Displaced displaced_threads;

}  // namespace edgespec
