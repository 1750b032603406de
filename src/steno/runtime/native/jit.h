// The jitted callable and what its cache holds.
#pragma once

#include <vector>

#include "executable.h"
#include "pytree.h"
#include "state.h"

namespace steno {

// Where a leaf of the result comes from.
struct OutputSource {
    enum Kind : uint8_t { Output, Input, Constant } kind;
    int32_t index;       // Output: of the executable; Input: the leaf of the arguments
    ShapedArray *aval;   // owned; type of the result (Output, Input)
    PyObject *constant;  // owned (Constant)
};

// One compiled signature: the plan of a call, made by Python, and the signature it answers, written when it enters a cache.
// Immutable from then on, so a call may use it while another thread clears the cache.
struct JitEntry {
    PyObject_HEAD PyObject *weakrefs;
    Executable *executable;  // owned; null: nothing to run
    PyTreeDef *out_tree;     // owned
    std::vector<OutputSource> outputs;
    std::vector<int32_t> inputs;  // leaves that the executable takes, in its order
    std::vector<bool> donated;    // for each leaf of the arguments; empty: none
    bool donates_inputs;          // an input of the executable is donated

    uint64_t hash;
    PyTreeDef *tree;  // owned; null: in no cache
    ConfigRecord *config;
    std::vector<ShapedArray *> avals;  // owned
    std::vector<PyObject *> statics;   // owned: keys (int position or str name) and values, one after the other
};

extern PyTypeObject *JitEntryType;
inline bool is_jit_entry(PyObject *o) { return Py_IS_TYPE(o, JitEntryType); }

// Whether the plan refers only to leaves below n; prepares it for calls with n leaves. False: ValueError is set.
bool fit_leaves(JitEntry *entry, size_t n);

// Runs the plan on the leaves of a call. A new reference; null: exception set.
PyObject *run_entry(JitEntry *entry, RefVector &leaves);

bool init_jit_entry(PyObject *module);
bool init_jit_function(PyObject *module);

}  // namespace steno
