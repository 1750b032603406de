// Decompositions and solves of batches of matrices, in row-major order, by LAPACK, which wants column-major order.
//
// The library works on one thread; the matrices of a batch are divided among steno's.
//
// Every function has the form `int32 f(void **bufs, const int64 *meta)`: operands, then results; meta begins with the dtype (float32
// float64 complex64 complex128 = 0..3) and the number of matrices. What does not converge or does not exist is NaN; nothing is raised.
// A row-major matrix is its transpose in column-major order, so copies are made only where that does not do.
#include "lapack.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "executable.h"
#include "threads.h"

namespace steno {

namespace {

// ---- the library's functions

enum Routine { kPotrf, kGetrf, kGeqrf, kGeqp3, kOrgqr, kOrmqr, kSyevd, kGeev, kGesdd, kGesvd, kTrsm, kGees, kSytrd, kGehrd, kRoutines };

const char *const names[kRoutines][4] = {
    {"spotrf", "dpotrf", "cpotrf", "zpotrf"}, {"sgetrf", "dgetrf", "cgetrf", "zgetrf"}, {"sgeqrf", "dgeqrf", "cgeqrf", "zgeqrf"},
    {"sgeqp3", "dgeqp3", "cgeqp3", "zgeqp3"}, {"sorgqr", "dorgqr", "cungqr", "zungqr"}, {"sormqr", "dormqr", "cunmqr", "zunmqr"},
    {"ssyevd", "dsyevd", "cheevd", "zheevd"}, {"sgeev", "dgeev", "cgeev", "zgeev"},     {"sgesdd", "dgesdd", "cgesdd", "zgesdd"},
    {"sgesvd", "dgesvd", "cgesvd", "zgesvd"}, {"strsm", "dtrsm", "ctrsm", "ztrsm"},     {"sgees", "dgees", "cgees", "zgees"},
    {"ssytrd", "dsytrd", "chetrd", "zhetrd"}, {"sgehrd", "dgehrd", "cgehrd", "zgehrd"},
};

void *functions[kRoutines][4];

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
    static thread_local Piece pieces[10];
};
thread_local Workspace::Piece Workspace::pieces[10];

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

// ---- small real matrices, in the lanes of vectors

#if defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
namespace avx512 {
template <class T>
struct Lanes;
template <>
struct Lanes<float> {
    static constexpr int W = 16;
    typedef float R __attribute__((vector_size(64)));
    static R sqrt(R x) { return _mm512_maskz_sqrt_ps(0xFFFF, x); }
};
template <>
struct Lanes<double> {
    static constexpr int W = 8;
    typedef double R __attribute__((vector_size(64)));
    static R sqrt(R x) { return _mm512_maskz_sqrt_pd(0xFF, x); }
};
#include "lapack_small.inc"
}  // namespace avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
template <class T>
struct Lanes;
template <>
struct Lanes<float> {
    static constexpr int W = 8;
    typedef float R __attribute__((vector_size(32)));
    static R sqrt(R x) { return _mm256_sqrt_ps(x); }
};
template <>
struct Lanes<double> {
    static constexpr int W = 4;
    typedef double R __attribute__((vector_size(32)));
    static R sqrt(R x) { return _mm256_sqrt_pd(x); }
};
#include "lapack_small.inc"
}  // namespace avx2
#pragma GCC pop_options

bool has_avx512() {
    static const bool has = [] {
        const char *wanted = std::getenv("STENO_TARGET_FEATURES");
        if (wanted && !std::strcmp(wanted, "avx2")) return false;
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }();
    return has;
}
#define STENO_LANES(call) (has_avx512() ? avx512::call : avx2::call)

#else

namespace portable {
template <class T>
struct Lanes {
    static constexpr int W = 16 / sizeof(T);
    typedef T R __attribute__((vector_size(16)));
    static R sqrt(R x) {
        for (int i = 0; i < W; ++i) x[i] = std::sqrt(x[i]);
        return x;
    }
};
#include "lapack_small.inc"
}  // namespace portable
#define STENO_LANES(call) portable::call

#endif

template <class T>
int64_t lanes() {
#if defined(__x86_64__)
    return has_avx512() ? avx512::Lanes<T>::W : avx2::Lanes<T>::W;
#else
    return portable::Lanes<T>::W;
#endif
}

// ---- batches

constexpr int64_t kSmall = 16;      // sizes up to here are done by loops of our own where there are such
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

// one(workspace, first matrix, how many) for groups of as many small real matrices as there are lanes.
template <class T, class F>
int32_t for_groups(int64_t batch, double work, F one) {
    int64_t width = lanes<T>();
    return for_each((batch + width - 1) / width, 1, work * double(width), [=](Workspace &w, int64_t k) { one(w, k * width, std::min(width, batch - k * width)); });
}

double cube(int64_t n) { return double(n) * double(n) * double(n); }

#define STENO_BY_DTYPE(function)                                  \
    extern "C" int32_t steno_##function(void **bufs, const int64_t *meta) { \
        switch (meta[0]) {                                        \
            case 0: return function<float>(bufs, meta + 1);       \
            case 1: return function<double>(bufs, meta + 1);      \
            case 2: return function<c64>(bufs, meta + 1);         \
            case 3: return function<c128>(bufs, meta + 1);        \
        }                                                         \
        return kOutOfMemory;                                      \
    }
#define STENO_BY_REAL_DTYPE(function)                             \
    extern "C" int32_t steno_##function(void **bufs, const int64_t *meta) { \
        return meta[0] == 0 ? function<float>(bufs, meta + 1) : function<double>(bufs, meta + 1); \
    }

// ---- cholesky: bufs [a -> l], meta [batch, n]

template <class T>
bool small_cholesky(T *a, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
        T *row = a + j * n;
        Real<T> d = real(row[j]);
        for (int64_t k = 0; k < j; ++k) d -= real(times(row[k], conj(row[k])));
        if (d <= 0) return false;
        d = std::sqrt(d);
        row[j] = d;
        for (int64_t i = j + 1; i < n; ++i) {
            T *below = a + i * n, s = below[j];
            for (int64_t k = 0; k < j; ++k) s -= times(below[k], conj(row[k]));
            below[j] = s / d;
        }
    }
    return true;
}

template <class T>
int32_t cholesky(void **bufs, const int64_t *meta) {
    int64_t batch = meta[0], n = meta[1];
    if constexpr (!is_complex<T>)
        if (n <= kSmall)
            return for_groups<T>(batch, cube(n) / 3, [=](Workspace &w, int64_t first, int64_t count) {
                T *work = w.get<T>(0, n * n * lanes<T>());
                if (work) STENO_LANES(cholesky_group(static_cast<T *>(bufs[0]) + first * n * n, n, count, work));
            });
    return for_each(batch, n, cube(n) / 3, [=](Workspace &, int64_t k) {
        T *a = static_cast<T *>(bufs[0]) + k * n * n;
        int size = int(n), info = 0;
        if (n <= kSmall)
            info = !small_cholesky(a, n);
        else
            call<T>(kPotrf, "U", &size, a, &size, &info, kOne);
        for (int64_t i = 0; i < n; ++i) {
            if (info) std::fill_n(a + i * n, i + 1, nan<T>());
            std::fill_n(a + i * n + i + 1, n - i - 1, T(0));
        }
    });
}

// ---- lu: bufs [a -> lu, pivots, permutation], meta [batch, m, n]

void follow_pivots(const int32_t *pivots, int64_t count, int32_t *permutation, int64_t size) {
    for (int64_t i = 0; i < size; ++i) permutation[i] = int32_t(i);
    for (int64_t i = 0; i < count; ++i)
        if (pivots[i] >= 0 && pivots[i] < size) std::swap(permutation[i], permutation[pivots[i]]);
}

template <class T>
void small_lu(T *a, int64_t m, int64_t n, int32_t *pivots) {
    for (int64_t j = 0; j < std::min(m, n); ++j) {
        int64_t best = j;
        for (int64_t i = j + 1; i < m; ++i)
            if (magnitude(a[i * n + j]) > magnitude(a[best * n + j])) best = i;
        pivots[j] = int32_t(best);
        if (a[best * n + j] == T(0)) continue;
        if (best != j) std::swap_ranges(a + j * n, a + j * n + n, a + best * n);
        const T *row = a + j * n;
        for (int64_t i = j + 1; i < m; ++i) {
            T *below = a + i * n, f = below[j] / row[j];
            below[j] = f;
            for (int64_t k = j + 1; k < n; ++k) below[k] -= times(f, row[k]);
        }
    }
}

template <class T>
int32_t lu(void **bufs, const int64_t *meta) {
    int64_t batch = meta[0], m = meta[1], n = meta[2], least = std::min(m, n);
    if constexpr (!is_complex<T>)
        if (std::max(m, n) <= kSmall)
            return for_groups<T>(batch, double(m) * double(n) * double(least), [=](Workspace &w, int64_t first, int64_t count) {
                T *work = w.get<T>(0, m * n * lanes<T>());
                int32_t *pivot_work = w.get<int32_t>(1, least * lanes<T>()), *pivots = static_cast<int32_t *>(bufs[1]) + first * least;
                if (w.failed) return;
                STENO_LANES(lu_group(static_cast<T *>(bufs[0]) + first * m * n, m, n, count, pivots, work, pivot_work));
                for (int64_t k = 0; k < count; ++k)
                    follow_pivots(pivots + k * least, least, static_cast<int32_t *>(bufs[2]) + (first + k) * m, m);
            });
    return for_each(batch, std::max(m, n), double(m) * double(n) * double(least), [=](Workspace &w, int64_t k) {
        T *a = static_cast<T *>(bufs[0]) + k * m * n;
        int32_t *pivots = static_cast<int32_t *>(bufs[1]) + k * least;
        if (std::max(m, n) <= kSmall) {
            small_lu(a, m, n, pivots);
        } else {
            T *columns = w.get<T>(0, m * n);
            if (!columns) return;
            transposed(a, m, n, columns);
            int rows = int(m), cols = int(n), info = 0;
            call<T>(kGetrf, &rows, &cols, columns, &rows, pivots, &info);
            for (int64_t i = 0; i < least; ++i) --pivots[i];
            transposed(columns, n, m, a);
        }
        follow_pivots(pivots, least, static_cast<int32_t *>(bufs[2]) + k * m, m);
    });
}

// bufs [pivots, permutation], meta [batch, number of pivots, size]
extern "C" int32_t steno_pivots_to_permutation(void **bufs, const int64_t *meta) {
    const int32_t *pivots = static_cast<const int32_t *>(bufs[0]);
    int32_t *permutation = static_cast<int32_t *>(bufs[1]);
    for (int64_t k = 0; k < meta[0]; ++k) follow_pivots(pivots + k * meta[1], meta[1], permutation + k * meta[2], meta[2]);
    return kOk;
}

// ---- triangular_solve: bufs [a, b -> x], meta [batch, size of a, other extent of b, left, lower, transposed (0, 1, 2: adjoint), unit]

// x overwrites b (n x m): T x = b for triangular T; element (i, k) of T lies at a[i * row + k * col], conjugated if `adjoint`.
template <class T>
void small_left_solve(const T *a, int64_t row, int64_t col, bool adjoint, bool lower, bool unit, T *b, int64_t n, int64_t m) {
    for (int64_t s = 0; s < n; ++s) {
        int64_t i = lower ? s : n - 1 - s;
        T *x = b + i * m;
        for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) {
            T f = a[i * row + k * col];
            if (adjoint) f = conj(f);
            const T *y = b + k * m;
            for (int64_t j = 0; j < m; ++j) x[j] -= times(f, y[j]);
        }
        if (unit) continue;
        T d = a[i * (row + col)];
        if (adjoint) d = conj(d);
        for (int64_t j = 0; j < m; ++j) x[j] /= d;
    }
}

template <class T>
int32_t triangular_solve(void **bufs, const int64_t *meta) {
    int64_t batch = meta[0], n = meta[1], m = meta[2];
    bool left = meta[3], lower = meta[4], unit = meta[6];
    int trans = int(meta[5]);
    if constexpr (!is_complex<T>)
        if (n && m && n <= kSmall && m <= 4 * kSmall)
            return for_groups<T>(batch, double(n) * double(n) * double(m), [=](Workspace &w, int64_t first, int64_t count) {
                const T *a = static_cast<const T *>(bufs[0]) + first * n * n;
                T *b = static_cast<T *>(bufs[1]) + first * n * m, *work = w.get<T>(0, n * (n + m) * lanes<T>());
                bool turned = bool(trans) == left;  // x op(a) = b  -->  op(a)^T x^T = b^T
                if (work)
                    STENO_LANES(triangular_group(a, turned ? 1 : n, turned ? n : 1, lower != turned, unit, b, left ? m : 1, left ? 1 : n, n, m, count, work));
            });
    return for_each(batch, std::max(n, m), double(n) * double(n) * double(m), [=](Workspace &w, int64_t k) {
        const T *a = static_cast<const T *>(bufs[0]) + k * n * n;
        T *b = static_cast<T *>(bufs[1]) + k * n * m;
        if (!n || !m) return;
        if (n <= kSmall && m <= 4 * kSmall) {
            if (left) {
                small_left_solve(a, trans ? 1 : n, trans ? n : 1, trans == 2, lower != bool(trans), unit, b, n, m);
            } else if (T *turned = w.get<T>(0, n * m)) {  // x op(a) = b  -->  op(a)^T x^T = b^T
                transposed(b, m, n, turned);
                small_left_solve(a, trans ? n : 1, trans ? 1 : n, trans == 2, lower == bool(trans), unit, turned, n, m);
                transposed(turned, n, m, b);
            }
            return;
        }
        int rows = int(left ? m : n), cols = int(left ? n : m), size = int(n);
        const T one(1);
        const char *operation[] = {"N", "T", "C"};
        call<T>(kTrsm, left ? "R" : "L", lower ? "U" : "L", operation[trans], unit ? "U" : "N", &rows, &cols, &one, a, &size, b, &rows, kOne,
                kOne, kOne, kOne);
    });
}

// ---- geqrf: bufs [a -> a, taus], geqp3: bufs [a -> a, jpvt -> jpvt, taus], meta [batch, m, n]

template <class T>
int32_t qr(void **bufs, const int64_t *meta, bool pivoting) {
    int64_t batch = meta[0], m = meta[1], n = meta[2], least = std::min(m, n);
    return for_each(batch, std::max(m, n), 2.0 * double(m) * double(n) * double(least), [=](Workspace &w, int64_t k) {
        T *a = static_cast<T *>(bufs[0]) + k * m * n;
        T *taus = static_cast<T *>(bufs[pivoting ? 2 : 1]) + k * least;
        int32_t *pivots = pivoting ? static_cast<int32_t *>(bufs[1]) + k * n : nullptr;
        if (!m || !n) {
            for (int64_t i = 0; pivoting && i < n; ++i) pivots[i] = int32_t(i) + 1;
            return;
        }
        T *columns = w.get<T>(0, m * n);
        Real<T> *reals = w.get<Real<T>>(2, 2 * n);
        if (w.failed) return;
        transposed(a, m, n, columns);
        int rows = int(m), cols = int(n), info = 0, length = -1;
        T query(0), *work = &query;
        for (int pass = 0; pass < 2; ++pass) {
            if (!pivoting)
                call<T>(kGeqrf, &rows, &cols, columns, &rows, taus, work, &length, &info);
            else if constexpr (is_complex<T>)
                call<T>(kGeqp3, &rows, &cols, columns, &rows, pivots, taus, work, &length, reals, &info);
            else
                call<T>(kGeqp3, &rows, &cols, columns, &rows, pivots, taus, work, &length, &info);
            if (!pass && !(work = w.get<T>(1, length = wanted(query)))) return;
        }
        transposed(columns, n, m, a);
    });
}
template <class T>
int32_t geqrf(void **bufs, const int64_t *meta) {
    return qr<T>(bufs, meta, false);
}
template <class T>
int32_t geqp3(void **bufs, const int64_t *meta) {
    return qr<T>(bufs, meta, true);
}

// ---- householder_product: bufs [taus, a -> q], meta [batch, m, n, number of taus]

template <class T>
int32_t householder_product(void **bufs, const int64_t *meta) {
    int64_t batch = meta[0], m = meta[1], n = meta[2], count = meta[3];
    return for_each(batch, m, 2.0 * double(m) * double(n) * double(count), [=](Workspace &w, int64_t k) {
        T *a = static_cast<T *>(bufs[1]) + k * m * n;
        const T *taus = static_cast<const T *>(bufs[0]) + k * count;
        if (!m || !n) return;
        T *columns = w.get<T>(0, m * n);
        if (!columns) return;
        transposed(a, m, n, columns);
        int rows = int(m), cols = int(n), reflectors = int(count), info = 0, length = -1;
        T query(0), *work = &query;
        for (int pass = 0; pass < 2; ++pass) {
            call<T>(kOrgqr, &rows, &cols, &reflectors, columns, &rows, taus, work, &length, &info);
            if (!pass && !(work = w.get<T>(1, length = wanted(query)))) return;
        }
        transposed(columns, n, m, a);
        if (info) fill_nan(a, m * n);
    });
}

// ---- ormqr: bufs [a, taus, c -> c], meta [batch, rows of a, columns of a, number of taus, rows of c, columns of c, left, adjoint]

template <class T>
int32_t ormqr(void **bufs, const int64_t *meta) {
    int64_t batch = meta[0], r = meta[1], s = meta[2], count = meta[3], m = meta[4], n = meta[5];
    bool left = meta[6], adjoint = meta[7];
    return for_each(batch, std::max(m, n), 2.0 * double(m) * double(n) * double(count), [=](Workspace &w, int64_t k) {
        const T *a = static_cast<const T *>(bufs[0]) + k * r * s, *taus = static_cast<const T *>(bufs[1]) + k * count;
        T *c = static_cast<T *>(bufs[2]) + k * m * n;
        if (!m || !n || !count) return;
        T *reflections = w.get<T>(0, r * s), *columns = w.get<T>(2, m * n);
        if (w.failed) return;
        transposed(a, r, s, reflections);
        transposed(c, m, n, columns);
        int rows = int(m), cols = int(n), reflectors = int(count), stride = int(r), info = 0, length = -1;
        T query(0), *work = &query;
        const char *operation = !adjoint ? "N" : is_complex<T> ? "C" : "T";
        for (int pass = 0; pass < 2; ++pass) {
            call<T>(kOrmqr, left ? "L" : "R", operation, &rows, &cols, &reflectors, reflections, &stride, taus, columns, &rows, work, &length,
                    &info, kOne, kOne);
            if (!pass && !(work = w.get<T>(1, length = wanted(query)))) return;
        }
        transposed(columns, n, m, c);
        if (info) fill_nan(c, m * n);
    });
}

// ---- eigh: bufs [a, v, w], meta [batch, n, lower]

template <class T>
int32_t eigh(void **bufs, const int64_t *meta) {
    int64_t batch = meta[0], n = meta[1];
    bool lower = meta[2];
    return for_each(batch, n, 10 * cube(n), [=](Workspace &w, int64_t k) {
        const T *a = static_cast<const T *>(bufs[0]) + k * n * n;
        T *v = static_cast<T *>(bufs[1]) + k * n * n;
        Real<T> *values = static_cast<Real<T> *>(bufs[2]) + k * n;
        if (!n) return;
        T *m = w.get<T>(0, n * n);
        if (!m) return;
        bool good = true;
        for (int64_t i = 0; i < n; ++i) good = good && finite(a + i * n + (lower ? 0 : i), lower ? i + 1 : n - i);
        transposed(a, n, n, m);
        int size = int(n), info = 0, length = -1, int_length = -1, real_length = -1, int_query = 0;
        T query(0), *work = &query;
        Real<T> real_query = 0, *reals = &real_query;
        int *ints = &int_query;
        const char *triangle = lower ? "L" : "U";
        for (int pass = 0; pass < 2 && good; ++pass) {
            if constexpr (is_complex<T>)
                call<T>(kSyevd, "V", triangle, &size, m, &size, values, work, &length, reals, &real_length, ints, &int_length, &info, kOne,
                        kOne);
            else
                call<T>(kSyevd, "V", triangle, &size, m, &size, values, work, &length, ints, &int_length, &info, kOne, kOne);
            if (pass) break;
            work = w.get<T>(1, length = wanted(query));
            reals = w.get<Real<T>>(2, real_length = wanted(real_query));
            ints = w.get<int>(3, int_length = int_query);
            if (w.failed) return;
        }
        if (good && !info) return transposed(m, n, n, v);
        fill_nan(v, n * n);
        fill_nan(values, n);
    });
}

// ---- eig: bufs [a, w, left vectors?, right vectors?], meta [batch, n, left, right]

// LAPACK gives the vectors of a pair of conjugate eigenvalues as real and imaginary part.
template <class R>
void complex_vectors(const R *columns, const R *imaginary, int64_t n, std::complex<R> *out) {
    for (int64_t j = 0; j < n; ++j) {
        bool pair = imaginary[j] != 0 && j + 1 < n;
        const R *re = columns + j * n, *im = re + n;
        for (int64_t i = 0; i < n; ++i) {
            out[i * n + j] = std::complex<R>(re[i], pair ? im[i] : R(0));
            if (pair) out[i * n + j + 1] = std::complex<R>(re[i], -im[i]);
        }
        j += pair;
    }
}

template <class T>
int32_t eig(void **bufs, const int64_t *meta) {
    using R = Real<T>;
    using C = std::complex<R>;
    int64_t batch = meta[0], n = meta[1];
    bool wants[2] = {bool(meta[2]), bool(meta[3])};
    return for_each(batch, n, 25 * cube(n), [=](Workspace &w, int64_t k) {
        const T *a = static_cast<const T *>(bufs[0]) + k * n * n;
        C *values = static_cast<C *>(bufs[1]) + k * n, *vectors[2] = {nullptr, nullptr};
        for (int side = 0, b = 2; side < 2; ++side)
            if (wants[side]) vectors[side] = static_cast<C *>(bufs[b++]) + k * n * n;
        if (!n) return;
        T *m = w.get<T>(0, n * n), *columns[2];
        R *re = w.get<R>(1, 2 * n), *im = re + n;
        for (int side = 0; side < 2; ++side) columns[side] = wants[side] ? w.get<T>(2 + side, n * n) : m;
        if (w.failed) return;
        bool good = finite(a, n * n);
        transposed(a, n, n, m);
        int size = int(n), info = 0, length = -1;
        T query(0), *work = &query;
        for (int pass = 0; pass < 2 && good; ++pass) {
            const char *left = wants[0] ? "V" : "N", *right = wants[1] ? "V" : "N";
            if constexpr (is_complex<T>)
                call<T>(kGeev, left, right, &size, m, &size, values, columns[0], &size, columns[1], &size, work, &length, re, &info, kOne, kOne);
            else
                call<T>(kGeev, left, right, &size, m, &size, re, im, columns[0], &size, columns[1], &size, work, &length, &info, kOne, kOne);
            if (!pass && !(work = w.get<T>(4, length = wanted(query)))) return;
        }
        if (!good || info) {
            fill_nan(values, n);
            for (C *v : vectors)
                if (v) fill_nan(v, n * n);
            return;
        }
        if constexpr (!is_complex<T>)
            for (int64_t i = 0; i < n; ++i) values[i] = C(re[i], im[i]);
        for (int side = 0; side < 2; ++side) {
            if (!wants[side]) continue;
            if constexpr (is_complex<T>)
                transposed(columns[side], n, n, vectors[side]);
            else
                complex_vectors(columns[side], im, n, vectors[side]);
        }
    });
}

// ---- svd: bufs [a, s, u?, vh?], meta [batch, m, n, vectors (0: none, 1: as many as values, 2: all), by QR iteration]

template <class T>
void set_identity(T *x, int64_t rows, int64_t cols) {
    std::fill_n(x, rows * cols, T(0));
    for (int64_t i = 0; i < std::min(rows, cols); ++i) x[i * cols + i] = T(1);
}

template <class T>
int32_t svd(void **bufs, const int64_t *meta) {
    using R = Real<T>;
    int64_t batch = meta[0], m = meta[1], n = meta[2], least = std::min(m, n), most = std::max(m, n);
    int vectors = int(meta[3]);
    bool iterate = meta[4];
    int64_t nu = vectors == 2 ? m : least, nv = vectors == 2 ? n : least;
    return for_each(batch, most, 20.0 * double(m) * double(n) * double(least), [=](Workspace &w, int64_t k) {
        const T *a = static_cast<const T *>(bufs[0]) + k * m * n;
        R *values = static_cast<R *>(bufs[1]) + k * least;
        T *u = vectors ? static_cast<T *>(bufs[2]) + k * m * nu : nullptr, *v = vectors ? static_cast<T *>(bufs[3]) + k * nv * n : nullptr;
        if (!least) {
            if (u) set_identity(u, m, nu), set_identity(v, nv, n);
            return;
        }
        T *copy = w.get<T>(0, m * n), *left = w.get<T>(4, vectors ? m * nu : 1), *right = w.get<T>(5, vectors ? nv * n : 1);
        int64_t reals_needed = !is_complex<T> ? 0 : std::max({7 * least, 5 * least * least + 5 * least, 2 * most * least + 2 * least * least + least});
        R *reals = w.get<R>(2, !vectors || iterate ? 7 * least : reals_needed);
        int *ints = w.get<int>(3, 8 * least);
        if (w.failed) return;
        bool good = finite(a, m * n);
        transposed(a, m, n, copy);
        int rows = int(m), cols = int(n), v_stride = vectors ? int(nv) : 1, info = 0, length = -1;
        T query(0), *work = &query;
        const char *job = vectors == 0 ? "N" : vectors == 1 ? "S" : "A";
        for (int pass = 0; pass < 2 && good; ++pass) {
            if constexpr (is_complex<T>) {
                if (iterate)
                    call<T>(kGesvd, job, job, &rows, &cols, copy, &rows, values, left, &rows, right, &v_stride, work, &length, reals, &info, kOne, kOne);
                else
                    call<T>(kGesdd, job, &rows, &cols, copy, &rows, values, left, &rows, right, &v_stride, work, &length, reals, ints, &info, kOne);
            } else {
                if (iterate)
                    call<T>(kGesvd, job, job, &rows, &cols, copy, &rows, values, left, &rows, right, &v_stride, work, &length, &info, kOne, kOne);
                else
                    call<T>(kGesdd, job, &rows, &cols, copy, &rows, values, left, &rows, right, &v_stride, work, &length, ints, &info, kOne);
            }
            if (!pass && !(work = w.get<T>(1, length = wanted(query)))) return;
        }
        if (good && !info) {
            if (u) transposed(left, nu, m, u), transposed(right, n, nv, v);
            return;
        }
        fill_nan(values, least);
        if (u) fill_nan(u, m * nu), fill_nan(v, nv * n);
    });
}

// ---- schur: bufs [a -> t, z?], meta [batch, n, vectors]

template <class T>
int32_t schur(void **bufs, const int64_t *meta) {
    using R = Real<T>;
    int64_t batch = meta[0], n = meta[1];
    bool vectors = meta[2];
    return for_each(batch, n, 25 * cube(n), [=](Workspace &w, int64_t k) {
        T *t = static_cast<T *>(bufs[0]) + k * n * n, *z = vectors ? static_cast<T *>(bufs[1]) + k * n * n : nullptr;
        if (!n) return;
        T *m = w.get<T>(0, n * n), *columns = w.get<T>(1, vectors ? n * n : 1), *values = w.get<T>(2, 2 * n);
        R *reals = w.get<R>(3, n);
        int *choice = w.get<int>(4, n);
        if (w.failed) return;
        bool good = finite(t, n * n);
        transposed(t, n, n, m);
        int size = int(n), stride = vectors ? size : 1, found = 0, info = 0, length = -1;
        T query(0), *work = &query;
        void *no_choice = nullptr;
        for (int pass = 0; pass < 2 && good; ++pass) {
            if constexpr (is_complex<T>)
                call<T>(kGees, vectors ? "V" : "N", "N", no_choice, &size, m, &size, &found, values, columns, &stride, work, &length, reals, choice,
                        &info, kOne, kOne);
            else
                call<T>(kGees, vectors ? "V" : "N", "N", no_choice, &size, m, &size, &found, values, values + n, columns, &stride, work, &length,
                        choice, &info, kOne, kOne);
            if (!pass && !(work = w.get<T>(5, length = wanted(query)))) return;
        }
        if (!good || info) {
            fill_nan(t, n * n);
            if (z) fill_nan(z, n * n);
            return;
        }
        transposed(m, n, n, t);
        if (z) transposed(columns, n, n, z);
    });
}

// ---- hessenberg: bufs [a -> a, taus], meta [batch, n]

template <class T>
int32_t hessenberg(void **bufs, const int64_t *meta) {
    int64_t batch = meta[0], n = meta[1];
    return for_each(batch, n, 4 * cube(n), [=](Workspace &w, int64_t k) {
        T *a = static_cast<T *>(bufs[0]) + k * n * n, *taus = static_cast<T *>(bufs[1]) + k * (n - 1);
        if (n < 2) return;
        T *columns = w.get<T>(0, n * n);
        if (!columns) return;
        transposed(a, n, n, columns);
        int size = int(n), first = 1, info = 0, length = -1;
        T query(0), *work = &query;
        for (int pass = 0; pass < 2; ++pass) {
            call<T>(kGehrd, &size, &first, &size, columns, &size, taus, work, &length, &info);
            if (!pass && !(work = w.get<T>(1, length = wanted(query)))) return;
        }
        transposed(columns, n, n, a);
    });
}

// ---- tridiagonal: bufs [a -> a, d, e, taus], meta [batch, n, lower]

template <class T>
int32_t tridiagonal(void **bufs, const int64_t *meta) {
    int64_t batch = meta[0], n = meta[1];
    bool lower = meta[2];
    return for_each(batch, n, 2 * cube(n), [=](Workspace &w, int64_t k) {
        T *a = static_cast<T *>(bufs[0]) + k * n * n, *taus = static_cast<T *>(bufs[3]) + k * (n - 1);
        Real<T> *d = static_cast<Real<T> *>(bufs[1]) + k * n, *e = static_cast<Real<T> *>(bufs[2]) + k * (n - 1);
        if (!n) return;
        T *columns = w.get<T>(0, n * n);
        if (!columns) return;
        transposed(a, n, n, columns);
        int size = int(n), info = 0, length = -1;
        T query(0), *work = &query;
        for (int pass = 0; pass < 2; ++pass) {
            call<T>(kSytrd, lower ? "L" : "U", &size, columns, &size, d, e, taus, work, &length, &info, kOne);
            if (!pass && !(work = w.get<T>(1, length = wanted(query)))) return;
        }
        transposed(columns, n, n, a);
    });
}

// ---- tridiagonal_solve: bufs [dl, d, du, b -> x], meta [batch, n, m, perturb]: elimination with partial pivoting

template <class T>
int32_t tridiagonal_solve(void **bufs, const int64_t *meta) {
    int64_t batch = meta[0], n = meta[1], m = meta[2];
    bool perturb = meta[3];
    return for_each(batch, 1, double(n) * double(m + 1) * 8, [=](Workspace &w, int64_t k) {
        const T *lower = static_cast<const T *>(bufs[0]) + k * n, *given = static_cast<const T *>(bufs[1]) + k * n;
        const T *upper = static_cast<const T *>(bufs[2]) + k * n;
        T *b = static_cast<T *>(bufs[3]) + k * n * m;
        if (!n) return;
        T *d = w.get<T>(0, n), *u = w.get<T>(1, n), *uu = w.get<T>(2, n);  // three diagonals of the upper factor
        if (w.failed) return;
        std::copy_n(given, n, d);
        std::copy_n(upper, n, u);
        bool singular = false;
        const T least = T(std::numeric_limits<Real<T>>::min());
        for (int64_t i = 0; i < n; ++i) {
            uu[i] = T(0);
            T *row = b + i * m, *next = row + m;
            if (i + 1 < n && magnitude(lower[i + 1]) > magnitude(d[i])) {  // the next row first
                T f = d[i] / lower[i + 1];
                d[i] = lower[i + 1];
                T t = d[i + 1];
                d[i + 1] = u[i] - times(f, t);
                u[i] = t;
                uu[i] = i + 2 < n ? u[i + 1] : T(0);
                if (i + 2 < n) u[i + 1] = -times(f, u[i + 1]);
                for (int64_t j = 0; j < m; ++j) {
                    T x = row[j];
                    row[j] = next[j];
                    next[j] = x - times(f, next[j]);
                }
                continue;
            }
            if (d[i] == T(0)) {
                if (!perturb) {
                    singular = true;
                    break;
                }
                d[i] = least;
            }
            if (i + 1 == n) break;
            T f = lower[i + 1] / d[i];
            d[i + 1] -= times(f, u[i]);
            for (int64_t j = 0; j < m; ++j) next[j] -= times(f, row[j]);
        }
        if (singular) return fill_nan(b, n * m);
        for (int64_t i = n - 1; i >= 0; --i) {
            T *row = b + i * m;
            for (int64_t j = 0; j < m; ++j) {
                T x = row[j];
                if (i + 1 < n) x -= times(u[i], row[m + j]);
                if (i + 2 < n) x -= times(uu[i], row[2 * m + j]);
                row[j] = x / d[i];
            }
        }
    });
}

// ---- cholesky_update: bufs [w, r -> r], meta [n]: r^T r + w w^T by Givens rotations

template <class T>
int32_t cholesky_update(void **bufs, const int64_t *meta) {
    int64_t n = meta[0];
    T *r = static_cast<T *>(bufs[1]);
    Workspace space;
    T *w = space.get<T>(0, n);
    if (!w) return kOutOfMemory;
    std::copy_n(static_cast<const T *>(bufs[0]), n, w);
    for (int64_t k = 0; k < n; ++k) {
        T *row = r + k * n, length = std::hypot(row[k], w[k]);
        T c = length == 0 ? T(1) : row[k] / length, s = length == 0 ? T(0) : w[k] / length;
        for (int64_t j = k; j < n; ++j) {
            T x = row[j], y = w[j];
            row[j] = c * x + s * y;
            w[j] = c * y - s * x;
        }
        std::fill_n(row, k, T(0));
    }
    return kOk;
}

STENO_BY_DTYPE(cholesky)
STENO_BY_DTYPE(lu)
STENO_BY_DTYPE(triangular_solve)
STENO_BY_DTYPE(geqrf)
STENO_BY_DTYPE(geqp3)
STENO_BY_DTYPE(householder_product)
STENO_BY_DTYPE(ormqr)
STENO_BY_DTYPE(eigh)
STENO_BY_DTYPE(eig)
STENO_BY_DTYPE(svd)
STENO_BY_DTYPE(schur)
STENO_BY_DTYPE(hessenberg)
STENO_BY_DTYPE(tridiagonal)
STENO_BY_DTYPE(tridiagonal_solve)
STENO_BY_REAL_DTYPE(cholesky_update)

// ---- Python

PyObject *lapack_names(PyObject *, PyObject *) {
    Ref out(PyTuple_New(kRoutines * 4));
    for (Py_ssize_t k = 0; out && k < kRoutines * 4; ++k) {
        PyObject *name = PyUnicode_FromString(names[k / 4][k % 4]);
        if (!name) return nullptr;
        PyTuple_SET_ITEM(out.get(), k, name);
    }
    return out.release();
}

PyObject *set_lapack(PyObject *, PyObject *addresses) {
    Ref given(PySequence_Tuple(addresses));
    if (!given) return nullptr;
    if (PyTuple_GET_SIZE(given.get()) != kRoutines * 4) {
        PyErr_Format(PyExc_ValueError, "set_lapack: expected %d addresses, got %zd", kRoutines * 4, PyTuple_GET_SIZE(given.get()));
        return nullptr;
    }
    void *found[kRoutines * 4];
    for (Py_ssize_t k = 0; k < kRoutines * 4; ++k) {
        found[k] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(given.get(), k));
        if (!found[k]) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "set_lapack: the address of %s is null", names[k / 4][k % 4]);
            return nullptr;
        }
    }
    std::memcpy(functions, found, sizeof found);
    Py_RETURN_NONE;
}

const struct {
    const char *name;
    int32_t (*function)(void **, const int64_t *);
} table[] = {
    {"steno_cholesky", steno_cholesky},
    {"steno_cholesky_update", steno_cholesky_update},
    {"steno_eig", steno_eig},
    {"steno_eigh", steno_eigh},
    {"steno_geqp3", steno_geqp3},
    {"steno_geqrf", steno_geqrf},
    {"steno_hessenberg", steno_hessenberg},
    {"steno_householder_product", steno_householder_product},
    {"steno_lu", steno_lu},
    {"steno_ormqr", steno_ormqr},
    {"steno_pivots_to_permutation", steno_pivots_to_permutation},
    {"steno_schur", steno_schur},
    {"steno_svd", steno_svd},
    {"steno_triangular_solve", steno_triangular_solve},
    {"steno_tridiagonal", steno_tridiagonal},
    {"steno_tridiagonal_solve", steno_tridiagonal_solve},
};

PyObject *lapack_symbols(PyObject *, PyObject *) {
    Ref out(PyDict_New());
    for (const auto &entry : table) {
        Ref address(out ? PyLong_FromVoidPtr(reinterpret_cast<void *>(entry.function)) : nullptr);
        if (!address || PyDict_SetItemString(out.get(), entry.name, address.get()) < 0) return nullptr;
    }
    return out.release();
}

PyMethodDef methods[] = {
    {"lapack_names", lapack_names, METH_NOARGS, "lapack_names() -> tuple: the Fortran functions whose addresses `set_lapack` wants."},
    {"set_lapack", set_lapack, METH_O, "set_lapack(addresses): where the functions named by `lapack_names` are, in that order."},
    {"lapack_symbols", lapack_symbols, METH_NOARGS,
     "lapack_symbols() -> dict: names and addresses of the C functions for compiled code that need `set_lapack`."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool init_lapack(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace steno
