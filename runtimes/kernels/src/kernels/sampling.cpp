#include "kernels/sampling.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/vector_math.h"

namespace edgespec {
namespace {

constexpr int64_t kBlock = 256;  // weights that a draw adds up before it looks at each

// A sum in float64, of 16 numbers at a time.
struct Sum {
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();

  void add(__m512 x) {
    low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
  }
  double total() const { return _mm512_reduce_add_pd(_mm512_add_pd(low, high)); }
};

double sum(const float* x, int64_t count) {
  Sum sum;
  for (int64_t i = 0; i < count; i += 16) {
    sum.add(_mm512_maskz_loadu_ps(first_lanes(count - i), x + i));
  }
  return sum.total();
}

struct Weight {
  float weight;
  int64_t index;
};

// Weights of at least `least`, by increasing index; returns their sum.
double collect(const float* weights, int64_t count, float least, std::vector<Weight>& found) {
  found.clear();
  double sum = 0;
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 lanes = first_lanes(count - i);
    const __m512 part = _mm512_maskz_loadu_ps(lanes, weights + i);
    uint32_t kept = _mm512_mask_cmp_ps_mask(lanes, part, _mm512_set1_ps(least), _CMP_GE_OQ);
    for (; kept; kept &= kept - 1) {
      const int64_t index = i + __builtin_ctz(kept);
      found.push_back({weights[index], index});
      sum += weights[index];
    }
  }
  return sum;
}

}  // namespace

int64_t largest(const float* x, int64_t count) {
  __m512 largest = _mm512_set1_ps(x[0]);
  __m512i index = _mm512_setzero_si512();
  __m512i here = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 lanes = first_lanes(count - i);
    const __m512 part = _mm512_mask_loadu_ps(largest, lanes, x + i);
    const __mmask16 nan = _mm512_cmp_ps_mask(part, part, _CMP_UNORD_Q);
    if (nan) return i + __builtin_ctz(nan);
    const __mmask16 larger = _mm512_cmp_ps_mask(part, largest, _CMP_GT_OQ);
    largest = _mm512_mask_mov_ps(largest, larger, part);
    index = _mm512_mask_mov_epi32(index, larger, here);
    here = _mm512_add_epi32(here, _mm512_set1_epi32(16));
  }
  // Of the lanes that hold the maximum, the lowest index.
  const __m512 best = _mm512_set1_ps(_mm512_reduce_max_ps(largest));
  const __mmask16 equal = _mm512_cmp_ps_mask(largest, best, _CMP_EQ_OQ);
  return _mm512_mask_reduce_min_epi32(equal, index);
}

double weigh(const float* x, int64_t count, float highest, float inverse_temperature,
             float* weights) {
  const __m512 top = _mm512_set1_ps(highest), factor = _mm512_set1_ps(inverse_temperature);
  Sum sum;
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 lanes = first_lanes(count - i);
    const __m512 below = _mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, x + i), top);
    const __m512 weight = _mm512_maskz_mov_ps(lanes, exp(_mm512_mul_ps(below, factor)));
    sum.add(weight);
    _mm512_mask_storeu_ps(weights + i, lanes, weight);
  }
  return sum.total();
}

int64_t nucleus(const float* x, int64_t count, float highest, float inverse_temperature,
                double share, int64_t* indices, float* weights) {
  const double total = weigh(x, count, highest, inverse_temperature, weights);
  // Sorting the whole vocabulary is slow: sort only weights above a bound, which together hold more
  // than the share.
  const double enough = total * (share + std::min(1e-3, (1 - share) / 2));
  thread_local std::vector<Weight> heavy;
  float reach = 4;  // the bound is e^-reach
  while (collect(weights, count, std::exp(-reach), heavy) <= enough &&
         int64_t(heavy.size()) != count) {
    reach *= 1.5f;
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
  const __m512 times = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 lanes = first_lanes(count - i);
    _mm512_mask_storeu_ps(left + i, lanes,
                          _mm512_mul_ps(times, _mm512_maskz_loadu_ps(lanes, p + i)));
  }
  for (int64_t i = 0; i < shared; ++i) {
    if (indices[i] >= 0 && indices[i] < count)
      left[indices[i]] = std::max(0.0f, left[indices[i]] - q[i]);
  }
}

}  // namespace edgespec
