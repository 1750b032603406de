// Matrix products for compiled code.
#pragma once

#include <cstdint>

#include "then.h"

extern "C" {

// result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n].
// bufs: lhs, rhs, result (contiguous). meta: dtype code, batch, m, n, k, then for lhs and rhs: offset, batch stride, row stride, column
// stride, in elements. Codes: float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool = 0..12.
//
// Each element is, for each block of 256 consecutive k, one chain of fused multiply-adds in ascending k that starts at zero; the blocks
// are added in order. Subnormal operands, sums and results count as zero. That does not depend on layouts, tiles, batching, threads or vector width.
int32_t steno_gemm(void **bufs, const int64_t *meta);

// The same, and `then` once for each block of the result, on the thread that computed it, right after (see then.h). Subnormals are kept there.
// The rows of the result are numbered through the batch; a result of one column (n = 1) counts as a row for each product of the batch.
int32_t steno_gemm_then(void **bufs, const int64_t *meta, StenoThen *then, void **then_bufs);
}
