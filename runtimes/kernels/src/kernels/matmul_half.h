// The product of a few rows with a matrix of 16-bit weights, in 32-bit floats.
//
// Weights stay in 16 bits in memory, because decoding waits for memory, and are widened in
// registers, which loses nothing. Each output's sum runs along its inputs one addition after the
// other, whatever other rows are in the call.
#pragma once

#include <cstdint>

#include "kernels/half_types.h"
#include "kernels/packed_memory.h"
#include "threads/parallel_for.h"

namespace edgespec {

// Weights [out, in], packed in panels; `Half` is Float16 or BFloat16.
template <typename Half>
class PackedHalf {
 public:
  PackedHalf(const Half* weights, int64_t in, int64_t out,
             const PackedStore& store = in_private_memory);

  // y [count, out] = x [count, in] · weightsᵀ
  void multiply(const float* x, int64_t count, float* y, const Threads& threads) const;

 private:
  int64_t in_, out_, panel_bytes_;
  PackedMemory packed_;
};

}  // namespace edgespec
