// Threads that stay together from one step of an operator to the next.
//
// An operator of several steps would wake the session's threads for each and wait for them after
// it; here they come once and wait awake for what is next, which takes a tenth of the time. Each
// begins with pieces of its own that lie behind each other, so that it reads one stream of memory;
// who has done these takes from the others'.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <thread>

#include "threads/parallel_for.h"

namespace edgespec {

class Team {
 public:
  // Executes program(its own threads) on one of these; a step that it shares is shared with those of
  // the others that have come. None is waited for.
  template <typename Program>
  static void together(const Threads& threads, Program program) {
    // Asks the system each time, which takes longer than a step; 0 is not known.
    static const int64_t most = std::max(1u, std::thread::hardware_concurrency());
    static std::atomic<int64_t> usual = 1;  // members
    Team team(usual.load(std::memory_order_relaxed));
    std::exception_ptr failure;
    threads.each(most, [&](int64_t) {
      if (team.over_.load(std::memory_order_acquire)) return;
      const int64_t member = team.come_.fetch_add(1, std::memory_order_relaxed);
      if (member != 0) return team.help(member);
      try {
        program(Threads{run, &team, kCall});
      } catch (...) {
        failure = std::current_exception();
      }
      team.over_.store(true, std::memory_order_release);
    });
    usual.store(team.come_.load(std::memory_order_relaxed), std::memory_order_relaxed);
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

  // The pieces that a member begins with: in which step, and in the low half the next of them.
  struct alignas(64) Range {
    std::atomic<uint64_t> next = 0;  // of step 0, which has no pieces
  };

  static constexpr int64_t kCall = 2'000;  // cycles, until the others see a step
  static constexpr int64_t kMostRanges = 8;
  static constexpr int kPieceBits = 32;
  static constexpr int kPatience = 4096;  // looks, before others may have the processor

  // For so many members; more or fewer may come.
  explicit Team(int64_t members) : range_count_(std::min(members, kMostRanges)) {}

  uint64_t first_piece(int64_t range, uint64_t count) const {
    return range * count / range_count_;
  }

  void share(void (*body)(void*, size_t), size_t count, void* data) {
    Step& step = steps_[++number_ % 2];
    step.body = body;
    step.data = data;
    step.count.store(count, std::memory_order_relaxed);
    step.left.store(count, std::memory_order_relaxed);
    for (int64_t range = 0; range < range_count_; ++range) {
      const uint64_t next = number_ << kPieceBits | first_piece(range, count);
      ranges_[range].next.store(next, std::memory_order_release);
    }
    while (take_piece(0)) {
    }
    for (int looks = 0; step.left.load(std::memory_order_acquire) != 0;) wait(looks);
    if (failed_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

  void help(int64_t member) {
    for (int looks = 0; !over_.load(std::memory_order_acquire);) {
      if (take_piece(member)) {
        looks = 0;
      } else {
        wait(looks);
      }
    }
  }

  // Does a piece, first of the member's own; false if there was none.
  bool take_piece(int64_t member) {
    for (int64_t other = 0; other < range_count_; ++other) {
      if (take_piece_of((member + other) % range_count_)) return true;
    }
    return false;
  }

  // Nobody else may have taken the piece in between: so the step is what it was, and stays until the
  // piece is done.
  bool take_piece_of(int64_t range) {
    std::atomic<uint64_t>& next = ranges_[range].next;
    uint64_t state = next.load(std::memory_order_acquire);
    for (;;) {
      Step& step = steps_[(state >> kPieceBits) % 2];
      const uint64_t piece = state & ((uint64_t{1} << kPieceBits) - 1);
      const uint64_t count = step.count.load(std::memory_order_relaxed);
      if (piece >= first_piece(range + 1, count)) return false;
      if (!next.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
      try {
        step.body(step.data, piece);
      } catch (...) {  // may not leave a thread of the runtime's; only memory can be missing
        failed_.store(true, std::memory_order_relaxed);
      }
      step.left.fetch_sub(1, std::memory_order_release);
      return true;
    }
  }

  static void wait(int& looks) {
    if (++looks < kPatience) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }

  std::array<Range, kMostRanges> ranges_;
  const int64_t range_count_;
  std::array<Step, 2> steps_;
  uint64_t number_ = 0;
  std::atomic<int64_t> come_ = 0;
  std::atomic<bool> over_ = false;
  std::atomic<bool> failed_ = false;
};

}  // namespace edgespec
