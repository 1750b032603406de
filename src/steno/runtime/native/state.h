// What belongs to a thread: the current trace and the configuration. Read on every dispatch.
#pragma once

#include "object.h"

namespace steno {

struct ThreadState {
    PyObject *trace = nullptr;   // owned; null: evaluate now. What a thread leaves here when it ends is not released.
    PyObject *config = nullptr;  // owned, interned: equal tokens are one object
};

extern thread_local ThreadState thread_state;
extern PyObject *global_config;  // owned, interned; part of every jit key beside the thread's own

bool init_state(PyObject *module);

}  // namespace steno
