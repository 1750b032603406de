#include "fft.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#include <numpy/ndarraytypes.h>
#include <numpy/ufuncobject.h>

#include "executable.h"
#include "threads.h"

namespace {

// ---- NumPy's transforms

// The inner loop of a generalised ufunc (rows, factors) -> rows.
struct Loop {
    PyUFuncGenericFunction run = nullptr;
    void *data = nullptr;
};

enum Transform { kForward, kBackward, kRealEven, kRealOdd, kToReal, kTransforms };
constexpr const char *kNames[kTransforms] = {"fft", "ifft", "rfft_n_even", "rfft_n_odd", "irfft"};

Loop loops[kTransforms][2];
std::atomic<bool> loaded{false};

// The loop of `ufunc` for these element types; one without `run` if it has none.
Loop find(PyUFuncObject *ufunc, char in, char factor, char out) {
    if (ufunc->nin != 2 || ufunc->nout != 1) return {};
    for (int k = 0; k < ufunc->ntypes; ++k) {
        const char *types = ufunc->types + 3 * k;
        if (types[0] == in && types[1] == factor && types[2] == out) return {ufunc->functions[k], ufunc->data ? const_cast<void *>(ufunc->data[k]) : nullptr};
    }
    return {};
}

// Needs the GIL. False: an exception is set.
bool load() {
    if (loaded.load(std::memory_order_acquire)) return true;
    steno::Ref module(PyImport_ImportModule("numpy.fft._pocketfft_umath"));
    if (!module) return false;
    steno::Ref numpy(PyImport_ImportModule("numpy"));
    steno::Ref type(numpy ? PyObject_GetAttrString(numpy.get(), "ufunc") : nullptr);
    if (!type) return false;
    for (int t = 0; t < kTransforms; ++t) {
        steno::Ref f(PyObject_GetAttrString(module.get(), kNames[t]));
        if (!f) return false;
        int is = PyObject_IsInstance(f.get(), type.get());
        if (is < 0) return false;
        for (int wide = 0; wide < 2; ++wide) {
            char real = char(wide ? NPY_DOUBLE : NPY_FLOAT), complex = char(wide ? NPY_CDOUBLE : NPY_CFLOAT);
            char in = t == kRealEven || t == kRealOdd ? real : complex, out = t == kToReal ? real : complex;
            Loop found = is ? find(reinterpret_cast<PyUFuncObject *>(f.get()), in, real, out) : Loop{};
            if (!found.run) {
                PyErr_Format(PyExc_NotImplementedError, "fft: this NumPy has no loop of %s for %s precision", kNames[t], wide ? "double" : "single");
                return false;
            }
            loops[t][wide] = found;
        }
    }
    loaded.store(true, std::memory_order_release);
    return true;
}

// ---- rows

struct Job {
    Loop loop;
    const char *in;
    char *out;
    int64_t inner, length_in, length_out, size_in, size_out;
    double factor;
    float single;
    bool wide;
};

void run_range(void **bufs, int64_t begin, int64_t end) {
    const Job &j = *static_cast<const Job *>(bufs[0]);
    while (begin < end) {
        // rows that lie at one distance from each other
        int64_t outer = begin / j.inner, first = begin % j.inner;
        int64_t count = j.inner == 1 ? end - begin : std::min(end - begin, j.inner - first);
        char *args[3] = {const_cast<char *>(j.in) + (outer * j.length_in * j.inner + first) * j.size_in,
                         const_cast<char *>(j.wide ? reinterpret_cast<const char *>(&j.factor) : reinterpret_cast<const char *>(&j.single)),
                         j.out + (outer * j.length_out * j.inner + first) * j.size_out};
        npy_intp dimensions[3] = {count, j.length_in, j.length_out};
        int64_t step_in = j.inner == 1 ? j.length_in : 1, step_out = j.inner == 1 ? j.length_out : 1;
        npy_intp steps[5] = {step_in * j.size_in, 0, step_out * j.size_out, j.inner * j.size_in, j.inner * j.size_out};
        j.loop.run(args, dimensions, steps, j.loop.data);
        begin += count;
    }
}

PyObject *load_fft(PyObject *, PyObject *) {
    if (!load()) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"load_fft", load_fft, METH_NOARGS, "load_fft(): finds the transforms of NumPy that compiled code calls. NotImplementedError if they are not there."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

extern "C" int32_t steno_fft(void **bufs, const int64_t *meta) {
    int64_t kind = meta[0], outer = meta[2], n = meta[4];
    Job j;
    j.wide = meta[1] != 0;
    j.inner = meta[3];
    int64_t half = n / 2 + 1, real = j.wide ? 8 : 4;
    j.length_in = kind == 3 ? half : n, j.length_out = kind == 2 ? half : n;
    j.size_in = kind == 2 ? real : 2 * real, j.size_out = kind == 3 ? real : 2 * real;
    std::memcpy(&j.factor, &meta[5], sizeof(double));
    j.single = float(j.factor);
    int64_t rows = outer * j.inner;
    if (!rows || !n) return steno::kOk;
    if (!loaded.load(std::memory_order_acquire)) {  // only if the program was compiled by another process
        PyGILState_STATE state = PyGILState_Ensure();
        bool ok = load();
        if (!ok) PyErr_WriteUnraisable(nullptr);
        PyGILState_Release(state);
        if (!ok) return 3;
    }
    Transform t = kind == 0 ? kForward : kind == 1 ? kBackward : kind == 3 ? kToReal : n % 2 ? kRealOdd : kRealEven;
    j.loop = loops[t][j.wide];
    j.in = static_cast<const char *>(bufs[0]);
    j.out = static_cast<char *>(bufs[1]);
    void *job = &j;
    double work = double(rows) * double(n) * 20;
    int64_t grain = work < 1e6 ? rows : std::max<int64_t>(1, rows / (4 * std::max(1, steno::num_threads())));
    steno_parallel_for(run_range, &job, rows, grain);
    return steno::kOk;
}

namespace steno {

bool init_fft(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace steno
