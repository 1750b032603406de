// The key entries of paths: SequenceKey, DictKey, GetAttrKey, FlattenedIndexKey.
#include "pytree_internal.h"

#include <cstddef>

namespace steno {

namespace {

struct KeyObject {
    PyObject_HEAD
    PyObject *value;
    uint8_t kind; // index into `key_kinds`
};

enum KeyKind : uint8_t { SEQUENCE_KEY, DICT_KEY, ATTR_KEY, FLAT_INDEX_KEY };
struct KeyInfo {
    const char *name;
    const char *field;
    PyTypeObject *type;
};
KeyInfo key_kinds[] = {
    {"SequenceKey", "idx", nullptr}, {"DictKey", "key", nullptr}, {"GetAttrKey", "name", nullptr}, {"FlattenedIndexKey", "key", nullptr}};

KeyObject *as_key(PyObject *x) { return reinterpret_cast<KeyObject *>(x); }

PyObject *new_key(PyTypeObject *type, KeyKind kind, PyObject *value_owned) {
    if (!value_owned) return nullptr;
    PyObject *self = type->tp_alloc(type, 0);
    if (!self) {
        Py_DECREF(value_owned);
        return nullptr;
    }
    as_key(self)->value = value_owned;
    as_key(self)->kind = kind;
    return self;
}

template <KeyKind kind> PyObject *key_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    const KeyInfo &info = key_kinds[kind];
    char *names[] = {const_cast<char *>(info.field), nullptr};
    PyObject *value;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &value)) return nullptr;
    if (kind == DICT_KEY) return new_key(type, kind, Py_NewRef(value));
    if (kind == ATTR_KEY) {
        if (PyUnicode_Check(value)) return new_key(type, kind, Py_NewRef(value));
        PyErr_Format(PyExc_TypeError, "%s: %s must be a str, got %R", info.name, info.field, value);
        return nullptr;
    }
    if (!PyIndex_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: %s must be an int, got %R", info.name, info.field, value);
        return nullptr;
    }
    Py_ssize_t index = PyNumber_AsSsize_t(value, PyExc_TypeError);
    if (index == -1 && PyErr_Occurred()) return nullptr;
    return new_key(type, kind, PyLong_FromSsize_t(index));
}

void key_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(as_key(self)->value);
    type->tp_free(self);
    Py_DECREF(type);
}

int key_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(as_key(self)->value);
    return 0;
}

PyObject *key_repr(PyObject *self) {
    const KeyInfo &info = key_kinds[as_key(self)->kind];
    return PyUnicode_FromFormat("%s(%s=%R)", info.name, info.field, as_key(self)->value);
}

PyObject *key_str(PyObject *self) {
    PyObject *value = as_key(self)->value;
    switch (as_key(self)->kind) {
    case ATTR_KEY: return PyUnicode_FromFormat(".%S", value);
    case FLAT_INDEX_KEY: return PyUnicode_FromFormat("[<flat index %S>]", value);
    default: return PyUnicode_FromFormat("[%R]", value);
    }
}

Py_hash_t key_hash(PyObject *self) {
    Py_hash_t h = PyObject_Hash(as_key(self)->value);
    if (h == -1) return -1;
    h = static_cast<Py_hash_t>((static_cast<Py_uhash_t>(h) + as_key(self)->kind + 1) * UINT64_C(0x9E3779B97F4A7C15));
    return h == -1 ? -2 : h;
}

PyObject *key_compare(PyObject *self, PyObject *other, int op) {
    if (op != Py_EQ && op != Py_NE) Py_RETURN_NOTIMPLEMENTED;
    if (!PyObject_TypeCheck(other, key_kinds[as_key(self)->kind].type)) Py_RETURN_NOTIMPLEMENTED;
    int same = PyObject_RichCompareBool(as_key(self)->value, as_key(other)->value, Py_EQ);
    if (same < 0) return nullptr;
    return PyBool_FromLong(same == (op == Py_EQ));
}

PyObject *key_reduce(PyObject *self, PyObject *) { return Py_BuildValue("O(O)", Py_TYPE(self), as_key(self)->value); }

PyMethodDef key_methods[] = {{"__reduce__", key_reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

template <KeyKind kind> bool init_key_type(PyObject *module, const char *doc) {
    KeyInfo &info = key_kinds[kind];
    static PyMemberDef members[] = {{info.field, T_OBJECT_EX, offsetof(KeyObject, value), READONLY, nullptr}, {nullptr, 0, 0, 0, nullptr}};
    static char full_name[64];
    PyOS_snprintf(full_name, sizeof full_name, "steno.tree_util.%s", info.name);
    PyType_Slot type_slots[] = {{Py_tp_new, reinterpret_cast<void *>(key_new<kind>)},
                                {Py_tp_dealloc, reinterpret_cast<void *>(key_dealloc)},
                                {Py_tp_traverse, reinterpret_cast<void *>(key_traverse)},
                                {Py_tp_repr, reinterpret_cast<void *>(key_repr)},
                                {Py_tp_str, reinterpret_cast<void *>(key_str)},
                                {Py_tp_hash, reinterpret_cast<void *>(key_hash)},
                                {Py_tp_richcompare, reinterpret_cast<void *>(key_compare)},
                                {Py_tp_methods, key_methods},
                                {Py_tp_members, members},
                                {Py_tp_doc, const_cast<char *>(doc)},
                                {0, nullptr}};
    PyType_Spec spec{full_name, sizeof(KeyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, type_slots};
    PyObject *type = PyType_FromSpec(&spec);
    if (!type) return false;
    info.type = reinterpret_cast<PyTypeObject *>(type);
    Ref match_args(Py_BuildValue("(s)", info.field));
    return match_args && PyObject_SetAttrString(type, "__match_args__", match_args.get()) == 0 &&
           PyModule_AddObjectRef(module, info.name, type) == 0;
}

} // namespace

PyObject *make_sequence_key(Py_ssize_t index) { return new_key(key_kinds[SEQUENCE_KEY].type, SEQUENCE_KEY, PyLong_FromSsize_t(index)); }
PyObject *make_flat_index_key(Py_ssize_t index) {
    return new_key(key_kinds[FLAT_INDEX_KEY].type, FLAT_INDEX_KEY, PyLong_FromSsize_t(index));
}
PyObject *make_dict_key(PyObject *key) { return new_key(key_kinds[DICT_KEY].type, DICT_KEY, Py_NewRef(key)); }
PyObject *make_attr_key(PyObject *name) { return new_key(key_kinds[ATTR_KEY].type, ATTR_KEY, Py_NewRef(name)); }

bool init_keys(PyObject *module) {
    return init_key_type<SEQUENCE_KEY>(module, "SequenceKey(idx)\n--\n\nThe path entry of a child of a list or tuple.") &&
           init_key_type<DICT_KEY>(module, "DictKey(key)\n--\n\nThe path entry of a value in a dict.") &&
           init_key_type<ATTR_KEY>(module, "GetAttrKey(name)\n--\n\nThe path entry of an attribute.") &&
           init_key_type<FLAT_INDEX_KEY>(
               module, "FlattenedIndexKey(key)\n--\n\nThe path entry of a child of a class that was registered without keys.");
}

} // namespace steno
