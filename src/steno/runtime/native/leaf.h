// What users pass as array arguments: arrays of steno and NumPy, NumPy and Python scalars, and `TypedScalar`.
#pragma once

#include "array.h"
#include "pytree.h"

namespace steno {

using KeepAlive = RefVectorN<8>;

struct alignas(16) ScalarBytes {
    unsigned char bytes[16];
};

// Points `*data` at the bytes of `leaf` as elements of `aval`: the leaf's own memory, `*scalar`, or a converted
// copy that `keep` owns. Numbers convert as the dtypes of NumPy do; a Python integer that does not fit raises OverflowError.
// False: exception set (TypeError: no array, or another shape or dtype kind; RuntimeError: deleted). `where` and `position` name it.
bool read_leaf(PyObject *leaf, const ShapedArray *aval, void **data, ScalarBytes *scalar, KeepAlive &keep, const char *where, int position);

}  // namespace steno
