// Arithmetic over a vocabulary, for the loop around the models: on one thread.
#pragma once

#include <cstdint>

namespace edgespec {

// The first place of the largest of `count` numbers, at least one; the first that is no number, if
// there is any.
int64_t largest(const float* x, int64_t count);

// weights = e^((x - highest) · sharpness); returns their sum.
double weigh(const float* x, int64_t count, float highest, float sharpness, float* weights);

// The smallest set of the largest of weights e^((x - highest) · sharpness) that has `share` of all of
// them, of equal ones the first: its places, increasing, and their weights; returns how many. Both
// have room for `count`.
int64_t nucleus(const float* x, int64_t count, float highest, float sharpness, double share,
                int64_t* places, float* weights);

// The first place up to which more than `uniform` of all weight lies; never behind the last weight.
int64_t draw(const float* weights, int64_t count, double uniform);

// left = max(0, factor · p - q): q [shared] stands at `places` of p, nowhere if behind its end.
void excess(const float* p, int64_t count, float factor, const float* q, const int64_t* places,
            int64_t shared, float* left);

}  // namespace edgespec
