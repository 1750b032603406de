// What belongs to a thread: the current trace and the configuration. Read on every dispatch.
#pragma once

#include "aval.h"

namespace steno {

// What a configuration means for arguments. One for each pair of tokens met, never freed: its address stands in the keys of
// jitted functions.
struct ConfigRecord {
    PyObject *local, *global;  // the tokens: owned, may be null
    // Types of Python's numbers and of NumPy's dtypes by number, as `typeof` gives them; null: not asked yet.
    ShapedArray *python_bool = nullptr, *python_int = nullptr, *python_float = nullptr, *python_complex = nullptr;
    static constexpr int kNumbers = 512;
    const DTypeInfo *canonical[kNumbers] = {};
};

struct ThreadState {
    PyObject *trace = nullptr;   // owned; null: evaluate now. What a thread leaves here when it ends is not released.
    PyObject *config = nullptr;  // owned, interned: equal tokens are one object
    ConfigRecord *record = nullptr;
    uint64_t record_epoch = 0;  // the `config_epoch` of `record`
};

extern STENO_THREAD_LOCAL ThreadState thread_state;
extern uint64_t config_epoch;  // counts changes of the global token
ConfigRecord *find_config_record();

// The record of this thread's configuration; null: MemoryError is set.
inline ConfigRecord *config_record() {
    if (STENO_LIKELY(thread_state.record && thread_state.record_epoch == config_epoch)) return thread_state.record;
    return find_config_record();
}

// The type of a leaf of a call: an owned reference. Null without an exception: Python has to look at it (no array, a tracer, an integer
// out of range, ...); null with one: it failed.
ShapedArray *leaf_aval(PyObject *leaf, ConfigRecord *record);

bool init_state(PyObject *module);

}  // namespace steno
