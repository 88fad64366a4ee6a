// The feature fusion of an EAGLE head: what its rows take of their target's hidden states.
#pragma once

#include <vector>

#include "ort/graph.h"

namespace edgespec {

// The fused states of some positions, [count, width], from their features, [count, F].
std::vector<float> fused(const Graph& fusion, std::vector<float> features, int64_t count,
                         int64_t width);

}  // namespace edgespec
