// The largest number of a product of rows of 8-bit activations with a table of 8-bit weights,
// without reading all of the weights.
//
// Their upper five bits say between which bounds each number lies. Only where the upper bound
// reaches the largest lower one are the weights looked at: of a vocabulary, some hundred outputs.
// What is found is what the whole product has, to the last bit.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/packed_memory.h"
#include "threads/parallel_for.h"
#include "kernels/rows.h"

namespace edgespec {

// 8-bit weights and how they are scaled: output o is scale[o] · (row · table[o]).
struct Int8Table {
  const int8_t* weights;  // [out, in]
  const float* scale;     // [out]
  int64_t in, out;
};

// The upper five bits of a table's weights, in panels of 32 outputs.
class PrunedArgmax {
 public:
  PrunedArgmax(const Int8Table& table, const Threads& threads);

  // Row r's largest number is highest[r], first at place[r]; of the table that it was made from.
  // False where too many are near the largest for this to be faster than the whole product: nothing
  // is found then.
  bool argmax(const QuantizedRows& rows, const Int8Table& table, int64_t* place, float* highest,
               const Threads& threads) const;

 private:
  int64_t panel_bytes_;
  PackedMemory packed_;
  std::vector<float> rests_;  // length of what the upper bits leave out of each output's weights
};

}  // namespace edgespec
