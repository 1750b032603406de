// Memory of arrays: 64-byte aligned, reference counted, from a pool. Everything here needs the GIL.
#pragma once

#include "object.h"

#include <cstddef>
#include <cstdint>

namespace steno {

constexpr size_t kAlignment = 64;

// A piece of memory. `refs` counts the arrays, views and exports on it: 1 means that one array alone owns it, so it may be
// taken over by a donation. A pending event of asynchronous runs will live here: whoever looks at `data` calls `wait` first.
struct Buffer {
    void *data;
    size_t nbytes;
    uint32_t refs;
    uint8_t size_class;  // where `free` puts it; kForeign: `owner` owns the memory
    bool writable;       // false: memory of others, never taken over
    bool marked;         // transient, see `execute`
    PyObject *owner;     // owned; kForeign only
};

// New buffer of at least `nbytes`, uninitialised, refs = 1; null: MemoryError is set.
Buffer *allocate_buffer(size_t nbytes);

// Wraps the memory of another object, kept alive by `owner` (a new reference is taken).
Buffer *foreign_buffer(void *data, size_t nbytes, PyObject *owner);

void free_buffer(Buffer *buffer);

inline Buffer *retain(Buffer *b) {
    ++b->refs;
    return b;
}
inline void release(Buffer *b) {
    if (--b->refs == 0) free_buffer(b);
}
inline void wait(const Buffer *) {}

// Scratch memory of a run, from the same pool: no Buffer, uninitialised. null: MemoryError is set.
struct Scratch {
    void *data;
    size_t size_class;
};
bool allocate_scratch(size_t nbytes, Scratch *out);
void free_scratch(Scratch scratch);

bool init_buffer(PyObject *module);

}  // namespace steno
