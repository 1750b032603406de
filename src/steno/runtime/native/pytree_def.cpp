// Definitions: hashing, comparing, making them, and making trees from them.
#include "pytree_internal.h"

namespace steno {

namespace {

PyObject *const *extras_of(const TreeNode &node) { return node.extras ? &PyTuple_GET_ITEM(node.extras, 0) : nullptr; }

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
        (constructor = Ref(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__new__"))) && PyFunction_Check(constructor.get()) &&
        (module = Ref(PyObject_GetAttrString(constructor.get(), "__module__"))) && PyUnicode_Check(module.get()) &&
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
        const bool ordered = node.kind == NodeKind::OrderedDict;
        PyObject *dict = ordered                       ? PyODict_New()
                         : node.kind == NodeKind::Dict ? PyDict_New()
                                                       : PyObject_CallOneArg(reinterpret_cast<PyObject *>(DefaultDictType), node.data);
        for (uint32_t i = 0; i < n; ++i) {
            PyObject *key = PyTuple_GET_ITEM(node.extras, i);
            if (dict && (ordered ? PyODict_SetItem(dict, key, children[i]) : PyDict_SetItem(dict, key, children[i])) < 0) Py_CLEAR(dict);
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
