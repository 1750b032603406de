// A compiled program as a Python object, and how it runs.
#pragma once

#include "array.h"
#include "leaf.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

extern "C" int32_t steno_host_call(void *rt, int64_t index, void **bufs);

namespace steno {

using Entry = int32_t (*)(void **in, void **out, void *arena, void *rt);

enum Status : int32_t { kOk = 0, kHostCallRaised = 1, kOutOfMemory = 2 };

struct HostCall {
    PyObject *callback;  // owned
    std::vector<ShapedArray *> operands, results;
};

// Whether callers have something to do while a program runs. If not, time and again, it is not worth waking another thread; one run in
// sixteen is queued nevertheless, to see whether that has changed.
struct Patience {
    uint8_t waits = 0;  // latest queued runs in a row whose result was waited for at once
    uint8_t runs = 0;   // since one was queued
    void note(bool waited_at_once) { waits = waited_at_once ? std::min(waits + 1, 3) : 0; }
    bool wants_result_now() { return waits == 3 && ++runs % 16; }
};

struct Executable {
    PyObject_HEAD PyObject *weakrefs;
    PyObject *keepalive;  // owned: what holds the machine code
    Entry entry;
    size_t arena_bytes;
    bool heavy;                                      // enough work to be queued, or else to release the GIL
    bool special;                                    // heavy, or makes host calls: not just a function call
    Patience patience;                               // under the GIL
    std::atomic<uint64_t> latest_nanoseconds;        // how long the latest special run took, or the first is expected to; 0: unknown
    std::vector<ShapedArray *> in_avals, out_avals;  // owned; the inputs' are followed by those of the captured arrays
    std::vector<int32_t> alias;                      // out -> in whose buffer it takes over, or -1
    std::vector<Buffer *> captured;                  // owned
    std::vector<HostCall> host_calls;
    size_t out_bytes;  // of all outputs

    void note_duration(std::chrono::nanoseconds t) {  // by any thread
        latest_nanoseconds.store(std::max<int64_t>(t.count(), 1), std::memory_order_relaxed);
    }
    size_t n_in() const { return in_avals.size() - captured.size(); }
    size_t n_pointers() const { return in_avals.size(); }
    size_t n_out() const { return out_avals.size(); }
};

extern PyTypeObject *ExecutableType;

struct Task;

// What `rt` of an entry points to: one run, on the stack of the thread that runs it. Host calls are made by that thread.
struct Run {
    const Executable *executable;
    const Task *task;           // of the queue; null: the run is its caller's, who waits for it
    PyThreadState *released;    // the caller's state while it does without the GIL; null: it holds the GIL
    PyObject *error = nullptr;  // owned: the exception of a host call
};

// Sets the exception for the status of an entry other than kOk.
void raise_status(int32_t status);

// The exception that is set, taken away; and back (takes over the reference).
PyObject *take_exception();
void raise_exception(PyObject *owned);

// Runs the program, or queues it: then the outputs have a `producer`. `in`: room for n_pointers(), the first n_in() filled; it is changed.
// `arrays[j]`: the Array input j comes from, or null. `donated`: null, or one flag for each input. A donated input's buffer goes to the
// output that aliases it, if that array alone owns it; the array is deleted then. Passing such an array twice is a ValueError. On success
// fills `out` with n_out() owned buffers. False: exception set. The caller keeps the executable and everything behind `in` alive.
bool execute(Executable *e, void **in, Array *const *arrays, const bool *donated, Buffer **out);

bool init_executable(PyObject *module);

}  // namespace steno
