// The features of this CPU, under the names LLVM has for them.
#include "cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace steno {

namespace {

#if defined(__x86_64__)

enum Register { EBX, ECX };
enum Saved { None, Avx, Avx512 };  // the registers that the system has to save

const struct {
    const char *name;
    unsigned leaf;
    Register where;
    int bit;
    Saved saved;
} table[] = {
    {"sse3", 1, ECX, 0, None},
    {"ssse3", 1, ECX, 9, None},
    {"fma", 1, ECX, 12, Avx},
    {"cx16", 1, ECX, 13, None},
    {"sse4.1", 1, ECX, 19, None},
    {"sse4.2", 1, ECX, 20, None},
    {"movbe", 1, ECX, 22, None},
    {"popcnt", 1, ECX, 23, None},
    {"avx", 1, ECX, 28, Avx},
    {"f16c", 1, ECX, 29, Avx},
    {"bmi", 7, EBX, 3, None},
    {"avx2", 7, EBX, 5, Avx},
    {"bmi2", 7, EBX, 8, None},
    {"avx512f", 7, EBX, 16, Avx512},
    {"avx512dq", 7, EBX, 17, Avx512},
    {"avx512cd", 7, EBX, 28, Avx512},
    {"avx512bw", 7, EBX, 30, Avx512},
    {"avx512vl", 7, EBX, 31, Avx512},
    {"avx512vbmi", 7, ECX, 1, Avx512},
    {"avx512vbmi2", 7, ECX, 6, Avx512},
    {"avx512vnni", 7, ECX, 11, Avx512},
    {"avx512bitalg", 7, ECX, 12, Avx512},
    {"avx512vpopcntdq", 7, ECX, 14, Avx512},
    {"lzcnt", 0x80000001, ECX, 5, None},
};

PyObject *cpu_features(PyObject *, PyObject *) {
    Ref out(PyList_New(0));
    if (!out) return nullptr;
    unsigned a, b, c, d, state = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) && c >> 27 & 1) {
        unsigned high;
        __asm__("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
    }
    const bool avx = (state & 0x6) == 0x6, avx512 = (state & 0xe6) == 0xe6;
    for (const auto &f : table) {
        if ((f.saved == Avx && !avx) || (f.saved == Avx512 && !avx512)) continue;
        if (!__get_cpuid_count(f.leaf, 0, &a, &b, &c, &d) || !((f.where == EBX ? b : c) >> f.bit & 1)) continue;
        Ref name(PyUnicode_FromString(f.name));
        if (!name || PyList_Append(out.get(), name.get()) < 0) return nullptr;
    }
    return out.release();
}

#else

PyObject *cpu_features(PyObject *, PyObject *) { return PyList_New(0); }

#endif

PyMethodDef methods[] = {
    {"cpu_features", cpu_features, METH_NOARGS, "cpu_features() -> list: what this x86-64 CPU and its system support, in LLVM's names."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool init_cpu(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace steno
