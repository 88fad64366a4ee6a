// The product of a few rows of 8-bit activations with a matrix of 8-bit weights.
//
// Decoding is bound by reading the weights. They are packed so that each thread reads memory in one
// stream and uses each part for all rows of the call. Verifying a few positions therefore costs
// little more than decoding one.
#pragma once

#include <cstdint>

#include "kernels/packed_memory.h"
#include "kernels/rows.h"
#include "threads/parallel_for.h"

namespace edgespec {

// 8-bit weights [in, out], packed in panels.
class PackedInt8 {
 public:
  // Weight (i, o) is weights[i * in_step + o * out_step].
  PackedInt8(const int8_t* weights, int64_t in, int64_t out, int64_t in_step, int64_t out_step,
             const PackedStore& store = in_private_memory);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

  // y [rows, out] = (rows · weights) · (row's scale · scale[output]), plus `added` [rows, out]
  // unless that is null.
  void multiply(const QuantizedRows& rows, const float* scale, const float* added, float* y,
                const Threads& threads) const;

 private:
  int64_t in_, out_, panel_bytes_;
  PackedMemory packed_;
};

}  // namespace edgespec
