// The C functions that compiled code calls, by name.
#include "symbols.h"

#include <cmath>
#include <cstring>

#include "conv.h"
#include "executable.h"
#include "fft.h"
#include "gemm.h"
#include "sort.h"
#include "threads.h"
#include "top_k.h"

namespace steno {

namespace {

const struct {
    const char *name;
    void *address;
} table[] = {
    {"steno_parallel_for", reinterpret_cast<void *>(steno_parallel_for)},
    {"steno_host_call", reinterpret_cast<void *>(steno_host_call)},
    {"steno_sort", reinterpret_cast<void *>(steno_sort)},
    {"steno_top_k", reinterpret_cast<void *>(steno_top_k)},
    {"steno_conv", reinterpret_cast<void *>(steno_conv)},
    {"steno_fft", reinterpret_cast<void *>(steno_fft)},
    {"steno_gemm", reinterpret_cast<void *>(steno_gemm)},
    {"steno_gemm_then", reinterpret_cast<void *>(steno_gemm_then)},
    // What LLVM calls of its own accord: copies, and the float remainder, which no instruction gives.
    {"memcpy", reinterpret_cast<void *>(static_cast<void *(*)(void *, const void *, size_t)>(std::memcpy))},
    {"memmove", reinterpret_cast<void *>(static_cast<void *(*)(void *, const void *, size_t)>(std::memmove))},
    {"memset", reinterpret_cast<void *>(static_cast<void *(*)(void *, int, size_t)>(std::memset))},
    {"fmod", reinterpret_cast<void *>(static_cast<double (*)(double, double)>(std::fmod))},
    {"fmodf", reinterpret_cast<void *>(static_cast<float (*)(float, float)>(std::fmod))},
};

PyObject *symbols(PyObject *, PyObject *) {
    Ref out(PyDict_New());
    for (const auto &entry : table) {
        Ref address(out ? PyLong_FromVoidPtr(entry.address) : nullptr);
        if (!address || PyDict_SetItemString(out.get(), entry.name, address.get()) < 0) return nullptr;
    }
    return out.release();
}

PyMethodDef methods[] = {
    {"symbols", symbols, METH_NOARGS, "symbols() -> dict: names and addresses of the C functions for compiled code."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool init_symbols(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace steno
