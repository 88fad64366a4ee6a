#include "costs/time_curve.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace edgespec {
namespace {

constexpr size_t kWindow = 8;  // measurements of a count
constexpr int64_t kAge = 512;  // rounds after which a measurement is forgotten
constexpr size_t kFirst = 2;   // measurements in all before the curve is known
// A single measurement is believed up to this multiple of what others suggest, an older one up to
// this multiple of the latest.
constexpr double kSpike = 1.25;

double lower_median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

// Linear between known counts, constant beyond them.
double interpolated(const std::map<int64_t, double>& known, int64_t count) {
  const auto above = known.lower_bound(count);
  if (above == known.end()) return std::prev(above)->second;
  if (above->first == count || above == known.begin()) return above->second;
  const auto below = std::prev(above);
  const double share = double(count - below->first) / double(above->first - below->first);
  return below->second + share * (above->second - below->second);
}

}  // namespace

void TimeCurve::add(int64_t count, double seconds, int64_t round) {
  if (!(1 <= count && count <= std::ssize(guess_) && seconds > 0)) return;
  std::deque<Measured>& times = measured_[count];
  std::erase_if(times, [=](const Measured& time) { return time.seconds > kSpike * seconds; });
  times.push_back({round, seconds});
  if (times.size() > kWindow) times.pop_front();
}

std::optional<std::vector<double>> TimeCurve::seconds(int64_t round) {
  const auto ratios_by_count = recent(round - kAge);
  std::vector<double> all;
  for (const auto& [_, ratios] : ratios_by_count)
    all.insert(all.end(), ratios.begin(), ratios.end());
  if (all.size() < kFirst) return std::nullopt;
  const double typical = lower_median(all);
  std::map<int64_t, double> known;
  for (const auto& [count, ratios] : ratios_by_count) {
    known[count] = ratios.size() > 1 ? lower_median(ratios) : std::min(ratios[0], kSpike * typical);
  }
  std::vector<double> found;
  for (int64_t count = 1; count <= std::ssize(guess_); ++count) {
    found.push_back(guess_[count - 1] * interpolated(known, count));
  }
  for (size_t index = found.size() - 1; index > 0; --index) {
    found[index - 1] = std::min(found[index - 1], found[index]);
  }
  return found;
}

// Measured over guessed times of each count; older measurements are dropped.
std::map<int64_t, std::vector<double>> TimeCurve::recent(int64_t oldest) {
  std::map<int64_t, std::vector<double>> ratios;
  for (auto& [count, times] : measured_) {
    while (!times.empty() && times.front().round < oldest) times.pop_front();
    for (const auto& [_, seconds] : times) ratios[count].push_back(seconds / guess_[count - 1]);
  }
  return ratios;
}

}  // namespace edgespec
