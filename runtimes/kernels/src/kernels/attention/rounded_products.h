// Attention's two products of bfloat16 numbers, by the fastest instructions that there are.
#pragma once

#include "kernels/attention/rounded_tiles.h"

#ifndef EDGESPEC_TILES
#include "kernels/attention/rounded_lanes.h"
#endif
