// ShapedArray: the interned type of an array (shape, dtype, weak type). Equal ones are one object, so identity is equality.
#pragma once

#include "object.h"

#include <cstdint>
#include <string>

namespace steno {

// What native code does differently for a dtype.
enum class DKind : uint8_t {
    Bool,
    Int,
    UInt,
    Float,
    Complex,
    Opaque,  // no np.dtype: PRNG keys and the like; shown to NumPy as uint32 with a trailing axis
};

enum class DCode : uint8_t {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    Float32,
    Float64,
    Complex64,
    Complex128,
    BFloat16,
    Int4,
    UInt4,
    Int2,
    UInt2,
    Float8,
    Float4,  // ml_dtypes' one-byte kinds; Float8 stands for all the float8_*, Float4 for float6_* and float4_*
    Opaque,
};

// One record for each distinct dtype, never freed (there are few). `dtype` is the canonical object: np.dtype instances in
// native byte order and one instance for each equal class.
struct DTypeInfo {
    PyObject *dtype;
    PyObject *name;  // str
    int64_t itemsize;
    int type_num;  // NumPy's; -1 if Opaque
    DKind kind;
    DCode code;
};

// The record of any dtype-like object (np.dtype, scalar type, name, or an object with `itemsize` and `name`); null: exception set.
const DTypeInfo *dtype_info(PyObject *dtype);
const DTypeInfo *dtype_info_of_descr(PyArray_Descr *descr);

// What a NumPy scalar is made of.
struct ScalarType {
    const DTypeInfo *dtype;  // null: text, dates and the like
    const void *value;       // its bytes, in native order; null: ask NumPy for them
};
// False: exception set.
bool read_scalar_type(PyObject *numpy_scalar, ScalarType *out);

struct ShapedArray {
    PyObject_HEAD PyObject *shape;  // tuple of int; in programs that are only traced also of unknown sizes
    const DTypeInfo *dtype;
    int64_t size;    // elements; saturates at INT64_MAX, which stands for an unknown number too
    int64_t nbytes;  // saturates at INT64_MAX, so that an allocation of it fails
    uint64_t hash;
    int ndim;
    bool weak_type;
    PyObject *weakrefs;
    int64_t dims[1];  // ndim of them; below zero: unknown
};

extern PyTypeObject *ShapedArrayType;

inline bool is_aval(PyObject *o) { return Py_IS_TYPE(o, ShapedArrayType); }

// New reference to the interned aval; null: exception set.
ShapedArray *make_aval(const int64_t *dims, int ndim, const DTypeInfo *dtype, bool weak_type);

// "float32[3,4]"
std::string describe(const ShapedArray *aval);

bool init_aval(PyObject *module);

}  // namespace steno
