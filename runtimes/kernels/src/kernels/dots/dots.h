// Dot products of 8-bit inputs with 8-bit weights and with small codes, for one instruction set.
//
// Integer sums are exact, so every processor may pack weights and add products in its own order.
// Each file here defines:
//
//     kParts            a panel of 8-bit weights has 16 · kParts outputs
//     kMaxRows          rows whose sums fit into registers together; kMaxGroupedRows for weights in
//                       groups, kMaxSearchedRows for the pruned arg-max
//     kWeightOffset     what is added to weights when they are packed
//     Codes, Quad       64 codes: 4 inputs of 16 outputs; 4 inputs of a row, for all outputs
//     looked_up         bytes of a table of 16
//     expanded          codes of 4 bits as 8-bit weights, with steps that `even_bytes` makes
//     Dots              sums of 16 outputs over products of codes of up to 5 bits, for one row
//     kInt8Step         inputs that are packed together: a step; kInt8Run of them follow one
//                       another, then comes the next output
//     Int8Inputs        rows as the products of 8-bit weights read them
//     Int8Sums<count>   sums of a panel over products of 8-bit weights, for `count` rows
#pragma once

#if defined(__AVX512VNNI__) && !defined(EDGESPEC_NO_AVX512)
#include "kernels/dots/vnni512.h"
#elif defined(__AVXVNNI__) || defined(EDGESPEC_NO_AVX512)
#include "kernels/dots/vnni256.h"
#elif defined(__AVX2__)
#include "kernels/dots/avx2.h"
#else
#include "kernels/dots/neon.h"
#endif
