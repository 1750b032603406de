// Stable sort of rows by one or more keys.
#pragma once

#include "object.h"

#include <cstdint>

// Loops that the C++ compiler vectorises, for each instruction set.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define STENO_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STENO_CLONES
#endif

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

constexpr int64_t kParallelRow = 1 << 16;  // from here one row is worth several threads

// Whether sorts use AVX-512 (`swap_sort_avx512` in Python).
bool vectorised_sort();

bool init_sort(PyObject *module);

}  // namespace steno
