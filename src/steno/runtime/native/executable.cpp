#include "executable.h"

#include <algorithm>
#include <memory>

namespace steno {

PyTypeObject *ExecutableType = nullptr;

namespace {

Executable *as(PyObject *o) { return reinterpret_cast<Executable *>(o); }

bool read_avals(PyObject *sequence, const char *what, std::vector<ShapedArray *> &out) {
    Ref fast(PySequence_Fast(sequence, what));
    if (!fast) return false;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); ++k) {
        PyObject *item = PySequence_Fast_GET_ITEM(fast.get(), k);
        if (!is_aval(item)) {
            PyErr_Format(PyExc_TypeError, "Executable: %s must be ShapedArrays, got %.200s", what, Py_TYPE(item)->tp_name);
            return false;
        }
        out.push_back(reinterpret_cast<ShapedArray *>(Py_NewRef(item)));
    }
    return true;
}

bool read_aliases(Executable *e, PyObject *aliases) {
    e->alias.assign(e->n_out(), -1);
    Ref fast(PySequence_Fast(aliases, "aliases"));
    if (!fast) return false;
    std::vector<bool> used(e->n_in(), false);
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); ++k) {
        Ref pair(PySequence_Tuple(PySequence_Fast_GET_ITEM(fast.get(), k)));
        Py_ssize_t out, in;
        if (!pair || !PyArg_ParseTuple(pair.get(), "nn:aliases", &out, &in)) return false;
        if (out < 0 || size_t(out) >= e->n_out() || in < 0 || size_t(in) >= e->n_in() || e->alias[out] >= 0 || used[in] ||
            e->out_avals[out]->nbytes != e->in_avals[in]->nbytes) {
            PyErr_Format(PyExc_ValueError, "Executable: output %zd cannot take over input %zd", out, in);
            return false;
        }
        used[in] = true;
        e->alias[out] = int32_t(in);
    }
    return true;
}

bool read_captured(Executable *e, PyObject *captured) {
    Ref fast(PySequence_Fast(captured, "captured"));
    if (!fast) return false;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); ++k) {
        PyObject *item = PySequence_Fast_GET_ITEM(fast.get(), k);
        if (!is_array(item)) {
            PyErr_Format(PyExc_TypeError, "Executable: captured must be ArrayImpls, got %.200s", Py_TYPE(item)->tp_name);
            return false;
        }
        if (!ready(as_array(item))) return false;
        size_t at = e->in_avals.size() - size_t(PySequence_Fast_GET_SIZE(fast.get())) + size_t(k);
        if (at >= e->in_avals.size() || e->in_avals[at]->dtype != as_array(item)->aval->dtype ||
            e->in_avals[at]->nbytes != as_array(item)->aval->nbytes) {
            PyErr_Format(PyExc_ValueError, "Executable: captured array %zd of %s is not what in_avals ends with", k,
                         describe(as_array(item)->aval).c_str());
            return false;
        }
        e->captured.push_back(retain(as_array(item)->buffer));
    }
    return true;
}

bool read_host_calls(Executable *e, PyObject *host_calls) {
    Ref fast(PySequence_Fast(host_calls, "host_calls"));
    if (!fast) return false;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); ++k) {
        Ref triple(PySequence_Tuple(PySequence_Fast_GET_ITEM(fast.get(), k)));
        PyObject *callback, *operands, *results;
        if (!triple || !PyArg_ParseTuple(triple.get(), "OOO:host_calls", &callback, &operands, &results)) return false;
        e->host_calls.emplace_back();
        e->host_calls.back().callback = Py_NewRef(callback);
        if (!read_avals(operands, "operands of host_calls", e->host_calls.back().operands)) return false;
        if (!read_avals(results, "results of host_calls", e->host_calls.back().results)) return false;
    }
    return true;
}

PyObject *executable_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) try {
    static const char *names[] = {"entry",    "in_avals",   "out_avals", "arena_bytes", "aliases",
                                  "captured", "host_calls", "keepalive", "heavy",       "expected",   nullptr};
    PyObject *entry, *in_avals, *out_avals, *keepalive = Py_None;
    Py_ssize_t arena_bytes = 0;
    Ref empty(PyTuple_New(0));
    PyObject *aliases = empty.get(), *captured = empty.get(), *host_calls = empty.get();
    int heavy = 0;
    long long expected = 0;
    if (!empty || !PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|nOOOOpL:Executable", const_cast<char **>(names), &entry, &in_avals,
                                               &out_avals, &arena_bytes, &aliases, &captured, &host_calls, &keepalive, &heavy, &expected))
        return nullptr;
    void *address = PyLong_AsVoidPtr(entry);
    if (!address) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "Executable: entry is a null address");
        return nullptr;
    }
    if (arena_bytes < 0) {
        PyErr_Format(PyExc_ValueError, "Executable: arena_bytes must not be negative, got %zd", arena_bytes);
        return nullptr;
    }
    PyObject *self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    Executable *e = as(self);
    new (&e->in_avals) std::vector<ShapedArray *>();
    new (&e->out_avals) std::vector<ShapedArray *>();
    new (&e->alias) std::vector<int32_t>();
    new (&e->captured) std::vector<Buffer *>();
    new (&e->host_calls) std::vector<HostCall>();
    e->entry = reinterpret_cast<Entry>(address);
    e->arena_bytes = size_t(arena_bytes);
    e->heavy = heavy;
    new (&e->latest_nanoseconds) std::atomic<uint64_t>(uint64_t(std::max(expected, 0LL)));
    e->keepalive = Py_NewRef(keepalive);
    if (!read_avals(in_avals, "in_avals", e->in_avals) || !read_avals(out_avals, "out_avals", e->out_avals) ||
        !read_captured(e, captured) || !read_aliases(e, aliases) || !read_host_calls(e, host_calls)) {
        Py_DECREF(self);
        return nullptr;
    }
    e->special = heavy || !e->host_calls.empty();
    for (ShapedArray *a : e->out_avals) e->out_bytes += size_t(a->nbytes);
    return self;
} catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
}

int executable_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(as(self)->keepalive);
    for (HostCall &call : as(self)->host_calls) Py_VISIT(call.callback);
    return 0;
}

int executable_clear(PyObject *self) {
    // The callbacks alone: a cycle goes through them, and the code must stay valid as long as somebody can run it.
    for (HostCall &call : as(self)->host_calls) {
        PyObject *none = Py_NewRef(Py_None);
        std::swap(call.callback, none);
        Py_DECREF(none);
    }
    return 0;
}

void executable_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    Executable *e = as(self);
    if (e->weakrefs) PyObject_ClearWeakRefs(self);
    for (ShapedArray *a : e->in_avals) Py_DECREF(a);
    for (ShapedArray *a : e->out_avals) Py_DECREF(a);
    for (Buffer *b : e->captured) release(b);
    for (HostCall &call : e->host_calls) {
        Py_DECREF(call.callback);
        for (ShapedArray *a : call.operands) Py_DECREF(a);
        for (ShapedArray *a : call.results) Py_DECREF(a);
    }
    std::destroy_at(&e->in_avals);
    std::destroy_at(&e->out_avals);
    std::destroy_at(&e->alias);
    std::destroy_at(&e->captured);
    std::destroy_at(&e->host_calls);
    Py_XDECREF(e->keepalive);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

bool read_positions(PyObject *sequence, size_t n, bool *flags) {
    std::fill_n(flags, n, false);
    Ref positions(PySequence_Tuple(sequence));
    if (!positions) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(positions.get()); ++k) {
        Py_ssize_t j = PyLong_AsSsize_t(PyTuple_GET_ITEM(positions.get(), k));
        if (j == -1 && PyErr_Occurred()) return false;
        if (j < 0 || size_t(j) >= n) {
            PyErr_Format(PyExc_ValueError, "Executable.run: donated argument %zd of %zu", j, n);
            return false;
        }
        flags[j] = true;
    }
    return true;
}

PyObject *executable_run(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *arguments = nargs > 0 ? args[0] : nullptr, *donated = nargs > 1 ? args[1] : nullptr;
    for (Py_ssize_t k = 0; k < (kwnames ? PyTuple_GET_SIZE(kwnames) : 0); ++k) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        PyObject *&slot = PyUnicode_CompareWithASCIIString(name, "donated") ? arguments : donated;
        if (slot || (&slot == &arguments && PyUnicode_CompareWithASCIIString(name, "args"))) {
            PyErr_Format(PyExc_TypeError, "Executable.run: unexpected keyword argument '%U'", name);
            return nullptr;
        }
        slot = args[nargs + k];
    }
    if (!arguments || nargs > 2) {
        PyErr_SetString(PyExc_TypeError, "Executable.run takes the arguments args and donated");
        return nullptr;
    }
    Executable *e = as(self);
    Ref sequence(PySequence_Tuple(arguments));  // a list could change while Python code runs
    if (!sequence) return nullptr;
    size_t n = e->n_in();
    if (size_t(PyTuple_GET_SIZE(sequence.get())) != n) {
        PyErr_Format(PyExc_TypeError, "Executable.run: %zd arguments given, %zu wanted", PyTuple_GET_SIZE(sequence.get()), n);
        return nullptr;
    }
    StackArray<void *, 32> in(e->n_pointers());
    StackArray<Array *, 32> arrays(n);
    StackArray<ScalarBytes, 16> scalars(n);
    StackArray<bool, 32> flags(n);
    StackArray<Buffer *, 16> out(e->n_out());
    if (!in || !arrays || !scalars || !flags || !out || (donated && !read_positions(donated, n, flags.data()))) return nullptr;
    KeepAlive keep;
    for (size_t j = 0; j < n; ++j) {
        PyObject *leaf = PyTuple_GET_ITEM(sequence.get(), Py_ssize_t(j));
        if (!read_leaf(leaf, e->in_avals[j], &in[j], &scalars[j], keep, "Executable.run", int(j))) return nullptr;
        arrays[j] = is_array(leaf) ? as_array(leaf) : nullptr;
    }
    Ref list(PyList_New(Py_ssize_t(e->n_out())));
    Ref alive = Ref::borrow(self);
    if (!list || !execute(e, in.data(), arrays.data(), donated ? flags.data() : nullptr, out.data())) return nullptr;
    bool ok = true;
    for (size_t k = 0; k < e->n_out(); ++k) {
        PyObject *a = make_array(e->out_avals[k], out[k]);
        ok = ok && a;
        PyList_SET_ITEM(list.get(), Py_ssize_t(k), a);
    }
    return ok ? list.release() : nullptr;
}

PyObject *avals_to_tuple(const std::vector<ShapedArray *> &avals) {
    PyObject *out = PyTuple_New(Py_ssize_t(avals.size()));
    for (size_t k = 0; out && k < avals.size(); ++k)
        PyTuple_SET_ITEM(out, Py_ssize_t(k), Py_NewRef(reinterpret_cast<PyObject *>(avals[k])));
    return out;
}

PyObject *get_in_avals(PyObject *self, void *) { return avals_to_tuple(as(self)->in_avals); }
PyObject *get_out_avals(PyObject *self, void *) { return avals_to_tuple(as(self)->out_avals); }
PyObject *get_arena_bytes(PyObject *self, void *) { return PyLong_FromSize_t(as(self)->arena_bytes); }
PyObject *get_heavy(PyObject *self, void *) { return PyBool_FromLong(as(self)->heavy); }
PyObject *get_keepalive(PyObject *self, void *) { return Py_NewRef(as(self)->keepalive); }

PyMethodDef methods[] = {
    {"run", reinterpret_cast<PyCFunction>(reinterpret_cast<void *>(executable_run)), METH_FASTCALL | METH_KEYWORDS,
     "run(args, donated=()) -> list of ArrayImpl\n\nargs: one for each of in_avals but the captured ones: ArrayImpl, ndarray, NumPy or "
     "Python scalar, TypedScalar. donated: positions "
     "of inputs whose buffers the outputs may take over."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef getset[] = {
    {"in_avals", get_in_avals, nullptr, "types of the inputs, then of the captured arrays", nullptr},
    {"out_avals", get_out_avals, nullptr, nullptr, nullptr},
    {"arena_bytes", get_arena_bytes, nullptr, "scratch memory of one run", nullptr},
    {"heavy", get_heavy, nullptr, "enough work to be queued, or else to release the GIL while it runs", nullptr},
    {"keepalive", get_keepalive, nullptr, "what holds the machine code", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Executable, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(executable_new)},
    {Py_tp_dealloc, reinterpret_cast<void *>(executable_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void *>(executable_traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(executable_clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char *>("Executable(entry, in_avals, out_avals, arena_bytes=0, aliases=(), captured=(), host_calls=(), "
                                   "keepalive=None, heavy=False, expected=0)\n--\n\n"
                                   "A compiled program. entry: address of `int32_t entry(void **in, void **out, void *arena, void *rt)`.")},
    {0, nullptr},
};

PyType_Spec spec = {"steno._native.Executable", sizeof(Executable), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

bool init_executable(PyObject *module) {
    ExecutableType = add_type(module, &spec);
    return ExecutableType != nullptr;
}

}  // namespace steno
