// A compiled program as a Python object, and how it runs.
#pragma once

#include "array.h"
#include "leaf.h"

#include <vector>

extern "C" int32_t steno_host_call(void *rt, int64_t index, void **bufs);

namespace steno {

using Entry = int32_t (*)(void **in, void **out, void *arena, void *rt);

enum Status : int32_t { kOk = 0, kHostCallRaised = 1, kOutOfMemory = 2 };

struct HostCall {
    PyObject *callback;  // owned
    std::vector<ShapedArray *> operands, results;
};

struct Executable {
    PyObject_HEAD PyObject *weakrefs;
    PyObject *keepalive;  // owned: what holds the machine code
    Entry entry;
    size_t arena_bytes;
    bool heavy;                                      // enough work that the GIL is released
    std::vector<ShapedArray *> in_avals, out_avals;  // owned; the inputs' are followed by those of the captured arrays
    std::vector<int32_t> alias;                      // out -> in whose buffer it takes over, or -1
    std::vector<Buffer *> captured;                  // owned
    std::vector<HostCall> host_calls;

    size_t n_in() const { return in_avals.size() - captured.size(); }
    size_t n_pointers() const { return in_avals.size(); }
    size_t n_out() const { return out_avals.size(); }
};

extern PyTypeObject *ExecutableType;

// Runs the program. `in`: room for n_pointers(), the first n_in() filled; it is changed. `arrays[j]`: the Array input j comes from, or
// null. `donated`: null, or one flag for each input. A donated input's buffer goes to the output that aliases it, if that array alone owns
// it; the array is deleted then. Passing such an array twice is a ValueError. On success fills `out` with n_out() owned buffers. False:
// exception set. The caller keeps the executable and everything behind `in` alive.
bool execute(const Executable *e, void **in, Array *const *arrays, const bool *donated, Buffer **out);

bool init_executable(PyObject *module);

}  // namespace steno
