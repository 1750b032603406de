// ArrayImpl: a steno array. Immutable, C-contiguous; several arrays may share one Buffer (views of other type, forwarded results).
#pragma once

#include "aval.h"
#include "buffer.h"

namespace steno {

struct Array {
    PyObject_HEAD ShapedArray *aval;  // owned
    Buffer *buffer;                   // owned; null: deleted or donated
    PyObject *weakrefs;
};

extern PyTypeObject *ArrayType;

inline bool is_array(PyObject *o) { return Py_IS_TYPE(o, ArrayType); }
inline Array *as_array(PyObject *o) { return reinterpret_cast<Array *>(o); }

// New array; takes over the reference of `buffer`, takes a new one of `aval`. null: exception set, the buffer released.
PyObject *make_array(ShapedArray *aval, Buffer *buffer);

// Uninitialised memory for an aval. null: MemoryError is set.
inline Buffer *allocate_for(const ShapedArray *aval) { return allocate_buffer(size_t(aval->nbytes)); }

// False: RuntimeError "Array has been deleted ..." is set.
bool raise_deleted(const Array *a);
inline bool check_alive(const Array *a) { return STENO_LIKELY(a->buffer != nullptr) || raise_deleted(a); }

// Whether the array is alive and its data there, waited for if need be: without the GIL, so other code runs meanwhile, which may delete
// the array. False: exception set (deleted; the run that makes the data failed; KeyboardInterrupt).
bool wait_until_ready(Array *a);
inline bool ready(Array *a) { return STENO_LIKELY(a->buffer && !a->buffer->producer) || wait_until_ready(a); }

// A read-only ndarray over the buffer (keys: uint32 with one more axis). It shares ownership of the memory.
PyObject *array_to_numpy(Array *a);

// The bytes of an ndarray, made contiguous and native, in a new array. The dtype must be the aval's (keys: uint32). null: exception set.
PyObject *array_from_numpy(PyArrayObject *source, ShapedArray *aval);

// One element as a Python scalar (bool, int, float, complex).
PyObject *element_to_python(const DTypeInfo *dtype, const void *element);

// array_convert.cpp: parts of the type.
extern PyMethodDef array_convert_methods[];
int array_bool(PyObject *self);
PyObject *array_int(PyObject *self);
PyObject *array_float(PyObject *self);
PyObject *array_index(PyObject *self);

bool init_array_type(PyObject *module);

}  // namespace steno
