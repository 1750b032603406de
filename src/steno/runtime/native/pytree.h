// Pytrees: nested Python containers seen as a list of leaves and a structure.
//
// Two descriptions of one structure:
//   * `FlatTree`: what a flattening writes; lives on the C++ stack, allocates only beyond its inline capacity;
//   * `PyTreeDef`: the Python object (`steno.tree_util.PyTreeDef`), immutable, one allocation, made on a cache miss.
// Both list the nodes in pre-order (a node, then its children from left to right) and hash alike.
//
// The hot path is `match_into`/`match_call`: walk a tree along a known PyTreeDef. It sorts no keys, hashes nothing and
// allocates nothing; only registered classes run Python (their flatten function). `flatten_into` is the general way.
//
// All functions need the GIL. An `int` or `bool` result is -1 or false when a Python exception is set.
#pragma once

#include <Python.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace steno {

// A vector of trivially copyable T that lives in place up to N elements. Never throws: `push` is false, with MemoryError
// set, when there is no memory.
template <typename T, uint32_t N> class SmallVector {
  public:
    SmallVector() = default;
    SmallVector(const SmallVector &) = delete;
    SmallVector &operator=(const SmallVector &) = delete;
    ~SmallVector() {
        if (data_ != inline_) std::free(data_);
    }
    uint32_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T *data() { return data_; }
    const T *data() const { return data_; }
    T *begin() { return data_; }
    T *end() { return data_ + size_; }
    const T *begin() const { return data_; }
    const T *end() const { return data_ + size_; }
    T &operator[](uint32_t i) { return data_[i]; }
    const T &operator[](uint32_t i) const { return data_[i]; }
    T &back() { return data_[size_ - 1]; }
    [[nodiscard]] bool push(const T &x) {
        if (__builtin_expect(size_ == capacity_, 0) && !grow()) return false;
        data_[size_++] = x;
        return true;
    }
    void truncate(uint32_t n) { size_ = n; }

  private:
    bool grow() {
        if (capacity_ > UINT32_MAX / 2) {
            PyErr_NoMemory();
            return false;
        }
        T *p = static_cast<T *>(std::malloc(sizeof(T) * capacity_ * 2));
        if (!p) {
            PyErr_NoMemory();
            return false;
        }
        std::memcpy(static_cast<void *>(p), data_, sizeof(T) * size_);
        if (data_ != inline_) std::free(data_);
        data_ = p;
        capacity_ *= 2;
        return true;
    }
    uint32_t size_ = 0;
    uint32_t capacity_ = N;
    T *data_ = inline_;
    T inline_[N];
};

// A vector of strong references. Strong, because registered classes may hand out fresh children and because another
// thread may change a list while the program that uses its leaves runs without the GIL.
template <uint32_t N> class RefVectorN : public SmallVector<PyObject *, N> {
  public:
    ~RefVectorN() { clear(); }
    [[nodiscard]] bool push(PyObject *borrowed) {
        if (!SmallVector<PyObject *, N>::push(borrowed)) return false;
        Py_INCREF(borrowed);
        return true;
    }
    [[nodiscard]] bool push_steal(PyObject *owned) { // takes the reference also on failure
        if (SmallVector<PyObject *, N>::push(owned)) return true;
        Py_DECREF(owned);
        return false;
    }
    void clear() { shrink(0); }
    void shrink(uint32_t n) { // drops the references past the first n
        while (this->size() > n) {
            PyObject *x = this->back();
            this->truncate(this->size() - 1);
            Py_DECREF(x);
        }
    }
    void release(uint32_t n = 0) { this->truncate(n); } // forgets the references past the first n: someone else took them
};
using RefVector = RefVectorN<32>;

enum class NodeKind : uint8_t { Leaf, None, Tuple, List, Dict, NamedTuple, OrderedDict, DefaultDict, Custom, Dataclass };

struct Registration; // a registered class; lives as long as the process

// Kind         data               extras (arity many unless said otherwise)
// NamedTuple   the class          -
// Dict         -                  keys, sorted
// OrderedDict  -                  keys, in insertion order
// DefaultDict  the factory        keys, sorted
// Custom       auxiliary data     -  (a class of register_static: the object itself)
// Dataclass    -                  values of the meta fields (one for each meta field of the class)
struct FlatNode {
    NodeKind kind;
    uint32_t arity; // number of children
    const Registration *type; // Custom, Dataclass
    PyObject *data; // owned by the FlatTree; may be null
};

struct FlatTree {
    SmallVector<FlatNode, 24> nodes;
    RefVectorN<24> extras; // keys and meta values of the nodes, one after the other

    FlatTree() = default;
    ~FlatTree() { clear(); }
    void clear() {
        while (!nodes.empty()) {
            PyObject *data = nodes.back().data;
            nodes.truncate(nodes.size() - 1);
            Py_XDECREF(data);
        }
        extras.clear();
    }
    // Takes the reference `data` also on failure.
    [[nodiscard]] bool push(NodeKind kind, uint32_t arity, PyObject *data = nullptr, const Registration *type = nullptr) {
        if (nodes.push(FlatNode{kind, arity, type, data})) return true;
        Py_XDECREF(data);
        return false;
    }
};

// One node of a PyTreeDef; its subtree is the `num_nodes` nodes that begin here.
struct TreeNode {
    NodeKind kind;
    bool plain; // NamedTuple: the class has the constructor that collections.namedtuple writes
    uint32_t arity;
    uint32_t num_nodes; // in the subtree, this one included
    uint32_t num_leaves;
    const Registration *type;
    PyObject *data; // as in FlatNode; owned or null
    PyObject *extras; // tuple of the extras; owned or null
};

struct PyTreeDef {
    PyObject_VAR_HEAD // ob_size: number of nodes
    Py_hash_t hash; // -1: not yet computed
    PyObject *weakrefs;
    TreeNode nodes[1];

    uint32_t num_nodes() const { return nodes[0].num_nodes; }
    uint32_t num_leaves() const { return nodes[0].num_leaves; }
    bool is_leaf() const { return nodes[0].kind == NodeKind::Leaf; }
    PyObject *object() const { return const_cast<PyObject *>(reinterpret_cast<const PyObject *>(this)); }
};

extern PyTypeObject *PyTreeDefType;
inline bool is_treedef(PyObject *x) { return Py_TYPE(x) == PyTreeDefType; }

// Appends the leaves of `tree` and its structure. On failure both hold what was read so far and can only be cleared.
bool flatten_into(PyObject *tree, RefVector &leaves, FlatTree &flat);

// The structure of a call `((args...), {kwargs})`, without making the tuple and the dict.
// `names` are exact `str` in any order; `values[i]` belongs to `names[i]`.
bool flatten_call(PyObject *const *args, Py_ssize_t nargs, PyObject *const *names, PyObject *const *values, Py_ssize_t nkwargs,
                  RefVector &leaves, FlatTree &flat);

// Walks `tree` along the subtree at `at` and moves `at` behind it. 1: it has that structure, its leaves are appended;
// 0: it has another one (the leaves appended so far are of no use); -1: exception.
int match_into(const TreeNode *&at, PyObject *tree, RefVector &leaves);
int match_into(const PyTreeDef *def, PyObject *tree, RefVector &leaves);
int match_call(const PyTreeDef *def, PyObject *const *args, Py_ssize_t nargs, PyObject *const *names, PyObject *const *values,
               Py_ssize_t nkwargs, RefVector &leaves);

// Hashes; equal structures have equal hashes, whichever description they have. Auxiliary data and meta fields are not
// hashed (they may be unhashable), only compared. -1: exception from the hash of a key.
Py_hash_t hash_of(const FlatTree &flat);
Py_hash_t hash_of(const PyTreeDef *def); // cached
// 1, 0, or -1: exception from `==` of keys or auxiliary data. Identity and differing cached hashes decide fast.
int equal(const FlatTree &flat, const PyTreeDef *def);
int equal(const PyTreeDef *a, const PyTreeDef *b);

// A new reference, or null. Consumes `flat` (it is empty afterwards, also on failure).
PyTreeDef *make_treedef(FlatTree &flat);

// The tree with these leaves: a new reference, or null. `n` must be num_leaves() (ValueError otherwise).
PyObject *unflatten(const PyTreeDef *def, PyObject *const *leaves, Py_ssize_t n);       // borrows the leaves
PyObject *unflatten_steal(const PyTreeDef *def, PyObject *const *leaves, Py_ssize_t n); // takes them, also on failure

} // namespace steno
