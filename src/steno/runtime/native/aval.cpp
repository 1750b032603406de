#include "aval.h"

#include "pytree.h"

#include <cstring>
#include <vector>

namespace steno {

PyTypeObject *ShapedArrayType = nullptr;

namespace {

PyObject *dtype_records = nullptr;  // dict: dtype-like object -> address of its DTypeInfo, as int
PyObject *np_dtype = nullptr;       // numpy.dtype
PyObject *dimension_type = nullptr;  // the class of unknown sizes, once there is one

DCode code_of(int type_num, DKind kind, const char *name) {
    switch (type_num) {
    case NPY_BOOL: return DCode::Bool;
    case NPY_HALF: return DCode::Float16;
    case NPY_FLOAT: return DCode::Float32;
    case NPY_DOUBLE: return DCode::Float64;
    case NPY_CFLOAT: return DCode::Complex64;
    case NPY_CDOUBLE: return DCode::Complex128;
    default: break;
    }
    static const struct {
        const char *name;
        DCode code;
    } named[] = {
        {"int8", DCode::Int8},         {"int16", DCode::Int16},   {"int32", DCode::Int32},   {"int64", DCode::Int64},
        {"uint8", DCode::UInt8},       {"uint16", DCode::UInt16}, {"uint32", DCode::UInt32}, {"uint64", DCode::UInt64},
        {"bfloat16", DCode::BFloat16}, {"int4", DCode::Int4},     {"uint4", DCode::UInt4},   {"int2", DCode::Int2},
        {"uint2", DCode::UInt2},
    };
    for (const auto &entry : named)
        if (!std::strcmp(entry.name, name)) return entry.code;
    if (kind == DKind::Float && !std::strncmp(name, "float8", 6)) return DCode::Float8;
    if (kind == DKind::Float && (!std::strncmp(name, "float6", 6) || !std::strncmp(name, "float4", 6))) return DCode::Float4;
    return DCode::Opaque;
}

bool fill_descr(DTypeInfo *info, PyArray_Descr *descr) {
    info->type_num = descr->type_num;
    info->itemsize = PyDataType_ELSIZE(descr);
    switch (descr->kind) {
    case 'b': info->kind = DKind::Bool; break;
    case 'i': info->kind = DKind::Int; break;
    case 'u': info->kind = DKind::UInt; break;
    case 'f': info->kind = DKind::Float; break;
    case 'c': info->kind = DKind::Complex; break;
    default: info->kind = DKind::Opaque; break;
    }
    // ml_dtypes registers its types with kinds of its own ('V', 'f', 'i'); their names tell.
    const char *name = PyUnicode_AsUTF8(info->name);
    if (!name) return false;
    if (PyTypeNum_ISUSERDEF(descr->type_num)) {
        if (!std::strncmp(name, "int", 3)) info->kind = DKind::Int;
        else if (!std::strncmp(name, "uint", 4)) info->kind = DKind::UInt;
        else if (!std::strncmp(name, "float", 5) || !std::strncmp(name, "bfloat", 6)) info->kind = DKind::Float;
    }
    info->code = code_of(descr->type_num, info->kind, name);
    return true;
}

int64_t saturating_mul(int64_t a, int64_t b) {
    int64_t out;
    return __builtin_mul_overflow(a, b, &out) ? INT64_MAX : out;
}

uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15ull;
    return h ^ (h >> 32);
}

// The set of living avals, by content: open addressing, borrowed pointers that `dealloc` takes out. Under the GIL.
class InternTable {
  public:
    InternTable() : slots_(1024, nullptr) {}

    ShapedArray *find(uint64_t hash, const int64_t *dims, int ndim, const DTypeInfo *dtype, bool weak) const {
        size_t mask = slots_.size() - 1;
        for (size_t i = hash & mask;; i = (i + 1) & mask) {
            ShapedArray *a = slots_[i];
            if (!a) return nullptr;
            if (a != deleted() && a->hash == hash && a->ndim == ndim && a->dtype == dtype && a->weak_type == weak &&
                (ndim == 0 || !std::memcmp(a->dims, dims, sizeof(int64_t) * ndim)))
                return a;
        }
    }

    void insert(ShapedArray *a) {
        if ((used_ + 1) * 2 > slots_.size()) grow();
        place(a);
        ++used_;
        ++live_;
    }

    void remove(ShapedArray *a) {
        size_t mask = slots_.size() - 1;
        for (size_t i = a->hash & mask; slots_[i]; i = (i + 1) & mask)
            if (slots_[i] == a) {
                slots_[i] = deleted();
                --live_;
                return;
            }
    }

  private:
    static ShapedArray *deleted() { return reinterpret_cast<ShapedArray *>(1); }

    void place(ShapedArray *a) {
        size_t mask = slots_.size() - 1, i = a->hash & mask;
        while (slots_[i]) i = (i + 1) & mask;
        slots_[i] = a;
    }

    void grow() {
        std::vector<ShapedArray *> old = std::move(slots_);
        slots_.assign(live_ * 4 > old.size() ? old.size() * 2 : old.size(), nullptr);
        for (ShapedArray *a : old)
            if (a && a != deleted()) place(a);
        used_ = live_;
    }

    std::vector<ShapedArray *> slots_;
    size_t used_ = 0;  // slots that are not null, deleted ones included
    size_t live_ = 0;
};

InternTable &table() {
    static InternTable *t = new InternTable;  // never destroyed: avals may die after static destructors
    return *t;
}

using Dims = SmallVector<int64_t, 16>;

// An unknown size as a number: below zero, and its own, since equal ones are one object, which the aval's shape keeps alive.
int64_t number_of_unknown(PyObject *size) { return -reinterpret_cast<int64_t>(size); }

// Reads a sequence of sizes into `dims`; false with TypeError/ValueError set. `unknown`: the sequence if it holds unknown sizes.
bool parse_shape(PyObject *shape, Dims &dims, Ref &unknown) {
    dims.truncate(0);
    Ref seq(PySequence_Fast(shape, ""));
    if (!seq) {
        PyErr_Format(PyExc_TypeError, "ShapedArray: shape must be a sequence of integers, got %R", shape);
        return false;
    }
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(seq.get()); ++k) {
        PyObject *item = PySequence_Fast_GET_ITEM(seq.get(), k);
        if (STENO_UNLIKELY(reinterpret_cast<PyObject *>(Py_TYPE(item)) == dimension_type)) {
            if (!dims.push(number_of_unknown(item))) return false;
            if (!unknown) unknown = Ref(PySequence_Tuple(seq.get()));
            if (!unknown) return false;
            continue;
        }
        Ref index(PyLong_CheckExact(item) ? Py_NewRef(item) : PyNumber_Index(item));
        if (!index) {
            if (PyErr_ExceptionMatches(PyExc_TypeError))
                PyErr_Format(PyExc_TypeError, "Shapes must be 1D sequences of concrete values of integer type, got %R.", shape);
            return false;
        }
        int64_t n = PyLong_AsLongLong(index.get());
        if (n == -1 && PyErr_Occurred()) return false;
        if (n < 0) {
            PyErr_Format(PyExc_ValueError, "ShapedArray: sizes must not be negative, got shape %R", shape);
            return false;
        }
        if (!dims.push(n)) return false;
    }
    return true;
}

// `sizes`: the shape as a tuple; null: all sizes are known.
ShapedArray *interned(const int64_t *dims, int ndim, const DTypeInfo *dtype, bool weak_type, PyObject *sizes) {
    uint64_t hash = mix(reinterpret_cast<uintptr_t>(dtype) + weak_type, ndim);
    for (int k = 0; k < ndim; ++k) hash = mix(hash, dims[k]);
    if (ShapedArray *found = table().find(hash, dims, ndim, dtype, weak_type)) {
        Py_INCREF(found);
        return found;
    }
    Ref shape(PyTuple_New(ndim));
    if (!shape) return nullptr;
    int64_t size = 1;
    bool empty = false;
    for (int k = 0; k < ndim; ++k) {
        PyObject *n = dims[k] < 0 ? Py_NewRef(PyTuple_GET_ITEM(sizes, k)) : PyLong_FromLongLong(dims[k]);
        if (!n) return nullptr;
        PyTuple_SET_ITEM(shape.get(), k, n);
        size = dims[k] < 0 ? INT64_MAX : saturating_mul(size, dims[k]);
        empty |= dims[k] == 0;
    }
    if (empty) size = 0;
    auto *a = static_cast<ShapedArray *>(PyObject_Malloc(sizeof(ShapedArray) + sizeof(int64_t) * (ndim > 1 ? ndim - 1 : 0)));
    if (!a) {
        PyErr_NoMemory();
        return nullptr;
    }
    PyObject_Init(reinterpret_cast<PyObject *>(a), ShapedArrayType);
    a->shape = shape.release();
    a->dtype = dtype;
    a->size = size;
    a->nbytes = saturating_mul(size, dtype->itemsize);
    a->hash = hash;
    a->ndim = ndim;
    a->weak_type = weak_type;
    a->weakrefs = nullptr;
    if (ndim) std::memcpy(a->dims, dims, sizeof(int64_t) * ndim);
    table().insert(a);
    return a;
}

// What JAX's types say of devices: of no effect, there being one memory.
bool says_where(PyObject *name) {
    for (const char *known : {"sharding", "vma", "manual_axis_type", "memory_space"})
        if (!PyUnicode_CompareWithASCIIString(name, known)) return true;
    return false;
}

PyObject *aval_vectorcall(PyObject *, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    static const char *names[] = {"shape", "dtype", "weak_type"};
    PyObject *values[3] = {nullptr, nullptr, nullptr};
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf), nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargs > 3) {
        PyErr_Format(PyExc_TypeError, "ShapedArray() takes at most 3 arguments (%zd given)", nargs);
        return nullptr;
    }
    for (Py_ssize_t k = 0; k < nargs; ++k) values[k] = args[k];
    for (Py_ssize_t k = 0; k < nkw; ++k) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        int slot = 0;
        while (slot < 3 && PyUnicode_CompareWithASCIIString(name, names[slot])) ++slot;
        if (slot == 3 && says_where(name)) continue;
        if (slot == 3 || values[slot]) {
            PyErr_Format(
                PyExc_TypeError,
                slot == 3 ? "ShapedArray() got an unexpected keyword argument '%U'" : "ShapedArray() got multiple values for argument '%U'",
                name);
            return nullptr;
        }
        values[slot] = args[nargs + k];
    }
    if (!values[0] || !values[1]) {
        PyErr_SetString(PyExc_TypeError, "ShapedArray() needs the arguments shape and dtype");
        return nullptr;
    }
    Dims dims;
    Ref unknown;
    if (!parse_shape(values[0], dims, unknown)) return nullptr;
    const DTypeInfo *dtype = dtype_info(values[1]);
    if (!dtype) return nullptr;
    int weak = values[2] ? PyObject_IsTrue(values[2]) : 0;
    if (weak < 0) return nullptr;
    return reinterpret_cast<PyObject *>(interned(dims.data(), static_cast<int>(dims.size()), dtype, weak, unknown.get()));
}

PyObject *aval_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    // Reached only through `ShapedArray.__new__(ShapedArray, ...)`; calls of the type take the vectorcall.
    Py_ssize_t nargs = PyTuple_GET_SIZE(args), nkw = kwargs ? PyDict_GET_SIZE(kwargs) : 0;
    std::vector<PyObject *> all(nargs + nkw);
    for (Py_ssize_t k = 0; k < nargs; ++k) all[k] = PyTuple_GET_ITEM(args, k);
    Ref names(PyTuple_New(nkw));
    if (!names) return nullptr;
    PyObject *key, *value;
    for (Py_ssize_t pos = 0, k = 0; kwargs && PyDict_Next(kwargs, &pos, &key, &value); ++k) {
        Py_INCREF(key);
        PyTuple_SET_ITEM(names.get(), k, key);
        all[nargs + k] = value;
    }
    return aval_vectorcall(reinterpret_cast<PyObject *>(type), all.data(), nargs, names.get());
}

ShapedArray *as(PyObject *o) { return reinterpret_cast<ShapedArray *>(o); }

void aval_dealloc(PyObject *self) {
    ShapedArray *a = as(self);
    table().remove(a);
    if (a->weakrefs) PyObject_ClearWeakRefs(self);
    Py_XDECREF(a->shape);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *get_shape(PyObject *self, void *) { return Py_NewRef(as(self)->shape); }
PyObject *get_dtype(PyObject *self, void *) { return Py_NewRef(as(self)->dtype->dtype); }
PyObject *get_weak_type(PyObject *self, void *) { return PyBool_FromLong(as(self)->weak_type); }
PyObject *get_ndim(PyObject *self, void *) { return PyLong_FromLong(as(self)->ndim); }
PyObject *get_itemsize(PyObject *self, void *) { return PyLong_FromLongLong(as(self)->dtype->itemsize); }

PyObject *get_size(PyObject *self, void *) {
    if (as(self)->size != INT64_MAX) return PyLong_FromLongLong(as(self)->size);
    Ref product(PyLong_FromLong(1));
    for (int k = 0; product && k < as(self)->ndim; ++k)
        product = Ref(PyNumber_Multiply(product.get(), PyTuple_GET_ITEM(as(self)->shape, k)));
    return product.release();
}

PyObject *get_nbytes(PyObject *self, void *) {
    if (as(self)->nbytes != INT64_MAX) return PyLong_FromLongLong(as(self)->nbytes);
    Ref size(get_size(self, nullptr)), itemsize(get_itemsize(self, nullptr));
    return size && itemsize ? PyNumber_Multiply(size.get(), itemsize.get()) : nullptr;
}

PyObject *aval_repr(PyObject *self) {
    return PyUnicode_FromFormat("ShapedArray(%s%s)", describe(as(self)).c_str(), as(self)->weak_type ? ", weak_type=True" : "");
}

PyObject *aval_reduce(PyObject *self, PyObject *) {
    ShapedArray *a = as(self);
    return Py_BuildValue("(O(OOO))", ShapedArrayType, a->shape, a->dtype->dtype, a->weak_type ? Py_True : Py_False);
}

PyObject *aval_update(PyObject *self, PyObject *args, PyObject *kwargs) {
    static const char *names[] = {"shape", "dtype", "weak_type", nullptr};
    ShapedArray *a = as(self);
    PyObject *shape = nullptr, *dtype = nullptr;
    int weak = a->weak_type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOp:update", const_cast<char **>(names), &shape, &dtype, &weak)) return nullptr;
    const DTypeInfo *info = dtype ? dtype_info(dtype) : a->dtype;
    if (!info) return nullptr;
    if (!shape) return reinterpret_cast<PyObject *>(interned(a->dims, a->ndim, info, weak, a->shape));
    Dims dims;
    Ref unknown;
    if (!parse_shape(shape, dims, unknown)) return nullptr;
    return reinterpret_cast<PyObject *>(interned(dims.data(), static_cast<int>(dims.size()), info, weak, unknown.get()));
}

PyObject *set_dimension_type(PyObject *, PyObject *type) {
    Py_XSETREF(dimension_type, Py_NewRef(type));
    Py_RETURN_NONE;
}

PyMethodDef aval_functions[] = {
    {"set_dimension_type", set_dimension_type, METH_O,
     "set_dimension_type(cls): shapes may hold instances of cls, sizes that are not known. Equal ones must be identical."},
    {nullptr, nullptr, 0, nullptr},
};

PyObject *same(PyObject *self, PyObject *) { return Py_NewRef(self); }

PyMethodDef aval_methods[] = {
    {"update", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(aval_update)), METH_VARARGS | METH_KEYWORDS,
     "update(*, shape=..., dtype=..., weak_type=...) -> ShapedArray: the same type but for the fields given."},
    {"__reduce__", aval_reduce, METH_NOARGS, nullptr},
    {"__copy__", same, METH_NOARGS, nullptr},
    {"__deepcopy__", same, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef aval_getset[] = {
    {"shape", get_shape, nullptr, "tuple of int", nullptr},
    {"dtype", get_dtype, nullptr, "np.dtype, or the dtype of an extended type such as PRNG keys", nullptr},
    {"weak_type", get_weak_type, nullptr, "True: the dtype yields to others in promotion", nullptr},
    {"ndim", get_ndim, nullptr, nullptr, nullptr},
    {"size", get_size, nullptr, "number of elements", nullptr},
    {"itemsize", get_itemsize, nullptr, "bytes per element", nullptr},
    {"nbytes", get_nbytes, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef aval_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ShapedArray, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot aval_slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(aval_new)},
    {Py_tp_dealloc, reinterpret_cast<void *>(aval_dealloc)},
    {Py_tp_repr, reinterpret_cast<void *>(aval_repr)},
    {Py_tp_methods, aval_methods},
    {Py_tp_getset, aval_getset},
    {Py_tp_members, aval_members},
    {Py_tp_doc, const_cast<char *>("ShapedArray(shape, dtype, weak_type=False)\n--\n\n"
                                   "The type of an array. Interned: equal ones are the same object, compare with `is`.")},
    {0, nullptr},
};

// No garbage collection: neither sizes, known or not, nor dtypes refer to an aval, so no cycle can pass through one.
PyType_Spec aval_spec = {"steno._native.ShapedArray", sizeof(ShapedArray), 0, Py_TPFLAGS_DEFAULT, aval_slots};

}  // namespace

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec) {
    Ref type(PyType_FromSpec(spec));
    if (!type || PyModule_AddType(module, reinterpret_cast<PyTypeObject *>(type.get())) < 0) return nullptr;
    return reinterpret_cast<PyTypeObject *>(type.release());
}

namespace {

const DTypeInfo *look_up_dtype(PyObject *dtype) {
    PyObject *known = PyDict_GetItemWithError(dtype_records, dtype);
    if (known) return static_cast<const DTypeInfo *>(PyLong_AsVoidPtr(known));
    if (PyErr_Occurred()) return nullptr;

    Ref canonical = Ref::borrow(dtype);
    if (PyType_Check(dtype) || PyUnicode_Check(dtype)) {
        canonical = Ref(PyObject_CallOneArg(np_dtype, dtype));
        if (!canonical) return nullptr;
    }
    if (PyArray_DescrCheck(canonical.get())) {
        auto *descr = reinterpret_cast<PyArray_Descr *>(canonical.get());
        if (!PyArray_ISNBO(descr->byteorder)) canonical = Ref(reinterpret_cast<PyObject *>(PyArray_DescrNewByteorder(descr, NPY_NATIVE)));
        if (!canonical) return nullptr;
        descr = reinterpret_cast<PyArray_Descr *>(canonical.get());
        // NumPy's singleton where there is one (also: `long long` is `long` where they are equal).
        if (descr->type_num < NPY_OBJECT || descr->type_num == NPY_HALF) {
            static const int by_size[2][4] = {{NPY_INT8, NPY_INT16, NPY_INT32, NPY_INT64}, {NPY_UINT8, NPY_UINT16, NPY_UINT32, NPY_UINT64}};
            int num = descr->type_num;
            if (PyTypeNum_ISINTEGER(num)) num = by_size[PyTypeNum_ISUNSIGNED(num)][__builtin_ctzll(PyDataType_ELSIZE(descr))];
            canonical = Ref(reinterpret_cast<PyObject *>(PyArray_DescrFromType(num)));
        }
    }
    if (canonical.get() != dtype) {
        known = PyDict_GetItemWithError(dtype_records, canonical.get());
        if (!known && PyErr_Occurred()) return nullptr;
    }
    Ref address;
    if (known) {
        address = Ref::borrow(known);
    } else {
        Ref name(PyObject_GetAttrString(canonical.get(), "name"));
        Ref itemsize(name ? PyObject_GetAttrString(canonical.get(), "itemsize") : nullptr);
        if (!name || !itemsize || !PyUnicode_Check(name.get()) || !PyLong_Check(itemsize.get())) {
            PyErr_Format(PyExc_TypeError, "ShapedArray: %R is no dtype", dtype);
            return nullptr;
        }
        auto *info =
            new DTypeInfo{Py_NewRef(canonical.get()), name.release(), PyLong_AsLongLong(itemsize.get()), -1, DKind::Opaque, DCode::Opaque};
        if (PyArray_DescrCheck(canonical.get()) && !fill_descr(info, reinterpret_cast<PyArray_Descr *>(canonical.get()))) return nullptr;
        address = Ref(PyLong_FromVoidPtr(info));
        if (!address || PyDict_SetItem(dtype_records, canonical.get(), address.get()) < 0) return nullptr;
    }
    // Cache the spelling that came, unless it is mutable and compares by value (none of the kinds above is).
    if (canonical.get() != dtype && PyDict_SetItem(dtype_records, dtype, address.get()) < 0) return nullptr;
    return static_cast<const DTypeInfo *>(PyLong_AsVoidPtr(address.get()));
}

}  // namespace

const DTypeInfo *dtype_info(PyObject *dtype) {
    return PyArray_DescrCheck(dtype) ? dtype_info_of_descr(reinterpret_cast<PyArray_Descr *>(dtype)) : look_up_dtype(dtype);
}

const DTypeInfo *dtype_info_of_descr(PyArray_Descr *descr) {
    // Indexed by NumPy's type number; a descr of a number may differ in byte order or, for parametric types, in more.
    constexpr int known = 512;
    static const DTypeInfo *by_number[known];
    int num = descr->type_num;
    bool simple = PyArray_ISNBO(descr->byteorder) && num < known && (num < NPY_OBJECT || num > NPY_TIMEDELTA);
    if (STENO_LIKELY(simple && by_number[num])) return by_number[num];
    const DTypeInfo *info = look_up_dtype(reinterpret_cast<PyObject *>(descr));
    if (info && simple) by_number[num] = info;
    return info;
}

bool read_scalar_type(PyObject *scalar, ScalarType *out) {
    // NumPy's own number types hold their value in place behind the object's header.
    struct Known {
        PyTypeObject *type;
        const DTypeInfo *dtype;
    };
    static Known known[64];
    *out = ScalarType{nullptr, nullptr};
    Known &slot = known[(reinterpret_cast<uintptr_t>(Py_TYPE(scalar)) >> 6) % 64];
    if (STENO_UNLIKELY(slot.type != Py_TYPE(scalar))) {
        Ref descr(reinterpret_cast<PyObject *>(PyArray_DescrFromScalar(scalar)));
        if (!descr) return false;
        int num = reinterpret_cast<PyArray_Descr *>(descr.get())->type_num;
        if (num >= NPY_OBJECT && num <= NPY_TIMEDELTA) return true;
        out->dtype = dtype_info(descr.get());
        bool in_place = num <= NPY_CDOUBLE && num != NPY_LONGDOUBLE;
        if (!out->dtype || !(in_place || num == NPY_HALF) || reinterpret_cast<PyArray_Descr *>(descr.get())->typeobj != Py_TYPE(scalar))
            return out->dtype != nullptr;
        slot = {Py_TYPE(scalar), out->dtype};
    }
    out->dtype = slot.dtype;
    out->value = &PyArrayScalar_VAL(scalar, Byte);
    return true;
}

ShapedArray *make_aval(const int64_t *dims, int ndim, const DTypeInfo *dtype, bool weak_type) {
    return interned(dims, ndim, dtype, weak_type, nullptr);
}

std::string describe(const ShapedArray *aval) {
    const char *name = PyUnicode_AsUTF8(aval->dtype->name);
    std::string out = name ? name : "?";
    out += '[';
    for (int k = 0; k < aval->ndim; ++k) {
        if (k) out += ',';
        if (aval->dims[k] >= 0) {
            out += std::to_string(aval->dims[k]);
            continue;
        }
        Ref text(PyObject_Str(PyTuple_GET_ITEM(aval->shape, k)));
        const char *unknown = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
        if (!unknown) PyErr_Clear();
        out += unknown ? unknown : "?";
    }
    return out + ']';
}

bool init_aval(PyObject *module) {
    dtype_records = PyDict_New();
    Ref numpy(PyImport_ImportModule("numpy"));
    if (!dtype_records || !numpy) return false;
    np_dtype = PyObject_GetAttrString(numpy.get(), "dtype");
    if (!np_dtype) return false;
    ShapedArrayType = add_type(module, &aval_spec);
    if (!ShapedArrayType) return false;
    ShapedArrayType->tp_vectorcall = aval_vectorcall;
    return PyModule_AddFunctions(module, aval_functions) == 0;
}

}  // namespace steno
