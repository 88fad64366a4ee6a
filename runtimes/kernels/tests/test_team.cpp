// A team runs each piece of each step exactly once, whatever threads join, and passes errors on.
#include <new>
#include <stdexcept>

#include "check.h"
#include "threads/team.h"

namespace edgespec::test {
namespace {

void each_piece_runs_once(int64_t threads, int64_t steps) {
  Pool pool(threads);
  int64_t sum = 0, expected = 0;
  Team::together(pool.threads(), [&](const Threads& team) {
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t count = step * 7 % 41;                    // also 0 and 1
      std::vector<int64_t> runs(static_cast<size_t>(count));  // a race here is a piece taken twice
      team.each(count, [&](int64_t i) { runs[i] += i + 1; });
      for (const int64_t run : runs) sum += run;
      expected += count * (count + 1) / 2;
    }
  });
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

}  // namespace
}  // namespace edgespec::test

int main() {
  using namespace edgespec::test;
  for (int repeat = 0; repeat < 40; ++repeat) {
    for (const int64_t threads : {1, 2, 3, 5, 12}) each_piece_runs_once(threads, 60);
  }
  an_error_of_the_program_reaches_the_caller();
  an_error_of_a_piece_is_out_of_memory();
}
