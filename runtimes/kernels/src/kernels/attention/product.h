// Products of a few rows of float32 with a matrix that is read once.
#pragma once

#include <cstdint>

namespace edgespec {

constexpr int64_t kMaxRows = 6;  // of one product: its sums stay in registers

// c [rows, columns] = a [rows, depth] · b [depth, columns], plus c unless `fresh`; one addition
// after the other along `depth`. Whole multiples of 16 columns of c are written.
struct Product {
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  int64_t depth;
  float* c;
  int64_t c_stride;
  int64_t columns;
  bool fresh;  // c is not read
};

// `rows` is at most kMaxRows.
void multiply(int64_t rows, Product product);

}  // namespace edgespec
