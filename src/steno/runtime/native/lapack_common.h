// What the functions on LAPACK share: its routines, scratch memory, transpositions, batches.
#pragma once

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "executable.h"
#include "threads.h"

namespace steno {
namespace lapack {

// ---- the library's functions

enum Routine { kPotrf, kGetrf, kGeqrf, kGeqp3, kOrgqr, kOrmqr, kSyevd, kGeev, kGesdd, kGesvd, kTrsm, kGees, kSytrd, kGehrd, kRoutines };

extern void *functions[kRoutines][4];  // by routine and dtype

using c64 = std::complex<float>;
using c128 = std::complex<double>;

template <class T>
struct Type;
template <>
struct Type<float> {
    using Real = float;
    static constexpr int code = 0;
    static constexpr bool complex = false;
};
template <>
struct Type<double> {
    using Real = double;
    static constexpr int code = 1;
    static constexpr bool complex = false;
};
template <>
struct Type<c64> {
    using Real = float;
    static constexpr int code = 2;
    static constexpr bool complex = true;
};
template <>
struct Type<c128> {
    using Real = double;
    static constexpr int code = 3;
    static constexpr bool complex = true;
};
template <class T>
using Real = typename Type<T>::Real;
template <class T>
constexpr bool is_complex = Type<T>::complex;

// Calls a Fortran function: pointers to all arguments, then the length of each string.
template <class T, class... Args>
void call(Routine r, Args... args) {
    reinterpret_cast<void (*)(Args...)>(functions[r][Type<T>::code])(args...);
}
constexpr size_t kOne = 1;

// ---- memory, numbers

// A piece of memory that is freed with its thread.
struct Piece {
    void *data = nullptr;
    size_t size = 0;
    void drop() {
        std::free(data);
        data = nullptr;
        size = 0;
    }
    ~Piece() { std::free(data); }
};

// A thread's scratch memory, kept between calls unless it is large.
class Workspace {
  public:
    ~Workspace() {
        for (Piece &p : pieces)
            if (p.size > kKept) p.drop();
    }
    // `n` elements; a slot's earlier memory is gone. Null: no memory, and `failed`.
    template <class T>
    T *get(int slot, int64_t n) {
        Piece &p = pieces[slot];
        size_t bytes = (std::max<size_t>(size_t(n), 1) * sizeof(T) + 63) / 64 * 64;
        if (p.size < bytes) {
            p.drop();
            p.data = std::aligned_alloc(64, bytes);
            p.size = p.data ? bytes : 0;
            if (!p.data) failed = true;
        }
        return static_cast<T *>(p.data);
    }
    bool failed = false;

  private:
    static constexpr size_t kKept = size_t(1) << 22;
    static inline thread_local Piece pieces[10];
};

template <class T>
T conj(T x) {
    if constexpr (is_complex<T>)
        return std::conj(x);
    else
        return x;
}
template <class T>
Real<T> real(T x) {
    if constexpr (is_complex<T>)
        return x.real();
    else
        return x;
}
template <class T>
T times(T a, T b) {  // without C's repair of infinities
    if constexpr (is_complex<T>)
        return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    else
        return a * b;
}
template <class T>
Real<T> magnitude(T x) {  // by which LAPACK chooses pivots
    if constexpr (is_complex<T>)
        return std::abs(x.real()) + std::abs(x.imag());
    else
        return std::abs(x);
}
template <class T>
T nan() {
    constexpr Real<T> q = std::numeric_limits<Real<T>>::quiet_NaN();
    if constexpr (is_complex<T>)
        return T(q, q);
    else
        return q;
}
template <class T>
void fill_nan(T *x, int64_t n) {
    std::fill_n(x, n, nan<T>());
}
template <class T>
bool finite(const T *x, int64_t n) {
    Real<T> sum = 0;  // of zeros, or NaN
    const Real<T> *p = reinterpret_cast<const Real<T> *>(x);
    for (int64_t i = 0; i < n * (is_complex<T> ? 2 : 1); ++i) sum += p[i] * 0;
    return sum == 0;
}

// out[j, i] = in[i, j] for in of m rows and n columns.
template <class T>
void transposed(const T *in, int64_t m, int64_t n, T *out) {
    constexpr int64_t kTile = 16;
    for (int64_t i0 = 0; i0 < m; i0 += kTile)
        for (int64_t j0 = 0; j0 < n; j0 += kTile)
            for (int64_t j = j0; j < std::min(n, j0 + kTile); ++j)
                for (int64_t i = i0; i < std::min(m, i0 + kTile); ++i) out[j * m + i] = in[i * n + j];
}

template <class T>
int wanted(T query) {
    return int(real(query)) + 1;  // float32 rounds large sizes
}

// ---- batches

constexpr double kWorth = 50'000;   // operations that are worth another thread

template <class F>
struct Batch {
    F *one;
    std::atomic<bool> failed;
    static void run(void **bufs, int64_t begin, int64_t end) {
        Batch &self = *static_cast<Batch *>(bufs[0]);
        Workspace w;
        for (int64_t k = begin; k < end && !w.failed; ++k) (*self.one)(w, k);
        if (w.failed) self.failed.store(true);
    }
};

// one(workspace, k) for each matrix of the batch; `size` is the greatest extent and `work` the number of operations of one.
template <class F>
int32_t for_each(int64_t batch, int64_t size, double work, F one) {
    if (size > INT_MAX) return kOutOfMemory;
    Batch<F> b{&one, {false}};
    void *self = &b;
    int64_t grain = std::max<int64_t>(1, int64_t(kWorth / std::max(work, 1.0)));
    steno_parallel_for(Batch<F>::run, &self, batch, grain);
    return b.failed.load() ? kOutOfMemory : kOk;
}

inline double cube(int64_t n) { return double(n) * double(n) * double(n); }

#define STENO_BY_DTYPE(function)                                  \
    extern "C" int32_t steno_##function(void **bufs, const int64_t *meta) { \
        switch (meta[0]) {                                        \
            case 0: return function<float>(bufs, meta + 1);       \
            case 1: return function<double>(bufs, meta + 1);      \
            case 2: return function<c64>(bufs, meta + 1);         \
            case 3: return function<c128>(bufs, meta + 1);        \
        }                                                         \
        return steno::kOutOfMemory;                               \
    }
#define STENO_BY_REAL_DTYPE(function)                             \
    extern "C" int32_t steno_##function(void **bufs, const int64_t *meta) { \
        return meta[0] == 0 ? function<float>(bufs, meta + 1) : function<double>(bufs, meta + 1); \
    }

}  // namespace lapack
}  // namespace steno

extern "C" {
// The decompositions by iteration (lapack_eigen.cpp).
int32_t steno_eigh(void **bufs, const int64_t *meta);
int32_t steno_eig(void **bufs, const int64_t *meta);
int32_t steno_svd(void **bufs, const int64_t *meta);
int32_t steno_schur(void **bufs, const int64_t *meta);
int32_t steno_hessenberg(void **bufs, const int64_t *meta);
int32_t steno_tridiagonal(void **bufs, const int64_t *meta);
}
