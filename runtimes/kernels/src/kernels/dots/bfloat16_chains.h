// The even and the odd chain of a block of bfloat16 products (matmul_bfloat16.h), 16 outputs at a
// time. Weights are in pairs: numbers 2i and 2i + 1 of output 0, of output 1 …
//
//     kChainSteps        of a chain: each multiplies one input, or two
//     ChainInput         what a row has for a step; each block has those of its even chain first
//     to_chain_inputs    makes them of one block of a row
//     chain_step         sum + the products of one step
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/bfloat16_rows.h"
#include "kernels/lanes/lanes.h"

namespace edgespec {

constexpr int64_t kPairsBytes = 64;  // of 16 outputs
constexpr int64_t kBlockPairs = kBFloat16Block / 2;

#if defined(__AVX512BF16__) && !defined(EDGESPEC_NO_AVX512)

// VDPBF16PS is two fused multiply-adds, that of the pair's second number first. So a pair is made
// of a chain's inputs 2i + 1 and 2i.
constexpr int64_t kChainSteps = kBlockPairs / 2;
using ChainInput = uint32_t;

EDGESPEC_INLINE void to_chain_inputs(const uint16_t* row, ChainInput* y) {
  // The numbers of the row, as words: 2 0, 6 4 … of the even chain; 3 1, 7 5 … of the odd one.
  alignas(64) static constexpr uint16_t kOrder[32] = {2,  0,  6,  4,  10, 8,  14, 12, 18, 16, 22,
                                                      20, 26, 24, 30, 28, 3,  1,  7,  5,  11, 9,
                                                      15, 13, 19, 17, 23, 21, 27, 25, 31, 29};
  const __m512i order = _mm512_load_si512(kOrder);
  _mm512_storeu_si512(y, _mm512_permutexvar_epi16(order, _mm512_loadu_si512(row)));
}

struct ChainWeights {
  __m512i v;
};
template <int member>
EDGESPEC_INLINE ChainWeights chain_weights(const std::byte* pairs, int64_t pairs_apart) {
  const __m512i first = _mm512_loadu_si512(pairs);
  const __m512i second = _mm512_loadu_si512(pairs + pairs_apart);
  constexpr __mmask32 kUpper = 0xAAAAAAAA;
  if constexpr (member == 0) {
    return {_mm512_mask_blend_epi16(kUpper, second, _mm512_slli_epi32(first, 16))};
  }
  return {_mm512_mask_blend_epi16(kUpper, _mm512_srli_epi32(second, 16), first)};
}
EDGESPEC_INLINE F32x16 chain_step(ChainWeights weights, ChainInput input, F32x16 sum) {
  const __m512i inputs = _mm512_set1_epi32(static_cast<int>(input));
  return {
      _mm512_dpbf16_ps(sum.v, std::bit_cast<__m512bh>(inputs), std::bit_cast<__m512bh>(weights.v))};
}

#else

constexpr int64_t kChainSteps = kBlockPairs;
using ChainInput = float;

EDGESPEC_INLINE void to_chain_inputs(const uint16_t* row, ChainInput* y) {
  store(y, load_even_bfloat16(row));
  store(y + kChainSteps, load_odd_bfloat16(row));
}

using ChainWeights = F32x16;
template <int member>
EDGESPEC_INLINE ChainWeights chain_weights(const std::byte* pairs, int64_t) {
  const auto* numbers = reinterpret_cast<const uint16_t*>(pairs);
  return member == 0 ? load_even_bfloat16(numbers) : load_odd_bfloat16(numbers);
}
EDGESPEC_INLINE F32x16 chain_step(ChainWeights weights, ChainInput input, F32x16 sum) {
  return fma(splat(input), weights, sum);
}

#endif

}  // namespace edgespec
