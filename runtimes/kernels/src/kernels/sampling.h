// Arithmetic over a vocabulary for sampling and verification, on one thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace edgespec {

// The index of the first maximum, or of the first NaN. count ≥ 1.
int64_t largest(const float* x, int64_t count);

// weights = e^((x - highest) · inverse_temperature); returns their sum.
double weigh(const float* x, int64_t count, float highest, float inverse_temperature,
             float* weights);

// Top-p: the smallest set of the largest weights e^((x - highest) · inverse_temperature) that holds
// `share` of their sum; of equal weights the first. Writes the set's indices, increasing, and
// weights into arrays of `count`; returns the size of the set.
int64_t nucleus(const float* x, int64_t count, float highest, float inverse_temperature,
                double share, int64_t* indices, float* weights);

// The first index whose cumulative weight exceeds `uniform` of the sum; at most the last index with
// a positive weight.
int64_t draw(const float* weights, int64_t count, double uniform);

// left [count] = max(0, factor · p - q), where q[i] belongs to index indices[i] of p, i < shared.
// Indices outside p are ignored.
void excess(const float* p, int64_t count, float factor, const float* q, const int64_t* indices,
            int64_t shared, float* left);

// A token of a race and its weight / E: the token with the largest arrives first.
struct Arrival {
  int64_t token;
  double speed;
};

// The noise of one position of a text: four numbers from the seed and the position.
using NoiseKey = std::array<uint32_t, 4>;

// The tokens whose weight / E, E being the token's noise, is at least 1 / reach of the largest;
// best first, of equal ones the smaller token. edgespec/core/position_noise.py states the noise to
// the bit. `tokens` increase; weights are 0 … 1; reach ≥ 1. Returned memory is this thread's, valid
// until its next call.
const std::vector<Arrival>& race(const int64_t* tokens, const float* weights, int64_t count,
                                 const NoiseKey& key, double reach);

// These functions, as one library gives them to another.
struct SamplingTable {
  decltype(edgespec::largest)* largest;
  decltype(edgespec::weigh)* weigh;
  decltype(edgespec::nucleus)* nucleus;
  decltype(edgespec::draw)* draw;
  decltype(edgespec::excess)* excess;
  decltype(edgespec::race)* race;
};

}  // namespace edgespec
