// The product of a few rows of 8-bit activations with a matrix of 4-bit weights that expand to
// 8-bit ones.
//
// A weight is code · step + offset, a whole number of 8 bits; step and offset are those of an
// output's group of 32 inputs. All that follows is the arithmetic of 8-bit weights
// (matmul_int8.h): sums of whole numbers, and one scale an output.
#pragma once

#include <cstdint>

#include "kernels/groups.h"
#include "kernels/packed_memory.h"
#include "kernels/rows.h"
#include "threads/parallel_for.h"

namespace edgespec {

// 4-bit weights [in, out], packed in panels with their steps and offsets.
class PackedInt4Int8 {
 public:
  // codes [out, groups, kGroup / 2], two in a byte, the first in its low half; step and offset
  // [out, groups], with which every weight is from -128 to 127.
  PackedInt4Int8(const uint8_t* codes, const uint8_t* step, const int8_t* offset, int64_t groups,
                 int64_t out, const PackedStore& store = in_private_memory);

  int64_t in() const { return groups_ * kGroup; }
  int64_t out() const { return out_; }

  // y [rows, out] = (rows · weights) · (row's scale · scale[output]), plus `added` [rows, out]
  // unless that is null.
  void multiply(const QuantizedRows& rows, const float* scale, const float* added, float* y,
                const Threads& threads) const;

 private:
  int64_t groups_, out_;
  PackedMemory packed_;
};

}  // namespace edgespec
