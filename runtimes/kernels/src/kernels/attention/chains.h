// Products of float32 numbers, each in two chains of additions for each 32 inputs.
#pragma once

#include <cstdint>

namespace edgespec {

constexpr int64_t kChain = 32;  // inputs of two chains

// c [rows, columns] = a [rows, depth] · b [depth, columns], plus c unless `fresh`: for each kChain
// inputs a chain of fused multiply-adds over the even ones and one over the odd ones, both from 0;
// then c += even + odd. Whole multiples of 16 columns of b are read and of c written.
struct ChainedProduct {
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  int64_t depth;
  float* c;
  int64_t c_stride;
  int64_t rows;
  int64_t columns;
  bool fresh;  // c is not read
};

void multiply_by_chains(const ChainedProduct& product);

}  // namespace edgespec
