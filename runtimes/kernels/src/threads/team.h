// Threads that stay awake from one step of an operator to the next.
//
// Waking the session's threads for each step of an operator, and waiting for them after it, is
// slow. A team wakes them once; its members then spin until the next step, which takes a tenth of
// the time. A step is a number of pieces. Each member begins with a range of consecutive pieces, so
// that it reads memory in one stream, and then takes pieces from the ranges of others. While other
// programs displace its members, a team is one thread (displaced.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <thread>

#include "threads/displaced.h"
#include "threads/parallel_for.h"

namespace edgespec {

class Team {
 public:
  // Runs program(team) on one of the threads. Its parallel loops also run on those of the other
  // threads that have joined by then; the team waits for none to join.
  template <typename Program>
  static void together(const Threads& threads, Program program) {
    together(threads, program, displaced_threads);
  }

  // The same where `displaced` is not that of the process.
  template <typename Program>
  static void together(const Threads& threads, Program program, Displaced& displaced) {
    // Asked once, because the system call takes longer than a step. 0 means unknown.
    static const int64_t most = std::max(1u, std::thread::hardware_concurrency());
    static std::atomic<int64_t> usual = 1;  // members of the latest team
    const int64_t began = Displaced::now();
    if (displaced.pauses(began)) return program(Threads{run_alone, nullptr, 0});
    Team team(usual.load(std::memory_order_relaxed));
    std::exception_ptr failure;
    threads.each(most, [&](int64_t) {
      if (team.over_.load(std::memory_order_acquire)) return;
      const int64_t member = team.joined_.fetch_add(1, std::memory_order_relaxed);
      if (member != 0) return team.help(member);
      try {
        program(Threads{run, &team, kWakeCycles});
      } catch (...) {
        failure = std::current_exception();
      }
      team.ended_ = Displaced::now();
      team.over_.store(true, std::memory_order_release);
    });
    const int64_t now = Displaced::now();
    const int64_t members = team.joined_.load(std::memory_order_relaxed);
    displaced.helped(now, now - began, team.waited_ + now - team.ended_, members);
    usual.store(members, std::memory_order_relaxed);
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

  // One parallel loop of `count` pieces. Two of these alternate, so that a late member that reads a
  // finished step does not see the counts of the next one.
  struct alignas(64) Step {
    void (*body)(void*, size_t) = nullptr;
    void* data = nullptr;
    std::atomic<uint64_t> count = 0;
    std::atomic<uint64_t> left = 0;
  };

  // The pieces that one member begins with: the step's number in the high half, the next piece in
  // the low half.
  struct alignas(64) Range {
    std::atomic<uint64_t> next = 0;  // step 0 has no pieces
  };

  static constexpr int64_t kWakeCycles = 2'000;  // until the other members see a step
  static constexpr int64_t kMaxRanges = 8;
  static constexpr int kPieceBits = 32;
  static constexpr int kSpins = 4096;  // before a waiting member yields the processor

  // Ranges for `members`; more or fewer may join.
  explicit Team(int64_t members) : range_count_(std::min(members, kMaxRanges)) {}

  uint64_t first_piece(int64_t range, uint64_t count) const { return range * count / range_count_; }

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
    wait_for_others(step);
    if (failed_.load(std::memory_order_relaxed)) throw std::bad_alloc();
  }

  void wait_for_others(const Step& step) {
    int64_t began = 0;
    for (int spins = 0; step.left.load(std::memory_order_acquire) != 0;) {
      wait(spins);
      if (spins == kSpins) began = Displaced::now();
    }
    if (began) waited_ = std::max(waited_, Displaced::now() - began);
  }

  void help(int64_t member) {
    for (int spins = 0; !over_.load(std::memory_order_acquire);) {
      if (take_piece(member)) {
        spins = 0;
      } else {
        wait(spins);
      }
    }
  }

  // Runs a piece, first of the member's own range; false if none is left.
  bool take_piece(int64_t member) {
    for (int64_t other = 0; other < range_count_; ++other) {
      if (take_piece_of((member + other) % range_count_)) return true;
    }
    return false;
  }

  // The exchange succeeds only if no other member took the piece. The step is then current, and
  // stays current until the piece is done.
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
      } catch (...) {  // must not leave a thread of the runtime; kernels only run out of memory
        failed_.store(true, std::memory_order_relaxed);
      }
      step.left.fetch_sub(1, std::memory_order_release);
      return true;
    }
  }

  // Tells the processor that this thread spins.
  static void pause() {
#if defined(__x86_64__) || defined(_M_X64)
    __builtin_ia32_pause();
#else
    asm volatile("yield");
#endif
  }

  static void wait(int& spins) {
    if (++spins < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }

  std::array<Range, kMaxRanges> ranges_;
  const int64_t range_count_;
  std::array<Step, 2> steps_;
  uint64_t number_ = 0;
  int64_t waited_ = 0;  // ns, the longest time that the program waited for other members
  int64_t ended_ = 0;
  std::atomic<int64_t> joined_ = 0;
  std::atomic<bool> over_ = false;
  std::atomic<bool> failed_ = false;
};

}  // namespace edgespec
