#include "state.h"

#include <map>

#include "array.h"

namespace steno {

STENO_THREAD_LOCAL ThreadState thread_state;
uint64_t config_epoch = 1;

namespace {

PyObject *global_config = nullptr;  // owned, interned
PyObject *tokens = nullptr;         // dict: token -> the one object that stands for all equal to it
PyObject *typeof_function = nullptr;

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
PyObject *swap_config_token(PyObject *, PyObject *token) {
    thread_state.record = nullptr;
    return swap_token(thread_state.config, token);
}
PyObject *global_config_token(PyObject *, PyObject *) { return or_none(global_config); }
PyObject *swap_global_config_token(PyObject *, PyObject *token) {
    ++config_epoch;
    return swap_token(global_config, token);
}

PyObject *set_typeof(PyObject *, PyObject *f) {
    Py_XSETREF(typeof_function, Py_NewRef(f));
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"current_trace", current_trace, METH_NOARGS, "current_trace() -> the trace of this thread, or None: evaluate now."},
    {"swap_trace", swap_trace, METH_O, "swap_trace(trace) -> the previous one. None: evaluate now."},
    {"config_token", config_token, METH_NOARGS, "config_token() -> this thread's configuration token, or None."},
    {"swap_config_token", swap_config_token, METH_O,
     "swap_config_token(token) -> the previous one. Any hashable; part of every jit key, beside the global token."},
    {"global_config_token", global_config_token, METH_NOARGS, "global_config_token() -> the token all threads share, or None."},
    {"swap_global_config_token", swap_global_config_token, METH_O, "swap_global_config_token(token) -> the previous one."},
    {"set_typeof", set_typeof, METH_O,
     "set_typeof(f): f(x) gives the ShapedArray of a NumPy or Python number under the current configuration, or raises."},
    {nullptr, nullptr, 0, nullptr},
};

// typeof(x), a new reference. Null without an exception: TypeError, OverflowError or ValueError, x is no array.
ShapedArray *ask_typeof(PyObject *x) {
    if (!x || !typeof_function) return nullptr;
    PyObject *aval = PyObject_CallOneArg(typeof_function, x);
    if (aval && is_aval(aval)) return reinterpret_cast<ShapedArray *>(aval);
    if (aval) {
        PyErr_Format(PyExc_TypeError, "typeof: a ShapedArray is wanted, got %R", aval);
        Py_DECREF(aval);
        return nullptr;
    }
    if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_Clear();
    return nullptr;
}

// The type of a Python number, asked once for each configuration.
template <class MakeExample>
ShapedArray *number(ShapedArray *&slot, MakeExample make_example) {
    if (STENO_UNLIKELY(!slot)) {
        Ref example(make_example());
        slot = ask_typeof(example.get());
    }
    Py_XINCREF(slot);
    return slot;
}

ShapedArray *python_float(ConfigRecord *record) {
    return number(record->python_float, [] { return PyFloat_FromDouble(0); });
}

ShapedArray *python_int(PyObject *leaf, ConfigRecord *record) {
    Ref aval(reinterpret_cast<PyObject *>(number(record->python_int, [] { return PyLong_FromLong(0); })));
    if (!aval) return nullptr;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(leaf, &overflow);
    bool fits = !overflow && (record->python_int->dtype->itemsize == 8 || value == int32_t(value));
    return fits ? reinterpret_cast<ShapedArray *>(aval.release()) : nullptr;
}

// The dtype that arrays of a NumPy dtype have; null as for `leaf_aval`.
const DTypeInfo *canonical(int num, ConfigRecord *record) {
    if (STENO_UNLIKELY(num < 0 || num >= ConfigRecord::kNumbers || (num >= NPY_OBJECT && num <= NPY_TIMEDELTA))) return nullptr;
    if (STENO_UNLIKELY(!record->canonical[num])) {
        PyArray_Descr *descr = PyArray_DescrFromType(num);
        Ref example(descr ? PyArray_Zeros(0, nullptr, descr, 0) : nullptr);
        Ref aval(reinterpret_cast<PyObject *>(ask_typeof(example.get())));
        if (!aval) return nullptr;
        record->canonical[num] = reinterpret_cast<ShapedArray *>(aval.get())->dtype;
    }
    return record->canonical[num];
}

}  // namespace

ConfigRecord *find_config_record() {
    static auto *records = new std::map<std::pair<PyObject *, PyObject *>, ConfigRecord *>;
    ThreadState &t = thread_state;
    ConfigRecord *&r = (*records)[{t.config, global_config}];
    if (!r) {
        Py_XINCREF(t.config);
        Py_XINCREF(global_config);
        r = new ConfigRecord{t.config, global_config};
    }
    t.record = r;
    t.record_epoch = config_epoch;
    return r;
}

ShapedArray *leaf_aval(PyObject *leaf, ConfigRecord *record) {
    if (STENO_LIKELY(is_array(leaf))) {
        Py_INCREF(as_array(leaf)->aval);
        return as_array(leaf)->aval;
    }
    if (PyFloat_CheckExact(leaf)) return python_float(record);
    if (PyLong_CheckExact(leaf)) return python_int(leaf, record);
    if (PyBool_Check(leaf)) return number(record->python_bool, [] { return Py_NewRef(Py_False); });
    if (PyArray_CheckExact(leaf)) {
        auto *nd = reinterpret_cast<PyArrayObject *>(leaf);
        const DTypeInfo *dtype = PyArray_ISNOTSWAPPED(nd) ? canonical(PyArray_DESCR(nd)->type_num, record) : nullptr;
        return dtype ? make_aval(reinterpret_cast<const int64_t *>(PyArray_DIMS(nd)), PyArray_NDIM(nd), dtype, false) : nullptr;
    }
    if (PyArray_IsScalar(leaf, Generic)) {
        ScalarType scalar;
        if (!read_scalar_type(leaf, &scalar)) return nullptr;
        const DTypeInfo *dtype = scalar.dtype ? canonical(scalar.dtype->type_num, record) : nullptr;
        return dtype ? make_aval(nullptr, 0, dtype, false) : nullptr;
    }
    if (PyComplex_CheckExact(leaf)) return number(record->python_complex, [] { return PyComplex_FromDoubles(0, 0); });
    if (PyLong_Check(leaf)) return python_int(leaf, record);  // IntEnum and the like
    if (PyFloat_Check(leaf)) return python_float(record);
    return nullptr;
}

bool init_state(PyObject *module) {
    tokens = PyDict_New();
    return tokens && PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace steno
