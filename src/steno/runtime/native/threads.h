// The thread pool: one for generated kernels, sorts and library calls.
#pragma once

#include "object.h"

#include <cstdint>

extern "C" {

// Runs fn(bufs, begin, end) over pieces that cover [0, n) without overlap, on several threads, and returns when all are done.
// Every piece begins at a multiple of `grain`; which thread runs it, and how many there are, is not determined, so a result must not
// depend on it. Runs fn(bufs, 0, n) on the calling thread if n <= grain, if only one thread is allowed, inside another parallel region,
// or while another thread uses the pool. Needs no GIL.
void steno_parallel_for(void (*fn)(void **bufs, int64_t begin, int64_t end), void **bufs, int64_t n, int64_t grain);
}

namespace steno {

// Multiply-adds of a library function from which on a second thread pays: some 20 microseconds, as PARALLEL_NS of compiler/cost.py.
constexpr double kParallelWork = 1e6;

// How many threads a parallel region of this thread may use, the calling one included.
int num_threads();

// The bound of this thread's regions (0: none but the process's). The second sets it and gives the previous one.
int thread_limit();
int exchange_thread_limit(int n);

bool init_threads(PyObject *module);

}  // namespace steno
