// Owned references and NumPy's C API, for the files written against CPython directly.
#pragma once

#include <Python.h>
#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL steno_numpy_api
#ifndef STENO_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <cstdlib>
#include <utility>

#define STENO_LIKELY(x) __builtin_expect(!!(x), 1)
#define STENO_UNLIKELY(x) __builtin_expect(!!(x), 0)

// Thread-local without a function call for each access; the few bytes fit what the loader keeps for modules loaded late.
#define STENO_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local

namespace steno {

// One owned reference. A null Ref returned from a function means that a Python exception is set.
class Ref {
  public:
    Ref() = default;
    explicit Ref(PyObject *owned) : p_(owned) {}
    static Ref borrow(PyObject *p) {
        Py_XINCREF(p);
        return Ref(p);
    }
    Ref(Ref &&other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
    Ref(const Ref &other) : p_(other.p_) { Py_XINCREF(p_); }
    Ref &operator=(Ref other) noexcept {
        std::swap(p_, other.p_);
        return *this;
    }
    ~Ref() { Py_XDECREF(p_); }
    explicit operator bool() const { return p_ != nullptr; }
    PyObject *get() const { return p_; }
    PyObject *release() { return std::exchange(p_, nullptr); }

  private:
    PyObject *p_ = nullptr;
};

// Whether there is such an attribute; an error of its lookup means no. (`PyObject_HasAttr` complains of it, from Python 3.13 on.)
inline bool has_attr(PyObject *x, PyObject *name) {
    Ref found(PyObject_GetAttr(x, name));
    if (!found) PyErr_Clear();
    return bool(found);
}

// `n` elements of trivially copyable T, uninitialised, in place up to N of them. Evaluates to false (MemoryError set) if there is no
// memory.
template <class T, size_t N>
class StackArray {
  public:
    explicit StackArray(size_t n) {
        if (n > N && !(data_ = static_cast<T *>(std::malloc(sizeof(T) * n)))) PyErr_NoMemory();
    }
    StackArray(const StackArray &) = delete;
    StackArray &operator=(const StackArray &) = delete;
    ~StackArray() {
        if (data_ != inline_) std::free(data_);
    }
    explicit operator bool() const { return data_ != nullptr; }
    T *data() { return data_; }
    T &operator[](size_t i) { return data_[i]; }

  private:
    T *data_ = inline_;
    T inline_[N];
};

// An interned Python string, made once: `static PyObject *name = intern("name");`
inline PyObject *intern(const char *text) { return PyUnicode_InternFromString(text); }

// Makes a heap type from its spec and adds it to the module; null (exception set) on failure.
PyTypeObject *add_type(PyObject *module, PyType_Spec *spec);

}  // namespace steno
