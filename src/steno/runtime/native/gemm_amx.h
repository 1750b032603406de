// Products of bytes and of bfloat16 by the matrix unit of x86 processors (AMX).
#pragma once

#include <cstdint>

namespace steno {

enum class AmxKind { s8s8, s8u8, u8s8, u8u8, bf16 };

// Whether this processor has the unit for these operands, and the system lends it.
bool has_amx(AmxKind kind);

// c[i, j] = sum over k of a[i, k] * b[k, j] on this thread, strides in elements, c's columns contiguous: int32 that wrap around, or float32 in which each pair of
// products is added in one step and subnormals count as zero. False: no memory, nothing computed.
bool amx_product(AmxKind kind, int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b, int64_t b_row, int64_t b_col, void *c,
                 int64_t c_row);

}  // namespace steno
