#include "array.h"

namespace steno {

PyMethodDef dlpack_methods[] = {{nullptr, nullptr, 0, nullptr}};

}  // namespace steno
