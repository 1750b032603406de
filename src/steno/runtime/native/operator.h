// Operators of arrays: those on operands seen before run without Python.
#pragma once

#include "object.h"

namespace steno {

bool init_operator(PyObject *module);

}  // namespace steno
