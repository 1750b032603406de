#include "leaf.h"

#include <cmath>
#include <cstring>

namespace steno {

namespace {

template <class T, class V>
bool store(unsigned char *to, V value) {
    T x = static_cast<T>(value);
    std::memcpy(to, &x, sizeof x);
    return true;
}

bool mismatch(const char *where, int position, PyObject *leaf, const ShapedArray *aval) {
    if (is_array(leaf)) {
        PyErr_Format(PyExc_TypeError, "%s: argument %d is %s, wanted %s", where, position, describe(as_array(leaf)->aval).c_str(),
                     describe(aval).c_str());
    } else if (PyArray_Check(leaf)) {
        auto *nd = reinterpret_cast<PyArrayObject *>(leaf);
        Ref shape(PyObject_GetAttrString(leaf, "shape"));
        if (shape)
            PyErr_Format(PyExc_TypeError, "%s: argument %d is an ndarray of %S and shape %S, wanted %s", where, position, PyArray_DESCR(nd),
                         shape.get(), describe(aval).c_str());
    } else {
        PyErr_Format(PyExc_TypeError, "%s: argument %d is a %.200s, wanted %s", where, position, Py_TYPE(leaf)->tp_name,
                     describe(aval).c_str());
    }
    return false;
}

bool out_of_range(PyObject *leaf, const ShapedArray *aval) {
    PyErr_Format(PyExc_OverflowError, "Python integer %S is out of bounds for %U", leaf, aval->dtype->name);
    return false;
}

template <class T>
bool store_int(PyObject *leaf, const ShapedArray *aval, unsigned char *to) {
    if constexpr (std::is_same_v<T, uint64_t>) {
        unsigned long long v = PyLong_AsUnsignedLongLong(leaf);
        if (v == static_cast<unsigned long long>(-1) && PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
            PyErr_Clear();
            return out_of_range(leaf, aval);
        }
        return store<T>(to, v);
    } else {
        int overflow;
        long long v = PyLong_AsLongLongAndOverflow(leaf, &overflow);
        if (v == -1 && PyErr_Occurred()) return false;
        if (overflow || v < static_cast<long long>(std::numeric_limits<T>::min()) ||
            v > static_cast<long long>(std::numeric_limits<T>::max()))
            return out_of_range(leaf, aval);
        return store<T>(to, v);
    }
}

// A Python number by the shortest way. 1: stored; 0: this pair of type and dtype has none; -1: exception.
int store_python_number(PyObject *leaf, const ShapedArray *aval, unsigned char *to) {
    DCode code = aval->dtype->code;
    if (PyFloat_Check(leaf)) {
        double v = PyFloat_AS_DOUBLE(leaf);
        if (code == DCode::Float32) return store<float>(to, v);
        if (code == DCode::Float64) return store<double>(to, v);
    } else if (PyBool_Check(leaf)) {
        if (code == DCode::Bool) return store<uint8_t>(to, Py_IsTrue(leaf));
    } else if (PyLong_Check(leaf)) {
        auto done = [](bool ok) { return ok ? 1 : -1; };
        switch (code) {
        case DCode::Int8: return done(store_int<int8_t>(leaf, aval, to));
        case DCode::Int16: return done(store_int<int16_t>(leaf, aval, to));
        case DCode::Int32: return done(store_int<int32_t>(leaf, aval, to));
        case DCode::Int64: return done(store_int<int64_t>(leaf, aval, to));
        case DCode::UInt8: return done(store_int<uint8_t>(leaf, aval, to));
        case DCode::UInt16: return done(store_int<uint16_t>(leaf, aval, to));
        case DCode::UInt32: return done(store_int<uint32_t>(leaf, aval, to));
        case DCode::UInt64: return done(store_int<uint64_t>(leaf, aval, to));
        default: break;
        }
    } else if (PyComplex_Check(leaf)) {
        Py_complex v = PyComplex_AsCComplex(leaf);
        if (code == DCode::Complex64) return store<float>(to, v.real) && store<float>(to + 4, v.imag);
        if (code == DCode::Complex128) return store<double>(to, v.real) && store<double>(to + 8, v.imag);
    }
    return 0;
}

// NumPy's conversion of anything of rank 0 or more, to the aval's dtype.
bool read_through_numpy(PyObject *leaf, const ShapedArray *aval, void **data, KeepAlive &keep, const char *where, int position) {
    PyObject *nd = PyArray_FromAny(leaf, reinterpret_cast<PyArray_Descr *>(Py_NewRef(aval->dtype->dtype)), 0, 0,
                                   NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST, nullptr);
    if (!nd) return false;
    if (!keep.push_steal(nd)) return false;
    if (PyArray_NDIM(reinterpret_cast<PyArrayObject *>(nd)) != aval->ndim ||
        PyArray_SIZE(reinterpret_cast<PyArrayObject *>(nd)) != aval->size)
        return mismatch(where, position, leaf, aval);
    *data = PyArray_DATA(reinterpret_cast<PyArrayObject *>(nd));
    return true;
}

// What a 64-bit dtype becomes where 64-bit dtypes are off: as C converts, with no warnings of NumPy's.
bool narrows(const DTypeInfo *from, DCode to) {
    return (from->code == DCode::Float64 && to == DCode::Float32) || (from->code == DCode::Int64 && to == DCode::Int32) ||
           (from->code == DCode::UInt64 && to == DCode::UInt32) || (from->code == DCode::Complex128 && to == DCode::Complex64);
}

void narrow(DCode to, const void *source, void *target, int64_t n) {
    auto convert = [&](auto from_type, auto to_type, int64_t count) {
        auto *s = static_cast<const decltype(from_type) *>(source);
        auto *t = static_cast<decltype(to_type) *>(target);
        for (int64_t k = 0; k < count; ++k) t[k] = static_cast<decltype(to_type)>(s[k]);
    };
    switch (to) {
    case DCode::Float32: return convert(double(), float(), n);
    case DCode::Complex64: return convert(double(), float(), 2 * n);
    default: return convert(uint64_t(), uint32_t(), n);
    }
}

bool read_narrowed(PyArrayObject *nd, const ShapedArray *aval, void **data, KeepAlive &keep) {
    Ref plain(PyArray_FromArray(nd, nullptr, NPY_ARRAY_CARRAY_RO));
    if (!plain) return false;
    PyObject *target = PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr *>(Py_NewRef(aval->dtype->dtype)),
                                            PyArray_NDIM(nd), PyArray_DIMS(nd), nullptr, nullptr, 0, nullptr);
    if (!target || !keep.push_steal(target)) return false;
    *data = PyArray_DATA(reinterpret_cast<PyArrayObject *>(target));
    narrow(aval->dtype->code, PyArray_DATA(reinterpret_cast<PyArrayObject *>(plain.get())), *data, aval->size);
    return true;
}

bool read_ndarray(PyArrayObject *nd, const ShapedArray *aval, void **data, KeepAlive &keep, const char *where, int position) {
    if (PyArray_NDIM(nd) != aval->ndim || (aval->ndim && std::memcmp(PyArray_DIMS(nd), aval->dims, sizeof(int64_t) * aval->ndim)))
        return mismatch(where, position, reinterpret_cast<PyObject *>(nd), aval);
    if (STENO_LIKELY(PyArray_DESCR(nd)->type_num == aval->dtype->type_num && PyArray_ISCARRAY_RO(nd))) {
        *data = PyArray_DATA(nd);
        return true;
    }
    const DTypeInfo *dtype = PyArray_ISNOTSWAPPED(nd) ? dtype_info_of_descr(PyArray_DESCR(nd)) : nullptr;
    if (PyErr_Occurred()) PyErr_Clear();  // a type that steno has not; NumPy may convert it
    if (dtype && narrows(dtype, aval->dtype->code)) return read_narrowed(nd, aval, data, keep);
    return read_through_numpy(reinterpret_cast<PyObject *>(nd), aval, data, keep, where, position);
}

bool read_numpy_scalar(PyObject *leaf, const ShapedArray *aval, void **data, ScalarBytes *scalar, KeepAlive &keep, const char *where,
                       int position) {
    ScalarType type;
    if (!read_scalar_type(leaf, &type)) return false;
    if (!type.dtype) return mismatch(where, position, leaf, aval);
    *data = scalar;
    bool narrowed = type.dtype != aval->dtype;
    if (!narrowed || narrows(type.dtype, aval->dtype->code)) {
        ScalarBytes value;
        if (type.value) std::memcpy(&value, type.value, size_t(type.dtype->itemsize));
        else if (type.dtype->type_num < NPY_USERDEF && type.dtype->itemsize <= int64_t(sizeof value)) PyArray_ScalarAsCtype(leaf, &value);
        else return read_through_numpy(leaf, aval, data, keep, where, position);
        if (narrowed) narrow(aval->dtype->code, &value, scalar, 1);
        else *scalar = value;
        return true;
    }
    return read_through_numpy(leaf, aval, data, keep, where, position);
}

}  // namespace

bool read_leaf(PyObject *leaf, const ShapedArray *aval, void **data, ScalarBytes *scalar, KeepAlive &keep, const char *where,
               int position) {
    if (is_array(leaf)) {
        Array *a = as_array(leaf);
        if (STENO_UNLIKELY(!check_alive(a))) return false;  // again in `execute`: reading other leaves may run Python
        if (a->aval != aval && (a->aval->dtype != aval->dtype || a->aval->ndim != aval->ndim ||
                                (aval->ndim && std::memcmp(a->aval->dims, aval->dims, sizeof(int64_t) * aval->ndim))))
            return mismatch(where, position, leaf, aval);
        *data = a->buffer->data;
        return true;
    }
    if (aval->dtype->type_num < 0) return mismatch(where, position, leaf, aval);
    if (PyArray_Check(leaf)) return read_ndarray(reinterpret_cast<PyArrayObject *>(leaf), aval, data, keep, where, position);

    bool numpy_scalar = PyArray_IsScalar(leaf, Generic);
    if (numpy_scalar || PyFloat_Check(leaf) || PyLong_Check(leaf) || PyComplex_Check(leaf)) {
        if (aval->ndim) return mismatch(where, position, leaf, aval);
        if (numpy_scalar) return read_numpy_scalar(leaf, aval, data, scalar, keep, where, position);
        *data = scalar;
        int done = store_python_number(leaf, aval, scalar->bytes);
        return done ? done > 0 : read_through_numpy(leaf, aval, data, keep, where, position);
    }

    static PyObject *value_name = intern("value");
    Ref value(PyObject_GetAttr(leaf, value_name));  // TypedScalar
    if (!value) {
        PyErr_Clear();
        static PyObject *array_name = intern("__array__");
        if (has_attr(leaf, array_name)) return read_through_numpy(leaf, aval, data, keep, where, position);  // of a class that a library entered
    }
    if (!value || !PyArray_IsScalar(value.get(), Generic)) return mismatch(where, position, leaf, aval);
    return read_leaf(value.get(), aval, data, scalar, keep, where, position);
}

}  // namespace steno
