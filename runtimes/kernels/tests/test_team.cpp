// A team runs each piece of each step exactly once, whatever threads join, and passes errors on.
// While its members are displaced by other programs it is one thread.
#include <atomic>
#include <new>
#include <stdexcept>
#include <thread>

#include "check.h"
#include "ort/op.h"
#include "threads/team.h"

namespace edgespec::test {
namespace {

void each_piece_runs_once(int64_t threads, int64_t steps) {
  Pool pool(threads);
  int64_t sum = 0, expected = 0;
  const auto program = [&](const Threads& team) {
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t count = step * 7 % 41;                    // also 0 and 1
      std::vector<int64_t> runs(static_cast<size_t>(count));  // a race here is a piece taken twice
      team.each(count, [&](int64_t i) { runs[i] += i + 1; });
      for (const int64_t run : runs) sum += run;
      expected += count * (count + 1) / 2;
    }
  };
  Displaced never;  // earlier teams do not count, so that others help
  Team::together(pool.threads(), program, never);
  CHECK(sum == expected);
}

void an_error_of_the_program_reaches_the_caller() {
  Pool pool(2);
  bool caught = false;
  try {
    Team::together(pool.threads(), [](const Threads&) { throw std::runtime_error("no"); });
  } catch (const std::runtime_error&) {
    caught = true;
  }
  CHECK(caught);
}

void an_error_of_a_piece_is_out_of_memory() {
  Pool pool(2);
  bool caught = false;
  try {
    Team::together(pool.threads(), [](const Threads& team) {
      team.each(5, [](int64_t i) {
        if (i == 3) throw std::bad_alloc();
      });
    });
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  CHECK(caught);
}

constexpr int64_t kHour = 3'600'000'000'000;  // ns, longer than a test waits for its turn

void a_displaced_team_is_one_thread() {
  Pool pool(4);
  Displaced displaced;
  displaced.helped(Displaced::now() + kHour, 4, int64_t{1} << 40, 2);
  const std::thread::id caller = std::this_thread::get_id();
  int64_t pieces = 0;
  const auto program = [&](const Threads& team) {
    team.each(1000, [&](int64_t) { pieces += std::this_thread::get_id() == caller; });
  };
  Team::together(pool.threads(), program, displaced);
  CHECK(pieces == 1000);
}

// Runs last, as the threads of this process are then displaced for an hour.
void a_kernel_without_a_team_is_one_thread_too() {
  displaced_threads.helped(Displaced::now() + kHour, 4, int64_t{1} << 40, 2);
  OrtApi none{};  // whose threads cannot be called
  KernelContext context(&none, nullptr);
  int64_t pieces = 0;
  context.threads().each(1000, [&](int64_t i) { pieces += i >= 0; });
  CHECK(pieces == 1000);
}

constexpr int64_t kMs = 1'000'000;

void a_long_wait_ends_the_help_for_a_while() {
  Displaced displaced;
  displaced.helped(5 * kMs, 4 * kMs, kMs / 4, 2);   // short
  displaced.helped(5 * kMs, 40 * kMs, 4 * kMs, 2);  // a small part of large pieces
  CHECK(!displaced.pauses(5 * kMs));
  displaced.helped(5 * kMs, 4 * kMs, 3 * kMs, 2);
  CHECK(displaced.pauses(14 * kMs));
  CHECK(!displaced.pauses(15 * kMs));
}

void waits_of_less_than_an_eighth_of_the_time_do_not_end_the_help() {
  Displaced displaced;
  int64_t now = 0;
  for (int64_t wait = 0; wait < 1000; ++wait) {
    now += 25 * kMs;
    displaced.helped(now, 4 * kMs, 3 * kMs, 2);
    CHECK(!displaced.pauses(now));
  }
  for (int64_t wait = 0; wait < 1000 && !displaced.pauses(now); ++wait) {
    now += 23 * kMs;
    displaced.helped(now, 4 * kMs, 3 * kMs, 2);
  }
  CHECK(displaced.pauses(now));
}

void a_long_time_without_waits_allows_no_more_than_one_long_wait() {
  Displaced displaced;
  const int64_t now = 3'600'000 * kMs;
  displaced.helped(now, 4 * kMs, 3 * kMs, 2);
  CHECK(!displaced.pauses(now));
  displaced.helped(now + 4 * kMs, 4 * kMs, 3 * kMs, 2);
  CHECK(displaced.pauses(now + 4 * kMs));
}

void pauses_double_up_to_a_second_and_halve_after_help_without_a_wait() {
  Displaced displaced;
  constexpr int64_t kTooLong = 6 * kMs;  // after any time
  int64_t now = 0;
  const auto pause_after = [&](int64_t waited, int64_t threads = 2) {
    displaced.helped(now, 8 * kMs, waited, threads);
    const int64_t began = now;
    while (displaced.pauses(now)) now += kMs;
    return (now - began) / kMs;
  };
  for (const int64_t pause : {10, 20, 40, 80, 160, 320, 640, 1000, 1000}) {
    CHECK(pause_after(kTooLong) == pause);
  }
  now += 999 * kMs;
  CHECK(pause_after(0) == 0);
  CHECK(pause_after(kTooLong) == 1000);  // it helped for less than the last pause
  now += 1001 * kMs;
  CHECK(pause_after(0, 1) == 0);
  CHECK(pause_after(kTooLong) == 1000);  // one thread alone had no help
  now += 60'000 * kMs;                  // a long rest counts once
  CHECK(pause_after(0) == 0);
  CHECK(pause_after(0) == 0);
  CHECK(pause_after(kTooLong) == 1000);
  for (int64_t halved = 1000; halved >= 10; halved /= 2) {
    now += halved * kMs + kMs;
    CHECK(pause_after(0) == 0);
  }
  CHECK(pause_after(kTooLong) == 10);
}

}  // namespace
}  // namespace edgespec::test

int main() {
  using namespace edgespec::test;
  for (int repeat = 0; repeat < 40; ++repeat) {
    for (const int64_t threads : {1, 2, 3, 5, 12}) each_piece_runs_once(threads, 60);
  }
  an_error_of_the_program_reaches_the_caller();
  an_error_of_a_piece_is_out_of_memory();
  a_displaced_team_is_one_thread();
  a_long_wait_ends_the_help_for_a_while();
  waits_of_less_than_an_eighth_of_the_time_do_not_end_the_help();
  a_long_time_without_waits_allows_no_more_than_one_long_wait();
  pauses_double_up_to_a_second_and_halve_after_help_without_a_wait();
  a_kernel_without_a_team_is_one_thread_too();
}
