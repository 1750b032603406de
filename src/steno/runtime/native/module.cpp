// The extension module `steno._native`: each source file adds its part.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void init_pytree(nb::module_ &m);
void init_array(nb::module_ &m);
void init_dispatch(nb::module_ &m);
void init_threads(nb::module_ &m);

NB_MODULE(_native, m) {
    m.doc() = "Native core of steno: arrays, pytrees, dispatch, threads.";
    init_pytree(m);
    init_array(m);
    init_threads(m);
    init_dispatch(m);
}
