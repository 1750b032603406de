// Stable sort of rows by one or more keys.
#pragma once

#include "object.h"

#include <cstdint>

extern "C" {

// Sorts rows of `num_operands` arrays in place: the rows' elements move together, ordered by the first `num_keys` of them, the first one
// foremost; equal elements keep their order. Floats: NaNs are alike and last, -0.0 and 0.0 alike. Complex numbers: by real, then by
// imaginary part.
//     buffers: the operands, each num_rows * length elements
//     meta:    num_rows, length, num_keys, num_operands, and for each operand its code (`sort_code` in Python)
// Returns 0, or 2 if there is no memory. Needs no GIL; uses the thread pool.
int32_t steno_sort(void **buffers, const int64_t *meta);
}

namespace steno {

// Whether sorts use AVX-512 (`swap_sort_avx512` in Python).
bool vectorised_sort();

bool init_sort(PyObject *module);

}  // namespace steno
