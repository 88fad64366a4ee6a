// The product of a few rows with a matrix, both in bfloat16, with sums in 32-bit floats.
//
// The order of additions is that of AMX's instruction TDPBF16PS, for every number of rows and on
// every processor. Of each block of 32 inputs, padded with zeros, in order:
//
//     even = fma(x[2i], w[2i], even), odd = fma(x[2i + 1], w[2i + 1], odd)   i = 0 … 15, from 0
//     y = y + (even + odd)
//
// Each step rounds once. No sum is subnormal (bfloat16_rows.h).
#pragma once

#include <cstdint>

#include "kernels/bfloat16_rows.h"
#include "kernels/half_types.h"
#include "kernels/packed_memory.h"
#include "threads/parallel_for.h"

namespace edgespec {

// Weights [out, in], packed in panels.
class PackedBFloat16 {
 public:
  PackedBFloat16(const BFloat16* weights, int64_t in, int64_t out,
                 const PackedStore& store = in_private_memory);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

  // y [rows, out] = rows · weightsᵀ, plus `added` [rows, out] unless that is null.
  void multiply(const BFloat16Rows& rows, const float* added, float* y,
                const Threads& threads) const;

 private:
  int64_t in_, out_;
  PackedMemory packed_;
};

}  // namespace edgespec
