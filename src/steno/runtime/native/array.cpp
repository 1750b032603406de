#include "array.h"

#include <cstring>

#include "dlpack.h"
#include "queue.h"

namespace steno {

PyTypeObject *ArrayType = nullptr;

namespace {

// The base object of ndarrays over a buffer: one reference to it. (Not the array: that may be deleted or donated while a view lives.)
struct BufferHolder {
    PyObject_HEAD Buffer *buffer;
};

PyTypeObject *HolderType = nullptr;

void holder_dealloc(PyObject *self) {
    release(reinterpret_cast<BufferHolder *>(self)->buffer);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyType_Slot holder_slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(holder_dealloc)}, {0, nullptr}};
PyType_Spec holder_spec = {"steno._native.BufferHolder", sizeof(BufferHolder), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           holder_slots};

void array_dealloc(PyObject *self) {
    Array *a = as_array(self);
    if (a->weakrefs) PyObject_ClearWeakRefs(self);
    if (a->buffer) release(a->buffer);
    Py_DECREF(a->aval);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

// ---- the buffer protocol -------------------------------------------------------------------------------------------------

// NumPy's format characters; null: the type has none.
const char *format_of(const DTypeInfo *dtype) {
    switch (dtype->code) {
    case DCode::Bool: return "?";
    case DCode::Int8: return "b";
    case DCode::Int16: return "h";
    case DCode::Int32: return "i";
    case DCode::Int64: return "l";
    case DCode::UInt8: return "B";
    case DCode::UInt16: return "H";
    case DCode::UInt32: return "I";
    case DCode::UInt64: return "L";
    case DCode::Float16: return "e";
    case DCode::Float32: return "f";
    case DCode::Float64: return "d";
    case DCode::Complex64: return "Zf";
    case DCode::Complex128: return "Zd";
    default: return nullptr;
    }
}

struct Export {
    Buffer *buffer;
    ShapedArray *aval;
    Py_ssize_t strides[1];
};

int array_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    Array *a = as_array(self);
    view->obj = nullptr;
    if (!a->buffer) {
        PyErr_Format(PyExc_BufferError, "Array has been deleted with shape=%s.", describe(a->aval).c_str());
        return -1;
    }
    const char *format = format_of(a->aval->dtype);
    if (!format) {
        PyErr_Format(PyExc_BufferError, "Arrays of type %U are not supported by the Python buffer protocol.", a->aval->dtype->name);
        return -1;
    }
    if (flags & PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "steno arrays are read-only");
        return -1;
    }
    if (!ready(a)) return -1;
    int ndim = a->aval->ndim;
    auto *e = static_cast<Export *>(PyMem_Malloc(sizeof(Export) + sizeof(Py_ssize_t) * ndim));
    if (!e) {
        PyErr_NoMemory();
        return -1;
    }
    e->buffer = retain(a->buffer);
    e->aval = a->aval;
    Py_INCREF(e->aval);
    Py_ssize_t stride = a->aval->dtype->itemsize;
    for (int k = ndim - 1; k >= 0; --k) {
        e->strides[k] = stride;
        stride *= a->aval->dims[k];
    }
    static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "a 64-bit platform");
    view->buf = a->buffer->data;
    view->len = a->aval->nbytes;
    view->readonly = 1;
    view->itemsize = a->aval->dtype->itemsize;
    view->ndim = ndim;
    view->format = flags & PyBUF_FORMAT ? const_cast<char *>(format) : nullptr;
    view->shape = flags & PyBUF_ND && ndim ? reinterpret_cast<Py_ssize_t *>(e->aval->dims) : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES && ndim ? e->strides : nullptr;
    view->suboffsets = nullptr;
    view->internal = e;
    view->obj = Py_NewRef(self);
    return 0;
}

void array_releasebuffer(PyObject *, Py_buffer *view) {
    auto *e = static_cast<Export *>(view->internal);
    release(e->buffer);
    Py_DECREF(e->aval);
    PyMem_Free(e);
}

// ---- attributes ----------------------------------------------------------------------------------------------------------

PyObject *get_aval(PyObject *self, void *) { return Py_NewRef(reinterpret_cast<PyObject *>(as_array(self)->aval)); }
PyObject *get_shape(PyObject *self, void *) { return Py_NewRef(as_array(self)->aval->shape); }
PyObject *get_dtype(PyObject *self, void *) { return Py_NewRef(as_array(self)->aval->dtype->dtype); }
PyObject *get_weak_type(PyObject *self, void *) { return PyBool_FromLong(as_array(self)->aval->weak_type); }
PyObject *get_ndim(PyObject *self, void *) { return PyLong_FromLong(as_array(self)->aval->ndim); }
PyObject *get_size(PyObject *self, void *) { return PyLong_FromLongLong(as_array(self)->aval->size); }
PyObject *get_itemsize(PyObject *self, void *) { return PyLong_FromLongLong(as_array(self)->aval->dtype->itemsize); }
PyObject *get_nbytes(PyObject *self, void *) { return PyLong_FromLongLong(as_array(self)->aval->nbytes); }
PyObject *get_value(PyObject *self, void *) { return array_to_numpy(as_array(self)); }

PyGetSetDef array_getset[] = {
    {"aval", get_aval, nullptr, "ShapedArray: shape, dtype and weak type", nullptr},
    {"shape", get_shape, nullptr, "tuple of int", nullptr},
    {"dtype", get_dtype, nullptr, nullptr, nullptr},
    {"weak_type", get_weak_type, nullptr, nullptr, nullptr},
    {"ndim", get_ndim, nullptr, nullptr, nullptr},
    {"size", get_size, nullptr, "number of elements", nullptr},
    {"itemsize", get_itemsize, nullptr, "bytes per element", nullptr},
    {"nbytes", get_nbytes, nullptr, nullptr, nullptr},
    {"_value", get_value, nullptr, "A read-only ndarray over the same memory (key arrays: uint32 with one more axis).", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

Py_ssize_t array_length(PyObject *self) {
    ShapedArray *aval = as_array(self)->aval;
    if (aval->ndim) return aval->dims[0];
    PyErr_SetString(PyExc_TypeError, "len() of unsized object");
    return -1;
}

// ---- methods -------------------------------------------------------------------------------------------------------------

bool need_aval(PyObject *o, const char *where) {
    if (is_aval(o)) return true;
    PyErr_Format(PyExc_TypeError, "%s: aval must be a ShapedArray, got %.200s", where, Py_TYPE(o)->tp_name);
    return false;
}

PyObject *array_from_numpy_method(PyObject *, PyObject *args) {
    PyObject *source, *aval;
    if (!PyArg_ParseTuple(args, "OO:from_numpy", &source, &aval) || !need_aval(aval, "from_numpy")) return nullptr;
    Ref array(PyArray_FROM_O(source));
    if (!array) return nullptr;
    return array_from_numpy(reinterpret_cast<PyArrayObject *>(array.get()), reinterpret_cast<ShapedArray *>(aval));
}

PyObject *array_adopt(PyObject *, PyObject *args) {
    PyObject *source, *aval_object;
    if (!PyArg_ParseTuple(args, "OO:adopt", &source, &aval_object) || !need_aval(aval_object, "adopt")) return nullptr;
    auto *aval = reinterpret_cast<ShapedArray *>(aval_object);
    Ref owner(PyArray_FROM_O(source));  // no copy for ndarrays and for exporters of the buffer protocol
    if (!owner) return nullptr;
    auto *nd = reinterpret_cast<PyArrayObject *>(owner.get());
    bool usable = PyArray_IS_C_CONTIGUOUS(nd) && PyArray_ISALIGNED(nd) && PyArray_ISNOTSWAPPED(nd);
    if (!usable) return array_from_numpy(nd, aval);
    if (int64_t(PyArray_NBYTES(nd)) != aval->nbytes) {
        PyErr_Format(PyExc_ValueError, "adopt: %zd bytes given for an array of %s", Py_ssize_t(PyArray_NBYTES(nd)), describe(aval).c_str());
        return nullptr;
    }
    return make_array(aval, foreign_buffer(PyArray_DATA(nd), size_t(aval->nbytes), owner.get()));
}

PyObject *array_with_aval(PyObject *self, PyObject *aval_object) {
    Array *a = as_array(self);
    if (!need_aval(aval_object, "with_aval") || !check_alive(a)) return nullptr;
    auto *aval = reinterpret_cast<ShapedArray *>(aval_object);
    if (aval->nbytes != a->aval->nbytes) {
        PyErr_Format(PyExc_ValueError, "with_aval: %s has not the size in bytes of %s", describe(aval).c_str(), describe(a->aval).c_str());
        return nullptr;
    }
    return make_array(aval, retain(a->buffer));
}

PyObject *array_delete(PyObject *self, PyObject *) {
    Array *a = as_array(self);
    if (a->buffer) release(std::exchange(a->buffer, nullptr));
    Py_RETURN_NONE;
}

PyObject *array_is_deleted(PyObject *self, PyObject *) { return PyBool_FromLong(!as_array(self)->buffer); }

PyObject *array_block(PyObject *self, PyObject *) { return ready(as_array(self)) ? Py_NewRef(self) : nullptr; }

PyObject *array_is_ready(PyObject *self, PyObject *) {
    Array *a = as_array(self);
    return check_alive(a) ? PyBool_FromLong(!a->buffer->producer || finished(a->buffer->producer)) : nullptr;
}

PyObject *array_start_copy(PyObject *self, PyObject *) {
    if (!check_alive(as_array(self))) return nullptr;
    Py_RETURN_NONE;
}

PyObject *array_pointer(PyObject *self, PyObject *) {
    if (!ready(as_array(self))) return nullptr;
    return PyLong_FromVoidPtr(as_array(self)->buffer->data);
}

PyObject *array_device_size(PyObject *self, PyObject *) {
    if (!check_alive(as_array(self))) return nullptr;
    return PyLong_FromLongLong(as_array(self)->aval->nbytes);
}

// A new array with memory of its own.
PyObject *array_copy(PyObject *self, PyObject *) {
    Array *a = as_array(self);
    if (!ready(a)) return nullptr;
    Buffer *b = allocate_for(a->aval);
    if (!b) return nullptr;
    std::memcpy(b->data, a->buffer->data, size_t(a->aval->nbytes));
    return make_array(a->aval, b);
}

PyObject *array_reduce(PyObject *self, PyObject *) {
    Ref value(array_to_numpy(as_array(self)));
    if (!value) return nullptr;
    Ref build(PyObject_GetAttrString(reinterpret_cast<PyObject *>(ArrayType), "from_numpy"));
    return build ? Py_BuildValue("(N(NO))", build.release(), value.release(), as_array(self)->aval) : nullptr;
}

PyMethodDef array_methods[] = {
    {"from_numpy", array_from_numpy_method, METH_VARARGS | METH_STATIC,
     "from_numpy(ndarray, aval) -> ArrayImpl: a copy. The ndarray has the aval's dtype (keys: uint32) and size; its shape does not "
     "matter."},
    {"adopt", array_adopt, METH_VARARGS | METH_STATIC,
     "adopt(object, aval) -> ArrayImpl over the memory of an ndarray or of an object with the buffer protocol, which it keeps alive; "
     "a copy where that memory is not contiguous, aligned to its elements and in native byte order. The memory must not change any more."},
    {"with_aval", array_with_aval, METH_O, "with_aval(aval) -> a new ArrayImpl over the same memory, of a type of the same size in bytes."},
    {"delete", array_delete, METH_NOARGS, "delete(): gives the memory up; any later look at the data raises RuntimeError."},
    {"is_deleted", array_is_deleted, METH_NOARGS, "is_deleted() -> bool: deleted or donated."},
    {"block_until_ready", array_block, METH_NOARGS,
     "block_until_ready() -> self, once the data is there; raises what the run that makes it "
     "raised."},
    {"is_ready", array_is_ready, METH_NOARGS, "is_ready() -> bool: the data is there, or will never be (block_until_ready raises)."},
    {"copy_to_host_async", array_start_copy, METH_NOARGS, "copy_to_host_async(): nothing to do, the memory is the host's."},
    {"unsafe_buffer_pointer", array_pointer, METH_NOARGS, "unsafe_buffer_pointer() -> int: the address of the first element."},
    {"on_device_size_in_bytes", array_device_size, METH_NOARGS, "on_device_size_in_bytes() -> int"},
    {"__copy__", array_copy, METH_NOARGS, nullptr},
    {"__deepcopy__", array_copy, METH_O, nullptr},
    {"__reduce__", array_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef array_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Array, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyObject *array_new(PyTypeObject *, PyObject *, PyObject *) {
    PyErr_SetString(PyExc_TypeError, "cannot create 'ArrayImpl' instances; use steno.numpy.asarray or ArrayImpl.from_numpy(ndarray, aval)");
    return nullptr;
}

PyType_Slot array_slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(array_new)},
    {Py_tp_dealloc, reinterpret_cast<void *>(array_dealloc)},
    {Py_tp_hash, reinterpret_cast<void *>(PyObject_HashNotImplemented)},
    {Py_tp_methods, array_methods},
    {Py_tp_getset, array_getset},
    {Py_tp_members, array_members},
    {Py_bf_getbuffer, reinterpret_cast<void *>(array_getbuffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void *>(array_releasebuffer)},
    {Py_nb_bool, reinterpret_cast<void *>(array_bool)},
    {Py_nb_int, reinterpret_cast<void *>(array_int)},
    {Py_nb_float, reinterpret_cast<void *>(array_float)},
    {Py_nb_index, reinterpret_cast<void *>(array_index)},
    {Py_mp_length, reinterpret_cast<void *>(array_length)},
    {Py_sq_length, reinterpret_cast<void *>(array_length)},
    {Py_tp_doc, const_cast<char *>("An array: immutable, its memory reference counted.")},
    {0, nullptr},
};

// No garbage collection, as ndarray: an array refers to its type and its memory only.
PyType_Spec array_spec = {"steno._native.ArrayImpl", sizeof(Array), 0, Py_TPFLAGS_DEFAULT, array_slots};

bool add_methods(PyMethodDef *methods) {
    for (; methods->ml_name; ++methods) {
        Ref method(PyDescr_NewMethod(ArrayType, methods));
        if (!method || PyObject_SetAttrString(reinterpret_cast<PyObject *>(ArrayType), methods->ml_name, method.get()) < 0) return false;
    }
    return true;
}

}  // namespace

PyObject *make_array(ShapedArray *aval, Buffer *buffer) {
    auto *a = static_cast<Array *>(PyObject_Malloc(sizeof(Array)));
    if (STENO_UNLIKELY(!a)) {
        release(buffer);
        return PyErr_NoMemory();
    }
    PyObject_Init(reinterpret_cast<PyObject *>(a), ArrayType);
    Py_INCREF(aval);
    a->aval = aval;
    a->buffer = buffer;
    a->weakrefs = nullptr;
    return reinterpret_cast<PyObject *>(a);
}

bool raise_deleted(const Array *a) {
    PyErr_Format(PyExc_RuntimeError, "Array has been deleted with shape=%s.", describe(a->aval).c_str());
    return false;
}

PyObject *array_to_numpy(Array *a) {
    if (!ready(a)) return nullptr;
    const ShapedArray *aval = a->aval;
    int ndim = aval->ndim;
    npy_intp dims[NPY_MAXDIMS + 1];
    bool opaque = aval->dtype->type_num < 0;
    if (ndim + opaque > NPY_MAXDIMS) {
        PyErr_Format(PyExc_ValueError, "NumPy has no arrays of rank %d", ndim + opaque);
        return nullptr;
    }
    for (int k = 0; k < ndim; ++k) dims[k] = aval->dims[k];
    if (opaque) dims[ndim++] = aval->dtype->itemsize / 4;
    auto *holder = PyObject_New(BufferHolder, HolderType);
    if (!holder) return nullptr;
    holder->buffer = retain(a->buffer);
    auto *descr = opaque ? PyArray_DescrFromType(NPY_UINT32) : reinterpret_cast<PyArray_Descr *>(Py_NewRef(aval->dtype->dtype));
    PyObject *out = PyArray_NewFromDescr(&PyArray_Type, descr, ndim, dims, nullptr, a->buffer->data, NPY_ARRAY_CARRAY_RO, nullptr);
    if (!out) {
        Py_DECREF(holder);
        return nullptr;
    }
    if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(out), reinterpret_cast<PyObject *>(holder)) < 0) {
        Py_DECREF(out);
        return nullptr;
    }
    return out;
}

PyObject *array_from_numpy(PyArrayObject *source, ShapedArray *aval) {
    const DTypeInfo *dtype = aval->dtype;
    bool opaque = dtype->type_num < 0;
    // The type that the bytes are read in: native order, the aval's.
    Ref native(opaque ? reinterpret_cast<PyObject *>(PyArray_DescrFromType(NPY_UINT32)) : Py_NewRef(dtype->dtype));
    auto *descr = reinterpret_cast<PyArray_Descr *>(native.get());
    int64_t elements = opaque ? aval->size * (dtype->itemsize / 4) : aval->size;
    if (!PyArray_EquivTypenums(PyArray_DESCR(source)->type_num, descr->type_num) || int64_t(PyArray_SIZE(source)) != elements) {
        PyErr_Format(PyExc_ValueError, "from_numpy: %zd elements of %S given for an array of %s", Py_ssize_t(PyArray_SIZE(source)),
                     PyArray_DESCR(source), describe(aval).c_str());
        return nullptr;
    }
    Buffer *b = allocate_for(aval);
    if (!b) return nullptr;
    if (PyArray_IS_C_CONTIGUOUS(source) && PyArray_ISNOTSWAPPED(source)) {
        std::memcpy(b->data, PyArray_DATA(source), size_t(aval->nbytes));
        return make_array(aval, b);
    }
    // NumPy copies strided sources into a temporary ndarray over the new memory.
    Ref target(PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr *>(native.release()), PyArray_NDIM(source),
                                    PyArray_DIMS(source), nullptr, b->data, NPY_ARRAY_CARRAY, nullptr));
    if (!target || PyArray_CopyInto(reinterpret_cast<PyArrayObject *>(target.get()), source) < 0) {
        release(b);
        return nullptr;
    }
    return make_array(aval, b);
}

bool init_array_type(PyObject *module) {
    Ref holder(PyType_FromSpec(&holder_spec));
    if (!holder) return false;
    HolderType = reinterpret_cast<PyTypeObject *>(holder.release());
    ArrayType = add_type(module, &array_spec);
    return ArrayType && add_methods(array_convert_methods) && add_methods(dlpack_methods);
}

}  // namespace steno
