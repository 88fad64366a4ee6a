// The product of a few rows of 8-bit activations with a matrix of 4-bit weights, both in groups.
//
// A group is 32 inputs. It has a scale for each row, and a scale and a minimum for each output: a
// weight is code · scale + minimum. Products within a group are added as integers; the groups are
// added in order:
//
//     y = fma(fma(sum of values, minimum, sum of products · scale), row's scale, y)
#pragma once

#include <cstdint>

#include "kernels/groups.h"
#include "kernels/half_types.h"
#include "kernels/packed_memory.h"
#include "threads/parallel_for.h"

namespace edgespec {

// 4-bit weights [in, out], packed in panels with their scales and minimums.
class PackedInt4 {
 public:
  // codes [out, groups, kGroup / 2], two in a byte, the first in its low half; scale and minimum
  // [out, groups].
  PackedInt4(const uint8_t* codes, const Float16* scale, const Float16* minimum, int64_t groups,
             int64_t out, const PackedStore& store = in_private_memory);

  int64_t in() const { return groups_ * kGroup; }
  int64_t out() const { return out_; }

  // y [rows, out] = rows · weights, plus `added` [rows, out] unless that is null.
  void multiply(const GroupedRows& rows, const float* added, float* y,
                const Threads& threads) const;

 private:
  int64_t groups_, out_;
  PackedMemory packed_;
};

}  // namespace edgespec
