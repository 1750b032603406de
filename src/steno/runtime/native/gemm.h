// Matrix products for compiled code.
#pragma once

#include <cstdint>

extern "C" {

// result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n].
// bufs: lhs, rhs, result (contiguous). meta: dtype code, batch, m, n, k, then for lhs and rhs: offset, batch stride, row stride, column
// stride, in elements. Codes: float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool = 0..12.
//
// Each element is, for each block of 256 consecutive k, one chain of fused multiply-adds in ascending k that starts at zero; the blocks
// are added in order. Subnormal operands, sums and results count as zero. That does not depend on layouts, tiles, batching, threads or vector width.
int32_t steno_gemm(void **bufs, const int64_t *meta);

// Code that reads the result row by row: its points [begin, end), and of each of them the columns [first, last).
typedef void StenoThen(void **bufs, int64_t begin, int64_t end, int64_t first, int64_t last);

// The same, and `then(then_bufs, ...)` once for each block of the result, on the thread that computed it, right after. Subnormals are kept there.
// The rows of the result are numbered through the batch. meta goes on: points in a row, whether blocks may be some of the columns, bytes of an
// element, nanoseconds that all of `then` takes. Columns begin at multiples of 64, and end so or at the last. A result of one column (n = 1) counts
// as a row for each product of the batch.
int32_t steno_gemm_then(void **bufs, const int64_t *meta, StenoThen *then, void **then_bufs);
}
