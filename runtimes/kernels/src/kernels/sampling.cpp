#include "kernels/sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/lanes/lanes.h"

namespace edgespec {
namespace {

constexpr int64_t kBlock = 256;  // weights that a draw adds up before it looks at each

double sum(const float* x, int64_t count) {
  F64Sums sums;
  for_each_16(count, [&](int64_t i, int64_t left) { sums.add(load(x + i, left)); });
  return sums.total();
}

struct Weight {
  float weight;
  int64_t index;
};

// Weights of at least `least`, by increasing index; returns their sum.
double collect(const float* weights, int64_t count, float least, std::vector<Weight>& found) {
  found.clear();
  double sum = 0;
  for_each_16(count, [&](int64_t i, int64_t left) {
    const uint32_t all = bits_of(first_lanes(left));
    uint32_t kept = ~bits_of(load(weights + i, left) < splat(least)) & all;
    for (; kept; kept &= kept - 1) {
      const int64_t index = i + std::countr_zero(kept);
      found.push_back({weights[index], index});
      sum += weights[index];
    }
  });
  return sum;
}

// 32 random bits of a token; `a` and `b` are the halves of a key. The steps are those of a hash
// with little bias (Wellons, triple32), and `b` comes in between.
uint32_t mixed(uint32_t token, uint32_t a, uint32_t b) {
  uint32_t h = token ^ a;
  h ^= h >> 17;
  h *= 0xED5AD4BBu;
  h ^= h >> 11;
  h += b;
  h *= 0xAC4C1B51u;
  h ^= h >> 15;
  h *= 0x31848BABu;
  h ^= h >> 14;
  return h;
}

// E = -log(1 - v) for v = (bits + 1/2) / 2^52, by steps that round the same everywhere.
double exponential(uint64_t bits) {
  int power;
  double m = std::frexp(1 - (double(bits) + 0.5) * 0x1p-52, &power);
  if (m < 0.70710678118654752) m *= 2, --power;
  const double z = (1 - m) / (1 + m), square = z * z;
  double series = 0;
  for (int odd = 21; odd >= 1; odd -= 2) series = series * square + 1.0 / odd;
  return 2 * z * series - power * 0.69314718055994531;
}

}  // namespace

int64_t largest(const float* x, int64_t count) {
  F32x16 largest = splat(x[0]);
  I32x16 index = splat_int(0);
  I32x16 here = lane_indices();
  for (int64_t i = 0; i < count; i += kLanes, here = here + splat_int(kLanes)) {
    const F32x16 part = load(x + i, count - i, largest);
    const uint32_t nan = bits_of(is_nan(part));
    if (nan) return i + std::countr_zero(nan);
    const M16 larger = largest < part;
    largest = select(larger, part, largest);
    index = select(larger, here, index);
  }
  // Of the lanes that hold the maximum, the lowest index.
  uint32_t equal = bits_of(largest == splat(largest_of(largest)));
  std::array<int32_t, kLanes> indices;
  store(indices.data(), index);
  int32_t lowest = std::numeric_limits<int32_t>::max();
  for (; equal; equal &= equal - 1) lowest = std::min(lowest, indices[std::countr_zero(equal)]);
  return lowest;
}

double weigh(const float* x, int64_t count, float highest, float inverse_temperature,
             float* weights) {
  const F32x16 top = splat(highest), factor = splat(inverse_temperature);
  F64Sums sums;
  for_each_16(count, [&](int64_t i, int64_t left) {
    const F32x16 weight = first(exp((load(x + i, left) - top) * factor), left);
    sums.add(weight);
    store(weights + i, left, weight);
  });
  return sums.total();
}

int64_t nucleus(const float* x, int64_t count, float highest, float inverse_temperature,
                double share, int64_t* indices, float* weights) {
  const double total = weigh(x, count, highest, inverse_temperature, weights);
  // Sorting the whole vocabulary is slow: sort only weights above a bound, which together hold more
  // than the share.
  const double enough = total * (share + std::min(1e-3, (1 - share) / 2));
  thread_local std::vector<Weight> heavy;
  float bound = 0.018f;
  while (collect(weights, count, bound, heavy) <= enough && int64_t(heavy.size()) != count) {
    bound *= bound;  // 0 after six times
  }
  std::sort(heavy.begin(), heavy.end(), [](const Weight& a, const Weight& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.index < b.index;
  });
  size_t needed = 0;
  for (double mass = 0; needed < heavy.size() && mass < share * total; ++needed) {
    mass += heavy[needed].weight;
  }
  heavy.resize(needed);
  std::sort(heavy.begin(), heavy.end(),
            [](const Weight& a, const Weight& b) { return a.index < b.index; });
  for (size_t i = 0; i < needed; ++i) {
    indices[i] = heavy[i].index;
    weights[i] = heavy[i].weight;
  }
  return int64_t(needed);
}

int64_t draw(const float* weights, int64_t count, double uniform) {
  const double point = uniform * sum(weights, count);
  double before = 0;
  int64_t last = 0;
  for (int64_t start = 0; start < count; start += kBlock) {
    const int64_t size = std::min(kBlock, count - start);
    const double block = sum(weights + start, size);
    if (block > 0 && before + block > point) {
      double reached = before;
      for (int64_t i = start; i < start + size; ++i) {
        reached += weights[i];
        if (reached > point) return i;
        if (weights[i] > 0) last = i;
      }
      before = reached;  // by rounding, the point was the block's end
    } else {
      before += block;
      if (block > 0) {
        for (last = start + size - 1; !(weights[last] > 0); --last) {
        }
      }
    }
  }
  return last;
}

void excess(const float* p, int64_t count, float factor, const float* q, const int64_t* indices,
            int64_t shared, float* left) {
  for_each_16(count, [&](int64_t i, int64_t here) {
    store(left + i, here, splat(factor) * load(p + i, here));
  });
  for (int64_t i = 0; i < shared; ++i) {
    if (indices[i] >= 0 && indices[i] < count)
      left[indices[i]] = std::max(0.0f, left[indices[i]] - q[i]);
  }
}

const std::vector<Arrival>& race(const int64_t* tokens, const float* weights, int64_t count,
                                 const NoiseKey& key, double reach) {
  // E ≥ v, so the upper 32 bits bound a token's speed from above. Few tokens come near the best.
  thread_local std::vector<float> bounds;
  bounds.resize(count);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t high = mixed(uint32_t(tokens[i]), key[0], key[1]);
    bounds[i] = weights[i] / (float(high) + 1e-30f);  // the summand only matters where high is 0
  }
  const auto speed = [&](int64_t i) {
    const uint64_t high = mixed(uint32_t(tokens[i]), key[0], key[1]);
    const uint64_t low = mixed(uint32_t(tokens[i]), key[2], key[3]);
    return double(weights[i]) / exponential(high << 20 | low >> 12);
  };
  const double reached = speed(largest(bounds.data(), count)) / reach;
  thread_local std::vector<Weight> near;
  collect(bounds.data(), count, float(reached * 0x1p-32 * (1 - 1e-6)), near);
  thread_local std::vector<Arrival> arrivals;
  arrivals.clear();
  for (const Weight& bound : near) arrivals.push_back({tokens[bound.index], speed(bound.index)});
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.speed > b.speed; });
  while (arrivals.back().speed < arrivals.front().speed / reach) arrivals.pop_back();
  return arrivals;
}

}  // namespace edgespec
