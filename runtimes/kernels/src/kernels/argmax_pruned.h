// The arg-max of a product of 8-bit rows with a table of 8-bit weights, without reading all
// weights.
//
// The upper five bits of the weights bound each output from above. Only outputs whose upper bound
// reaches the largest value known so far are computed with all bits: some hundred of a vocabulary.
// The result is bit-identical to the arg-max of the whole product.
#pragma once

#include <cstdint>

#include "kernels/packed_memory.h"
#include "kernels/rows.h"
#include "threads/parallel_for.h"

namespace edgespec {

// 8-bit weights: output o of a row is row's scale · scale[o] · (row · weights[o]).
struct Int8Table {
  const int8_t* weights;  // [out, in]
  const float* scale;     // [out]
  int64_t in, out;
};

// The upper five bits of a table's weights, in panels of 32 outputs.
class PrunedArgmax {
 public:
  PrunedArgmax(const Int8Table& table, const Threads& threads,
               const PackedStore& store = in_private_memory);

  // Writes the arg-max of row r to index[r] and its value to highest[r]; `table` is the one that
  // this was made from. Returns false, and writes nothing, where so many outputs are near the
  // maximum that the whole product is faster.
  bool argmax(const QuantizedRows& rows, const Int8Table& table, int64_t* index, float* highest,
              const Threads& threads) const;

 private:
  int64_t panel_bytes_;
  PackedMemory packed_;      // panels, then `rest_norms_`
  const float* rest_norms_;  // [out]: norm of what the upper bits leave out of the weights
};

}  // namespace edgespec
