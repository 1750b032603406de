// The extension module `steno._native`: each source file adds its part.
#define STENO_IMPORTS_NUMPY
#include "object.h"

#include <nanobind/nanobind.h>

#include "array.h"
#include "code.h"
#include "cpu.h"
#include "dlpack.h"
#include "executable.h"
#include "fft.h"
#include "jit.h"
#include "lapack.h"
#include "operator.h"
#include "queue.h"
#include "sort.h"
#include "state.h"
#include "symbols.h"
#include "threads.h"

namespace nb = nanobind;

void init_pytree(nb::module_ &m);

namespace {

bool import_numpy() {
    import_array1(false);
    return true;
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Native core of steno: arrays, pytrees, dispatch, threads.";
    init_pytree(m);
    PyObject *module = m.ptr();
    bool ok = import_numpy() && steno::init_state(module) && steno::init_aval(module) && steno::init_buffer(module) &&
              steno::init_array_type(module) && steno::init_dlpack(module) && steno::init_threads(module) && steno::init_queue(module) &&
              steno::init_executable(module) && steno::init_jit_entry(module) && steno::init_jit_function(module) &&
              steno::init_sort(module) && steno::init_fft(module) && steno::init_symbols(module) && steno::init_code(module) && steno::init_operator(module) && steno::init_cpu(module) && steno::init_lapack(module);
    if (!ok) throw nb::python_error();
}
