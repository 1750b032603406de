// Machine code in memory: objects as the compiler makes them, linked and loaded.
#pragma once

#include "object.h"

namespace steno {

bool init_code(PyObject *module);

}  // namespace steno
