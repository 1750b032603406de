// Eigenvalues, singular values, Schur forms, and the reductions that come before: see lapack.cpp.
#include "lapack_common.h"

#include <algorithm>
#include <cstdint>

namespace steno {
namespace lapack {
namespace {

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

}  // namespace
}  // namespace lapack
}  // namespace steno

using namespace steno::lapack;

STENO_BY_DTYPE(eigh)
STENO_BY_DTYPE(eig)
STENO_BY_DTYPE(svd)
STENO_BY_DTYPE(schur)
STENO_BY_DTYPE(hessenberg)
STENO_BY_DTYPE(tridiagonal)
