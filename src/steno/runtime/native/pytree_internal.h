// What the two files of pytrees share: the registry and the walkers behind `pytree.h`.
#pragma once

#include "object.h"
#include "pytree.h"

namespace steno {

class RecursionGuard {
  public:
    RecursionGuard() : ok(Py_EnterRecursiveCall(" in a pytree; it is nested too deeply, or contains itself") == 0) {}
    ~RecursionGuard() {
        if (ok) Py_LeaveRecursiveCall();
    }
    RecursionGuard(const RecursionGuard &) = delete;
    RecursionGuard &operator=(const RecursionGuard &) = delete;
    const bool ok;
};

// Immutable once registered; all references are owned and live as long as the process.
struct Registration {
    PyTypeObject *type;
    NodeKind kind; // Custom or Dataclass
    // Custom. All null: a static class (no children, the object is its own auxiliary data).
    PyObject *to_iterable;           // x -> (children, aux)
    PyObject *to_iterable_with_keys; // x -> ((key, child)..., aux); may be null
    PyObject *from_iterable;         // aux, children -> x
    // Dataclass: tuples of names; `fields` is data_fields + meta_fields.
    PyObject *data_fields;
    PyObject *meta_fields;
    PyObject *fields;
    bool is_static() const { return kind == NodeKind::Custom && !from_iterable; }
};

extern PyTypeObject *OrderedDictType; // collections.OrderedDict
extern PyTypeObject *DefaultDictType; // collections.defaultdict
extern PyObject *str_fields;          // "_fields"
extern PyObject *str_default_factory; // "default_factory"

// The registry: an open-addressing table from class to kind. It owns the classes, so an address is never reused.
struct RegistrySlot {
    PyTypeObject *type;
    NodeKind kind;
    const Registration *registration;
};
extern RegistrySlot *registry_slots;
extern size_t registry_mask;

inline size_t registry_index(PyTypeObject *type) { return (reinterpret_cast<uintptr_t>(type) * UINT64_C(0x9E3779B97F4A7C15)) >> 40; }

inline const RegistrySlot *find_registered(PyTypeObject *type) {
    for (size_t i = registry_index(type) & registry_mask;; i = (i + 1) & registry_mask) {
        if (registry_slots[i].type == type) return &registry_slots[i];
        if (!registry_slots[i].type) return nullptr;
    }
}

inline bool is_named_tuple(PyTypeObject *type) { // registered or not
    return PyType_FastSubclass(type, Py_TPFLAGS_TUPLE_SUBCLASS) && has_attr(reinterpret_cast<PyObject *>(type), str_fields);
}

// The kind of node that objects of a class are; `registration` is set for Custom and Dataclass.
inline NodeKind classify_type(PyTypeObject *type, const Registration *&registration) {
    if (type == &PyTuple_Type) return NodeKind::Tuple;
    if (type == &PyDict_Type) return NodeKind::Dict;
    if (type == &PyList_Type) return NodeKind::List;
    if (const RegistrySlot *slot = find_registered(type)) {
        registration = slot->registration;
        return slot->kind;
    }
    return is_named_tuple(type) ? NodeKind::NamedTuple : NodeKind::Leaf;
}
inline NodeKind classify(PyObject *x, const Registration *&registration) { return classify_type(Py_TYPE(x), registration); }

// Takes the references of `registration` on success; ValueError if the class is a node already.
bool register_class(const Registration &registration);
bool init_registry();

inline bool is_dict_kind(NodeKind kind) {
    return kind == NodeKind::Dict || kind == NodeKind::OrderedDict || kind == NodeKind::DefaultDict;
}

inline uint32_t num_extras(NodeKind kind, uint32_t arity, const Registration *registration) {
    if (is_dict_kind(kind)) return arity;
    return kind == NodeKind::Dataclass ? static_cast<uint32_t>(PyTuple_GET_SIZE(registration->meta_fields)) : 0;
}

bool changed_size(const char *what); // sets RuntimeError; false

// The items of a dict, with their references.
struct Item {
    PyObject *key;
    PyObject *value;
};
struct Items : SmallVector<Item, 16> {
    ~Items() {
        for (Item &item : *this) {
            Py_XDECREF(item.key);
            Py_XDECREF(item.value);
        }
    }
};
void sort_by_str(Items &items); // all keys are exact `str`
// In the order of a node of this kind; ValueError (dict) or what `<` raises (defaultdict) if the keys have no order.
bool items_of(NodeKind kind, PyObject *dict, Items &items);

// What the flatten function of a class gives, checked to be a pair. Null: exception.
PyObject *call_flatten(const Registration *registration, PyObject *x, bool with_keys);
// (children, aux) of a custom node; children is a tuple. With keys the children are the pairs (key, child).
bool call_to_iterable(const Registration *registration, PyObject *x, bool with_keys, Ref &children, Ref &aux);

// `==` of auxiliary data: 1, 0, -1. An exception is reported with the class it came from.
int equal_data(PyObject *a, PyObject *b, PyTypeObject *type);

inline int equal_keys(PyObject *const *a, PyObject *const *b, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
        if (a[i] == b[i]) continue;
        int same = PyObject_RichCompareBool(a[i], b[i], Py_EQ);
        if (same <= 0) return same;
    }
    return 1;
}

// Key entries of paths.
PyObject *make_sequence_key(Py_ssize_t index);
PyObject *make_flat_index_key(Py_ssize_t index);
PyObject *make_dict_key(PyObject *key);
PyObject *make_attr_key(PyObject *name);
bool init_keys(PyObject *module);

// What flattening does beyond the plain way.
struct FlattenHooks {
    PyObject *is_leaf = nullptr; // borrowed callable, or null
    bool with_path = false;      // `is_leaf` is then called with (path, x)
    RefVector path;              // the keys from the root to here
    RefVector paths;             // a tuple of keys for each leaf
};
bool flatten_with_hooks(PyObject *tree, RefVector &leaves, FlatTree &flat, FlattenHooks &hooks);

// The subtrees of `tree` that stand at the leaves of `def`. ValueError with the reason if `def` is no prefix of `tree`.
bool flatten_up_to(const PyTreeDef *def, PyObject *tree, RefVector &subtrees);

// The children and the auxiliary data of one node. 1; 0: a leaf; -1.
int flatten_one_level(PyObject *x, bool with_keys, Ref &children, Ref &aux);

// An object of this node with these children. Takes the references in `children`, also on failure.
PyObject *assemble(const TreeNode &node, PyObject **children);

// A new definition with zeroed nodes, for `seal`. Null: MemoryError.
PyTreeDef *allocate_treedef(Py_ssize_t num_nodes);
// Sets what follows from kind and arity. Takes the reference `def`; null with ValueError if the nodes form no tree.
PyTreeDef *seal(PyTreeDef *def);
// Copies `n` nodes with new references.
void copy_nodes(TreeNode *to, const TreeNode *from, uint32_t n);

PyObject *field_names(PyTypeObject *namedtuple, Py_ssize_t size); // tuple of `_fields`, ValueError if not `size` many

// Evaluates a definition bottom-up, from left to right, without recursion. `leaf()` and `node(const TreeNode &, PyObject **)`
// give new references or null; `node` takes the references of its children, also on failure.
template <typename Leaf, typename Node> PyObject *fold(const TreeNode *nodes, uint32_t n, Leaf leaf, Node node) {
    struct Frame {
        const TreeNode *node;
        uint32_t base;
    };
    SmallVector<Frame, 16> frames;
    RefVector values;
    for (const TreeNode *at = nodes, *end = nodes + n; at != end; ++at) {
        if (at->arity) {
            if (!frames.push(Frame{at, values.size()})) return nullptr;
            continue;
        }
        PyObject *value = at->kind == NodeKind::Leaf ? leaf() : node(*at, values.end());
        if (!value || !values.push_steal(value)) return nullptr;
        while (!frames.empty() && values.size() - frames.back().base == frames.back().node->arity) {
            const Frame frame = frames.back();
            frames.truncate(frames.size() - 1);
            // `node` takes the references, but may run Python, which may look at nothing of ours: shrink first.
            values.release(frame.base);
            PyObject *value = node(*frame.node, values.data() + frame.base);
            if (!value || !values.push_steal(value)) return nullptr;
        }
    }
    PyObject *result = values[0];
    values.release();
    return result;
}

} // namespace steno
