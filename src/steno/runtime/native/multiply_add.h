// c += a * b for dtypes without kernels of their own: integers wrap around, bools are `or` of `and`, complex numbers fuse each product and sum.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "vectors.h"

// std::fma is a call unless the code is for CPUs that have it, and of these is everything on x86.
#if defined(__x86_64__)
#define STENO_FMA_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma\")")
#define STENO_FMA_END _Pragma("GCC pop_options")
#else
#define STENO_FMA_BEGIN
#define STENO_FMA_END
#endif

STENO_FMA_BEGIN
namespace {

template <class T>
STENO_INLINE void multiply_add(T &c, T a, T b) {
    using U = std::make_unsigned_t<T>;  // wraps around
    c = T(U(c) + U(a) * U(b));
}
STENO_INLINE void multiply_add(bool &c, bool a, bool b) { c = c || (a && b); }
STENO_INLINE void multiply_add(uint16_t &c, uint16_t a, uint16_t b) { c = uint16_t(uint32_t(c) + uint32_t(a) * uint32_t(b)); }
STENO_INLINE void multiply_add(int16_t &c, int16_t a, int16_t b) { c = int16_t(uint32_t(c) + uint32_t(a) * uint32_t(b)); }
template <class F>
STENO_INLINE void multiply_add(std::complex<F> &c, std::complex<F> a, std::complex<F> b) {
    F re = std::fma(-a.imag(), b.imag(), std::fma(a.real(), b.real(), c.real()));
    F im = std::fma(a.real(), b.imag(), std::fma(a.imag(), b.real(), c.imag()));
    c = std::complex<F>(re, im);
}

}  // namespace
STENO_FMA_END
