// Flattening: a tree to its leaves and a FlatTree.
#include "pytree_internal.h"

namespace steno {

namespace {

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

} // namespace

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

} // namespace steno
