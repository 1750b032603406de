// Discrete Fourier transforms for compiled code.
#pragma once

#include "object.h"

#include <cstdint>

extern "C" {

// Transforms rows of an array along one axis: bufs: operand, result, contiguous, (outer, length in or out, inner). meta: kind (0 complex forward,
// 1 complex backward, 2 real to half complex, 3 half complex to real), double precision or not, outer, inner, length of the transform, and the
// bits of the double that results are multiplied by.
// Eight rows and more of up to 4096 numbers with factors up to 13 are transformed in the lanes of vectors, longer rows that are such matrices as
// these; the other transforms are NumPy's (pocketfft), called without Python. Results depend neither on threads nor on the vectors' width. Returns 0, 2 if there is no memory, or 3 if NumPy has them no longer.
int32_t steno_fft(void **bufs, const int64_t *meta);
}

namespace steno {

bool init_fft(PyObject *module);

}  // namespace steno
