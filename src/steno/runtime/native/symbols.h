#pragma once

#include "object.h"

namespace steno {

bool init_symbols(PyObject *module);

}  // namespace steno
