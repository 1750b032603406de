// Convolutions for compiled code.
#pragma once

#include <cstdint>

extern "C" {

// bufs: lhs, rhs, [scratch,] result, contiguous. meta: the plan that steno/ops/convolution.py makes (see `Reader` users in conv.cpp for its
// order): layouts, strides, dilations and groups are numbers in it, so nothing is moved in memory but for padding.
//
// Each element is, for each block of 256 consecutive k, one chain of fused multiply-adds in ascending k that starts at zero; the blocks are added in
// order; k runs over the window's taps in row-major order, and for each over the features of the group. Taps that meet no operand element for any
// result of the same phase (holes of lhs dilation) are left out. Subnormal operands, sums and results count as zero. That does not depend on
// layouts, tiles, threads or vector width. Dtypes other than float32 and float64 are one chain.
int32_t steno_conv(void **bufs, const int64_t *meta);
}
