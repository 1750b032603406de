// Decompositions and solves of batches of matrices, in row-major order, by LAPACK, which wants column-major order.
//
// The library works on one thread; the matrices of a batch are divided among steno's.
//
// Every function has the form `int32 f(void **bufs, const int64 *meta)`: operands, then results; meta begins with the dtype (float32
// float64 complex64 complex128 = 0..3) and the number of matrices. What does not converge or does not exist is NaN; nothing is raised.
// A row-major matrix is its transpose in column-major order, so copies are made only where that does not do.
#include "lapack.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "lapack_common.h"

namespace steno {
namespace lapack {

void *functions[kRoutines][4];

namespace {

const char *const names[kRoutines][4] = {
    {"spotrf", "dpotrf", "cpotrf", "zpotrf"}, {"sgetrf", "dgetrf", "cgetrf", "zgetrf"}, {"sgeqrf", "dgeqrf", "cgeqrf", "zgeqrf"},
    {"sgeqp3", "dgeqp3", "cgeqp3", "zgeqp3"}, {"sorgqr", "dorgqr", "cungqr", "zungqr"}, {"sormqr", "dormqr", "cunmqr", "zunmqr"},
    {"ssyevd", "dsyevd", "cheevd", "zheevd"}, {"sgeev", "dgeev", "cgeev", "zgeev"},     {"sgesdd", "dgesdd", "cgesdd", "zgesdd"},
    {"sgesvd", "dgesvd", "cgesvd", "zgesvd"}, {"strsm", "dtrsm", "ctrsm", "ztrsm"},     {"sgees", "dgees", "cgees", "zgees"},
    {"ssytrd", "dsytrd", "chetrd", "zhetrd"}, {"sgehrd", "dgehrd", "cgehrd", "zgehrd"},
};

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

constexpr int64_t kSmall = 16;      // sizes up to here are done by loops of our own where there are such

// one(workspace, first matrix, how many) for groups of as many small real matrices as there are lanes.
template <class T, class F>
int32_t for_groups(int64_t batch, double work, F one) {
    int64_t width = lanes<T>();
    return for_each((batch + width - 1) / width, 1, work * double(width), [=](Workspace &w, int64_t k) { one(w, k * width, std::min(width, batch - k * width)); });
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
    // Right sides are independent of each other: so many make a piece, on any number of threads, that the bits do not depend on that.
    constexpr int64_t kPiece = 64;
    int64_t pieces = n <= kSmall ? 1 : std::max<int64_t>(1, m / kPiece);
    return for_each(batch * pieces, std::max(n, m), double(n) * double(n) * double(m) / double(pieces), [=](Workspace &w, int64_t item) {
        int64_t k = item / pieces, first = item % pieces * kPiece, count = item % pieces == pieces - 1 ? m - first : kPiece;
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
        b += left ? first : first * n;
        int rows = int(left ? count : n), cols = int(left ? n : count), size = int(n), leading = int(left ? m : n);
        const T one(1);
        const char *operation[] = {"N", "T", "C"};
        call<T>(kTrsm, left ? "R" : "L", lower ? "U" : "L", operation[trans], unit ? "U" : "N", &rows, &cols, &one, a, &size, b, &leading, kOne,
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

}  // namespace
}  // namespace lapack
}  // namespace steno

using namespace steno::lapack;

// bufs [pivots, permutation], meta [batch, number of pivots, size]
extern "C" int32_t steno_pivots_to_permutation(void **bufs, const int64_t *meta) {
    const int32_t *pivots = static_cast<const int32_t *>(bufs[0]);
    int32_t *permutation = static_cast<int32_t *>(bufs[1]);
    for (int64_t k = 0; k < meta[0]; ++k) follow_pivots(pivots + k * meta[1], meta[1], permutation + k * meta[2], meta[2]);
    return steno::kOk;
}

STENO_BY_DTYPE(cholesky)
STENO_BY_DTYPE(lu)
STENO_BY_DTYPE(triangular_solve)
STENO_BY_DTYPE(geqrf)
STENO_BY_DTYPE(geqp3)
STENO_BY_DTYPE(householder_product)
STENO_BY_DTYPE(ormqr)
STENO_BY_DTYPE(tridiagonal_solve)
STENO_BY_REAL_DTYPE(cholesky_update)

namespace steno {

namespace {

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
