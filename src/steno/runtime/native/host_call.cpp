// Host calls: the Python functions that compiled programs call.
#include <cstring>

#include "executable.h"
#include "queue.h"

namespace steno {

namespace {

// Copies what a callback returned for one result into `to`.
bool copy_result(PyObject *result, const ShapedArray *aval, void *to, size_t position) {
    auto wrong = [&](PyObject *shape, PyObject *dtype) {
        PyErr_Format(PyExc_ValueError, "callback: result %zu has shape %S and dtype %S, wanted %s", position, shape, dtype,
                     describe(aval).c_str());
        return false;
    };
    if (is_array(result)) {
        Array *a = as_array(result);
        if (!ready(a)) return false;
        if (a->aval->dtype != aval->dtype || a->aval->shape != aval->shape) {
            int same = a->aval->dtype == aval->dtype ? PyObject_RichCompareBool(a->aval->shape, aval->shape, Py_EQ) : 0;
            if (same <= 0) return same < 0 ? false : wrong(a->aval->shape, a->aval->dtype->dtype);
        }
        std::memcpy(to, a->buffer->data, size_t(aval->nbytes));
        return true;
    }
    Ref array(PyArray_FROM_O(result));
    if (!array) return false;
    auto *nd = reinterpret_cast<PyArrayObject *>(array.get());
    bool opaque = aval->dtype->type_num < 0;
    bool fits = PyArray_NDIM(nd) == aval->ndim + opaque &&
                (!aval->ndim || !std::memcmp(PyArray_DIMS(nd), aval->dims, sizeof(int64_t) * aval->ndim));
    const DTypeInfo *dtype = dtype_info_of_descr(PyArray_DESCR(nd));
    if (!dtype) return false;
    fits =
        fits && (opaque ? dtype->code == DCode::UInt32 && PyArray_DIM(nd, aval->ndim) * 4 == aval->dtype->itemsize : dtype == aval->dtype);
    if (!fits) {
        Ref shape(PyObject_GetAttrString(array.get(), "shape"));
        return shape ? wrong(shape.get(), reinterpret_cast<PyObject *>(PyArray_DESCR(nd))) : false;
    }
    Ref plain(PyArray_FromArray(nd, reinterpret_cast<PyArray_Descr *>(Py_NewRef(dtype->dtype)), NPY_ARRAY_CARRAY_RO));
    if (!plain) return false;
    std::memcpy(to, PyArray_DATA(reinterpret_cast<PyArrayObject *>(plain.get())), size_t(aval->nbytes));
    return true;
}

bool call_host(const HostCall &call, void **bufs) {
    size_t n = call.operands.size(), m = call.results.size();
    Ref args(PyTuple_New(Py_ssize_t(n)));
    if (!args) return false;
    for (size_t k = 0; k < n; ++k) {
        // Copies, because the callback may keep them while the program overwrites its memory.
        Buffer *b = allocate_for(call.operands[k]);
        if (!b) return false;
        std::memcpy(b->data, bufs[k], size_t(call.operands[k]->nbytes));
        PyObject *a = make_array(call.operands[k], b);
        if (!a) return false;
        PyTuple_SET_ITEM(args.get(), Py_ssize_t(k), a);
    }
    Ref returned(PyObject_Call(call.callback, args.get(), nullptr));
    if (!returned) return false;
    if (m == 0) return true;
    Ref results(PySequence_Fast(returned.get(), "callback: a sequence of results is wanted"));
    if (!results) return false;
    if (size_t(PySequence_Fast_GET_SIZE(results.get())) != m) {
        PyErr_Format(PyExc_ValueError, "callback: %zd results given, %zu wanted", PySequence_Fast_GET_SIZE(results.get()), m);
        return false;
    }
    for (size_t k = 0; k < m; ++k)
        if (!copy_result(PySequence_Fast_GET_ITEM(results.get(), Py_ssize_t(k)), call.results[k], bufs[n + k], k)) return false;
    return true;
}

}  // namespace

}  // namespace steno

using namespace steno;

int32_t steno_host_call(void *rt, int64_t index, void **bufs) {
    auto *run = static_cast<Run *>(rt);
    HostCallScope scope(run);
    if (scope.entered() && call_host(run->executable->host_calls[size_t(index)], bufs)) return kOk;
    run->error = take_exception();
    return kHostCallRaised;
}
