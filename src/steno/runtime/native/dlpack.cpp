// DLPack both ways, without copies where the memory allows it. The structures below are those of the DLPack specification, version 1.1.
#include "dlpack.h"

#include <cstring>
#include <memory>

#include "array.h"

namespace steno {

namespace {

struct DLDevice {
    int32_t type;
    int32_t id;
};

struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
};

struct DLManagedTensor {
    DLTensor tensor;
    void *context;
    void (*deleter)(DLManagedTensor *);
};

struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(DLManagedTensorVersioned *);
    uint64_t flags;
    DLTensor tensor;
};

constexpr int32_t kCPU = 1;
constexpr uint64_t kReadOnly = 1, kCopied = 2;
constexpr uint32_t kMajor = 1, kMinor = 1;

template <class Managed>
struct Names;
template <>
struct Names<DLManagedTensor> {
    static constexpr const char *fresh = "dltensor", *used = "used_dltensor";
};
template <>
struct Names<DLManagedTensorVersioned> {
    static constexpr const char *fresh = "dltensor_versioned", *used = "used_dltensor_versioned";
};

enum : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

// ml_dtypes' types with a code of their own, by name.
const struct {
    const char *name;
    uint8_t code;
} narrow[] = {
    {"float8_e3m4", 7},      {"float8_e4m3", 8},  {"float8_e4m3b11fnuz", 9}, {"float8_e4m3fn", 10},
    {"float8_e4m3fnuz", 11}, {"float8_e5m2", 12}, {"float8_e5m2fnuz", 13},   {"float8_e8m0fnu", 14},
};

// False: the type has no DLPack equivalent.
bool dlpack_type(const DTypeInfo *dtype, DLDataType *out) {
    out->bits = uint8_t(dtype->itemsize * 8);
    out->lanes = 1;
    switch (dtype->code) {
    case DCode::Bool: out->code = kBool; return true;
    case DCode::Int8:
    case DCode::Int16:
    case DCode::Int32:
    case DCode::Int64: out->code = kInt; return true;
    case DCode::UInt8:
    case DCode::UInt16:
    case DCode::UInt32:
    case DCode::UInt64: out->code = kUInt; return true;
    case DCode::Float16:
    case DCode::Float32:
    case DCode::Float64: out->code = kFloat; return true;
    case DCode::BFloat16: out->code = kBfloat; return true;
    case DCode::Complex64:
    case DCode::Complex128: out->code = kComplex; return true;
    case DCode::Float8:
        for (const auto &type : narrow)
            if (!PyUnicode_CompareWithASCIIString(dtype->name, type.name)) {
                out->code = type.code;
                return true;
            }
        return false;
    default: return false;
    }
}

// The record of a DLPack type; null: exception set.
const DTypeInfo *from_dlpack_type(DLDataType type) {
    int number = -1;
    const char *name = nullptr;
    int bytes = type.bits / 8;
    bool whole = type.bits % 8 == 0 && type.lanes == 1;
    int log = whole && bytes ? __builtin_ctz(unsigned(bytes)) : 0;
    whole = whole && bytes == 1 << log;
    static const int ints[] = {NPY_INT8, NPY_INT16, NPY_INT32, NPY_INT64}, uints[] = {NPY_UINT8, NPY_UINT16, NPY_UINT32, NPY_UINT64};
    static const int floats[] = {-1, NPY_HALF, NPY_FLOAT, NPY_DOUBLE}, complexes[] = {-1, -1, -1, NPY_CFLOAT, NPY_CDOUBLE};
    if (whole) switch (type.code) {
        case kInt: number = log < 4 ? ints[log] : -1; break;
        case kUInt: number = log < 4 ? uints[log] : -1; break;
        case kFloat: number = log < 4 ? floats[log] : -1; break;
        case kComplex: number = log < 5 ? complexes[log] : -1; break;
        case kBool: number = bytes == 1 ? NPY_BOOL : -1; break;
        case kBfloat: name = bytes == 2 ? "bfloat16" : nullptr; break;
        default:
            for (const auto &entry : narrow)
                if (entry.code == type.code && bytes == 1) name = entry.name;
        }
    if (number >= 0) {
        Ref descr(reinterpret_cast<PyObject *>(PyArray_DescrFromType(number)));
        return descr ? dtype_info(descr.get()) : nullptr;
    }
    if (name) {
        Ref module(PyImport_ImportModule("ml_dtypes"));
        Ref scalar(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
        return scalar ? dtype_info(scalar.get()) : nullptr;
    }
    PyErr_Format(PyExc_BufferError, "from_dlpack: type code %d of %d bits and %d lanes is not supported", type.code, type.bits, type.lanes);
    return nullptr;
}

// Reads a pair of integers, named `what` in the error.
bool parse_pair(PyObject *pair, const char *what, long *first, long *second) {
    if (PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2) {
        *first = PyLong_AsLong(PyTuple_GET_ITEM(pair, 0));
        *second = PyErr_Occurred() ? 0 : PyLong_AsLong(PyTuple_GET_ITEM(pair, 1));
        if (!PyErr_Occurred()) return true;
        PyErr_Clear();
    }
    PyErr_Format(PyExc_TypeError, "%s must be a pair of integers, got %R", what, pair);
    return false;
}

// ---- export -------------------------------------------------------------------------------------------------------------------

// One exported tensor: the managed structure first, then what it refers to.
template <class Managed>
struct Exported {
    Managed managed;
    Buffer *buffer;
    int64_t shape_and_strides[1];

    static void deleter(Managed *m) {
        // Consumers may call it from any thread, with or without the GIL, even late in the life of the process.
        if (!Py_IsInitialized()) return;
        PyGILState_STATE state = PyGILState_Ensure();
        auto *self = static_cast<Exported *>(m->context);
        release(self->buffer);
        std::free(self);
        PyGILState_Release(state);
    }

    static void capsule_destructor(PyObject *capsule) {
        if (!PyCapsule_IsValid(capsule, Names<Managed>::fresh)) return;  // consumed
        auto *m = static_cast<Managed *>(PyCapsule_GetPointer(capsule, Names<Managed>::fresh));
        m->deleter(m);
    }
};

void set_version(DLManagedTensor *, uint64_t) {}
void set_version(DLManagedTensorVersioned *m, uint64_t flags) {
    m->version = {kMajor, kMinor};
    m->flags = flags;
}

// Takes over the reference of `buffer`.
template <class Managed>
PyObject *export_buffer(const ShapedArray *aval, DLDataType type, Buffer *buffer, uint64_t flags) {
    using E = Exported<Managed>;
    size_t ndim = size_t(aval->ndim);
    auto *e = static_cast<E *>(std::calloc(1, sizeof(E) + 2 * ndim * sizeof(int64_t)));
    if (!e) {
        release(buffer);
        return PyErr_NoMemory();
    }
    e->buffer = buffer;
    int64_t *shape = e->shape_and_strides, *strides = shape + ndim, stride = 1;
    for (size_t k = ndim; k-- > 0; stride *= shape[k]) {
        shape[k] = aval->dims[k];
        strides[k] = stride;
    }
    e->managed.context = e;
    e->managed.deleter = E::deleter;
    e->managed.tensor = DLTensor{buffer->data, {kCPU, 0}, aval->ndim, type, shape, strides, 0};
    set_version(&e->managed, flags);
    PyObject *capsule = PyCapsule_New(&e->managed, Names<Managed>::fresh, E::capsule_destructor);
    if (!capsule) E::deleter(&e->managed);
    return capsule;
}

PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs) {
    static const char *names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", const_cast<char **>(names), &stream, &version, &device, &copy))
        return nullptr;
    Array *a = as_array(self);
    if (!check_alive(a)) return nullptr;
    DLDataType type;
    if (!dlpack_type(a->aval->dtype, &type)) {
        PyErr_Format(PyExc_BufferError, "__dlpack__: arrays of type %U have no DLPack equivalent", a->aval->dtype->name);
        return nullptr;
    }
    if (!Py_IsNone(stream)) {
        PyErr_Format(PyExc_ValueError, "__dlpack__: stream must be None for arrays on a CPU, got %R", stream);
        return nullptr;
    }
    long major = 0, minor = 0, device_type = kCPU, device_id = 0;
    if (!Py_IsNone(version) && !parse_pair(version, "__dlpack__: max_version", &major, &minor)) return nullptr;
    if (!Py_IsNone(device) && !parse_pair(device, "__dlpack__: dl_device", &device_type, &device_id)) return nullptr;
    if (device_type != kCPU) {
        PyErr_Format(PyExc_BufferError, "__dlpack__: the array is on the CPU, cannot be exported to device (%ld, %ld)", device_type,
                     device_id);
        return nullptr;
    }
    int copied = PyObject_IsTrue(copy);
    if (copied < 0) return nullptr;
    if (!ready(a)) return nullptr;
    Buffer *buffer;
    if (copied) {
        buffer = allocate_for(a->aval);
        if (!buffer) return nullptr;
        std::memcpy(buffer->data, a->buffer->data, size_t(a->aval->nbytes));
    } else {
        buffer = retain(a->buffer);
    }
    return major >= 1 ? export_buffer<DLManagedTensorVersioned>(a->aval, type, buffer, copied ? kCopied : kReadOnly)
                      : export_buffer<DLManagedTensor>(a->aval, type, buffer, 0);
}

PyObject *array_dlpack_device(PyObject *, PyObject *) { return Py_BuildValue("(ii)", int(kCPU), 0); }

// ---- import -------------------------------------------------------------------------------------------------------------------

// The owner of imported memory: a capsule that calls the producer's deleter.
constexpr const char *kOwner = "steno_dlpack_owner";

template <class Managed>
void owner_destructor(PyObject *capsule) {
    auto *m = static_cast<Managed *>(PyCapsule_GetPointer(capsule, kOwner));
    if (m && m->deleter) m->deleter(m);
}

template <class Managed>
Ref make_owner(PyObject *capsule, const DLTensor **tensor) {
    auto *m = static_cast<Managed *>(PyCapsule_GetPointer(capsule, Names<Managed>::fresh));
    if (!m) return Ref();
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>)
        if (m->version.major > kMajor) {
            PyErr_Format(PyExc_BufferError, "from_dlpack: version %u.%u of DLPack is not supported", m->version.major, m->version.minor);
            return Ref();
        }
    Ref owner(PyCapsule_New(m, kOwner, owner_destructor<Managed>));
    if (!owner) return Ref();
    if (PyCapsule_SetName(capsule, Names<Managed>::used)) {
        PyCapsule_SetDestructor(owner.get(), nullptr);
        return Ref();
    }
    *tensor = &m->tensor;
    return owner;
}

// Copies a strided tensor into row-major order. `inner`: the axes from there on are row-major already.
void copy_strided(const DLTensor *t, int axis, int inner, const char *from, char *&to, int64_t itemsize, int64_t inner_bytes) {
    if (axis == inner) {
        std::memcpy(to, from, size_t(inner_bytes));
        to += inner_bytes;
        return;
    }
    for (int64_t k = 0; k < t->shape[axis]; ++k)
        copy_strided(t, axis + 1, inner, from + k * t->strides[axis] * itemsize, to, itemsize, inner_bytes);
}

PyObject *import_tensor(const DLTensor *t, PyObject *owner, PyObject *copy) {
    if (t->device.type != kCPU) {
        PyErr_Format(PyExc_BufferError, "from_dlpack: the array is on device (%d, %d), steno's arrays are on the CPU", t->device.type,
                     t->device.id);
        return nullptr;
    }
    const DTypeInfo *dtype = from_dlpack_type(t->dtype);
    if (!dtype) return nullptr;
    Ref aval_ref(reinterpret_cast<PyObject *>(make_aval(t->shape, t->ndim, dtype, false)));
    if (!aval_ref) return nullptr;
    auto *aval = reinterpret_cast<ShapedArray *>(aval_ref.get());
    char *data = static_cast<char *>(t->data) + t->byte_offset;

    // `inner`: first axis from which on the elements lie in row-major order.
    int inner = 0;
    int64_t inner_elements = aval->size;
    if (t->strides && aval->size > 0) {
        inner_elements = 1;
        inner = t->ndim;
        while (inner > 0 && (t->shape[inner - 1] == 1 || t->strides[inner - 1] == inner_elements)) inner_elements *= t->shape[--inner];
    }
    bool usable = inner == 0 && reinterpret_cast<uintptr_t>(data) % uintptr_t(dtype->itemsize) == 0;
    int wanted = Py_IsNone(copy) ? -1 : PyObject_IsTrue(copy);
    if (wanted < 0 && PyErr_Occurred()) return nullptr;
    if (wanted == 0 && !usable) {
        PyErr_SetString(PyExc_ValueError,
                        inner ? "from_dlpack: the array is not in row-major order, which requires a copy; copy=False forbids it"
                              : "from_dlpack: the memory is not aligned to its elements, which requires a copy; copy=False forbids it");
        return nullptr;
    }
    if (usable && wanted != 1) return make_array(aval, foreign_buffer(data, size_t(aval->nbytes), owner));
    Buffer *b = allocate_for(aval);
    if (!b) return nullptr;
    char *to = static_cast<char *>(b->data);
    if (aval->size > 0) copy_strided(t, 0, inner, data, to, dtype->itemsize, inner_elements * dtype->itemsize);
    return make_array(aval, b);
}

PyObject *from_dlpack(PyObject *, PyObject *args, PyObject *kwargs) {
    static const char *names[] = {"x", "copy", nullptr};
    PyObject *x, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$O:from_dlpack", const_cast<char **>(names), &x, &copy)) return nullptr;
    Ref export_method(PyObject_GetAttrString(x, "__dlpack__")),
        device(export_method ? PyObject_CallMethod(x, "__dlpack_device__", nullptr) : nullptr);
    if (!device) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Format(PyExc_TypeError, "The array passed to from_dlpack must have __dlpack__ and __dlpack_device__ methods, got %.200s",
                         Py_TYPE(x)->tp_name);
        return nullptr;
    }
    long device_type, device_id;
    if (!parse_pair(device.get(), "from_dlpack: what __dlpack_device__ returns", &device_type, &device_id)) return nullptr;
    if (device_type != kCPU) {
        PyErr_Format(PyExc_BufferError, "from_dlpack: the array is on device (%ld, %ld), steno's arrays are on the CPU", device_type,
                     device_id);
        return nullptr;
    }
    Ref none(PyTuple_New(0)), versions(Py_BuildValue("{s:(ii)}", "max_version", int(kMajor), int(kMinor)));
    if (!none || !versions) return nullptr;
    Ref capsule(PyObject_Call(export_method.get(), none.get(), versions.get()));
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // a producer from before max_version
        PyErr_Clear();
        capsule = Ref(PyObject_CallNoArgs(export_method.get()));
    }
    if (!capsule) return nullptr;
    const DLTensor *tensor = nullptr;
    Ref owner;
    if (PyCapsule_IsValid(capsule.get(), Names<DLManagedTensorVersioned>::fresh)) {
        owner = make_owner<DLManagedTensorVersioned>(capsule.get(), &tensor);
    } else if (PyCapsule_IsValid(capsule.get(), Names<DLManagedTensor>::fresh)) {
        owner = make_owner<DLManagedTensor>(capsule.get(), &tensor);
    } else {
        PyErr_Format(PyExc_TypeError, "from_dlpack: %.200s.__dlpack__ returned no unused DLPack capsule", Py_TYPE(x)->tp_name);
    }
    return owner ? import_tensor(tensor, owner.get(), copy) : nullptr;
}

PyMethodDef functions[] = {
    {"from_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(from_dlpack)), METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(x, *, copy=None) -> ArrayImpl\n\nOver the memory of x, an object with __dlpack__ on the CPU, if it is in row-major order "
     "and aligned to its "
     "elements; otherwise, or with copy=True, a copy. copy=False: ValueError where one is needed."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyMethodDef dlpack_methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(array_dlpack)), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) -> capsule over the memory of the array (with max_version >= "
     "(1, 0) marked read-only)."},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS, "__dlpack_device__() -> (1, 0): the CPU."},
    {nullptr, nullptr, 0, nullptr},
};

bool init_dlpack(PyObject *module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace steno
