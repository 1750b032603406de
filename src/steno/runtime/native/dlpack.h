#pragma once

#include "object.h"

namespace steno {

extern PyMethodDef dlpack_methods[];  // of ArrayImpl

bool init_dlpack(PyObject *module);  // adds the function from_dlpack

}  // namespace steno
