// Quicksort: a pass splits elements by compressing them left and right of the pivot (Bramas, "A novel hybrid quicksort algorithm
// vectorized using AVX-512 on Intel Skylake", 2017); pieces of up to 16 vectors are sorted by a bitonic network (Batcher 1968) in the form
// where every comparison is ascending: a merge begins by comparing each element with its mirror image.
// This file is compiled for AVX-512 and must hold no function that others share (inline functions of the library included).
#include "sort_avx512.h"

#include <cstddef>

#if defined(__AVX512F__)

#include <immintrin.h>

namespace steno {

namespace {

constexpr int kVectors = 16;   // of the network
constexpr int kMaxDepth = 64;  // of the quicksort; then heapsort

#define STENO_INLINE inline __attribute__((always_inline))

struct U32 {
    using T = uint32_t;
    using Mask = __mmask16;
    static constexpr int lanes = 16;
    static constexpr T greatest = UINT32_MAX;
    static STENO_INLINE __m512i broadcast(T x) { return _mm512_set1_epi32(int(x)); }
    static STENO_INLINE __m512i load(const T *p) { return _mm512_loadu_si512(p); }
    static STENO_INLINE __m512i load(Mask m, const T *p) { return _mm512_mask_loadu_epi32(broadcast(greatest), m, p); }
    static STENO_INLINE void store(T *p, __m512i v) { _mm512_storeu_si512(p, v); }
    static STENO_INLINE void store(Mask m, T *p, __m512i v) { _mm512_mask_storeu_epi32(p, m, v); }
    static STENO_INLINE __m512i compress(Mask m, __m512i v) { return _mm512_maskz_compress_epi32(m, v); }
    static STENO_INLINE Mask le(__m512i a, __m512i b) { return _mm512_cmple_epu32_mask(a, b); }
    static STENO_INLINE Mask lt(__m512i a, __m512i b) { return _mm512_cmplt_epu32_mask(a, b); }
    static STENO_INLINE __m512i min(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
    static STENO_INLINE __m512i max(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
    static STENO_INLINE __m512i max(__m512i keep, Mask m, __m512i a, __m512i b) { return _mm512_mask_max_epu32(keep, m, a, b); }
    static STENO_INLINE __m512i permute(__m512i index, __m512i v) { return _mm512_permutexvar_epi32(index, v); }
    // lane ^ distance
    static STENO_INLINE __m512i partners(int distance) {
        return _mm512_xor_si512(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), _mm512_set1_epi32(distance));
    }
};

struct U64 {
    using T = uint64_t;
    using Mask = __mmask8;
    static constexpr int lanes = 8;
    static constexpr T greatest = UINT64_MAX;
    static STENO_INLINE __m512i broadcast(T x) { return _mm512_set1_epi64((long long)x); }
    static STENO_INLINE __m512i load(const T *p) { return _mm512_loadu_si512(p); }
    static STENO_INLINE __m512i load(Mask m, const T *p) { return _mm512_mask_loadu_epi64(broadcast(greatest), m, p); }
    static STENO_INLINE void store(T *p, __m512i v) { _mm512_storeu_si512(p, v); }
    static STENO_INLINE void store(Mask m, T *p, __m512i v) { _mm512_mask_storeu_epi64(p, m, v); }
    static STENO_INLINE __m512i compress(Mask m, __m512i v) { return _mm512_maskz_compress_epi64(m, v); }
    static STENO_INLINE Mask le(__m512i a, __m512i b) { return _mm512_cmple_epu64_mask(a, b); }
    static STENO_INLINE Mask lt(__m512i a, __m512i b) { return _mm512_cmplt_epu64_mask(a, b); }
    static STENO_INLINE __m512i min(__m512i a, __m512i b) { return _mm512_min_epu64(a, b); }
    static STENO_INLINE __m512i max(__m512i a, __m512i b) { return _mm512_max_epu64(a, b); }
    static STENO_INLINE __m512i max(__m512i keep, Mask m, __m512i a, __m512i b) { return _mm512_mask_max_epu64(keep, m, a, b); }
    static STENO_INLINE __m512i permute(__m512i index, __m512i v) { return _mm512_permutexvar_epi64(index, v); }
    static STENO_INLINE __m512i partners(int distance) {
        return _mm512_xor_si512(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(distance));
    }
};

// The lanes that get the greater element when lane is compared with lane ^ distance: those with the distance's highest bit.
template <class V>
constexpr typename V::Mask upper(int distance) {
    int high = distance;
    while (high & (high - 1)) high &= high - 1;
    unsigned mask = 0;
    for (int lane = 0; lane < V::lanes; ++lane)
        if (lane & high) mask |= 1u << lane;
    return typename V::Mask(mask);
}

// Compares every lane with lane ^ distance, in each of R vectors.
template <class V, int R, int Distance>
STENO_INLINE void exchange_lanes(__m512i *v) {
    const __m512i index = V::partners(Distance);
    constexpr typename V::Mask mask = upper<V>(Distance);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
        __m512i p = V::permute(index, v[r]);
        v[r] = V::max(V::min(v[r], p), mask, v[r], p);
    }
}

template <class V, int R, int Distance>
STENO_INLINE void halve_lanes(__m512i *v) {
    if constexpr (Distance > 0) {
        exchange_lanes<V, R, Distance>(v);
        halve_lanes<V, R, Distance / 2>(v);
    }
}

// Sorts each vector.
template <class V, int R, int Run = 2>
STENO_INLINE void sort_lanes(__m512i *v) {
    if constexpr (Run <= V::lanes) {
        exchange_lanes<V, R, Run - 1>(v);
        halve_lanes<V, R, Run / 4>(v);
        sort_lanes<V, R, Run * 2>(v);
    }
}

// Merges sorted runs of Run / 2 vectors to runs of Run, until there is one of R.
template <class V, int R, int Run = 2>
STENO_INLINE void merge_vectors(__m512i *v) {
    if constexpr (Run <= R) {
        const __m512i mirror = V::partners(V::lanes - 1);
#pragma GCC unroll 16
        for (int base = 0; base < R; base += Run)
#pragma GCC unroll 16
            for (int k = 0; k < Run / 2; ++k) {
                __m512i a = v[base + k], b = V::permute(mirror, v[base + Run - 1 - k]);
                v[base + k] = V::min(a, b);
                v[base + Run - 1 - k] = V::permute(mirror, V::max(a, b));
            }
#pragma GCC unroll 4
        for (int distance = Run / 4; distance > 0; distance /= 2)
#pragma GCC unroll 16
            for (int k = 0; k < R; ++k)
                if (!(k & distance)) {
                    __m512i a = v[k], b = v[k + distance];
                    v[k] = V::min(a, b);
                    v[k + distance] = V::max(a, b);
                }
        halve_lanes<V, R, V::lanes / 2>(v);
        merge_vectors<V, R, Run * 2>(v);
    }
}

// Sorts at most R vectors of elements, padded with the greatest value.
template <class V, int R>
__attribute__((noinline)) void network(const typename V::T *from, typename V::T *to, int64_t n) {
    __m512i v[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
        int64_t left = n - r * V::lanes;
        unsigned mask = left >= V::lanes ? ~0u : left <= 0 ? 0u : (1u << left) - 1;
        v[r] = V::load(typename V::Mask(mask), from + r * V::lanes);
    }
    sort_lanes<V, R>(v);
    merge_vectors<V, R>(v);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
        int64_t left = n - r * V::lanes;
        unsigned mask = left >= V::lanes ? ~0u : left <= 0 ? 0u : (1u << left) - 1;
        V::store(typename V::Mask(mask), to + r * V::lanes, v[r]);
    }
}

template <class V>
void sort_small(const typename V::T *from, typename V::T *to, int64_t n) {
    constexpr int L = V::lanes;
    if (n <= L) return network<V, 1>(from, to, n);
    if (n <= 2 * L) return network<V, 2>(from, to, n);
    if (n <= 4 * L) return network<V, 4>(from, to, n);
    if (n <= 8 * L) return network<V, 8>(from, to, n);
    return network<V, 16>(from, to, n);
}

// Moves the elements of from[0..n) that are at most `pivot` (or below it, if strict) to its front, in place, and the others to the end of
// `other`; returns how many stay.
template <class V, bool Strict>
int64_t partition(typename V::T *from, typename V::T *other, int64_t n, typename V::T pivot) {
    constexpr int L = V::lanes;
    const __m512i p = V::broadcast(pivot);
    int64_t low = 0, high = n, i = 0;
    for (; i + L <= n; i += L) {
        __m512i v = V::load(from + i);
        unsigned stays = Strict ? V::lt(v, p) : V::le(v, p);
        int count = __builtin_popcount(stays);
        V::store(from + low, V::compress(typename V::Mask(stays), v));  // behind what has been read: low <= i
        low += count;
        high -= L - count;
        V::store(typename V::Mask((1u << (L - count)) - 1), other + high, V::compress(typename V::Mask(~stays), v));
    }
    if (i < n) {
        unsigned valid = (1u << (n - i)) - 1;
        __m512i v = V::load(typename V::Mask(valid), from + i);
        unsigned stays = (Strict ? V::lt(v, p) : V::le(v, p)) & valid, goes = valid & ~stays;
        int count = __builtin_popcount(stays), rest = __builtin_popcount(goes);
        V::store(typename V::Mask((1u << count) - 1), from + low, V::compress(typename V::Mask(stays), v));
        low += count;
        high -= rest;
        V::store(typename V::Mask((1u << rest) - 1), other + high, V::compress(typename V::Mask(goes), v));
    }
    return low;
}

template <class T>
void copy(const T *from, T *to, int64_t n) {
    if (from != to) __builtin_memcpy(to, from, size_t(n) * sizeof(T));
}

template <class T>
void sift_down(T *a, int64_t k, int64_t n) {
    for (T x = a[k];;) {
        int64_t child = 2 * k + 1;
        if (child >= n) {
            a[k] = x;
            return;
        }
        if (child + 1 < n && a[child] < a[child + 1]) ++child;
        if (a[child] <= x) {
            a[k] = x;
            return;
        }
        a[k] = a[child];
        k = child;
    }
}

template <class T>
void heapsort(T *a, int64_t n) {
    for (int64_t k = n / 2; k-- > 0;) sift_down(a, k, n);
    for (int64_t end = n - 1; end > 0; --end) {
        T x = a[0];
        a[0] = a[end];
        a[end] = x;
        sift_down(a, 0, end);
    }
}

// The median of a vector's worth of elements spread over the array.
template <class V>
typename V::T choose_pivot(const typename V::T *a, int64_t n) {
    typename V::T sample[V::lanes];
    int64_t step = n / V::lanes;
    for (int k = 0; k < V::lanes; ++k) sample[k] = a[step * k + step / 2];
    network<V, 1>(sample, sample, V::lanes);
    return sample[V::lanes / 2 - 1];
}

// Sorts from[0..n) into `to`, which is either `from` or `other`: two arrays of n elements that both get overwritten.
template <class V>
void quicksort(typename V::T *from, typename V::T *other, typename V::T *to, int64_t n, int depth) {
    while (n > kVectors * V::lanes) {
        if (depth-- == 0) {
            heapsort(from, n);
            return copy(from, to, n);
        }
        typename V::T pivot = choose_pivot<V>(from, n);
        int64_t low = partition<V, false>(from, other, n, pivot);
        if (low == n) {  // the pivot is the greatest: its equals are in place behind the rest
            low = partition<V, true>(from, other, n, pivot);
            for (int64_t k = low; k < n; ++k) to[k] = pivot;
            n = low;
            continue;
        }
        // The upper part lies in `other` now.
        quicksort<V>(other + low, from + low, to + low, n - low, depth);
        n = low;
    }
    sort_small<V>(from, to, n);
}

}  // namespace

bool have_avx512_sort() { return __builtin_cpu_supports("avx512f"); }

void avx512_sort(uint32_t *a, uint32_t *scratch, int64_t n) { quicksort<U32>(a, scratch, a, n, kMaxDepth); }
void avx512_sort(uint64_t *a, uint64_t *scratch, int64_t n) { quicksort<U64>(a, scratch, a, n, kMaxDepth); }

}  // namespace steno

#else

namespace steno {

bool have_avx512_sort() { return false; }
void avx512_sort(uint32_t *, uint32_t *, int64_t) {}
void avx512_sort(uint64_t *, uint64_t *, int64_t) {}

}  // namespace steno

#endif
