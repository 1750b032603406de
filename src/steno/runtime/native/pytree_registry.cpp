// Which classes are pytree nodes, and how the children of each kind are read.
#include "pytree_internal.h"

#include <algorithm>

namespace steno {

PyTypeObject *OrderedDictType = nullptr;
PyTypeObject *DefaultDictType = nullptr;
PyObject *str_fields = nullptr;
PyObject *str_default_factory = nullptr;
RegistrySlot *registry_slots = nullptr;
size_t registry_mask = 0;

namespace {

size_t slots_used = 0;

void put_slot(const RegistrySlot &slot) {
    size_t i = registry_index(slot.type) & registry_mask;
    while (registry_slots[i].type) i = (i + 1) & registry_mask;
    registry_slots[i] = slot;
}

bool add_slot(PyTypeObject *type, NodeKind kind, const Registration *registration) {
    if (2 * (slots_used + 1) > registry_mask) {
        size_t old = registry_slots ? registry_mask + 1 : 0, wanted = old ? 2 * old : 256;
        RegistrySlot *previous = registry_slots;
        RegistrySlot *fresh = static_cast<RegistrySlot *>(std::calloc(wanted, sizeof(RegistrySlot)));
        if (!fresh) {
            PyErr_NoMemory();
            return false;
        }
        registry_slots = fresh;
        registry_mask = wanted - 1;
        for (size_t i = 0; i < old; ++i)
            if (previous[i].type) put_slot(previous[i]);
        std::free(previous);
    }
    Py_INCREF(type);
    put_slot(RegistrySlot{type, kind, registration});
    ++slots_used;
    return true;
}

inline bool str_less(PyObject *a, PyObject *b) {
    if (PyUnicode_IS_COMPACT_ASCII(a) && PyUnicode_IS_COMPACT_ASCII(b)) {
        Py_ssize_t m = PyUnicode_GET_LENGTH(a), n = PyUnicode_GET_LENGTH(b);
        int c = std::memcmp(PyUnicode_1BYTE_DATA(a), PyUnicode_1BYTE_DATA(b), std::min(m, n));
        return c ? c < 0 : m < n;
    }
    return PyUnicode_Compare(a, b) < 0; // cannot fail: both are ready exact strings
}

} // namespace

bool changed_size(const char *what) {
    PyErr_Format(PyExc_RuntimeError, "pytree: a %s changed while it was flattened", what);
    return false;
}

void sort_by_str(Items &items) {
    auto less = [](const Item &a, const Item &b) { return str_less(a.key, b.key); };
    if (items.size() > 24) {
        if (!std::is_sorted(items.begin(), items.end(), less)) std::sort(items.begin(), items.end(), less);
        return;
    }
    for (uint32_t i = 1; i < items.size(); ++i) {
        Item item = items[i];
        uint32_t j = i;
        for (; j > 0 && str_less(item.key, items[j - 1].key); --j) items[j] = items[j - 1];
        items[j] = item;
    }
}

namespace {

// Raises ValueError with the current exception as its cause.
void raise_from_current(const char *format, PyObject *argument) {
    PyObject *type, *cause, *traceback;
    PyErr_Fetch(&type, &cause, &traceback);
    PyErr_NormalizeException(&type, &cause, &traceback);
    if (traceback) PyException_SetTraceback(cause, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    PyErr_Format(PyExc_ValueError, format, argument);
    PyErr_Fetch(&type, &argument, &traceback);
    PyErr_NormalizeException(&type, &argument, &traceback);
    PyException_SetContext(argument, Py_NewRef(cause));
    PyException_SetCause(argument, cause);
    PyErr_Restore(type, argument, traceback);
}

// Keys that are not all `str`: Python's own order. `dict` is a plain dict or a defaultdict.
bool sort_generic(PyObject *dict, Items &items) {
    Ref keys(PyList_New(items.size()));
    if (!keys) return false;
    for (uint32_t i = 0; i < items.size(); ++i) PyList_SET_ITEM(keys.get(), i, Py_NewRef(items[i].key));
    if (PyList_Sort(keys.get()) < 0) {
        if (PyDict_CheckExact(dict) && PyErr_ExceptionMatches(PyExc_Exception)) {
            raise_from_current("Comparator raised exception while sorting pytree dictionary keys: the keys of a dict in a pytree must "
                               "have an order, got %R",
                               keys.get());
        }
        return false;
    }
    // The values again by key: sorting may have run Python that changed the dict.
    for (uint32_t i = 0; i < items.size(); ++i) {
        PyObject *key = PyList_GET_ITEM(keys.get(), i);
        PyObject *value = PyDict_GetItemWithError(dict, key);
        if (!value) return PyErr_Occurred() ? false : changed_size("dict");
        Py_INCREF(value);
        Py_SETREF(items[i].key, Py_NewRef(key));
        Py_SETREF(items[i].value, value);
    }
    return true;
}

bool sorted_items(PyObject *dict, Items &items) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    bool all_str = true;
    while (PyDict_Next(dict, &position, &key, &value)) {
        all_str = all_str && PyUnicode_CheckExact(key);
        if (!items.push(Item{key, value})) return false;
        Py_INCREF(key);
        Py_INCREF(value);
    }
    if (items.size() < 2) return true;
    if (!all_str) return sort_generic(dict, items);
    sort_by_str(items);
    return true;
}

bool ordered_items(PyObject *dict, Items &items) { // an OrderedDict has an order of its own
    Ref keys(PySequence_List(dict));
    if (!keys) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
        PyObject *key = PyList_GET_ITEM(keys.get(), i);
        PyObject *value = PyDict_GetItemWithError(dict, key);
        if (!value) return PyErr_Occurred() ? false : changed_size("OrderedDict");
        if (!items.push(Item{key, value})) return false;
        Py_INCREF(key);
        Py_INCREF(value);
    }
    return true;
}

} // namespace

bool items_of(NodeKind kind, PyObject *dict, Items &items) {
    return kind == NodeKind::OrderedDict ? ordered_items(dict, items) : sorted_items(dict, items);
}

namespace {

const char *const FUNCTION_NAMES[] = {"to_iterable", "to_iterable_with_keys"};
const char *const CHILDREN_NAMES[] = {"children", "key_leaf_pairs"};

} // namespace

PyObject *call_flatten(const Registration *registration, PyObject *x, bool with_keys) {
    Ref result(PyObject_CallOneArg(with_keys ? registration->to_iterable_with_keys : registration->to_iterable, x));
    if (!result || (PyTuple_Check(result.get()) && PyTuple_GET_SIZE(result.get()) == 2)) return result.release();
    return PyErr_Format(PyExc_ValueError,
                        "The %s function for a custom PyTree node should return a (%s, aux_data) tuple, got %R (class %R)",
                        FUNCTION_NAMES[with_keys], CHILDREN_NAMES[with_keys], result.get(), registration->type);
}

bool call_to_iterable(const Registration *registration, PyObject *x, bool with_keys, Ref &children, Ref &aux) {
    Ref result(call_flatten(registration, x, with_keys));
    if (!result) return false;
    const char *name = FUNCTION_NAMES[with_keys], *wanted = CHILDREN_NAMES[with_keys];
    PyObject *iterable = PyTuple_GET_ITEM(result.get(), 0);
    if (!PyTuple_CheckExact(iterable) && !PyList_CheckExact(iterable)) {
        Ref iterator(PyObject_GetIter(iterable));
        if (!iterator) {
            if (PyErr_ExceptionMatches(PyExc_TypeError)) {
                PyErr_Clear();
                PyErr_Format(PyExc_ValueError,
                             "The %s function for a custom PyTree node should return a (%s, aux_data) tuple where '%s' is iterable, "
                             "got %R (class %R)",
                             name, wanted, wanted, result.get(), registration->type);
            }
            return false;
        }
        children = Ref(PySequence_Tuple(iterator.get()));
    } else {
        children = Ref(PySequence_Tuple(iterable));
    }
    aux = Ref::borrow(PyTuple_GET_ITEM(result.get(), 1));
    if (!children) return false;
    if (!with_keys) return true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children.get()); ++i) {
        PyObject *pair = PyTuple_GET_ITEM(children.get(), i);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
            PyErr_Format(PyExc_ValueError,
                         "The %s function for a custom PyTree node should return a (%s, aux_data) tuple where each child is a "
                         "(key, child) tuple, got %R (class %R)",
                         name, wanted, pair, registration->type);
            return false;
        }
    }
    return true;
}

int equal_data(PyObject *a, PyObject *b, PyTypeObject *type) {
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0 && PyErr_ExceptionMatches(PyExc_Exception)) {
        raise_from_current("Exception raised while checking equality of metadata fields of pytree node of type %R. Metadata must have "
                           "an == that gives a bool, and a hash (so it cannot be an array).",
                           reinterpret_cast<PyObject *>(type));
    }
    return same;
}

bool register_class(const Registration &registration) {
    if (find_registered(registration.type)) {
        PyErr_Format(PyExc_ValueError, "Duplicate custom %sPyTreeDef type registration for %R.",
                     registration.kind == NodeKind::Dataclass ? "dataclass " : "", registration.type);
        return false;
    }
    Registration *kept = static_cast<Registration *>(std::malloc(sizeof(Registration)));
    if (!kept) {
        PyErr_NoMemory();
        return false;
    }
    *kept = registration;
    if (!add_slot(registration.type, registration.kind, kept)) {
        std::free(kept);
        return false;
    }
    return true;
}

bool init_registry() {
    str_fields = PyUnicode_InternFromString("_fields");
    str_default_factory = PyUnicode_InternFromString("default_factory");
    if (!str_fields || !str_default_factory) return false;
    Ref collections(PyImport_ImportModule("collections"));
    if (!collections) return false;
    OrderedDictType = reinterpret_cast<PyTypeObject *>(PyObject_GetAttrString(collections.get(), "OrderedDict"));
    DefaultDictType = reinterpret_cast<PyTypeObject *>(PyObject_GetAttrString(collections.get(), "defaultdict"));
    if (!OrderedDictType || !DefaultDictType) return false;
    return add_slot(&PyTuple_Type, NodeKind::Tuple, nullptr) && add_slot(&PyList_Type, NodeKind::List, nullptr) &&
           add_slot(&PyDict_Type, NodeKind::Dict, nullptr) && add_slot(Py_TYPE(Py_None), NodeKind::None, nullptr) &&
           add_slot(OrderedDictType, NodeKind::OrderedDict, nullptr) && add_slot(DefaultDictType, NodeKind::DefaultDict, nullptr);
}

PyObject *field_names(PyTypeObject *namedtuple, Py_ssize_t size) {
    Ref fields(PyObject_GetAttr(reinterpret_cast<PyObject *>(namedtuple), str_fields));
    if (!fields) return nullptr;
    Ref names(PySequence_Check(fields.get()) ? PySequence_Tuple(fields.get()) : nullptr);
    bool good = names && PyTuple_GET_SIZE(names.get()) == size;
    for (Py_ssize_t i = 0; good && i < size; ++i) good = PyUnicode_Check(PyTuple_GET_ITEM(names.get(), i));
    if (good) return names.release();
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "pytree: _fields of the named tuple class %R should be %zd names, got %R", namedtuple, size,
                     fields.get());
    return nullptr;
}

} // namespace steno
