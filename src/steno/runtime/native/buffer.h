// Memory of arrays: 64-byte aligned, reference counted, from a pool. Everything here needs the GIL.
#pragma once

#include "object.h"

#include <cstddef>
#include <cstdint>

namespace steno {

constexpr size_t kAlignment = 64;

struct Task;

// A piece of memory. `refs` counts the arrays, views and exports on it: 1 means that one array alone owns it, so it may be
// taken over by a donation. Queued runs that read or write it are counted apart: they keep it alive, and a donation to a run
// behind them does not disturb them. Whoever looks at `data` makes sure first that it is there: `ready` in array.h.
struct Buffer {
    void *data;
    size_t nbytes;
    uint32_t refs;
    uint8_t size_class;  // where `free` puts it; kForeign: `owner` owns the memory
    bool writable;       // false: memory of others, never taken over
    bool marked;         // transient, see `execute`
    uint32_t in_flight;  // queued runs that use it
    Task *producer;      // owned: the queued run that writes it; null: the data is there
    PyObject *owner;     // owned; kForeign only
};

// New buffer of at least `nbytes`, uninitialised, refs = 1; null: MemoryError is set.
Buffer *allocate_buffer(size_t nbytes);

// Wraps the memory of another object, kept alive by `owner` (a new reference is taken).
Buffer *foreign_buffer(void *data, size_t nbytes, PyObject *owner);

// Frees it, unless queued runs use it.
void free_buffer(Buffer *buffer);

inline Buffer *retain(Buffer *b) {
    ++b->refs;
    return b;
}
inline void release(Buffer *b) {
    if (--b->refs == 0) free_buffer(b);
}
inline void hold(Buffer *b) { ++b->in_flight; }
inline void unhold(Buffer *b) {
    if (--b->in_flight == 0 && b->refs == 0) free_buffer(b);
}

// Scratch memory of a run, from the same pool: no Buffer, uninitialised. null: MemoryError is set.
struct Scratch {
    void *data;
    uint8_t size_class;
};
bool allocate_scratch(size_t nbytes, Scratch *out);
void free_scratch(Scratch scratch);

// How many bytes of freed memory are kept for reuse.
size_t pool_limit();

bool init_buffer(PyObject *module);

}  // namespace steno
