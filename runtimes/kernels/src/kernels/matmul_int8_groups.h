// The product of a few rows of 8-bit activations with a matrix of 8-bit weights, both in groups.
//
// A group is 32 inputs, with a scale for each row and a scale for each output: a weight is
// (code - 128) · scale. Products within a group are added as integers; the groups are added in
// order:
//
//     y = fma(sum of products · scale, row's scale, y)
#pragma once

#include <cstdint>

#include "kernels/groups.h"
#include "kernels/half_types.h"
#include "kernels/packed_memory.h"
#include "threads/parallel_for.h"

namespace edgespec {

// 8-bit weights [in, out], packed in panels with their scales.
class PackedInt8Groups {
 public:
  // codes [out, groups, kGroup], scale [out, groups].
  PackedInt8Groups(const uint8_t* codes, const Float16* scale, int64_t groups, int64_t out,
                   const PackedStore& store = in_private_memory);

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
