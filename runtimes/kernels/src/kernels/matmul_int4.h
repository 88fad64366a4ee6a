// The product of a few rows of 8-bit activations with a matrix of 4-bit weights in groups.
//
// A group is 32 inputs of one output, with one scale. Products within a group are added as
// integers; the groups' sums, each times its scale, are added in order with fused multiply-adds.
#pragma once

#include <cstdint>

#include "kernels/half_types.h"
#include "kernels/packed_memory.h"
#include "kernels/rows.h"
#include "threads/parallel_for.h"

namespace edgespec {

constexpr int64_t kInt4Group = 32;
constexpr int32_t kInt4Zero = 8;  // a weight is (code - kInt4Zero) · scale

// 4-bit weights [in, out], packed in panels with their scales.
class PackedInt4 {
 public:
  // codes [out, groups, kInt4Group / 2], two in a byte, the first in its low half; scale [out,
  // groups].
  PackedInt4(const uint8_t* codes, const Float16* scale, int64_t groups, int64_t out);

  int64_t in() const { return groups_ * kInt4Group; }
  int64_t out() const { return out_; }

  // y [rows, out] = (rows · weights) · row's scale, plus `added` [rows, out] unless that is null.
  void multiply(const QuantizedRows& rows, const float* added, float* y,
                const Threads& threads) const;

 private:
  int64_t groups_, out_;
  PackedMemory packed_;
};

}  // namespace edgespec
