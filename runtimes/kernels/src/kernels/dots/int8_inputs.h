// Rows of 8-bit numbers as the products of 8-bit weights read them, where that is as they are.
#pragma once

#include "kernels/rows.h"

namespace edgespec {

class Int8Inputs {
 public:
  template <typename Rows>
  explicit Int8Inputs(const Rows& rows) : stride(rows.stride), first_(rows.row(0)) {}
  const int8_t* row(int64_t r) const { return first_ + r * stride; }

  const int64_t stride;

 private:
  const int8_t* first_;
};

}  // namespace edgespec
