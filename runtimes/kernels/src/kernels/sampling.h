// Arithmetic over a vocabulary for sampling and verification, on one thread.
#pragma once

#include <cstdint>

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

// These functions, as one library gives them to another.
struct SamplingTable {
  decltype(edgespec::largest)* largest;
  decltype(edgespec::weigh)* weigh;
  decltype(edgespec::nucleus)* nucleus;
  decltype(edgespec::draw)* draw;
  decltype(edgespec::excess)* excess;
};

}  // namespace edgespec
