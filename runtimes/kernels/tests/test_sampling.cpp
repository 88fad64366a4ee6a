// Sampling kernels against plain loops, at lengths around registers and blocks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "check.h"
#include "kernels/sampling.h"

namespace edgespec::test {
namespace {

constexpr int64_t kLengths[] = {1, 15, 16, 17, 255, 256, 257, 5000};

void top_p_is_the_smallest_set_that_holds_the_share() {
  for (const int64_t count : kLengths) {
    for (const double share : {0.05, 0.5, 0.95, 0.9999}) {
      const auto x = floats(count, 2);
      const float highest = *std::max_element(x.begin(), x.end());
      std::vector<int64_t> indices(x.size());
      std::vector<float> all(x.size()), weights(x.size());
      const double total = weigh(x.data(), count, highest, 1.25f, all.data());
      const int64_t size =
          nucleus(x.data(), count, highest, 1.25f, share, indices.data(), weights.data());
      double sum = 0, smallest = 1e30;
      for (int64_t i = 0; i < size; ++i) {
        CHECK(i == 0 || indices[i - 1] < indices[i]);
        CHECK(weights[i] == all[indices[i]]);
        sum += weights[i];
        smallest = std::min<double>(smallest, weights[i]);
      }
      CHECK(sum >= share * total * (1 - 1e-9));
      CHECK(sum - smallest < share * total * (1 + 1e-9));
    }
  }
}

void draws_follow_the_cumulative_weights() {
  for (const int64_t count : kLengths) {
    std::vector<float> weights(static_cast<size_t>(count));
    for (auto& weight : weights) weight = float(generator()() % 3);  // sums are exact
    weights[count / 2] = 2;
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (const double uniform : {0.0, 0.25, 0.5, 0.999, 1.0}) {
      double before = 0;
      int64_t expected = 0;
      for (int64_t i = 0; i < count; ++i) {
        if (weights[i] == 0) continue;
        if (before > uniform * total) break;
        expected = i;
        before += weights[i];
        if (before > uniform * total) break;
      }
      CHECK(draw(weights.data(), count, uniform) == expected);
    }
  }
}

void a_nan_is_the_largest_and_indices_outside_are_ignored() {
  for (const int64_t count : kLengths) {
    auto x = floats(count);
    CHECK(largest(x.data(), count) == std::max_element(x.begin(), x.end()) - x.begin());
    x[count / 3] = std::numeric_limits<float>::quiet_NaN();
    CHECK(largest(x.data(), count) == count / 3);
    const auto p = floats(count), q = floats(3);
    const int64_t indices[] = {-1, count - 1, count};
    std::vector<float> left(p.size());
    excess(p.data(), count, 0.5f, q.data(), indices, 3, left.data());
    for (int64_t i = 0; i < count - 1; ++i) CHECK(left[i] == 0.5f * p[i]);
    CHECK(left[count - 1] == std::max(0.0f, 0.5f * p[count - 1] - q[1]));
  }
}

// The numbers are those of edgespec/core/position_noise.py, whose steps are stated to the bit.
void a_race_is_the_stated_one() {
  const int64_t tokens[] = {1000, 1001, 1002, 1003, 1004, 1005};
  const float weights[] = {0.4f, 0.3f, 0.15f, 0.1f, 0.05f, 0.0f};
  const NoiseKey key{1, 2, 3, 4};
  const std::vector<Arrival> all = race(tokens, weights, 6, key, 1e9);
  const Arrival expected[] = {{1001, 0x1.d287111fb6f45p-1},
                              {1004, 0x1.64826c7e904ffp-2},
                              {1002, 0x1.5423513dffba1p-2},
                              {1003, 0x1.954f1479fd694p-3},
                              {1000, 0x1.5ec45a9c2c4dfp-3}};
  CHECK(all.size() == 5);
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].token == expected[i].token);
    CHECK(all[i].speed == expected[i].speed);
  }
  CHECK(race(tokens, weights, 6, key, 1).size() == 1);
  CHECK(race(tokens, weights, 6, key, 3).size() == 3);
}

}  // namespace
}  // namespace edgespec::test

int main() {
  using namespace edgespec::test;
  top_p_is_the_smallest_set_that_holds_the_share();
  draws_follow_the_cumulative_weights();
  a_nan_is_the_largest_and_indices_outside_are_ignored();
  a_race_is_the_stated_one();
}
