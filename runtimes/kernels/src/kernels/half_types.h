// The two number formats of 16 bits.
#pragma once

#include <cstdint>

namespace edgespec {

struct Float16 {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

}  // namespace edgespec
