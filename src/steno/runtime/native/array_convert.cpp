// What an array becomes when Python asks for a scalar, a list or an ndarray. Error classes and first lines are JAX's.
#include "array.h"

#include <cstring>

namespace steno {

namespace {

template <class T>
T load(const void *p) {
    T out;
    std::memcpy(&out, p, sizeof out);
    return out;
}

// The element of an array of one element; key arrays have none.
PyObject *only_element(Array *a) {
    if (!ready(a)) return nullptr;
    return element_to_python(a->aval->dtype, a->buffer->data);
}

bool not_a_key(Array *a, const char *what) {
    if (a->aval->dtype->type_num >= 0) return true;
    PyErr_Format(PyExc_TypeError, "%s argument must be a string or a real number, not a key array of %s", what, describe(a->aval).c_str());
    return false;
}

// The value of a rank 0 array, or TypeError.
PyObject *scalar_element(PyObject *self, const char *what) {
    Array *a = as_array(self);
    if (!not_a_key(a, what)) return nullptr;
    if (a->aval->ndim) {
        PyErr_Format(PyExc_TypeError, "Only scalar arrays can be converted to Python scalars; got arr.ndim=%d", a->aval->ndim);
        return nullptr;
    }
    return only_element(a);
}

PyObject *array_complex(PyObject *self, PyObject *) {
    Ref value(scalar_element(self, "complex()"));
    return value ? PyObject_CallOneArg(reinterpret_cast<PyObject *>(&PyComplex_Type), value.get()) : nullptr;
}

// Calls a method of the ndarray over the same memory.
PyObject *through_numpy(PyObject *self, const char *name, PyObject *args) {
    Array *a = as_array(self);
    if (a->aval->dtype->type_num < 0) {
        PyErr_Format(PyExc_TypeError, "%s: %s is a key array, which has no Python values; see random.key_data", name,
                     describe(a->aval).c_str());
        return nullptr;
    }
    Ref value(array_to_numpy(a));
    Ref method(value ? PyObject_GetAttrString(value.get(), name) : nullptr);
    return method ? (args ? PyObject_CallObject(method.get(), args) : PyObject_CallNoArgs(method.get())) : nullptr;
}

PyObject *array_item(PyObject *self, PyObject *args) {
    Array *a = as_array(self);
    if (PyTuple_GET_SIZE(args) == 0 && a->aval->size == 1 && a->aval->dtype->type_num >= 0) return only_element(a);
    return through_numpy(self, "item", args);
}

PyObject *array_tolist(PyObject *self, PyObject *) { return through_numpy(self, "tolist", nullptr); }

PyObject *array_numpy(PyObject *self, PyObject *args, PyObject *kwargs) {
    static const char *names[] = {"dtype", "copy", nullptr};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", const_cast<char **>(names), &dtype, &copy)) return nullptr;
    Array *a = as_array(self);
    if (a->aval->dtype->type_num < 0) {
        PyErr_SetString(PyExc_TypeError,
                        "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use jax.random.key_data(arr) if you "
                        "wish to extract the underlying integer array.");
        return nullptr;
    }
    Ref value(array_to_numpy(a));
    if (!value) return nullptr;
    auto *nd = reinterpret_cast<PyArrayObject *>(value.get());
    PyArray_Descr *wanted = nullptr;
    if (!PyArray_DescrConverter2(dtype, &wanted)) return nullptr;
    Ref keep(reinterpret_cast<PyObject *>(wanted));
    bool converts = wanted && !PyArray_EquivTypes(wanted, PyArray_DESCR(nd));
    int must_copy = Py_IsNone(copy) ? 0 : PyObject_IsTrue(copy);
    if (must_copy < 0) return nullptr;
    if (converts && !Py_IsNone(copy) && !must_copy) {
        PyErr_Format(PyExc_ValueError, "Unable to avoid copy while creating an array as requested: %s cannot be seen as %S without one",
                     describe(a->aval).c_str(), keep.get());
        return nullptr;
    }
    if (converts) {
        Py_INCREF(wanted);
        return PyArray_CastToType(nd, wanted, 0);
    }
    return must_copy ? PyArray_NewCopy(nd, NPY_CORDER) : value.release();
}

}  // namespace

PyObject *element_to_python(const DTypeInfo *dtype, const void *p) {
    switch (dtype->code) {
    case DCode::Bool: return PyBool_FromLong(load<uint8_t>(p));
    case DCode::Int8: return PyLong_FromLong(load<int8_t>(p));
    case DCode::Int16: return PyLong_FromLong(load<int16_t>(p));
    case DCode::Int32: return PyLong_FromLong(load<int32_t>(p));
    case DCode::Int64: return PyLong_FromLongLong(load<int64_t>(p));
    case DCode::UInt8: return PyLong_FromLong(load<uint8_t>(p));
    case DCode::UInt16: return PyLong_FromLong(load<uint16_t>(p));
    case DCode::UInt32: return PyLong_FromUnsignedLong(load<uint32_t>(p));
    case DCode::UInt64: return PyLong_FromUnsignedLongLong(load<uint64_t>(p));
    case DCode::Float32: return PyFloat_FromDouble(load<float>(p));
    case DCode::Float64: return PyFloat_FromDouble(load<double>(p));
    case DCode::Complex64: return PyComplex_FromDoubles(load<float>(p), load<float>(static_cast<const char *>(p) + 4));
    case DCode::Complex128: return PyComplex_FromDoubles(load<double>(p), load<double>(static_cast<const char *>(p) + 8));
    case DCode::BFloat16: {
        uint32_t bits = uint32_t(load<uint16_t>(p)) << 16;
        return PyFloat_FromDouble(load<float>(&bits));
    }
    default: break;
    }
    if (dtype->type_num < 0) {
        PyErr_Format(PyExc_TypeError, "%U has no Python values", dtype->name);
        return nullptr;
    }
    Ref scalar(PyArray_Scalar(const_cast<void *>(p), reinterpret_cast<PyArray_Descr *>(dtype->dtype), nullptr));
    if (!scalar) return nullptr;
    // The scalar types of ml_dtypes are numbers, but their `item` gives themselves.
    if (dtype->kind == DKind::Int || dtype->kind == DKind::UInt) return PyNumber_Long(scalar.get());
    if (dtype->kind == DKind::Float) return PyNumber_Float(scalar.get());
    return PyObject_CallMethod(scalar.get(), "item", nullptr);
}

int array_bool(PyObject *self) {
    Array *a = as_array(self);
    if (a->aval->dtype->type_num < 0) {
        PyErr_SetString(PyExc_TypeError, "key array cannot be converted to boolean.");
        return -1;
    }
    if (STENO_UNLIKELY(a->aval->size != 1)) {
        PyErr_SetString(PyExc_ValueError,
                        a->aval->size
                            ? "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
                            : "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty.");
        return -1;
    }
    Ref value(only_element(a));
    return value ? PyObject_IsTrue(value.get()) : -1;
}

PyObject *array_int(PyObject *self) {
    Ref value(scalar_element(self, "int()"));
    return value ? PyNumber_Long(value.get()) : nullptr;
}

PyObject *array_float(PyObject *self) {
    Ref value(scalar_element(self, "float()"));
    return value ? PyNumber_Float(value.get()) : nullptr;
}

PyObject *array_index(PyObject *self) {
    Array *a = as_array(self);
    if (a->aval->ndim || (a->aval->dtype->kind != DKind::Int && a->aval->dtype->kind != DKind::UInt)) {
        PyErr_SetString(PyExc_TypeError, "Only integer scalar arrays can be converted to a scalar index.");
        return nullptr;
    }
    return only_element(a);
}

PyMethodDef array_convert_methods[] = {
    {"item", array_item, METH_VARARGS, "item(*index) -> Python scalar: the only element, or the one at an index."},
    {"tolist", array_tolist, METH_NOARGS, "tolist() -> nested lists of Python scalars."},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(array_numpy)), METH_VARARGS | METH_KEYWORDS,
     "__array__(dtype=None, copy=None) -> ndarray: read-only over the same memory, or a copy where one is asked for or needed."},
    {"__complex__", array_complex, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace steno
