// A time that depends on a count, from few measurements: complete, robust to spikes, up to date.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace edgespec {

// The seconds that something takes with a count of 1, 2, … of something.
//
// A count's time is the lower median of its latest measurements: spikes only make times longer.
// What took much longer than the latest is forgotten: it was a spike, or the machine was busy.
// Counts without a measurement follow the guess, scaled as the nearest measured counts are. A
// larger count takes no less time than a smaller one.
class TimeCurve {
 public:
  // `guess`: times in any unit, for counts from 1; only their ratios matter.
  explicit TimeCurve(std::vector<double> guess) : guess_(std::move(guess)) {}

  // Reports a measurement in a round; counts beyond the curve and times of 0 are ignored.
  void add(int64_t count, double seconds, int64_t round);
  // The times as of a round; none while nothing, or almost nothing, is measured.
  std::optional<std::vector<double>> seconds(int64_t round);

 private:
  struct Measured {
    int64_t round;
    double seconds;
  };

  std::map<int64_t, std::vector<double>> recent(int64_t oldest);

  std::vector<double> guess_;
  std::map<int64_t, std::deque<Measured>> measured_;  // by count
};

}  // namespace edgespec
