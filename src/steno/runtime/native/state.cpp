#include "state.h"

namespace steno {

thread_local ThreadState thread_state;
PyObject *global_config = nullptr;

namespace {

PyObject *tokens = nullptr;  // dict: token -> the one object that stands for all equal to it

PyObject *or_none(PyObject *o) { return Py_NewRef(o ? o : Py_None); }

PyObject *swap(PyObject *&slot, PyObject *value) {
    PyObject *old = slot;
    slot = Py_IsNone(value) ? nullptr : Py_NewRef(value);
    return old ? old : Py_NewRef(Py_None);
}

PyObject *swap_token(PyObject *&slot, PyObject *token) {
    PyObject *one = PyDict_SetDefault(tokens, token, token);
    return one ? swap(slot, one) : nullptr;
}

PyObject *current_trace(PyObject *, PyObject *) { return or_none(thread_state.trace); }
PyObject *swap_trace(PyObject *, PyObject *trace) { return swap(thread_state.trace, trace); }
PyObject *config_token(PyObject *, PyObject *) { return or_none(thread_state.config); }
PyObject *swap_config_token(PyObject *, PyObject *token) { return swap_token(thread_state.config, token); }
PyObject *global_config_token(PyObject *, PyObject *) { return or_none(global_config); }
PyObject *swap_global_config_token(PyObject *, PyObject *token) { return swap_token(global_config, token); }

PyMethodDef methods[] = {
    {"current_trace", current_trace, METH_NOARGS, "current_trace() -> the trace of this thread, or None: evaluate now."},
    {"swap_trace", swap_trace, METH_O, "swap_trace(trace) -> the previous one. None: evaluate now."},
    {"config_token", config_token, METH_NOARGS, "config_token() -> this thread's configuration token, or None."},
    {"swap_config_token", swap_config_token, METH_O,
     "swap_config_token(token) -> the previous one. Any hashable; part of every jit key, beside the global token."},
    {"global_config_token", global_config_token, METH_NOARGS, "global_config_token() -> the token all threads share, or None."},
    {"swap_global_config_token", swap_global_config_token, METH_O, "swap_global_config_token(token) -> the previous one."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool init_state(PyObject *module) {
    tokens = PyDict_New();
    return tokens && PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace steno
