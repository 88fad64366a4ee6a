// Threads that stay together from one step of an operator to the next.
//
// An operator of several steps would wake the session's threads for each and wait for them after
// it; here they come once and wait awake for what is next, which takes a tenth of the time.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <thread>

#include "parallel.h"

namespace edgespec {

class Team {
 public:
  // Executes program(its own threads) on one of these; a step that it shares is shared with those of
  // the others that have come. None is waited for.
  template <typename Program>
  static void together(const Threads& threads, Program program) {
    // Asks the system each time, which takes longer than a step; 0 is not known.
    static const int64_t most = std::max(1u, std::thread::hardware_concurrency());
    Team team;
    std::exception_ptr failure;
    threads.each(most, [&](int64_t) {
      if (team.led_.exchange(true)) return team.help();
      try {
        program(Threads{run, &team, kCall});
      } catch (...) {
        failure = std::current_exception();
      }
      team.state_.store(kOver, std::memory_order_release);
    });
    if (failure) std::rethrow_exception(failure);
  }

 private:
  static void run(void* team, void (*body)(void*, size_t), size_t count, void* data) {
    auto& self = *static_cast<Team*>(team);
    if (count <= 1) {
      if (count) body(data, 0);
      return;
    }
    self.share(body, count, data);
  }

  // A step: `count` pieces of work. Two take turns, so that a member which looks at one that is done
  // does not see the next one's numbers.
  struct alignas(64) Step {
    void (*body)(void*, size_t) = nullptr;
    void* data = nullptr;
    std::atomic<uint64_t> count = 0;
    std::atomic<uint64_t> left = 0;
  };

  // The step's number and, in the low half, its next piece.
  static constexpr int64_t kCall = 2'000;  // cycles, until the others see a step
  static constexpr int kPieceBits = 32;
  static constexpr uint64_t kOver = ~uint64_t{0};
  static constexpr int kPatience = 4096;  // looks, before others may have the processor

  void share(void (*body)(void*, size_t), size_t count, void* data) {
    Step& step = steps_[++number_ % 2];
    step.body = body;
    step.data = data;
    step.count.store(count, std::memory_order_relaxed);
    step.left.store(count, std::memory_order_relaxed);
    state_.store(number_ << kPieceBits, std::memory_order_release);
    while (take_piece(state_.load(std::memory_order_acquire))) {
    }
    for (int looks = 0; step.left.load(std::memory_order_acquire) != 0;) wait(looks);
    if (failed_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

  void help() {
    for (int looks = 0;;) {
      const uint64_t state = state_.load(std::memory_order_acquire);
      if (state == kOver) return;
      if (take_piece(state)) {
        looks = 0;
      } else {
        wait(looks);
      }
    }
  }

  // Does the next piece, if there is one; false if the step had none left. Nobody else may have
  // changed the state in between: so the step is what it was, and stays until the piece is done.
  bool take_piece(uint64_t state) {
    Step& step = steps_[(state >> kPieceBits) % 2];
    const uint64_t piece = state & ((uint64_t{1} << kPieceBits) - 1);
    if (piece >= step.count.load(std::memory_order_relaxed)) return false;
    if (!state_.compare_exchange_strong(state, state + 1, std::memory_order_acq_rel)) return true;
    try {
      step.body(step.data, piece);
    } catch (...) {  // may not leave a thread of the runtime's; only memory can be missing
      failed_.store(true, std::memory_order_relaxed);
    }
    step.left.fetch_sub(1, std::memory_order_release);
    return true;
  }

  static void wait(int& looks) {
    if (++looks < kPatience) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }

  alignas(64) std::atomic<uint64_t> state_ = 0;  // step 0 has no pieces
  std::array<Step, 2> steps_;
  uint64_t number_ = 0;
  std::atomic<bool> led_ = false;
  std::atomic<bool> failed_ = false;
};

}  // namespace edgespec
