// The jitted callable. A call reads its signature (structure of the arguments, type of each leaf, static values, configuration), finds
// the entry for it, and runs that; no Python code of steno is involved. Otherwise it asks Python: `miss(args, kwargs)`.
//
// Anything that may run other Python code (flattening registered classes, comparing static values, a run) may also change this
// function's cache, through another thread or a recursive call. So entries and structures in use are held by references of
// their own, and tables are looked at anew afterwards.
#include "jit.h"

#include <algorithm>
#include <memory>

namespace steno {

namespace {

constexpr size_t kTriedTrees = 4;     // known structures that a call is matched with before it is flattened
constexpr size_t kMaxEntries = 8192;  // a cache that grows beyond is emptied: its function is called with ever new signatures

uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15ull;
    return h ^ (h >> 29);
}

// Entries by hash: open addressing, owned references.
class EntryTable {
  public:
    ~EntryTable() { clear(); }
    size_t size() const { return size_; }

    // Calls `same(entry)` for the entries of this hash until it returns other than 0, and returns that.
    // `same` may run Python code: it gets an entry that is held, and the search begins anew if the table has changed meanwhile.
    template <class Same>
    int find(uint64_t hash, Same same) const {
        if (slots_.empty()) return 0;
        for (size_t i = hash & (slots_.size() - 1); slots_[i]; i = (i + 1) & (slots_.size() - 1)) {
            if (slots_[i]->hash != hash) continue;
            uint64_t version = version_;
            Ref held = Ref::borrow(reinterpret_cast<PyObject *>(slots_[i]));
            if (int found = same(reinterpret_cast<JitEntry *>(held.get()))) return found;
            if (version != version_) return 0;  // a miss: rare, and harmless
        }
        return 0;
    }

    void insert(JitEntry *entry) {
        if ((size_ + 1) * 2 > slots_.size()) grow();
        place(reinterpret_cast<JitEntry *>(Py_NewRef(reinterpret_cast<PyObject *>(entry))));
        ++size_;
        ++version_;
    }

    void clear() {
        std::vector<JitEntry *> old = std::move(slots_);
        slots_.clear();
        size_ = 0;
        ++version_;
        for (JitEntry *entry : old) Py_XDECREF(reinterpret_cast<PyObject *>(entry));
    }

    template <class Visit>
    void each(Visit visit) const {
        for (JitEntry *entry : slots_)
            if (entry) visit(entry);
    }

  private:
    void place(JitEntry *entry) {
        size_t i = entry->hash & (slots_.size() - 1);
        while (slots_[i]) i = (i + 1) & (slots_.size() - 1);
        slots_[i] = entry;
    }

    void grow() {
        std::vector<JitEntry *> old(std::max<size_t>(slots_.size() * 2, 8), nullptr);
        std::swap(old, slots_);
        for (JitEntry *entry : old)
            if (entry) place(entry);
    }

    std::vector<JitEntry *> slots_;
    size_t size_ = 0;
    uint64_t version_ = 0;
};

struct JitFunction {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *dict, *weakrefs;
    PyObject *fun, *miss, *options;       // owned
    PyObject *static_names;               // owned: tuple of interned str
    std::vector<Py_ssize_t> static_nums;  // sorted
    std::vector<PyTreeDef *> trees;       // owned; the structures of the entries, the latest used first
    EntryTable entries;
    JitEntry *latest;  // owned; may be null
};

PyTypeObject *JitFunctionType = nullptr;

JitFunction *as(PyObject *o) { return reinterpret_cast<JitFunction *>(o); }

// The arguments of a call without the static ones, which stand in `statics` as keys and values.
struct Arguments {
    PyObject *const *args;
    Py_ssize_t nargs;
    PyObject *const *names;
    PyObject *const *values;
    Py_ssize_t nkwargs;
};

// What an entry is looked up by. `statics`: keys and values one after the other.
struct Signature {
    RefVector leaves;
    RefVector avals;
    RefVectorN<8> statics;
    Ref tree;  // PyTreeDef; null: a structure without entries
    ConfigRecord *config = nullptr;
    uint64_t hash = 0;

    PyTreeDef *treedef() const { return reinterpret_cast<PyTreeDef *>(tree.get()); }
};

bool is_static_name(const JitFunction *f, PyObject *name) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(f->static_names); ++k)
        if (PyTuple_GET_ITEM(f->static_names, k) == name) return true;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(f->static_names); ++k)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(f->static_names, k), name) == 0) return true;
    return false;
}

struct Split {
    StackArray<PyObject *, 16> args, names, values;
    Split(size_t nargs, size_t nkwargs) : args(nargs), names(nkwargs), values(nkwargs) {}
    bool ok() { return args && names && values; }
};

// Moves the static arguments into `statics`. Static keywords are sorted by name, so that their order in the call does not matter.
bool split_statics(const JitFunction *f, const Arguments &call, Split &split, RefVectorN<8> &statics, Arguments *dynamic) {
    *dynamic = Arguments{split.args.data(), 0, split.names.data(), split.values.data(), 0};
    auto next = f->static_nums.begin();
    for (Py_ssize_t k = 0; k < call.nargs; ++k) {
        if (next != f->static_nums.end() && *next == k) {
            ++next;
            if (!statics.push_steal(PyLong_FromSsize_t(k)) || !statics.push(call.args[k])) return false;
        } else {
            split.args[size_t(dynamic->nargs++)] = call.args[k];
        }
    }
    uint32_t first = statics.size();
    for (Py_ssize_t k = 0; k < call.nkwargs; ++k) {
        if (is_static_name(f, call.names[k])) {
            if (!statics.push(call.names[k]) || !statics.push(call.values[k])) return false;
            for (uint32_t at = statics.size() - 2; at > first && PyUnicode_Compare(statics[at - 2], statics[at]) > 0; at -= 2) {
                std::swap(statics[at - 2], statics[at]);
                std::swap(statics[at - 1], statics[at + 1]);
            }
        } else {
            split.names[size_t(dynamic->nkwargs)] = call.names[k];
            split.values[size_t(dynamic->nkwargs++)] = call.values[k];
        }
    }
    return true;
}

// Flattens the dynamic arguments, along a known structure if possible. 1: done (`tree` is set, or `flat` filled); -1: exception.
int flatten_arguments(JitFunction *f, const Arguments &call, Signature &signature, FlatTree &flat) {
    for (size_t k = 0; k < std::min(f->trees.size(), kTriedTrees); ++k) {
        signature.leaves.clear();
        signature.tree = Ref::borrow(f->trees[k]->object());
        int matched = match_call(signature.treedef(), call.args, call.nargs, call.names, call.values, call.nkwargs, signature.leaves);
        if (matched < 0) return -1;
        if (!matched) continue;
        if (k && k < f->trees.size() && f->trees[k] == signature.treedef())
            std::rotate(f->trees.begin(), f->trees.begin() + k, f->trees.begin() + k + 1);
        return 1;
    }
    signature.leaves.clear();
    signature.tree = Ref();
    if (!flatten_call(call.args, call.nargs, call.names, call.values, call.nkwargs, signature.leaves, flat)) return -1;
    Py_hash_t hash = f->trees.size() > kTriedTrees ? hash_of(flat) : 0;
    if (hash == -1 && PyErr_Occurred()) return -1;
    for (size_t k = kTriedTrees; k < f->trees.size(); ++k) {
        Ref tree = Ref::borrow(f->trees[k]->object());
        auto *def = reinterpret_cast<PyTreeDef *>(tree.get());
        if (hash_of(def) != hash) continue;
        int same = equal(flat, def);
        if (same < 0) return -1;
        if (same) {
            signature.tree = std::move(tree);
            return 1;
        }
    }
    return 1;
}

// Types of the leaves. 1: done; 0: a leaf that Python has to look at; -1: exception.
int read_types(Signature &signature) {
    signature.config = config_record();
    for (PyObject *leaf : signature.leaves) {
        ShapedArray *aval = leaf_aval(leaf, signature.config);
        if (STENO_UNLIKELY(!aval)) return PyErr_Occurred() ? -1 : 0;
        if (!signature.avals.push_steal(reinterpret_cast<PyObject *>(aval))) return -1;
    }
    return 1;
}

// The hash, with the structure as it is now (null: none). False: a static value is unhashable, no exception is set.
bool hash_signature(Signature &signature) {
    uint64_t h = mix(reinterpret_cast<uintptr_t>(signature.tree.get()), reinterpret_cast<uintptr_t>(signature.config));
    for (PyObject *aval : signature.avals) h = mix(h, reinterpret_cast<uintptr_t>(aval));
    for (uint32_t k = 0; k < signature.statics.size(); k += 2) {
        Py_hash_t key = PyObject_Hash(signature.statics[k]), value = PyObject_Hash(signature.statics[k + 1]);
        if (PyErr_Occurred()) {
            PyErr_Clear();  // Python will say it in better words
            return false;
        }
        h = mix(mix(mix(h, uint64_t(key)), uint64_t(value)), reinterpret_cast<uintptr_t>(Py_TYPE(signature.statics[k + 1])));
    }
    signature.hash = h;
    return true;
}

// 1, 0, or -1 with an exception from `==` of static values.
int matches(const JitEntry *entry, const Signature &s) {
    if (entry->tree != s.treedef() || entry->config != s.config || entry->avals.size() != s.avals.size() ||
        entry->statics.size() != s.statics.size())
        return 0;
    for (uint32_t k = 0; k < s.avals.size(); ++k)
        if (reinterpret_cast<PyObject *>(entry->avals[k]) != s.avals[k]) return 0;
    for (uint32_t k = 0; k < s.statics.size(); ++k) {
        PyObject *a = entry->statics[k], *b = s.statics[k];
        if (a == b) continue;
        if (Py_TYPE(a) != Py_TYPE(b)) return 0;
        int same = PyObject_RichCompareBool(a, b, Py_EQ);
        if (same <= 0) return same;
    }
    return 1;
}

void set_latest(JitFunction *f, JitEntry *entry) {
    PyObject *old = reinterpret_cast<PyObject *>(f->latest);
    f->latest = reinterpret_cast<JitEntry *>(Py_XNewRef(reinterpret_cast<PyObject *>(entry)));
    Py_XDECREF(old);
}

// The entry for a signature, a new reference. Null without an exception: there is none.
Ref find_entry(JitFunction *f, const Signature &signature) {
    if (f->latest && f->latest->hash == signature.hash) {
        Ref latest = Ref::borrow(reinterpret_cast<PyObject *>(f->latest));
        int same = matches(reinterpret_cast<JitEntry *>(latest.get()), signature);
        if (same < 0) return Ref();
        if (same) return latest;
    }
    Ref found;
    f->entries.find(signature.hash, [&](JitEntry *entry) {
        int same = matches(entry, signature);
        if (same > 0) found = Ref::borrow(reinterpret_cast<PyObject *>(entry));
        return same;
    });
    if (found) set_latest(f, reinterpret_cast<JitEntry *>(found.get()));
    return found;
}

void clear_cache(JitFunction *f) {
    set_latest(f, nullptr);
    f->entries.clear();
    std::vector<PyTreeDef *> trees = std::move(f->trees);
    f->trees.clear();
    for (PyTreeDef *t : trees) Py_DECREF(t->object());
}

// Makes `signature.tree` the one object that stands for its structure in this function.
bool share_tree(JitFunction *f, Signature &signature, FlatTree &flat) {
    if (!signature.tree) {
        signature.tree = Ref(reinterpret_cast<PyObject *>(make_treedef(flat)));
        if (!signature.tree) return false;
    }
    // Also a known structure may have left the cache, or a new one entered it, while Python ran.
    for (size_t k = 0; k < f->trees.size(); ++k) {
        Ref known = Ref::borrow(f->trees[k]->object());
        auto *def = reinterpret_cast<PyTreeDef *>(known.get());
        int same = def == signature.treedef() ? 1 : hash_of(def) != hash_of(signature.treedef()) ? 0 : equal(def, signature.treedef());
        if (same < 0 || PyErr_Occurred()) return false;
        if (same) {
            signature.tree = std::move(known);
            return true;
        }
    }
    f->trees.insert(f->trees.begin(), reinterpret_cast<PyTreeDef *>(Py_NewRef(signature.tree.get())));
    return true;
}

// Writes the signature into an entry and puts it into the cache.
bool insert_entry(JitFunction *f, JitEntry *entry, Signature &signature, FlatTree &flat) {
    if (entry->tree) {
        PyErr_SetString(PyExc_ValueError, "JitEntry: it answers another signature already");
        return false;
    }
    if (!fit_leaves(entry, signature.leaves.size())) return false;
    if (f->entries.size() >= kMaxEntries) clear_cache(f);
    if (!share_tree(f, signature, flat)) return false;
    if (!hash_signature(signature)) return true;  // cannot be: it was hashable before
    for (PyObject *a : signature.avals) entry->avals.push_back(reinterpret_cast<ShapedArray *>(Py_NewRef(a)));
    for (PyObject *s : signature.statics) entry->statics.push_back(Py_NewRef(s));
    entry->config = signature.config;
    entry->hash = signature.hash;
    entry->tree = reinterpret_cast<PyTreeDef *>(Py_NewRef(signature.tree.get()));
    f->entries.insert(entry);
    set_latest(f, entry);
    return true;
}

// Asks Python; the entry it returns, if any, answers `signature` from now on (null: a signature that cannot be cached).
PyObject *call_miss(JitFunction *f, const Arguments &call, Signature *signature, FlatTree *flat) {
    Ref args(PyTuple_New(call.nargs)), kwargs(PyDict_New());
    if (!args || !kwargs) return nullptr;
    for (Py_ssize_t k = 0; k < call.nargs; ++k) PyTuple_SET_ITEM(args.get(), k, Py_NewRef(call.args[k]));
    for (Py_ssize_t k = 0; k < call.nkwargs; ++k)
        if (PyDict_SetItem(kwargs.get(), call.names[k], call.values[k]) < 0) return nullptr;
    PyObject *pair[] = {nullptr, args.get(), kwargs.get()};
    Ref answer(PyObject_Vectorcall(f->miss, pair + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (!answer) return nullptr;
    PyObject *entry = PyTuple_Check(answer.get()) && PyTuple_GET_SIZE(answer.get()) == 2 ? PyTuple_GET_ITEM(answer.get(), 0) : nullptr;
    if (!entry || (!Py_IsNone(entry) && !is_jit_entry(entry))) {
        PyErr_Format(PyExc_TypeError, "jit: miss must return a pair (JitEntry or None, result), got %.200s",
                     Py_TYPE(answer.get())->tp_name);
        return nullptr;
    }
    if (!Py_IsNone(entry) && signature && !insert_entry(f, reinterpret_cast<JitEntry *>(entry), *signature, *flat)) return nullptr;
    return Py_NewRef(PyTuple_GET_ITEM(answer.get(), 1));
}

PyObject *jit_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) try {
    JitFunction *f = as(self);
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    PyObject *const *names = kwnames ? reinterpret_cast<PyTupleObject *>(kwnames)->ob_item : nullptr;
    Arguments call{args, nargs, names, args + nargs, kwnames ? PyTuple_GET_SIZE(kwnames) : 0};
    if (STENO_UNLIKELY(thread_state.trace != nullptr)) return call_miss(f, call, nullptr, nullptr);

    Signature signature;
    FlatTree flat;
    Arguments dynamic = call;
    bool has_statics = !f->static_nums.empty() || (call.nkwargs && PyTuple_GET_SIZE(f->static_names));
    Split split(has_statics ? size_t(nargs) : 0, has_statics ? size_t(call.nkwargs) : 0);
    if (has_statics && (!split.ok() || !split_statics(f, call, split, signature.statics, &dynamic))) return nullptr;
    if (flatten_arguments(f, dynamic, signature, flat) < 0) return nullptr;
    int known = read_types(signature);
    if (known < 0) return nullptr;
    if (STENO_UNLIKELY(!known || !hash_signature(signature))) return call_miss(f, call, nullptr, nullptr);
    if (STENO_LIKELY(bool(signature.tree))) {
        Ref entry = find_entry(f, signature);
        if (STENO_LIKELY(bool(entry))) return run_entry(reinterpret_cast<JitEntry *>(entry.get()), signature.leaves);
        if (PyErr_Occurred()) return nullptr;
    }
    return call_miss(f, call, &signature, &flat);
} catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
}

// ---- the Python type --------------------------------------------------------------------------------------------------------------

bool read_statics(JitFunction *f, PyObject *nums, PyObject *names) {
    Ref num_tuple(PySequence_Tuple(nums)), name_tuple(PySequence_Tuple(names));
    if (!num_tuple || !name_tuple) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(num_tuple.get()); ++k) {
        Py_ssize_t n = PyLong_AsSsize_t(PyTuple_GET_ITEM(num_tuple.get(), k));
        if (n == -1 && PyErr_Occurred()) return false;
        if (n < 0) {
            PyErr_Format(PyExc_ValueError, "JitFunction: static_argnums must not be negative here, got %zd", n);
            return false;
        }
        f->static_nums.push_back(n);
    }
    std::sort(f->static_nums.begin(), f->static_nums.end());
    f->static_nums.erase(std::unique(f->static_nums.begin(), f->static_nums.end()), f->static_nums.end());
    f->static_names = PyTuple_New(PyTuple_GET_SIZE(name_tuple.get()));
    for (Py_ssize_t k = 0; f->static_names && k < PyTuple_GET_SIZE(name_tuple.get()); ++k) {
        PyObject *name = PyTuple_GET_ITEM(name_tuple.get(), k);
        if (!PyUnicode_CheckExact(name)) {
            PyErr_Format(PyExc_TypeError, "JitFunction: static_argnames must be str, got %R", name);
            return false;
        }
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name);
        PyTuple_SET_ITEM(f->static_names, k, name);
    }
    return f->static_names != nullptr;
}

PyObject *jit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) try {
    static const char *names[] = {"fun", "miss", "static_argnums", "static_argnames", "options", nullptr};
    Ref empty(PyTuple_New(0));
    PyObject *fun, *miss, *nums = empty.get(), *static_names = empty.get(), *options = Py_None;
    if (!empty || !PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OOO:JitFunction", const_cast<char **>(names), &fun, &miss, &nums,
                                               &static_names, &options))
        return nullptr;
    Ref self(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    JitFunction *f = as(self.get());
    new (&f->static_nums) std::vector<Py_ssize_t>();
    new (&f->trees) std::vector<PyTreeDef *>();
    new (&f->entries) EntryTable();
    f->vectorcall = jit_call;
    f->fun = Py_NewRef(fun);
    f->miss = Py_NewRef(miss);
    f->options = Py_NewRef(options);
    if (!read_statics(f, nums, static_names)) return nullptr;
    return self.release();
} catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
}

int jit_traverse(PyObject *self, visitproc visit, void *arg) {
    JitFunction *f = as(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(f->dict);
    Py_VISIT(f->fun);
    Py_VISIT(f->miss);
    Py_VISIT(f->options);
    Py_VISIT(reinterpret_cast<PyObject *>(f->latest));
    for (PyTreeDef *t : f->trees) Py_VISIT(t->object());
    int stop = 0;
    f->entries.each([&](JitEntry *entry) {
        if (!stop) stop = visit(reinterpret_cast<PyObject *>(entry), arg);
    });
    return stop;
}

int jit_clear(PyObject *self) {
    JitFunction *f = as(self);
    Py_CLEAR(f->dict);
    clear_cache(f);
    // `fun` and `miss` stay callable attributes until the end: others in the cycle may still call.
    for (PyObject **p : {&f->fun, &f->miss, &f->options}) Py_XSETREF(*p, Py_NewRef(Py_None));
    return 0;
}

void jit_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    JitFunction *f = as(self);
    if (f->weakrefs) PyObject_ClearWeakRefs(self);
    clear_cache(f);
    Py_XDECREF(f->dict);
    Py_XDECREF(f->fun);
    Py_XDECREF(f->miss);
    Py_XDECREF(f->options);
    Py_XDECREF(f->static_names);
    std::destroy_at(&f->static_nums);
    std::destroy_at(&f->trees);
    std::destroy_at(&f->entries);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject *jit_get(PyObject *self, PyObject *object, PyObject *) {
    return object && !Py_IsNone(object) ? PyMethod_New(self, object) : Py_NewRef(self);
}

PyObject *jit_repr(PyObject *self) { return PyUnicode_FromFormat("<PjitFunction of %R>", as(self)->fun); }

PyObject *jit_same(PyObject *self, PyObject *) { return Py_NewRef(self); }
PyObject *jit_cache_size(PyObject *self, PyObject *) { return PyLong_FromSize_t(as(self)->entries.size()); }

PyObject *jit_clear_cache(PyObject *self, PyObject *) {
    clear_cache(as(self));
    Py_RETURN_NONE;
}

PyObject *jit_entries(PyObject *self, PyObject *) {
    Ref list(PyList_New(0));
    bool ok = bool(list);
    if (ok)
        as(self)->entries.each([&](JitEntry *entry) { ok = ok && PyList_Append(list.get(), reinterpret_cast<PyObject *>(entry)) == 0; });
    return ok ? list.release() : nullptr;
}

PyMethodDef methods[] = {
    {"_cache_size", jit_cache_size, METH_NOARGS, "_cache_size() -> number of signatures that are answered without Python."},
    {"_clear_cache", jit_clear_cache, METH_NOARGS, "_clear_cache(): forgets all signatures."},
    {"_entries", jit_entries, METH_NOARGS, "_entries() -> list of JitEntry"},
    {"__copy__", jit_same, METH_NOARGS, nullptr},
    {"__deepcopy__", jit_same, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(JitFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(JitFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(JitFunction, weakrefs), READONLY, nullptr},
    {"_fun", T_OBJECT_EX, offsetof(JitFunction, fun), READONLY, "the function"},
    {"_miss", T_OBJECT_EX, offsetof(JitFunction, miss), READONLY, "miss(args, kwargs) -> (JitEntry or None, result)"},
    {"_options", T_OBJECT_EX, offsetof(JitFunction, options), READONLY, "what the constructor was given"},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(jit_new)},
    {Py_tp_dealloc, reinterpret_cast<void *>(jit_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void *>(jit_traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(jit_clear)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void *>(jit_get)},
    {Py_tp_repr, reinterpret_cast<void *>(jit_repr)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {Py_tp_doc, const_cast<char *>("JitFunction(fun, miss, static_argnums=(), static_argnames=(), options=None)\n--\n\n"
                                   "A function that answers known signatures natively and calls miss(args, kwargs) otherwise.")},
    {0, nullptr},
};

PyType_Spec spec = {"steno._native.JitFunction", sizeof(JitFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};

}  // namespace

bool init_jit_function(PyObject *module) {
    JitFunctionType = add_type(module, &spec);
    return JitFunctionType != nullptr;
}

}  // namespace steno
