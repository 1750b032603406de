// The Python face of pytrees: `PyTreeDef` and `PyTreeRegistry`.
#include "pytree_internal.h"

#include <nanobind/nanobind.h>

#include <cstddef>

namespace nb = nanobind;

namespace steno {

PyTypeObject *PyTreeDefType = nullptr;

namespace {

PyTreeDef *leaf_treedef = nullptr; // the one definition of a single leaf
PyObject *default_registry = nullptr;
PyObject *restore_function = nullptr; // steno._native._restore_treedef
PyTypeObject *RegistryType = nullptr;

PyTreeDef *as_treedef(PyObject *x) { return reinterpret_cast<PyTreeDef *>(x); }
// The method tables hold functions of several signatures under one type.
template <typename F> PyCFunction as_c_function(F *f) { return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)); }
PyObject *as_object(PyTypeObject *type) { return reinterpret_cast<PyObject *>(type); }

PyTreeDef *checked_treedef(PyObject *x, const char *function) {
    if (is_treedef(x)) return as_treedef(x);
    PyErr_Format(PyExc_TypeError, "%s: expected a PyTreeDef, got %R (%s)", function, x, Py_TYPE(x)->tp_name);
    return nullptr;
}

PyTypeObject *checked_type(PyObject *x, const char *function) {
    if (PyType_Check(x)) return reinterpret_cast<PyTypeObject *>(x);
    PyErr_Format(PyExc_TypeError, "%s: expected a class, got %R", function, x);
    return nullptr;
}

bool checked_callable(PyObject *x, const char *function, const char *argument) {
    if (PyCallable_Check(x)) return true;
    PyErr_Format(PyExc_TypeError, "%s: %s must be callable, got %R", function, argument, x);
    return false;
}

// Binds positional and keyword arguments to `names`; those after `required` may be missing (null).
template <size_t N>
bool bind(const char *function, const char *const (&names)[N], size_t required, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
          PyObject *(&out)[N]) {
    if (nargs > static_cast<Py_ssize_t>(N)) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zu arguments, got %zd", function, N, nargs);
        return false;
    }
    for (size_t i = 0; i < N; ++i) out[i] = static_cast<Py_ssize_t>(i) < nargs ? args[i] : nullptr;
    for (Py_ssize_t k = 0, n = kwnames ? PyTuple_GET_SIZE(kwnames) : 0; k < n; ++k) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        size_t i = 0;
        while (i < N && PyUnicode_CompareWithASCIIString(name, names[i]) != 0) ++i;
        if (i == N || out[i]) {
            PyErr_Format(PyExc_TypeError, "%s() got %s argument %R", function, i == N ? "an unexpected keyword" : "multiple values for",
                         name);
            return false;
        }
        out[i] = args[nargs + k];
    }
    for (size_t i = 0; i < required; ++i) {
        if (out[i]) continue;
        PyErr_Format(PyExc_TypeError, "%s() is missing the argument '%s'", function, names[i]);
        return false;
    }
    return true;
}

PyObject *list_from(RefVector &values) { // takes the references
    PyObject *list = PyList_New(values.size());
    if (!list) return nullptr;
    for (uint32_t i = 0; i < values.size(); ++i) PyList_SET_ITEM(list, i, values[i]);
    values.release();
    return list;
}

// ---------------------------------------------------------------------------------------------------------------------
// PyTreeDef

void treedef_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    PyTreeDef *def = as_treedef(self);
    if (def->weakrefs) PyObject_ClearWeakRefs(self);
    for (Py_ssize_t i = 0; i < Py_SIZE(def); ++i) {
        Py_XDECREF(def->nodes[i].data);
        Py_XDECREF(def->nodes[i].extras);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

// No tp_clear: like a tuple, a definition is never in a cycle of definitions alone.
int treedef_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    PyTreeDef *def = as_treedef(self);
    for (Py_ssize_t i = 0; i < Py_SIZE(def); ++i) {
        Py_VISIT(def->nodes[i].data);
        Py_VISIT(def->nodes[i].extras);
    }
    return 0;
}


PyObject *comma_joined(PyObject *parts) {
    Ref comma(PyUnicode_FromString(", "));
    return comma ? PyUnicode_Join(comma.get(), parts) : nullptr;
}

// "Name[data]" of nodes that print as CustomNode.
PyObject *custom_label(const TreeNode &node) {
    auto label = [](PyTypeObject *type, PyObject *data) -> PyObject * {
        Ref name(PyType_GetName(type));
        return name && data ? PyUnicode_FromFormat("%U[%S]", name.get(), data) : nullptr;
    };
    switch (node.kind) {
    case NodeKind::NamedTuple: {
        Ref name(PyType_GetName(reinterpret_cast<PyTypeObject *>(node.data)));
        return name ? PyUnicode_FromFormat("namedtuple[%U]", name.get()) : nullptr;
    }
    case NodeKind::OrderedDict: return label(OrderedDictType, node.extras);
    case NodeKind::DefaultDict: {
        Ref data(PyTuple_Pack(2, node.data, node.extras));
        return label(DefaultDictType, data.get());
    }
    case NodeKind::Dataclass: return label(node.type->type, node.extras);
    default: return label(node.type->type, node.data);
    }
}

PyObject *node_string(const TreeNode &node, PyObject **children) {
    if (node.kind == NodeKind::None) return PyUnicode_FromString("None");
    Ref parts(PyList_New(node.arity));
    for (uint32_t i = 0; i < node.arity; ++i) {
        if (parts) {
            PyList_SET_ITEM(parts.get(), i, children[i]);
        } else {
            Py_DECREF(children[i]);
        }
    }
    if (!parts) return nullptr;
    if (node.kind == NodeKind::Dict) {
        for (uint32_t i = 0; i < node.arity; ++i) {
            PyObject *item = PyUnicode_FromFormat("%R: %U", PyTuple_GET_ITEM(node.extras, i), PyList_GET_ITEM(parts.get(), i));
            if (!item) return nullptr;
            PyList_SetItem(parts.get(), i, item);
        }
    }
    Ref inside(comma_joined(parts.get()));
    if (!inside) return nullptr;
    switch (node.kind) {
    case NodeKind::Tuple: return PyUnicode_FromFormat(node.arity == 1 ? "(%U,)" : "(%U)", inside.get());
    case NodeKind::List: return PyUnicode_FromFormat("[%U]", inside.get());
    case NodeKind::Dict: return PyUnicode_FromFormat("{%U}", inside.get());
    default: break;
    }
    Ref label(custom_label(node));
    return label ? PyUnicode_FromFormat("CustomNode(%U, [%U])", label.get(), inside.get()) : nullptr;
}

PyObject *treedef_repr(PyObject *self) {
    PyTreeDef *def = as_treedef(self);
    Ref text(fold(def->nodes, def->num_nodes(), [] { return PyUnicode_FromString("*"); }, node_string));
    return text ? PyUnicode_FromFormat("PyTreeDef(%U)", text.get()) : nullptr;
}

Py_hash_t treedef_hash(PyObject *self) { return hash_of(as_treedef(self)); }

PyObject *treedef_compare(PyObject *self, PyObject *other, int op) {
    if ((op != Py_EQ && op != Py_NE) || !is_treedef(other)) Py_RETURN_NOTIMPLEMENTED;
    int same = equal(as_treedef(self), as_treedef(other));
    if (same < 0) return nullptr;
    return PyBool_FromLong(same == (op == Py_EQ));
}

PyObject *treedef_num_leaves(PyObject *self, void *) { return PyLong_FromUnsignedLong(as_treedef(self)->num_leaves()); }
PyObject *treedef_num_nodes(PyObject *self, void *) { return PyLong_FromUnsignedLong(as_treedef(self)->num_nodes()); }

PyObject *treedef_unflatten(PyObject *self, PyObject *leaves) {
    Ref values(PySequence_Tuple(leaves)); // a copy: classes that are built here could change a list
    if (!values) return nullptr;
    return unflatten(as_treedef(self), &PyTuple_GET_ITEM(values.get(), 0), PyTuple_GET_SIZE(values.get()));
}

PyObject *treedef_flatten_up_to(PyObject *self, PyObject *tree) {
    RefVector subtrees;
    return flatten_up_to(as_treedef(self), tree, subtrees) ? list_from(subtrees) : nullptr;
}

PyTreeDef *subtree(const TreeNode *at) {
    if (at->kind == NodeKind::Leaf) return as_treedef(Py_NewRef(leaf_treedef->object()));
    PyTreeDef *def = allocate_treedef(at->num_nodes);
    if (!def) return nullptr;
    copy_nodes(def->nodes, at, at->num_nodes);
    return seal(def);
}

PyObject *treedef_children(PyObject *self, PyObject *) {
    const TreeNode *root = as_treedef(self)->nodes, *at = root + 1;
    Ref list(PyList_New(root->arity));
    for (uint32_t i = 0; list && i < root->arity; ++i, at += at->num_nodes) {
        PyTreeDef *child = subtree(at);
        if (!child) return nullptr;
        PyList_SET_ITEM(list.get(), i, child->object());
    }
    return list.release();
}

// The second half of `node_data()`: what besides the class and the children makes up the node. A new reference.
PyObject *data_of(const TreeNode &node) {
    switch (node.kind) {
    case NodeKind::Dict: return PySequence_List(node.extras);
    case NodeKind::OrderedDict:
    case NodeKind::Dataclass: return Py_NewRef(node.extras);
    case NodeKind::DefaultDict: return PyTuple_Pack(2, node.data, node.extras);
    case NodeKind::Custom: return Py_NewRef(node.data);
    default: return Py_NewRef(Py_None);
    }
}

PyTypeObject *class_of(const TreeNode &node) {
    switch (node.kind) {
    case NodeKind::None: return Py_TYPE(Py_None);
    case NodeKind::Tuple: return &PyTuple_Type;
    case NodeKind::List: return &PyList_Type;
    case NodeKind::Dict: return &PyDict_Type;
    case NodeKind::OrderedDict: return OrderedDictType;
    case NodeKind::DefaultDict: return DefaultDictType;
    case NodeKind::NamedTuple: return reinterpret_cast<PyTypeObject *>(node.data);
    default: return node.type->type;
    }
}

PyObject *treedef_node_data(PyObject *self, PyObject *) {
    const TreeNode &root = as_treedef(self)->nodes[0];
    if (root.kind == NodeKind::Leaf) Py_RETURN_NONE;
    Ref data(data_of(root));
    return data ? PyTuple_Pack(2, as_object(class_of(root)), data.get()) : nullptr;
}

PyObject *treedef_compose(PyObject *self, PyObject *argument) {
    PyTreeDef *outer = as_treedef(self), *inner = checked_treedef(argument, "compose");
    if (!inner) return nullptr;
    uint64_t total = outer->num_nodes() + static_cast<uint64_t>(outer->num_leaves()) * (inner->num_nodes() - 1);
    if (total > UINT32_MAX) return PyErr_NoMemory();
    PyTreeDef *def = allocate_treedef(static_cast<Py_ssize_t>(total));
    if (!def) return nullptr;
    TreeNode *to = def->nodes;
    for (uint32_t i = 0; i < outer->num_nodes(); ++i) {
        bool leaf = outer->nodes[i].kind == NodeKind::Leaf;
        uint32_t n = leaf ? inner->num_nodes() : 1;
        copy_nodes(to, leaf ? inner->nodes : &outer->nodes[i], n);
        to += n;
    }
    return reinterpret_cast<PyObject *>(seal(def));
}

PyObject *treedef_walk(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3) return PyErr_Format(PyExc_TypeError, "walk() takes 3 arguments (f_node, f_leaf, leaves), got %zd", nargs);
    PyObject *f_node = args[0], *f_leaf = args[1];
    if (!checked_callable(f_node, "walk", "f_node") || (f_leaf != Py_None && !checked_callable(f_leaf, "walk", "f_leaf"))) return nullptr;
    Ref leaves(PySequence_Tuple(args[2]));
    if (!leaves) return nullptr;
    PyTreeDef *def = as_treedef(self);
    Py_ssize_t n = PyTuple_GET_SIZE(leaves.get()), next = 0;
    if (n != def->num_leaves())
        return PyErr_Format(PyExc_ValueError, "Too %s leaves for PyTreeDef; expected %u, got %zd", n < def->num_leaves() ? "few" : "many",
                            def->num_leaves(), n);
    auto leaf = [&] {
        PyObject *x = PyTuple_GET_ITEM(leaves.get(), next++);
        return f_leaf == Py_None ? Py_NewRef(x) : PyObject_CallOneArg(f_leaf, x);
    };
    auto node = [&](const TreeNode &at, PyObject **children) -> PyObject * {
        Ref values(PyTuple_New(at.arity));
        for (uint32_t i = 0; i < at.arity; ++i) {
            if (values) {
                PyTuple_SET_ITEM(values.get(), i, children[i]);
            } else {
                Py_DECREF(children[i]);
            }
        }
        Ref data(at.kind == NodeKind::NamedTuple ? Py_NewRef(at.data) : data_of(at));
        return values && data ? PyObject_CallFunctionObjArgs(f_node, values.get(), data.get(), nullptr) : nullptr;
    };
    return fold(def->nodes, def->num_nodes(), leaf, node);
}

// A tree whose nodes are given as any iterables.
PyObject *from_iterables(const TreeNode *&at, PyObject *x) {
    const TreeNode &node = *at++;
    if (node.kind == NodeKind::Leaf) return Py_NewRef(x);
    RecursionGuard guard;
    if (!guard.ok) return nullptr;
    Ref items(PySequence_Tuple(x));
    if (!items) return nullptr;
    if (PyTuple_GET_SIZE(items.get()) != node.arity)
        return PyErr_Format(PyExc_ValueError, "Arity mismatch between trees: expected %u children, got %zd in %R", node.arity,
                            PyTuple_GET_SIZE(items.get()), x);
    RefVector children;
    for (uint32_t i = 0; i < node.arity; ++i) {
        PyObject *child = from_iterables(at, PyTuple_GET_ITEM(items.get(), i));
        if (!child || !children.push_steal(child)) return nullptr;
    }
    children.release();
    return assemble(node, children.data());
}

PyObject *treedef_from_iterable_tree(PyObject *self, PyObject *tree) {
    const TreeNode *at = as_treedef(self)->nodes;
    return from_iterables(at, tree);
}

// Fills `node` from its class and `data_of`. The arity is set by the caller.
bool set_node(TreeNode &node, PyTypeObject *type, PyObject *data, const char *function) {
    const Registration *registration = nullptr;
    node.kind = classify_type(type, registration);
    node.type = registration;
    auto wrong = [&](const char *wanted) {
        PyErr_Format(PyExc_ValueError, "%s: the data of a node of %R with %u children must be %s, got %R", function, type, node.arity,
                     wanted, data);
        return false;
    };
    auto set_extras = [&](PyObject *keys, Py_ssize_t n) {
        node.extras = PySequence_Tuple(keys);
        if (node.extras && PyTuple_GET_SIZE(node.extras) == n) return true;
        if (!node.extras && !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
        PyErr_Clear();
        return wrong(node.kind == NodeKind::Dataclass ? "the values of its meta fields" : "as many keys");
    };
    switch (node.kind) {
    case NodeKind::Leaf: PyErr_Format(PyExc_RuntimeError, "%s: %R is not registered as a pytree node", function, type); return false;
    case NodeKind::None: return node.arity == 0 || wrong("None, and None has no children");
    case NodeKind::Tuple:
    case NodeKind::List: return true;
    case NodeKind::NamedTuple: node.data = Py_NewRef(as_object(type)); return true;
    case NodeKind::Dict:
    case NodeKind::OrderedDict: return set_extras(data, node.arity);
    case NodeKind::DefaultDict:
        if (!PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2) return wrong("(default_factory, keys)");
        node.data = Py_NewRef(PyTuple_GET_ITEM(data, 0));
        return set_extras(PyTuple_GET_ITEM(data, 1), node.arity);
    case NodeKind::Dataclass:
        return (node.arity == PyTuple_GET_SIZE(registration->data_fields) || wrong("for as many children as it has data fields")) &&
               set_extras(data, PyTuple_GET_SIZE(registration->meta_fields));
    default:
        if (registration->is_static() && node.arity) return wrong("without children");
        node.data = Py_NewRef(data);
        return true;
    }
}

PyObject *treedef_from_node_data(PyObject *, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    static const char function[] = "from_node_data_and_children";
    static const char *const names[] = {"registry", "node_data", "children"};
    PyObject *given[3];
    if (!bind(function, names, 3, args, nargs, kwnames, given)) return nullptr;
    Ref children(PySequence_Tuple(given[2]));
    if (!children) return nullptr;
    Py_ssize_t n = PyTuple_GET_SIZE(children.get()), total = 1;
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyTreeDef *child = checked_treedef(PyTuple_GET_ITEM(children.get(), i), function);
        if (!child) return nullptr;
        total += child->num_nodes();
    }
    if (given[1] == Py_None) {
        if (n == 0) return Py_NewRef(leaf_treedef->object());
        return PyErr_Format(PyExc_ValueError, "%s: a leaf (node_data=None) has no children, got %zd", function, n);
    }
    if (!PyTuple_Check(given[1]) || PyTuple_GET_SIZE(given[1]) != 2)
        return PyErr_Format(PyExc_TypeError, "%s: node_data must be None or (class, data), got %R", function, given[1]);
    PyTypeObject *type = checked_type(PyTuple_GET_ITEM(given[1], 0), function);
    if (!type) return nullptr;
    PyTreeDef *def = allocate_treedef(total);
    if (!def) return nullptr;
    def->nodes[0].arity = static_cast<uint32_t>(n);
    if (!set_node(def->nodes[0], type, PyTuple_GET_ITEM(given[1], 1), function)) {
        Py_DECREF(def);
        return nullptr;
    }
    TreeNode *to = def->nodes + 1;
    for (Py_ssize_t i = 0; i < n; ++i) {
        PyTreeDef *child = as_treedef(PyTuple_GET_ITEM(children.get(), i));
        copy_nodes(to, child->nodes, child->num_nodes());
        to += child->num_nodes();
    }
    return reinterpret_cast<PyObject *>(seal(def));
}

// Pickled as the list of nodes in pre-order: None for a leaf, else (class, data, arity).
PyObject *treedef_reduce(PyObject *self, PyObject *) {
    PyTreeDef *def = as_treedef(self);
    Ref nodes(PyList_New(def->num_nodes()));
    for (uint32_t i = 0; nodes && i < def->num_nodes(); ++i) {
        const TreeNode &node = def->nodes[i];
        PyObject *entry = node.kind == NodeKind::Leaf ? Py_NewRef(Py_None)
                                                      : Py_BuildValue("ONI", as_object(class_of(node)), data_of(node), node.arity);
        if (!entry) return nullptr;
        PyList_SET_ITEM(nodes.get(), i, entry);
    }
    return nodes ? Py_BuildValue("O(O)", restore_function, nodes.get()) : nullptr;
}

PyObject *restore_treedef(PyObject *, PyObject *nodes) {
    static const char function[] = "PyTreeDef";
    if (!PyList_Check(nodes)) return PyErr_Format(PyExc_TypeError, "%s: cannot be restored from %R", function, nodes);
    Ref list(PySequence_Tuple(nodes));
    PyTreeDef *def = list ? allocate_treedef(PyTuple_GET_SIZE(list.get())) : nullptr;
    for (Py_ssize_t i = 0; def && i < PyTuple_GET_SIZE(list.get()); ++i) {
        PyObject *entry = PyTuple_GET_ITEM(list.get(), i), *type, *data;
        if (entry == Py_None) continue; // zeroed is a leaf
        TreeNode &node = def->nodes[i];
        if (!PyTuple_Check(entry) || !PyArg_ParseTuple(entry, "O!OI", &PyType_Type, &type, &data, &node.arity) ||
            !set_node(node, reinterpret_cast<PyTypeObject *>(type), data, function)) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%s: cannot be restored from %R", function, nodes);
            Py_CLEAR(def);
        }
    }
    return def ? reinterpret_cast<PyObject *>(seal(def)) : nullptr;
}

PyMethodDef treedef_methods[] = {
    {"unflatten", treedef_unflatten, METH_O, "unflatten($self, leaves, /)\n--\n\nThe tree of this structure with these leaves."},
    {"flatten_up_to", treedef_flatten_up_to, METH_O,
     "flatten_up_to($self, tree, /)\n--\n\n"
     "The subtrees of `tree` at the places of the leaves. ValueError if this structure is no prefix of it."},
    {"compose", treedef_compose, METH_O, "compose($self, inner, /)\n--\n\nThis structure with `inner` in place of every leaf."},
    {"walk", as_c_function(treedef_walk), METH_FASTCALL,
     "walk($self, f_node, f_leaf, leaves, /)\n--\n\n"
     "Replaces bottom-up each leaf by `f_leaf(leaf)` and each node by `f_node(children, data)`."},
    {"from_iterable_tree", treedef_from_iterable_tree, METH_O,
     "from_iterable_tree($self, tree, /)\n--\n\nThe tree of this structure whose nodes are given as iterables of their children."},
    {"children", treedef_children, METH_NOARGS, "children($self, /)\n--\n\nThe structures of the children of the root."},
    {"node_data", treedef_node_data, METH_NOARGS, "node_data($self, /)\n--\n\nNone for a leaf, else (class, data) of the root."},
    {"from_node_data_and_children", as_c_function(treedef_from_node_data), METH_FASTCALL | METH_KEYWORDS | METH_STATIC,
     "from_node_data_and_children(registry, node_data, children)\n--\n\nThe inverse of `node_data()` and `children()`."},
    {"__reduce__", treedef_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef treedef_getset[] = {{"num_leaves", treedef_num_leaves, nullptr, "number of leaves", nullptr},
                                {"num_nodes", treedef_num_nodes, nullptr, "number of nodes, leaves included", nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef treedef_members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(PyTreeDef, weakrefs), READONLY, nullptr},
                                 {nullptr, 0, 0, 0, nullptr}};

PyType_Slot treedef_slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(treedef_dealloc)},
                               {Py_tp_traverse, reinterpret_cast<void *>(treedef_traverse)},
                               {Py_tp_repr, reinterpret_cast<void *>(treedef_repr)},
                               {Py_tp_hash, reinterpret_cast<void *>(treedef_hash)},
                               {Py_tp_richcompare, reinterpret_cast<void *>(treedef_compare)},
                               {Py_tp_methods, treedef_methods},
                               {Py_tp_getset, treedef_getset},
                               {Py_tp_members, treedef_members},
                               {Py_tp_doc, const_cast<char *>("The structure of a pytree, without its leaves.")},
                               {0, nullptr}};

PyType_Spec treedef_spec{"steno.tree_util.PyTreeDef", offsetof(PyTreeDef, nodes), sizeof(TreeNode),
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, treedef_slots};

// ---------------------------------------------------------------------------------------------------------------------
// PyTreeRegistry

// One flattening for all: the parts that are wanted are non-null.
bool flatten_for(const char *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, FlattenHooks &hooks, RefVector &leaves,
                 FlatTree &flat) {
    static const char *const names[] = {"tree", "leaf_predicate"};
    PyObject *given[2];
    if (!bind(function, names, 1, args, nargs, kwnames, given)) return false;
    if (given[1] && given[1] != Py_None) {
        if (!checked_callable(given[1], function, "leaf_predicate")) return false;
        hooks.is_leaf = given[1];
    }
    return hooks.is_leaf || hooks.with_path ? flatten_with_hooks(given[0], leaves, flat, hooks) : flatten_into(given[0], leaves, flat);
}

PyObject *pair_of(PyObject *first_owned, PyTreeDef *second_owned) {
    Ref first(first_owned), second(reinterpret_cast<PyObject *>(second_owned));
    return first && second ? PyTuple_Pack(2, first.get(), second.get()) : nullptr;
}

PyObject *registry_flatten(PyObject *, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    FlattenHooks hooks;
    RefVector leaves;
    FlatTree flat;
    if (!flatten_for("flatten", args, nargs, kwnames, hooks, leaves, flat)) return nullptr;
    return pair_of(list_from(leaves), make_treedef(flat));
}

PyObject *registry_leaves(PyObject *, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    FlattenHooks hooks;
    RefVector leaves;
    FlatTree flat;
    return flatten_for("leaves", args, nargs, kwnames, hooks, leaves, flat) ? list_from(leaves) : nullptr;
}

PyObject *registry_structure(PyObject *, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    FlattenHooks hooks;
    RefVector leaves;
    FlatTree flat;
    if (!flatten_for("structure", args, nargs, kwnames, hooks, leaves, flat)) return nullptr;
    return reinterpret_cast<PyObject *>(make_treedef(flat));
}

PyObject *registry_flatten_with_path(PyObject *, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    FlattenHooks hooks;
    hooks.with_path = true;
    RefVector leaves;
    FlatTree flat;
    if (!flatten_for("flatten_with_path", args, nargs, kwnames, hooks, leaves, flat)) return nullptr;
    Ref list(PyList_New(leaves.size()));
    for (uint32_t i = 0; list && i < leaves.size(); ++i) {
        PyObject *pair = PyTuple_Pack(2, hooks.paths[i], leaves[i]);
        if (!pair) return nullptr;
        PyList_SET_ITEM(list.get(), i, pair);
    }
    return pair_of(list.release(), make_treedef(flat));
}

PyObject *one_level(PyObject *x, bool with_keys) {
    Ref children, aux;
    int result = flatten_one_level(x, with_keys, children, aux);
    if (result < 0) return nullptr;
    if (result == 0) Py_RETURN_NONE;
    return PyTuple_Pack(2, children.get(), aux.get());
}
PyObject *registry_one_level(PyObject *, PyObject *x) { return one_level(x, false); }
PyObject *registry_one_level_with_keys(PyObject *, PyObject *x) { return one_level(x, true); }

PyObject *registry_is_node(PyObject *, PyObject *x) {
    const Registration *registration = nullptr;
    return PyBool_FromLong(PyType_Check(x) && classify_type(reinterpret_cast<PyTypeObject *>(x), registration) != NodeKind::Leaf);
}

PyObject *registry_register_node(PyObject *, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    static const char function[] = "register_node";
    static const char *const names[] = {"type", "to_iterable", "from_iterable", "to_iterable_with_keys"};
    PyObject *given[4];
    if (!bind(function, names, 3, args, nargs, kwnames, given)) return nullptr;
    if (given[3] == Py_None) given[3] = nullptr;
    Registration registration{};
    registration.type = checked_type(given[0], function);
    registration.kind = NodeKind::Custom;
    if (!registration.type || !checked_callable(given[1], function, names[1]) || !checked_callable(given[2], function, names[2]) ||
        (given[3] && !checked_callable(given[3], function, names[3])))
        return nullptr;
    registration.to_iterable = given[1];
    registration.from_iterable = given[2];
    registration.to_iterable_with_keys = given[3];
    if (!register_class(registration)) return nullptr;
    for (int i = 1; i < 4; ++i) Py_XINCREF(given[i]);
    Py_RETURN_NONE;
}

// A tuple of interned names: a new reference.
PyObject *names_tuple(PyObject *names, const char *function) {
    Ref given(PySequence_Tuple(names));
    Ref result(given ? PyTuple_New(PyTuple_GET_SIZE(given.get())) : nullptr);
    for (Py_ssize_t i = 0; result && i < PyTuple_GET_SIZE(given.get()); ++i) {
        PyObject *name = PyTuple_GET_ITEM(given.get(), i);
        if (!PyUnicode_Check(name)) return PyErr_Format(PyExc_TypeError, "%s: field names must be str, got %R", function, name);
        PyObject *exact = PyUnicode_FromObject(name); // vectorcall wants exact strings
        if (!exact) return nullptr;
        PyUnicode_InternInPlace(&exact);
        PyTuple_SET_ITEM(result.get(), i, exact);
    }
    return result.release();
}

PyObject *registry_register_dataclass(PyObject *, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    static const char function[] = "register_dataclass_node";
    static const char *const names[] = {"type", "data_fields", "meta_fields"};
    PyObject *given[3];
    if (!bind(function, names, 3, args, nargs, kwnames, given)) return nullptr;
    Registration registration{};
    registration.type = checked_type(given[0], function);
    registration.kind = NodeKind::Dataclass;
    if (!registration.type) return nullptr;
    Ref data(names_tuple(given[1], function));
    Ref meta(data ? names_tuple(given[2], function) : nullptr);
    Ref all(meta ? PySequence_Concat(data.get(), meta.get()) : nullptr);
    if (!all) return nullptr;
    registration.data_fields = data.get();
    registration.meta_fields = meta.get();
    registration.fields = all.get();
    if (!register_class(registration)) return nullptr;
    data.release(), meta.release(), all.release();
    Py_RETURN_NONE;
}

PyObject *registry_register_static(PyObject *, PyObject *x) {
    Registration registration{};
    registration.type = checked_type(x, "register_static_node");
    registration.kind = NodeKind::Custom;
    if (!registration.type || !register_class(registration)) return nullptr;
    Py_RETURN_NONE;
}

PyObject *registry_reduce(PyObject *, PyObject *) { return PyUnicode_FromString("default_registry"); }

void registry_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

#define FASTCALL(function) as_c_function(function), METH_FASTCALL | METH_KEYWORDS
PyMethodDef registry_methods[] = {
    {"flatten", FASTCALL(registry_flatten), "flatten($self, tree, leaf_predicate=None)\n--\n\n(leaves, structure)"},
    {"leaves", FASTCALL(registry_leaves), "leaves($self, tree, leaf_predicate=None)\n--\n\nThe first half of `flatten`."},
    {"structure", FASTCALL(registry_structure), "structure($self, tree, leaf_predicate=None)\n--\n\nThe second half of `flatten`."},
    {"flatten_with_path", FASTCALL(registry_flatten_with_path),
     "flatten_with_path($self, tree, leaf_predicate=None)\n--\n\n"
     "([(path, leaf)...], structure); the predicate is called with (path, node)."},
    {"flatten_one_level", registry_one_level, METH_O,
     "flatten_one_level($self, tree, /)\n--\n\n(children, data) of the root; None for a leaf."},
    {"flatten_one_level_with_keys", registry_one_level_with_keys, METH_O,
     "flatten_one_level_with_keys($self, tree, /)\n--\n\n((key, child)..., data) of the root; None for a leaf."},
    {"is_node", registry_is_node, METH_O, "is_node($self, type, /)\n--\n\nWhether objects of this class are nodes."},
    {"register_node", FASTCALL(registry_register_node),
     "register_node($self, type, to_iterable, from_iterable, to_iterable_with_keys=None)\n--\n\nMakes a class a node."},
    {"register_dataclass_node", FASTCALL(registry_register_dataclass),
     "register_dataclass_node($self, type, data_fields, meta_fields)\n--\n\nMakes a class with these attributes a node."},
    {"register_static_node", registry_register_static, METH_O,
     "register_static_node($self, type, /)\n--\n\nMakes a class a node without children whose objects are part of the structure."},
    {"__reduce__", registry_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
#undef FASTCALL

PyType_Slot registry_slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(registry_dealloc)},
                                {Py_tp_methods, registry_methods},
                                {Py_tp_doc, const_cast<char *>("The classes that are pytree nodes.")},
                                {0, nullptr}};

PyType_Spec registry_spec{"steno.tree_util.PyTreeRegistry", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          registry_slots};

// ((args, keywords), func) of a functools.partial: native, so that a cached call with one runs no Python.
PyObject *flatten_partial(PyObject *, PyObject *x) {
    Ref func(PyObject_GetAttrString(x, "func"));
    Ref args(func ? PyObject_GetAttrString(x, "args") : nullptr);
    Ref keywords(args ? PyObject_GetAttrString(x, "keywords") : nullptr);
    return keywords ? Py_BuildValue("(OO)O", args.get(), keywords.get(), func.get()) : nullptr;
}

PyMethodDef module_functions[] = {{"_restore_treedef", restore_treedef, METH_O, "The inverse of pickling a PyTreeDef."},
                                  {"flatten_partial", flatten_partial, METH_O, "((args, keywords), func) of a functools.partial"},
                                  {nullptr, nullptr, 0, nullptr}};

bool init_types(PyObject *module) {
    if (!init_registry() || PyModule_AddFunctions(module, module_functions) < 0) return false;
    restore_function = PyObject_GetAttrString(module, "_restore_treedef");
    PyTreeDefType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&treedef_spec));
    RegistryType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&registry_spec));
    if (!restore_function || !PyTreeDefType || !RegistryType) return false;
    leaf_treedef = allocate_treedef(1);
    if (!leaf_treedef || !(leaf_treedef = seal(leaf_treedef))) return false;
    default_registry = RegistryType->tp_alloc(RegistryType, 0);
    return default_registry && PyModule_AddObjectRef(module, "PyTreeDef", as_object(PyTreeDefType)) == 0 &&
           PyModule_AddObjectRef(module, "PyTreeRegistry", as_object(RegistryType)) == 0 &&
           PyModule_AddObjectRef(module, "default_registry", default_registry) == 0 &&
           init_keys(module);
}

} // namespace

PyTreeDef *allocate_treedef(Py_ssize_t num_nodes) {
    PyTreeDef *def = PyObject_GC_NewVar(PyTreeDef, PyTreeDefType, num_nodes);
    if (!def) return nullptr;
    def->hash = -1;
    def->weakrefs = nullptr;
    std::memset(static_cast<void *>(def->nodes), 0, sizeof(TreeNode) * num_nodes);
    return def;
}

} // namespace steno

void init_pytree(nb::module_ &m) {
    if (!steno::init_types(m.ptr())) throw nb::python_error();
}
