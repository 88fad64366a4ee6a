// The kernels that are linked into this library, once for each instruction set.
#pragma once

#include "kernels/sampling.h"
#include "onnxruntime_c_api.h"

namespace edgespec {

// The kernels of one instruction set. All have the same bits.
struct Kernels {
  const char* target;  // "amx", "avx512bf16", "avx512", "avxvnni", "avx2", "i8mm" or "neon"
  const SamplingTable& sampling;
  // Adds the operators to the options of a session.
  OrtStatus* (*add_operators)(OrtSessionOptions*, const OrtApiBase*);
  // Sessions that this thread makes between the two take packed weights from a file, or record them
  // for one, see ops/register.cpp of the kernels.
  int (*packed_begin)(const char* path, const char* identity);
  int (*packed_end)(const char* path);
};

// Those of the fastest instruction set that this processor has; the environment variable
// EDGESPEC_KERNELS forces one by its name. Throws UsageError: there is none.
Kernels kernels_here();

}  // namespace edgespec
