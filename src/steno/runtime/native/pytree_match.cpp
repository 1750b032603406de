// Walking a tree along a known definition.
#include "pytree_internal.h"

namespace steno {

namespace {

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
            if (PyTuple_GET_SIZE(x) != node.arity)
                return wrong_arity("Tuple arity mismatch: %zd != %u; tuple: %R.", PyTuple_GET_SIZE(x), node, x);
            return each(at, x);
        case NodeKind::NamedTuple: {
            if (reinterpret_cast<PyObject *>(Py_TYPE(x)) == node.data) {
                if (PyTuple_GET_SIZE(x) != node.arity)
                    return wrong_arity("Named tuple arity mismatch: %zd != %u; tuple: %R.", PyTuple_GET_SIZE(x), node, x);
                return each(at, x);
            }
            if constexpr (!UpTo) return 0;
            if (!is_named_tuple(Py_TYPE(x))) return mismatch("Expected named tuple, got %R.", x);
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
        if (!items_of(NodeKind::OrderedDict, x, items)) return -1;
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

} // namespace

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

} // namespace steno
