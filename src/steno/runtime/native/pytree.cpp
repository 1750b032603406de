// Flattening, matching, comparing and rebuilding pytrees. The Python face is in pytree_types.cpp.
#include "pytree_internal.h"

#include <algorithm>
#include <utility>

namespace steno {

PyTypeObject *OrderedDictType = nullptr;
PyTypeObject *DefaultDictType = nullptr;

namespace {

PyObject *str_fields;          // "_fields"
PyObject *str_default_factory; // "default_factory"
PyObject *str_new;             // "__new__"
PyObject *str_module;          // "__module__"

// ---------------------------------------------------------------------------------------------------------------------
// The registry: an open-addressing table from type to kind. It owns the types, so an address is never reused.

struct Slot {
    PyTypeObject *type;
    NodeKind kind;
    const Registration *registration;
};
Slot *slots = nullptr;
size_t slot_mask = 0;
size_t slots_used = 0;

inline size_t slot_of(PyTypeObject *type) {
    return (reinterpret_cast<uintptr_t>(type) * UINT64_C(0x9E3779B97F4A7C15)) >> 40;
}

inline const Slot *find_slot(PyTypeObject *type) {
    for (size_t i = slot_of(type) & slot_mask;; i = (i + 1) & slot_mask) {
        if (slots[i].type == type) return &slots[i];
        if (!slots[i].type) return nullptr;
    }
}

void put_slot(const Slot &slot) {
    size_t i = slot_of(slot.type) & slot_mask;
    while (slots[i].type) i = (i + 1) & slot_mask;
    slots[i] = slot;
}

bool add_slot(PyTypeObject *type, NodeKind kind, const Registration *registration) {
    if (2 * (slots_used + 1) > slot_mask) {
        size_t old = slots ? slot_mask + 1 : 0, wanted = old ? 2 * old : 256;
        Slot *previous = slots;
        Slot *fresh = static_cast<Slot *>(std::calloc(wanted, sizeof(Slot)));
        if (!fresh) {
            PyErr_NoMemory();
            return false;
        }
        slots = fresh;
        slot_mask = wanted - 1;
        for (size_t i = 0; i < old; ++i)
            if (previous[i].type) put_slot(previous[i]);
        std::free(previous);
    }
    Py_INCREF(type);
    put_slot(Slot{type, kind, registration});
    ++slots_used;
    return true;
}

inline bool is_dict_kind(NodeKind kind) {
    return kind == NodeKind::Dict || kind == NodeKind::OrderedDict || kind == NodeKind::DefaultDict;
}

inline uint32_t num_extras(NodeKind kind, uint32_t arity, const Registration *registration) {
    if (is_dict_kind(kind)) return arity;
    return kind == NodeKind::Dataclass ? static_cast<uint32_t>(PyTuple_GET_SIZE(registration->meta_fields)) : 0;
}

bool changed_size(const char *what) {
    PyErr_Format(PyExc_RuntimeError, "pytree: a %s changed while it was flattened", what);
    return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Sorted dict items

struct Item {
    PyObject *key;
    PyObject *value;
};

struct Items : SmallVector<Item, 16> { // owns the references
    ~Items() {
        for (Item &item : *this) {
            Py_XDECREF(item.key);
            Py_XDECREF(item.value);
        }
    }
};

inline bool str_less(PyObject *a, PyObject *b) {
    if (PyUnicode_IS_COMPACT_ASCII(a) && PyUnicode_IS_COMPACT_ASCII(b)) {
        Py_ssize_t m = PyUnicode_GET_LENGTH(a), n = PyUnicode_GET_LENGTH(b);
        int c = std::memcmp(PyUnicode_1BYTE_DATA(a), PyUnicode_1BYTE_DATA(b), std::min(m, n));
        return c ? c < 0 : m < n;
    }
    return PyUnicode_Compare(a, b) < 0; // cannot fail: both are ready exact strings
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

inline bool items_of(NodeKind kind, PyObject *dict, Items &items) {
    return kind == NodeKind::OrderedDict ? ordered_items(dict, items) : sorted_items(dict, items);
}

// ---------------------------------------------------------------------------------------------------------------------
// Registered classes

const char *const FUNCTION_NAMES[] = {"to_iterable", "to_iterable_with_keys"};
const char *const CHILDREN_NAMES[] = {"children", "key_leaf_pairs"};

// What the flatten function of a class gives, checked to be a pair. Null: exception.
PyObject *call_flatten(const Registration *registration, PyObject *x, bool with_keys) {
    Ref result(PyObject_CallOneArg(with_keys ? registration->to_iterable_with_keys : registration->to_iterable, x));
    if (!result || (PyTuple_Check(result.get()) && PyTuple_GET_SIZE(result.get()) == 2)) return result.release();
    return PyErr_Format(PyExc_ValueError, "The %s function for a custom PyTree node should return a (%s, aux_data) tuple, got %R (class %R)",
                        FUNCTION_NAMES[with_keys], CHILDREN_NAMES[with_keys], result.get(), registration->type);
}

// (children, aux) of a custom node; children is a tuple. With keys the children are the pairs (key, child).
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

// `==` of auxiliary data. An exception is reported with the class it came from.
int equal_data(PyObject *a, PyObject *b, PyTypeObject *type) {
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0 && PyErr_ExceptionMatches(PyExc_Exception)) {
        raise_from_current("Exception raised while checking equality of metadata fields of pytree node of type %R. Metadata must have "
                           "an == that gives a bool, and a hash (so it cannot be an array).",
                           reinterpret_cast<PyObject *>(type));
    }
    return same;
}

inline int equal_keys(PyObject *const *a, PyObject *const *b, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
        if (a[i] == b[i]) continue;
        int same = PyObject_RichCompareBool(a[i], b[i], Py_EQ);
        if (same <= 0) return same;
    }
    return 1;
}

// ---------------------------------------------------------------------------------------------------------------------
// Flattening

template <bool Hooked> class Flattener {
  public:
    Flattener(RefVector &leaves, FlatTree &flat, FlattenHooks *hooks) : leaves_(leaves), flat_(flat), hooks_(hooks) {}

    // The caller keeps `x` alive.
    bool visit(PyObject *x) {
        if constexpr (Hooked) {
            if (hooks_->is_leaf) {
                int leaf = ask(x);
                if (leaf) return leaf > 0 && push_leaf(x);
            }
        }
        const Registration *registration = nullptr;
        NodeKind kind = classify(x, registration);
        if (kind == NodeKind::Leaf) return push_leaf(x);
        if (kind == NodeKind::None) return flat_.push(kind, 0);
        RecursionGuard guard;
        if (!guard.ok) return false;
        switch (kind) {
        case NodeKind::Tuple: return flat_.push(kind, size(x)) && each(x, SequenceKeys{});
        case NodeKind::List: return list(x);
        case NodeKind::NamedTuple: return named_tuple(x);
        case NodeKind::Dict:
        case NodeKind::OrderedDict:
        case NodeKind::DefaultDict: return dict(x, kind);
        case NodeKind::Dataclass: return dataclass(x, registration);
        default: return custom(x, registration);
        }
    }

  private:
    struct SequenceKeys {
        PyObject *operator()(Py_ssize_t i) const { return make_sequence_key(i); }
    };

    static uint32_t size(PyObject *tuple) { return static_cast<uint32_t>(PyTuple_GET_SIZE(tuple)); }

    bool push_leaf(PyObject *x) {
        if constexpr (Hooked) {
            if (hooks_->with_path) {
                PyObject *path = current_path();
                if (!path || !hooks_->paths.push_steal(path)) return false;
            }
        }
        return flat_.push(NodeKind::Leaf, 0) && leaves_.push(x);
    }

    PyObject *current_path() {
        PyObject *path = PyTuple_New(hooks_->path.size());
        for (uint32_t i = 0; path && i < hooks_->path.size(); ++i) PyTuple_SET_ITEM(path, i, Py_NewRef(hooks_->path[i]));
        return path;
    }

    int ask(PyObject *x) {
        Ref answer;
        if (hooks_->with_path) {
            Ref path(current_path());
            if (!path) return -1;
            answer = Ref(PyObject_CallFunctionObjArgs(hooks_->is_leaf, path.get(), x, nullptr));
        } else {
            answer = Ref(PyObject_CallOneArg(hooks_->is_leaf, x));
        }
        if (!answer) return -1;
        if (answer.get() == Py_True) return 1;
        if (answer.get() == Py_False || answer.get() == Py_None) return 0;
        PyErr_Format(PyExc_ValueError, "is_leaf predicate returned a non-boolean value %R; expected a boolean", answer.get());
        return -1;
    }

    // `key()` makes the entry of the path; it is only called where paths are wanted.
    template <typename Key> bool child(PyObject *x, Key key) {
        if constexpr (Hooked) {
            if (hooks_->with_path) {
                PyObject *entry = key();
                if (!entry || !hooks_->path.push_steal(entry)) return false;
                bool ok = visit(x);
                hooks_->path.shrink(hooks_->path.size() - 1);
                return ok;
            }
        }
        return visit(x);
    }

    template <typename Keys> bool each(PyObject *tuple, Keys keys) {
        for (Py_ssize_t i = 0, n = PyTuple_GET_SIZE(tuple); i < n; ++i)
            if (!child(PyTuple_GET_ITEM(tuple, i), [&] { return keys(i); })) return false;
        return true;
    }

    bool list(PyObject *x) {
        Py_ssize_t n = PyList_GET_SIZE(x);
        if (!flat_.push(NodeKind::List, static_cast<uint32_t>(n))) return false;
        for (Py_ssize_t i = 0; i < n; ++i) {
            if (PyList_GET_SIZE(x) != n) return changed_size("list");
            Ref item = Ref::borrow(PyList_GET_ITEM(x, i));
            if (!child(item.get(), [&] { return make_sequence_key(i); })) return false;
        }
        return true;
    }

    bool named_tuple(PyObject *x) {
        if (!flat_.push(NodeKind::NamedTuple, size(x), Py_NewRef(reinterpret_cast<PyObject *>(Py_TYPE(x))))) return false;
        if constexpr (Hooked) {
            if (hooks_->with_path) {
                Ref names(field_names(Py_TYPE(x), PyTuple_GET_SIZE(x)));
                return names && each(x, [&](Py_ssize_t i) { return make_attr_key(PyTuple_GET_ITEM(names.get(), i)); });
            }
        }
        return each(x, SequenceKeys{});
    }

    bool dict(PyObject *x, NodeKind kind) {
        Items items;
        if (!items_of(kind, x, items)) return false;
        PyObject *factory = nullptr;
        if (kind == NodeKind::DefaultDict && !(factory = PyObject_GetAttr(x, str_default_factory))) return false;
        if (!flat_.push(kind, items.size(), factory)) return false;
        for (Item &item : items) {
            if (!flat_.extras.push_steal(std::exchange(item.key, nullptr))) return false;
        }
        uint32_t first = flat_.extras.size() - items.size();
        for (uint32_t i = 0; i < items.size(); ++i)
            if (!child(items[i].value, [&] { return make_dict_key(flat_.extras[first + i]); })) return false;
        return true;
    }

    bool dataclass(PyObject *x, const Registration *registration) {
        if (!flat_.push(NodeKind::Dataclass, size(registration->data_fields), nullptr, registration)) return false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(registration->meta_fields); ++i) {
            PyObject *value = PyObject_GetAttr(x, PyTuple_GET_ITEM(registration->meta_fields, i));
            if (!value || !flat_.extras.push_steal(value)) return false;
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(registration->data_fields); ++i) {
            PyObject *name = PyTuple_GET_ITEM(registration->data_fields, i);
            Ref value(PyObject_GetAttr(x, name));
            if (!value || !child(value.get(), [&] { return make_attr_key(name); })) return false;
        }
        return true;
    }

    bool custom(PyObject *x, const Registration *registration) {
        if (registration->is_static()) return flat_.push(NodeKind::Custom, 0, Py_NewRef(x), registration);
        bool with_keys = false;
        if constexpr (Hooked) with_keys = hooks_->with_path && registration->to_iterable_with_keys;
        Ref children, aux;
        if (!call_to_iterable(registration, x, with_keys, children, aux)) return false;
        if (!flat_.push(NodeKind::Custom, size(children.get()), aux.release(), registration)) return false;
        if (!with_keys) return each(children.get(), [](Py_ssize_t i) { return make_flat_index_key(i); });
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children.get()); ++i) {
            PyObject *pair = PyTuple_GET_ITEM(children.get(), i);
            if (!child(PyTuple_GET_ITEM(pair, 1), [&] { return Py_NewRef(PyTuple_GET_ITEM(pair, 0)); })) return false;
        }
        return true;
    }

    RefVector &leaves_;
    FlatTree &flat_;
    FlattenHooks *hooks_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Walking a tree along a definition

// `UpTo`: the definition is a prefix, its leaves stand for whole subtrees, and a mismatch is a ValueError that says why.
// Otherwise the tree must have this very structure, and a mismatch is the result 0.
template <bool UpTo> class Matcher {
  public:
    explicit Matcher(RefVector &out) : out_(out) {}

    int visit(const TreeNode *&at, PyObject *x) {
        const TreeNode &node = *at++;
        switch (node.kind) {
        case NodeKind::Leaf: {
            if constexpr (!UpTo) {
                const Registration *registration = nullptr;
                if (classify(x, registration) != NodeKind::Leaf) return 0;
            }
            return out_.push(x) ? 1 : -1;
        }
        case NodeKind::None:
            if (x == Py_None) return 1;
            return mismatch("Expected None, got %R.\n\nNone is a node without children, so it fits only None. To treat it as a leaf, pass "
                            "is_leaf=lambda x: x is None.",
                            x);
        default: break;
        }
        RecursionGuard guard;
        if (!guard.ok) return -1;
        switch (node.kind) {
        case NodeKind::Tuple:
            if (!PyTuple_CheckExact(x)) return mismatch("Expected tuple, got %R.", x);
            if (PyTuple_GET_SIZE(x) != node.arity) return wrong_arity("Tuple arity mismatch: %zd != %u; tuple: %R.", PyTuple_GET_SIZE(x), node, x);
            return each(at, x);
        case NodeKind::NamedTuple: {
            if (reinterpret_cast<PyObject *>(Py_TYPE(x)) == node.data) {
                if (PyTuple_GET_SIZE(x) != node.arity)
                    return wrong_arity("Named tuple arity mismatch: %zd != %u; tuple: %R.", PyTuple_GET_SIZE(x), node, x);
                return each(at, x);
            }
            if constexpr (!UpTo) return 0;
            const Registration *registration = nullptr;
            if (classify(x, registration) != NodeKind::NamedTuple) return mismatch("Expected named tuple, got %R.", x);
            return mismatch("Named tuple type mismatch: expected type: %R, tuple: %R.", node.data, x);
        }
        case NodeKind::List: return list(at, node, x);
        case NodeKind::Dict:
            if (!PyDict_CheckExact(x)) return mismatch("Expected dict, got %R.", x);
            return dict(at, node, x);
        case NodeKind::OrderedDict: return ordered_dict(at, node, x);
        case NodeKind::DefaultDict: return default_dict(at, node, x);
        case NodeKind::Dataclass: return dataclass(at, node, x);
        default: return custom(at, node, x);
        }
    }

  private:
    template <typename... Args> int mismatch(const char *format, Args... args) {
        if constexpr (UpTo) {
            PyErr_Format(PyExc_ValueError, format, args...);
            return -1;
        }
        return 0;
    }
    int wrong_arity(const char *format, Py_ssize_t got, const TreeNode &node, PyObject *x) {
        return mismatch(format, got, node.arity, x);
    }
    int wrong_type(PyTypeObject *type, PyObject *x) {
        return mismatch("Custom node type mismatch: expected type: %R, value: %R.", type, x);
    }
    int wrong_data(PyObject *wanted, PyObject *got, PyObject *x) {
        return mismatch("Mismatch custom node data: %R != %R; value: %R.", wanted, got, x);
    }

    int each(const TreeNode *&at, PyObject *tuple) { // the caller has checked the arity
        for (Py_ssize_t i = 0, n = PyTuple_GET_SIZE(tuple); i < n; ++i) {
            int result = visit(at, PyTuple_GET_ITEM(tuple, i));
            if (result <= 0) return result;
        }
        return 1;
    }

    int list(const TreeNode *&at, const TreeNode &node, PyObject *x) {
        if (!PyList_CheckExact(x)) return mismatch("Expected list, got %R.", x);
        Py_ssize_t n = node.arity;
        if (PyList_GET_SIZE(x) != n) return wrong_arity("List arity mismatch: %zd != %u; list: %R.", PyList_GET_SIZE(x), node, x);
        for (Py_ssize_t i = 0; i < n; ++i) {
            if (PyList_GET_SIZE(x) != n) return changed_size("list"), -1;
            Ref item = Ref::borrow(PyList_GET_ITEM(x, i));
            int result = visit(at, item.get());
            if (result <= 0) return result;
        }
        return 1;
    }

    int key_mismatch(const TreeNode &node, PyObject *x) {
        if constexpr (UpTo) {
            Ref wanted(PySequence_List(node.extras)), got(PyDict_Keys(x));
            if (!wanted || !got) return -1;
            if (PyList_Sort(got.get()) < 0) PyErr_Clear(); // for the message only
            return mismatch("Dict key mismatch; expected keys: %R; present keys: %R.", wanted.get(), got.get());
        }
        return 0;
    }

    int dict(const TreeNode *&at, const TreeNode &node, PyObject *x) { // dict and defaultdict
        if (PyDict_GET_SIZE(x) != node.arity) return key_mismatch(node, x);
        for (uint32_t i = 0; i < node.arity; ++i) {
            PyObject *value = PyDict_GetItemWithError(x, PyTuple_GET_ITEM(node.extras, i));
            if (!value) return PyErr_Occurred() ? -1 : key_mismatch(node, x);
            Ref held = Ref::borrow(value);
            int result = visit(at, value);
            if (result <= 0) return result;
        }
        return 1;
    }

    int ordered_dict(const TreeNode *&at, const TreeNode &node, PyObject *x) {
        if (Py_TYPE(x) != OrderedDictType) return wrong_type(OrderedDictType, x);
        Items items;
        if (!ordered_items(x, items)) return -1;
        int same = items.size() == node.arity;
        for (uint32_t i = 0; same > 0 && i < node.arity; ++i) {
            PyObject *key = PyTuple_GET_ITEM(node.extras, i);
            same = equal_keys(&items[i].key, &key, 1);
        }
        if (same < 0) return -1;
        if (!same) {
            if constexpr (!UpTo) return 0;
            Ref got(PySequence_Tuple(x));
            return got ? wrong_data(node.extras, got.get(), x) : -1;
        }
        for (Item &item : items) {
            int result = visit(at, item.value);
            if (result <= 0) return result;
        }
        return 1;
    }

    int default_dict(const TreeNode *&at, const TreeNode &node, PyObject *x) {
        if (Py_TYPE(x) != DefaultDictType) return wrong_type(DefaultDictType, x);
        Ref factory(PyObject_GetAttr(x, str_default_factory));
        if (!factory) return -1;
        int same = factory.get() == node.data ? 1 : PyObject_RichCompareBool(factory.get(), node.data, Py_EQ);
        if (same < 0) return -1;
        if (!same) return wrong_data(node.data, factory.get(), x);
        return dict(at, node, x);
    }

    int dataclass(const TreeNode *&at, const TreeNode &node, PyObject *x) {
        const Registration *registration = node.type;
        if (Py_TYPE(x) != registration->type)
            return mismatch("Custom dataclass node type mismatch: expected type: %R, value: %R.", registration->type, x);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(registration->meta_fields); ++i) {
            PyObject *name = PyTuple_GET_ITEM(registration->meta_fields, i), *wanted = PyTuple_GET_ITEM(node.extras, i);
            Ref got(PyObject_GetAttr(x, name));
            if (!got) return -1;
            int same = equal_data(wanted, got.get(), registration->type);
            if (same < 0) return -1;
            if (!same)
                return mismatch("Mismatch custom dataclass node data: field %R: %R != %R; value: %R.", name, wanted, got.get(), x);
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(registration->data_fields); ++i) {
            Ref value(PyObject_GetAttr(x, PyTuple_GET_ITEM(registration->data_fields, i)));
            if (!value) return -1;
            int result = visit(at, value.get());
            if (result <= 0) return result;
        }
        return 1;
    }

    int custom(const TreeNode *&at, const TreeNode &node, PyObject *x) {
        const Registration *registration = node.type;
        if (Py_TYPE(x) != registration->type) return wrong_type(registration->type, x);
        Ref children, aux;
        if (registration->is_static()) {
            aux = Ref::borrow(x);
        } else {
            if (!call_to_iterable(registration, x, false, children, aux)) return -1;
            Py_ssize_t n = PyTuple_GET_SIZE(children.get());
            if (n != node.arity) return wrong_arity("Custom type arity mismatch: %zd != %u; value: %R.", n, node, x);
        }
        int same = equal_data(node.data, aux.get(), registration->type);
        if (same < 0) return -1;
        if (!same) return wrong_data(node.data, aux.get(), x);
        return children ? each(at, children.get()) : 1;
    }

    RefVector &out_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Hashing

inline Py_uhash_t mix(Py_uhash_t h, Py_uhash_t x) {
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

// `extras` are the keys of a dict node.
inline bool hash_node(Py_uhash_t &h, NodeKind kind, uint32_t arity, const Registration *type, PyObject *data, PyObject *const *extras) {
    h = mix(h, (static_cast<Py_uhash_t>(arity) << 8) | static_cast<Py_uhash_t>(kind));
    if (kind == NodeKind::NamedTuple) h = mix(h, reinterpret_cast<Py_uhash_t>(data));
    if (type) h = mix(h, reinterpret_cast<Py_uhash_t>(type));
    if (!is_dict_kind(kind)) return true;
    for (uint32_t i = 0; i < arity; ++i) {
        Py_hash_t key = PyObject_Hash(extras[i]);
        if (key == -1) return false;
        h = mix(h, static_cast<Py_uhash_t>(key));
    }
    return true;
}

inline Py_hash_t finish_hash(Py_uhash_t h) {
    Py_hash_t result = static_cast<Py_hash_t>(h);
    return result == -1 ? -2 : result;
}

PyObject *const *extras_of(const TreeNode &node) { return node.extras ? &PyTuple_GET_ITEM(node.extras, 0) : nullptr; }

// Whether a node has this data; kind, arity and type are the same.
int equal_node_data(const TreeNode &node, PyObject *data, PyObject *const *extras) {
    switch (node.kind) {
    case NodeKind::NamedTuple: return node.data == data;
    case NodeKind::Custom: return equal_data(node.data, data, node.type->type);
    case NodeKind::Dataclass:
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(node.extras); ++i) {
            int same = equal_data(PyTuple_GET_ITEM(node.extras, i), extras[i], node.type->type);
            if (same <= 0) return same;
        }
        return 1;
    case NodeKind::DefaultDict: {
        int same = PyObject_RichCompareBool(node.data, data, Py_EQ);
        if (same <= 0) return same;
        break;
    }
    default: break;
    }
    return is_dict_kind(node.kind) ? equal_keys(extras_of(node), extras, node.arity) : 1;
}

// Whether the class makes its objects as collections.namedtuple writes it, so that the tuple can be filled directly.
bool has_plain_constructor(PyTypeObject *type, Py_ssize_t arity) {
    bool plain = false;
    Ref constructor, module, names;
    if (Py_TYPE(type) == &PyType_Type && type->tp_init == PyBaseObject_Type.tp_init &&
        (constructor = Ref(PyObject_GetAttr(reinterpret_cast<PyObject *>(type), str_new))) && PyFunction_Check(constructor.get()) &&
        (module = Ref(PyObject_GetAttr(constructor.get(), str_module))) && PyUnicode_Check(module.get()) &&
        (names = Ref(PyObject_GetAttr(reinterpret_cast<PyObject *>(type), str_fields))) && PyTuple_CheckExact(names.get()) &&
        PyTuple_GET_SIZE(names.get()) == arity) {
        Ref prefix(PyUnicode_FromString("namedtuple_"));
        plain = prefix && PyUnicode_Tailmatch(module.get(), prefix.get(), 0, PY_SSIZE_T_MAX, -1) == 1;
    }
    PyErr_Clear(); // any difficulty means: not plain
    return plain;
}

PyObject *steal_into_tuple(PyObject **children, uint32_t n) {
    PyObject *tuple = PyTuple_New(n);
    if (!tuple) {
        for (uint32_t i = 0; i < n; ++i) Py_DECREF(children[i]);
        return nullptr;
    }
    for (uint32_t i = 0; i < n; ++i) PyTuple_SET_ITEM(tuple, i, children[i]);
    return tuple;
}

bool wrong_number_of_leaves(const PyTreeDef *def, Py_ssize_t n) {
    if (n == def->num_leaves()) return false;
    if (n < def->num_leaves()) {
        PyErr_Format(PyExc_ValueError, "Too few leaves for PyTreeDef; expected %u, got %zd", def->num_leaves(), n);
    } else {
        PyErr_Format(PyExc_ValueError, "Too many leaves for PyTreeDef; expected %u, got %zd", def->num_leaves(), n);
    }
    return true;
}

} // namespace

// ---------------------------------------------------------------------------------------------------------------------

NodeKind classify_type(PyTypeObject *type, const Registration *&registration) {
    if (type == &PyTuple_Type) return NodeKind::Tuple;
    if (type == &PyDict_Type) return NodeKind::Dict;
    if (type == &PyList_Type) return NodeKind::List;
    if (const Slot *slot = find_slot(type)) {
        registration = slot->registration;
        return slot->kind;
    }
    if (PyType_FastSubclass(type, Py_TPFLAGS_TUPLE_SUBCLASS) && PyObject_HasAttr(reinterpret_cast<PyObject *>(type), str_fields))
        return NodeKind::NamedTuple;
    return NodeKind::Leaf;
}

bool register_class(const Registration &registration) {
    if (find_slot(registration.type)) {
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
    str_new = PyUnicode_InternFromString("__new__");
    str_module = PyUnicode_InternFromString("__module__");
    if (!str_fields || !str_default_factory || !str_new || !str_module) return false;
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
        PyErr_Format(PyExc_ValueError, "pytree: _fields of the named tuple class %R should be %zd names, got %R", namedtuple, size, fields.get());
    return nullptr;
}

// ---------------------------------------------------------------------------------------------------------------------

bool flatten_into(PyObject *tree, RefVector &leaves, FlatTree &flat) { return Flattener<false>(leaves, flat, nullptr).visit(tree); }

bool flatten_with_hooks(PyObject *tree, RefVector &leaves, FlatTree &flat, FlattenHooks &hooks) {
    return Flattener<true>(leaves, flat, &hooks).visit(tree);
}

bool flatten_call(PyObject *const *args, Py_ssize_t nargs, PyObject *const *names, PyObject *const *values, Py_ssize_t nkwargs,
                  RefVector &leaves, FlatTree &flat) {
    if (!flat.push(NodeKind::Tuple, 2) || !flat.push(NodeKind::Tuple, static_cast<uint32_t>(nargs))) return false;
    Flattener<false> flattener(leaves, flat, nullptr);
    for (Py_ssize_t i = 0; i < nargs; ++i)
        if (!flattener.visit(args[i])) return false;
    if (!flat.push(NodeKind::Dict, static_cast<uint32_t>(nkwargs))) return false;
    Items items;
    for (Py_ssize_t i = 0; i < nkwargs; ++i) {
        if (!items.push(Item{names[i], values[i]})) return false;
        Py_INCREF(names[i]);
        Py_INCREF(values[i]);
    }
    sort_by_str(items);
    for (Item &item : items)
        if (!flat.extras.push(item.key)) return false;
    for (Item &item : items)
        if (!flattener.visit(item.value)) return false;
    return true;
}

int match_into(const TreeNode *&at, PyObject *tree, RefVector &leaves) { return Matcher<false>(leaves).visit(at, tree); }

int match_into(const PyTreeDef *def, PyObject *tree, RefVector &leaves) {
    const TreeNode *at = def->nodes;
    return match_into(at, tree, leaves);
}

int match_call(const PyTreeDef *def, PyObject *const *args, Py_ssize_t nargs, PyObject *const *names, PyObject *const *values,
               Py_ssize_t nkwargs, RefVector &leaves) {
    const TreeNode *at = def->nodes;
    if (at->kind != NodeKind::Tuple || at->arity != 2) return 0;
    ++at;
    if (at->kind != NodeKind::Tuple || at->arity != nargs) return 0;
    const TreeNode &kwargs = at[at->num_nodes];
    if (kwargs.kind != NodeKind::Dict || kwargs.arity != nkwargs) return 0;
    ++at;
    for (Py_ssize_t i = 0; i < nargs; ++i) {
        int result = match_into(at, args[i], leaves);
        if (result <= 0) return result;
    }
    ++at;
    for (Py_ssize_t i = 0; i < nkwargs; ++i) {
        PyObject *key = PyTuple_GET_ITEM(kwargs.extras, i);
        Py_ssize_t j = 0;
        while (j < nkwargs && names[j] != key) ++j;
        if (j == nkwargs) { // not the same object: compare the text
            if (!PyUnicode_CheckExact(key)) return 0;
            for (j = 0; j < nkwargs && PyUnicode_Compare(names[j], key) != 0;) ++j;
            if (j == nkwargs) return 0;
        }
        int result = match_into(at, values[j], leaves);
        if (result <= 0) return result;
    }
    return 1;
}

bool flatten_up_to(const PyTreeDef *def, PyObject *tree, RefVector &subtrees) {
    const TreeNode *at = def->nodes;
    return Matcher<true>(subtrees).visit(at, tree) > 0;
}

int flatten_one_level(PyObject *x, bool with_keys, Ref &children, Ref &aux) {
    const Registration *registration = nullptr;
    NodeKind kind = classify(x, registration);
    // A list of children, or of (key, child) pairs: `key(i)` makes the key.
    auto collect = [&](PyObject *owned_tuple, auto key) {
        Ref values(owned_tuple);
        if (!values) return -1;
        if (!with_keys) {
            children = std::move(values);
            return 1;
        }
        Ref pairs(PyTuple_New(PyTuple_GET_SIZE(values.get())));
        if (!pairs) return -1;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values.get()); ++i) {
            Ref entry(key(i));
            PyObject *pair = entry ? PyTuple_Pack(2, entry.get(), PyTuple_GET_ITEM(values.get(), i)) : nullptr;
            if (!pair) return -1;
            PyTuple_SET_ITEM(pairs.get(), i, pair);
        }
        children = std::move(pairs);
        return 1;
    };
    auto as_list = [&](int result) { // JAX gives lists for these kinds, and callers compare
        if (result > 0) children = Ref(PySequence_List(children.get()));
        return children ? result : -1;
    };
    switch (kind) {
    case NodeKind::Leaf: return 0;
    case NodeKind::None:
        aux = Ref::borrow(Py_None);
        children = Ref(PyTuple_New(0));
        return children ? 1 : -1;
    case NodeKind::Tuple: aux = Ref::borrow(Py_None); return collect(Py_NewRef(x), make_sequence_key);
    case NodeKind::List: {
        aux = Ref::borrow(Py_None);
        int result = collect(PyList_AsTuple(x), make_sequence_key);
        return with_keys ? result : as_list(result);
    }
    case NodeKind::NamedTuple: {
        aux = Ref::borrow(reinterpret_cast<PyObject *>(Py_TYPE(x)));
        Ref names;
        if (with_keys && !(names = Ref(field_names(Py_TYPE(x), PyTuple_GET_SIZE(x))))) return -1;
        Ref values(PyTuple_GetSlice(x, 0, PyTuple_GET_SIZE(x)));
        return as_list(collect(values.release(), [&](Py_ssize_t i) { return make_attr_key(PyTuple_GET_ITEM(names.get(), i)); }));
    }
    case NodeKind::Dict:
    case NodeKind::OrderedDict:
    case NodeKind::DefaultDict: {
        Items items;
        if (!items_of(kind, x, items)) return -1;
        Ref keys(PyTuple_New(items.size())), values(PyTuple_New(items.size()));
        if (!keys || !values) return -1;
        for (uint32_t i = 0; i < items.size(); ++i) {
            PyTuple_SET_ITEM(keys.get(), i, std::exchange(items[i].key, nullptr));
            PyTuple_SET_ITEM(values.get(), i, std::exchange(items[i].value, nullptr));
        }
        int result = collect(values.release(), [&](Py_ssize_t i) { return make_dict_key(PyTuple_GET_ITEM(keys.get(), i)); });
        if (kind == NodeKind::DefaultDict) {
            Ref factory(PyObject_GetAttr(x, str_default_factory));
            aux = Ref(factory ? PyTuple_Pack(2, factory.get(), keys.get()) : nullptr);
            if (!aux) return -1;
        } else {
            aux = std::move(keys);
        }
        return kind == NodeKind::Dict ? result : as_list(result);
    }
    case NodeKind::Dataclass: {
        auto read = [&](PyObject *names) -> PyObject * {
            Ref values(PyTuple_New(PyTuple_GET_SIZE(names)));
            for (Py_ssize_t i = 0; values && i < PyTuple_GET_SIZE(names); ++i) {
                PyObject *value = PyObject_GetAttr(x, PyTuple_GET_ITEM(names, i));
                if (!value) return nullptr;
                PyTuple_SET_ITEM(values.get(), i, value);
            }
            return values.release();
        };
        aux = Ref(read(registration->meta_fields));
        if (!aux) return -1;
        return as_list(collect(read(registration->data_fields),
                               [&](Py_ssize_t i) { return make_attr_key(PyTuple_GET_ITEM(registration->data_fields, i)); }));
    }
    default: break;
    }
    if (registration->is_static()) {
        aux = Ref::borrow(x);
        children = Ref(PyList_New(0));
        return children ? 1 : -1;
    }
    if (!with_keys) { // as the class gives them
        Ref result(call_flatten(registration, x, false));
        if (!result) return -1;
        children = Ref::borrow(PyTuple_GET_ITEM(result.get(), 0));
        aux = Ref::borrow(PyTuple_GET_ITEM(result.get(), 1));
        return 1;
    }
    bool keyed = registration->to_iterable_with_keys != nullptr;
    if (!call_to_iterable(registration, x, keyed, children, aux)) return -1;
    return keyed ? as_list(1) : as_list(collect(children.release(), make_flat_index_key));
}

// ---------------------------------------------------------------------------------------------------------------------

Py_hash_t hash_of(const FlatTree &flat) {
    Py_uhash_t h = 0;
    PyObject *const *extras = flat.extras.data();
    for (const FlatNode &node : flat.nodes) {
        if (!hash_node(h, node.kind, node.arity, node.type, node.data, extras)) return -1;
        extras += num_extras(node.kind, node.arity, node.type);
    }
    return finish_hash(h);
}

Py_hash_t hash_of(const PyTreeDef *def) {
    if (def->hash != -1) return def->hash;
    Py_uhash_t h = 0;
    for (uint32_t i = 0; i < def->num_nodes(); ++i) {
        const TreeNode &node = def->nodes[i];
        if (!hash_node(h, node.kind, node.arity, node.type, node.data, extras_of(node))) return -1;
    }
    return const_cast<PyTreeDef *>(def)->hash = finish_hash(h);
}

int equal(const FlatTree &flat, const PyTreeDef *def) {
    if (flat.nodes.size() != def->num_nodes()) return 0;
    PyObject *const *extras = flat.extras.data();
    for (uint32_t i = 0; i < flat.nodes.size(); ++i) {
        const FlatNode &a = flat.nodes[i];
        const TreeNode &b = def->nodes[i];
        if (a.kind != b.kind || a.arity != b.arity || a.type != b.type) return 0;
        if (a.kind == NodeKind::Leaf) continue;
        int same = equal_node_data(b, a.data, extras);
        if (same <= 0) return same;
        extras += num_extras(a.kind, a.arity, a.type);
    }
    return 1;
}

int equal(const PyTreeDef *a, const PyTreeDef *b) {
    if (a == b) return 1;
    if (a->num_nodes() != b->num_nodes() || (a->hash != -1 && b->hash != -1 && a->hash != b->hash)) return 0;
    for (uint32_t i = 0; i < a->num_nodes(); ++i) {
        const TreeNode &m = a->nodes[i], &n = b->nodes[i];
        if (m.kind != n.kind || m.arity != n.arity || m.type != n.type) return 0;
        if (m.kind == NodeKind::Leaf) continue;
        int same = equal_node_data(m, n.data, extras_of(n));
        if (same <= 0) return same;
    }
    return 1;
}

// ---------------------------------------------------------------------------------------------------------------------

void copy_nodes(TreeNode *to, const TreeNode *from, uint32_t n) {
    std::memcpy(static_cast<void *>(to), from, sizeof(TreeNode) * n);
    for (uint32_t i = 0; i < n; ++i) {
        Py_XINCREF(from[i].data);
        Py_XINCREF(from[i].extras);
    }
}

PyTreeDef *seal(PyTreeDef *def) {
    struct Counts {
        uint32_t nodes, leaves;
    };
    SmallVector<Counts, 32> done; // the subtrees to the right of the current node, the leftmost last
    for (Py_ssize_t i = Py_SIZE(def) - 1; i >= 0; --i) {
        TreeNode &node = def->nodes[i];
        Counts counts{1, node.kind == NodeKind::Leaf};
        if (node.arity > done.size()) break;
        for (uint32_t k = 0; k < node.arity; ++k) {
            counts.nodes += done.back().nodes;
            counts.leaves += done.back().leaves;
            done.truncate(done.size() - 1);
        }
        node.num_nodes = counts.nodes;
        node.num_leaves = counts.leaves;
        node.plain = node.kind == NodeKind::NamedTuple && has_plain_constructor(reinterpret_cast<PyTypeObject *>(node.data), node.arity);
        if (!done.push(counts)) {
            Py_DECREF(def);
            return nullptr;
        }
    }
    if (done.size() != 1 || done[0].nodes != Py_SIZE(def)) {
        PyErr_SetString(PyExc_ValueError, "PyTreeDef: the nodes do not form one tree");
        Py_DECREF(def);
        return nullptr;
    }
    PyObject_GC_Track(def);
    return def;
}

PyTreeDef *make_treedef(FlatTree &flat) {
    PyTreeDef *def = allocate_treedef(flat.nodes.size());
    PyObject **extras = flat.extras.data();
    for (uint32_t i = 0; def && i < flat.nodes.size(); ++i) {
        FlatNode &from = flat.nodes[i];
        TreeNode &to = def->nodes[i];
        to.kind = from.kind;
        to.arity = from.arity;
        to.type = from.type;
        to.data = std::exchange(from.data, nullptr);
        uint32_t n = num_extras(from.kind, from.arity, from.type);
        if (n || is_dict_kind(from.kind) || from.kind == NodeKind::Dataclass) {
            to.extras = PyTuple_New(n);
            if (!to.extras) {
                Py_CLEAR(def);
                break;
            }
            for (uint32_t k = 0; k < n; ++k) PyTuple_SET_ITEM(to.extras, k, Py_NewRef(extras[k]));
            extras += n;
        }
    }
    flat.clear();
    return def ? seal(def) : nullptr;
}

PyObject *assemble(const TreeNode &node, PyObject **children) {
    const uint32_t n = node.arity;
    switch (node.kind) {
    case NodeKind::None: return Py_NewRef(Py_None);
    case NodeKind::Tuple: return steal_into_tuple(children, n);
    case NodeKind::List: {
        PyObject *list = PyList_New(n);
        for (uint32_t i = 0; i < n; ++i) {
            if (list) {
                PyList_SET_ITEM(list, i, children[i]);
            } else {
                Py_DECREF(children[i]);
            }
        }
        return list;
    }
    case NodeKind::Dict:
    case NodeKind::OrderedDict:
    case NodeKind::DefaultDict: {
        PyObject *dict = node.kind == NodeKind::Dict          ? PyDict_New()
                         : node.kind == NodeKind::OrderedDict ? PyODict_New()
                                                              : PyObject_CallOneArg(reinterpret_cast<PyObject *>(DefaultDictType), node.data);
        for (uint32_t i = 0; i < n; ++i) {
            PyObject *key = PyTuple_GET_ITEM(node.extras, i);
            if (dict && (node.kind == NodeKind::OrderedDict ? PyODict_SetItem(dict, key, children[i]) : PyDict_SetItem(dict, key, children[i])) < 0)
                Py_CLEAR(dict);
            Py_DECREF(children[i]);
        }
        return dict;
    }
    default: break;
    }
    if (node.kind == NodeKind::NamedTuple && node.plain) {
        PyTypeObject *type = reinterpret_cast<PyTypeObject *>(node.data);
        PyObject *tuple = type->tp_alloc(type, n);
        for (uint32_t i = 0; i < n; ++i) {
            if (tuple) {
                PyTuple_SET_ITEM(tuple, i, children[i]);
            } else {
                Py_DECREF(children[i]);
            }
        }
        return tuple;
    }
    Ref args(steal_into_tuple(children, n));
    if (!args) return nullptr;
    if (node.kind == NodeKind::NamedTuple) return PyObject_Call(node.data, args.get(), nullptr);
    if (node.kind == NodeKind::Custom) {
        if (node.type->is_static()) return Py_NewRef(node.data);
        PyObject *pair[] = {node.data, args.get()};
        return PyObject_Vectorcall(node.type->from_iterable, pair, 2, nullptr);
    }
    // Dataclass: all fields by keyword, the data fields first.
    SmallVector<PyObject *, 16> values; // borrowed
    for (uint32_t i = 0; i < n; ++i)
        if (!values.push(PyTuple_GET_ITEM(args.get(), i))) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(node.extras); ++i)
        if (!values.push(PyTuple_GET_ITEM(node.extras, i))) return nullptr;
    return PyObject_Vectorcall(reinterpret_cast<PyObject *>(node.type->type), values.data(), 0, node.type->fields);
}

PyObject *unflatten(const PyTreeDef *def, PyObject *const *leaves, Py_ssize_t n) {
    if (wrong_number_of_leaves(def, n)) return nullptr;
    return fold(def->nodes, def->num_nodes(), [&] { return Py_NewRef(*leaves++); }, assemble);
}

PyObject *unflatten_steal(const PyTreeDef *def, PyObject *const *leaves, Py_ssize_t n) {
    PyObject *const *end = leaves + n;
    PyObject *result = nullptr;
    if (!wrong_number_of_leaves(def, n)) result = fold(def->nodes, def->num_nodes(), [&] { return *leaves++; }, assemble);
    if (!result)
        while (leaves != end) Py_DECREF(*leaves++);
    return result;
}

} // namespace steno
