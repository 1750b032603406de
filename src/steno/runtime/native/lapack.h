// Decompositions and solves for compiled code, on LAPACK.
#pragma once

#include "object.h"

namespace steno {

// lapack_names() -> tuple of the Fortran functions wanted; set_lapack(addresses): theirs, in that order, once before any of the functions
// below runs; lapack_symbols() -> dict: names and addresses of the functions for compiled code.
bool init_lapack(PyObject *module);

}  // namespace steno
