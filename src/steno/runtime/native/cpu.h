#pragma once

#include "object.h"

namespace steno {

bool init_cpu(PyObject *module);

}  // namespace steno
