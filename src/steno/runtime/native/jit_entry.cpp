// The plan of a call: which leaves go into the executable, and where each leaf of the result comes from.
#include "jit.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace steno {

PyTypeObject *JitEntryType = nullptr;

namespace {

JitEntry *as(PyObject *o) { return reinterpret_cast<JitEntry *>(o); }

// The result of a forwarded argument: an array that shares the argument's memory, or takes it over if it is donated.
// NumPy's and Python's values are copied.
PyObject *forward(const OutputSource &source, PyObject *leaf) {
    if (is_array(leaf)) {
        Array *a = as_array(leaf);
        if (!check_alive(a)) return nullptr;
        return make_array(source.aval, retain(a->buffer));
    }
    ScalarBytes scalar;
    KeepAlive keep;
    void *data;
    if (!read_leaf(leaf, source.aval, &data, &scalar, keep, "jit", source.index)) return nullptr;
    Buffer *b = allocate_for(source.aval);
    if (!b) return nullptr;
    std::memcpy(b->data, data, size_t(source.aval->nbytes));
    return make_array(source.aval, b);
}

struct Results {
    StackArray<PyObject *, 16> items;
    size_t n = 0;
    explicit Results(size_t size) : items(size) {}
    ~Results() {
        while (n) Py_DECREF(items[--n]);
    }
    bool push(PyObject *owned) {
        if (!owned) return false;
        items[n++] = owned;
        return true;
    }
};

// Fills `buffers` with one owned buffer for each output of the executable.
bool run_executable(const JitEntry *entry, RefVector &leaves, Buffer **buffers) {
    Executable *e = entry->executable;
    size_t n = entry->inputs.size();
    StackArray<void *, 32> in(e->n_pointers());
    StackArray<Array *, 32> arrays(n);
    StackArray<ScalarBytes, 16> scalars(n);
    if (!in || !arrays || !scalars) return false;
    KeepAlive keep;
    for (size_t j = 0; j < n; ++j) {
        PyObject *leaf = leaves[uint32_t(entry->inputs[j])];
        if (STENO_LIKELY(is_array(leaf))) {
            arrays[j] = as_array(leaf);  // of this type, by the signature; `execute` looks whether it is alive
            continue;
        }
        arrays[j] = nullptr;
        if (!read_leaf(leaf, e->in_avals[j], &in[j], &scalars[j], keep, "jit", entry->inputs[j])) return false;
    }
    if (STENO_LIKELY(!entry->donates_inputs)) return execute(e, in.data(), arrays.data(), nullptr, buffers);
    StackArray<bool, 32> donated(n);
    if (!donated) return false;
    for (size_t j = 0; j < n; ++j) donated[j] = entry->donated[size_t(entry->inputs[j])];
    return execute(e, in.data(), arrays.data(), donated.data(), buffers);
}

// Donated arguments that are results themselves have given their memory to them.
void delete_forwarded(const JitEntry *entry, RefVector &leaves) {
    for (const OutputSource &source : entry->outputs)
        if (source.kind == OutputSource::Input && entry->donated[size_t(source.index)] && is_array(leaves[uint32_t(source.index)])) {
            Array *a = as_array(leaves[uint32_t(source.index)]);
            if (a->buffer) release(std::exchange(a->buffer, nullptr));
        }
}

}  // namespace

bool fit_leaves(JitEntry *entry, size_t n) {
    bool fits = entry->donated.size() <= n;
    for (int32_t j : entry->inputs) fits = fits && size_t(j) < n;
    for (const OutputSource &source : entry->outputs) fits = fits && (source.kind != OutputSource::Input || size_t(source.index) < n);
    if (!fits) {
        PyErr_Format(PyExc_ValueError, "JitEntry: refers to leaves beyond the %zu of the call", n);
        return false;
    }
    if (!entry->donated.empty()) entry->donated.resize(n);
    return true;
}

PyObject *run_entry(JitEntry *entry, RefVector &leaves) {
    size_t n = entry->outputs.size(), produced = entry->executable ? entry->executable->n_out() : 0;
    Results results(n);
    StackArray<Buffer *, 16> buffers(produced);
    if (!results.items || !buffers) return nullptr;
    // Forwarded ones first: they hold their memory, which is then no output's to take over.
    bool forwards = false;
    for (size_t k = 0; k < n; ++k) forwards |= entry->outputs[k].kind == OutputSource::Input;
    std::vector<Ref> forwarded;
    if (STENO_UNLIKELY(forwards))
        for (const OutputSource &source : entry->outputs) {
            if (source.kind != OutputSource::Input) continue;
            forwarded.emplace_back(forward(source, leaves[uint32_t(source.index)]));
            if (!forwarded.back()) return nullptr;
        }
    if (entry->executable && !run_executable(entry, leaves, buffers.data())) return nullptr;

    bool ok = true;
    size_t next_forwarded = 0;
    for (const OutputSource &source : entry->outputs) {
        if (!ok) break;
        switch (source.kind) {
        case OutputSource::Output: ok = results.push(make_array(source.aval, retain(buffers[size_t(source.index)]))); break;
        case OutputSource::Input: ok = results.push(forwarded[next_forwarded++].release()); break;
        case OutputSource::Constant:
            if (is_array(source.constant)) {
                Array *a = as_array(source.constant);
                ok = check_alive(a) && results.push(make_array(a->aval, retain(a->buffer)));
            } else {
                ok = results.push(Py_NewRef(source.constant));
            }
        }
    }
    for (size_t k = 0; k < produced; ++k) release(buffers[k]);
    if (!ok) return nullptr;
    if (STENO_UNLIKELY(forwards && !entry->donated.empty())) delete_forwarded(entry, leaves);
    if (STENO_LIKELY(entry->out_tree->is_leaf())) {
        results.n = 0;
        return results.items[0];
    }
    return unflatten_steal(entry->out_tree, results.items.data(), Py_ssize_t(std::exchange(results.n, 0)));
}

// ---- the Python type ------------------------------------------------------------------------------------------------------------

namespace {

bool read_outputs(JitEntry *entry, PyObject *outputs, PyObject *out_avals) {
    Ref sources(PySequence_Tuple(outputs)), avals(PySequence_Tuple(out_avals));
    if (!sources || !avals) return false;
    Py_ssize_t n = PyTuple_GET_SIZE(sources.get());
    if (n != PyTuple_GET_SIZE(avals.get()) || n != Py_ssize_t(entry->out_tree->num_leaves())) {
        PyErr_Format(PyExc_ValueError, "JitEntry: %zd outputs, %zd out_avals, and an out_tree of %u leaves", n,
                     PyTuple_GET_SIZE(avals.get()), entry->out_tree->num_leaves());
        return false;
    }
    for (Py_ssize_t k = 0; k < n; ++k) {
        Ref pair(PySequence_Tuple(PyTuple_GET_ITEM(sources.get(), k)));
        PyObject *kind, *value, *aval = PyTuple_GET_ITEM(avals.get(), k);
        if (!pair || !PyArg_ParseTuple(pair.get(), "UO;JitEntry: an output is a pair (kind, value)", &kind, &value)) return false;
        if (!PyUnicode_CompareWithASCIIString(kind, "constant")) {
            entry->outputs.push_back({OutputSource::Constant, 0, nullptr, Py_NewRef(value)});
            continue;
        }
        bool output = !PyUnicode_CompareWithASCIIString(kind, "output");
        if (!output && PyUnicode_CompareWithASCIIString(kind, "input")) {
            PyErr_Format(PyExc_ValueError, "JitEntry: the kind of an output is 'output', 'input' or 'constant', got %R", kind);
            return false;
        }
        Py_ssize_t index = PyLong_AsSsize_t(value);
        if (index == -1 && PyErr_Occurred()) return false;
        Py_ssize_t bound = output ? (entry->executable ? Py_ssize_t(entry->executable->n_out()) : 0) : INT32_MAX;
        if (index < 0 || index >= bound || !is_aval(aval) ||
            (output && reinterpret_cast<ShapedArray *>(aval)->nbytes != entry->executable->out_avals[size_t(index)]->nbytes)) {
            PyErr_Format(PyExc_ValueError, "JitEntry: output %zd (%S %zd) does not exist or does not have the type %S", k, kind, index,
                         aval);
            return false;
        }
        entry->outputs.push_back({output ? OutputSource::Output : OutputSource::Input, int32_t(index),
                                  reinterpret_cast<ShapedArray *>(Py_NewRef(aval)), nullptr});
    }
    return true;
}

bool read_inputs(JitEntry *entry, PyObject *inputs, PyObject *donated) {
    Ref positions(PySequence_Tuple(inputs)), donations(PySequence_Tuple(donated));
    if (!positions || !donations) return false;
    auto read = [](PyObject *o) {
        Py_ssize_t j = PyLong_AsSsize_t(o);
        if (j >= 0 && j < INT32_MAX) return j;
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "JitEntry: no position of a leaf: %zd", j);
        return Py_ssize_t(-1);
    };
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(positions.get()); ++k) {
        Py_ssize_t j = read(PyTuple_GET_ITEM(positions.get(), k));
        if (j < 0) return false;
        entry->inputs.push_back(int32_t(j));
    }
    size_t wanted = entry->executable ? entry->executable->n_in() : 0;
    if (entry->inputs.size() != wanted) {
        PyErr_Format(PyExc_ValueError, "JitEntry: %zu inputs for an executable of %zu", entry->inputs.size(), wanted);
        return false;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(donations.get()); ++k) {
        Py_ssize_t j = read(PyTuple_GET_ITEM(donations.get(), k));
        if (j < 0) return false;
        if (entry->donated.size() <= size_t(j)) entry->donated.resize(size_t(j) + 1);
        entry->donated[size_t(j)] = true;
    }
    for (int32_t j : entry->inputs) entry->donates_inputs |= size_t(j) < entry->donated.size() && entry->donated[size_t(j)];
    return true;
}

PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) try {
    static const char *names[] = {"executable", "out_tree", "outputs", "out_avals", "inputs", "donated", nullptr};
    PyObject *executable, *out_tree, *outputs, *out_avals, *inputs;
    Ref none_donated(PyTuple_New(0));
    PyObject *donated = none_donated.get();
    if (!donated || !PyArg_ParseTupleAndKeywords(args, kwargs, "OO!OOO|O:JitEntry", const_cast<char **>(names), &executable, PyTreeDefType,
                                                 &out_tree, &outputs, &out_avals, &inputs, &donated))
        return nullptr;
    if (!Py_IsNone(executable) && !Py_IS_TYPE(executable, ExecutableType)) {
        PyErr_Format(PyExc_TypeError, "JitEntry: executable must be an Executable or None, got %.200s", Py_TYPE(executable)->tp_name);
        return nullptr;
    }
    Ref self(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    JitEntry *entry = as(self.get());
    new (&entry->outputs) std::vector<OutputSource>();
    new (&entry->inputs) std::vector<int32_t>();
    new (&entry->donated) std::vector<bool>();
    new (&entry->avals) std::vector<ShapedArray *>();
    new (&entry->statics) std::vector<PyObject *>();
    entry->executable = Py_IsNone(executable) ? nullptr : reinterpret_cast<Executable *>(Py_NewRef(executable));
    entry->out_tree = reinterpret_cast<PyTreeDef *>(Py_NewRef(out_tree));
    if (!read_outputs(entry, outputs, out_avals) || !read_inputs(entry, inputs, donated)) return nullptr;
    return self.release();
} catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
}

int entry_traverse(PyObject *self, visitproc visit, void *arg) {
    JitEntry *entry = as(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(entry->executable);
    Py_VISIT(reinterpret_cast<PyObject *>(entry->out_tree));
    Py_VISIT(reinterpret_cast<PyObject *>(entry->tree));
    for (const OutputSource &source : entry->outputs) Py_VISIT(source.constant);
    for (PyObject *s : entry->statics) Py_VISIT(s);
    return 0;
}

// There is no `tp_clear`: an entry is immutable. The JitFunction and the Executable of a cycle break it.
void entry_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    JitEntry *entry = as(self);
    if (entry->weakrefs) PyObject_ClearWeakRefs(self);
    Py_XDECREF(reinterpret_cast<PyObject *>(entry->executable));
    Py_XDECREF(reinterpret_cast<PyObject *>(entry->out_tree));
    Py_XDECREF(reinterpret_cast<PyObject *>(entry->tree));
    for (OutputSource &source : entry->outputs) {
        Py_XDECREF(source.aval);
        Py_XDECREF(source.constant);
    }
    for (ShapedArray *a : entry->avals) Py_DECREF(a);
    for (PyObject *s : entry->statics) Py_DECREF(s);
    std::destroy_at(&entry->outputs);
    std::destroy_at(&entry->inputs);
    std::destroy_at(&entry->donated);
    std::destroy_at(&entry->avals);
    std::destroy_at(&entry->statics);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject *get_executable(PyObject *self, void *) {
    PyObject *e = reinterpret_cast<PyObject *>(as(self)->executable);
    return Py_NewRef(e ? e : Py_None);
}

PyObject *get_out_tree(PyObject *self, void *) { return Py_NewRef(as(self)->out_tree->object()); }

PyObject *get_avals(PyObject *self, void *) {
    const auto &avals = as(self)->avals;
    PyObject *out = PyTuple_New(Py_ssize_t(avals.size()));
    for (size_t k = 0; out && k < avals.size(); ++k)
        PyTuple_SET_ITEM(out, Py_ssize_t(k), Py_NewRef(reinterpret_cast<PyObject *>(avals[k])));
    return out;
}

PyGetSetDef getset[] = {
    {"executable", get_executable, nullptr, "Executable or None", nullptr},
    {"out_tree", get_out_tree, nullptr, nullptr, nullptr},
    {"avals", get_avals, nullptr, "types of the leaves of the arguments it answers; empty before it is in a cache", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(JitEntry, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(entry_new)},
    {Py_tp_dealloc, reinterpret_cast<void *>(entry_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void *>(entry_traverse)},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_tp_doc, const_cast<char *>("JitEntry(executable, out_tree, outputs, out_avals, inputs, donated=())\n--\n\n"
                                   "The plan of a call of a jitted function.\n\nexecutable: Executable, or None if there is nothing to "
                                   "run.\nout_tree: PyTreeDef of the result.\n"
                                   "outputs: for each leaf of the result ('output', k): the executable's; ('input', j): leaf j of the "
                                   "arguments, itself; ('constant', value).\n"
                                   "out_avals: the type of each leaf of the result (ignored for constants).\ninputs: the leaves of the "
                                   "arguments that the executable takes, in "
                                   "its order.\ndonated: the leaves of the arguments whose memory may be taken.")},
    {0, nullptr},
};

PyType_Spec spec = {"steno._native.JitEntry", sizeof(JitEntry), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

bool init_jit_entry(PyObject *module) {
    JitEntryType = add_type(module, &spec);
    return JitEntryType != nullptr;
}

}  // namespace steno
