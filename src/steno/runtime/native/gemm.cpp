#include "gemm.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "executable.h"
#include "fp_state.h"
#include "threads.h"

#define STENO_INLINE inline __attribute__((always_inline))
// Accumulators must be registers, so loops over them are unrolled whatever the optimisation level.
#define STENO_UNROLL _Pragma("GCC unroll 16")

namespace {

constexpr int64_t kBlockK = 256;

// A thread's memory for packed panels, kept between calls.
class PackBuffer {
  public:
    ~PackBuffer() {
        std::free(a_.data);
        std::free(b_.data);
    }
    template <class T>
    T *a(size_t n) {
        return static_cast<T *>(grow(a_, n * sizeof(T)));
    }
    template <class T>
    T *b(size_t n) {
        return static_cast<T *>(grow(b_, n * sizeof(T)));
    }
  private:
    struct Piece {
        void *data = nullptr;
        size_t size = 0;
    };
    void *grow(Piece &p, size_t bytes) {
        if (p.size >= bytes) return p.data;
        std::free(p.data);
        p.size = 0;
        p.data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (p.data) p.size = bytes;
        return p.data;
    }
    Piece a_, b_;
};

thread_local PackBuffer pack_buffer;

// ---- instruction sets

#if defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 says so of its own headers, whose undefined vectors are masked out
namespace avx512 {
struct F32 {
    using T = float;
    using R = __m512;
    static constexpr int W = 16, MR = 12;
    static __mmask16 first(int n) { return __mmask16((1u << n) - 1); }
    STENO_INLINE static R zero() { return _mm512_setzero_ps(); }
    STENO_INLINE static R load(const T *p) { return _mm512_loadu_ps(p); }
    STENO_INLINE static R load(const T *p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
    STENO_INLINE static void store(T *p, R v) { _mm512_storeu_ps(p, v); }
    STENO_INLINE static void store(T *p, R v, int n) { _mm512_mask_storeu_ps(p, first(n), v); }
    STENO_INLINE static R broadcast(const T *p) { return _mm512_set1_ps(*p); }
    STENO_INLINE static R fma(R a, R b, R c) { return _mm512_fmadd_ps(a, b, c); }
    STENO_INLINE static R add(R a, R b) { return _mm512_add_ps(a, b); }
    STENO_INLINE static void transpose(R *r) {
        R t[16];
        STENO_UNROLL
        for (int i = 0; i < 16; i += 4) {  // within each 128 bits: 4 x 4
            R a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
            R c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
            t[i] = _mm512_shuffle_ps(a, c, 0x44);
            t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
            t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
            t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
        }
        STENO_UNROLL
        for (int i = 0; i < 4; ++i) {  // 4 x 4 of the 128 bits
            R a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
            R c = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd), d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
            r[i] = _mm512_shuffle_f32x4(a, b, 0x88);
            r[i + 4] = _mm512_shuffle_f32x4(c, d, 0x88);
            r[i + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
            r[i + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
        }
    }
};
struct F64 {
    using T = double;
    using R = __m512d;
    static constexpr int W = 8, MR = 12;
    static __mmask8 first(int n) { return __mmask8((1u << n) - 1); }
    STENO_INLINE static R zero() { return _mm512_setzero_pd(); }
    STENO_INLINE static R load(const T *p) { return _mm512_loadu_pd(p); }
    STENO_INLINE static R load(const T *p, int n) { return _mm512_maskz_loadu_pd(first(n), p); }
    STENO_INLINE static void store(T *p, R v) { _mm512_storeu_pd(p, v); }
    STENO_INLINE static void store(T *p, R v, int n) { _mm512_mask_storeu_pd(p, first(n), v); }
    STENO_INLINE static R broadcast(const T *p) { return _mm512_set1_pd(*p); }
    STENO_INLINE static R fma(R a, R b, R c) { return _mm512_fmadd_pd(a, b, c); }
    STENO_INLINE static R add(R a, R b) { return _mm512_add_pd(a, b); }
    STENO_INLINE static void transpose(R *r) {
        R t[8];
        STENO_UNROLL
        for (int i = 0; i < 8; i += 2) {
            t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
            t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
        }
        STENO_UNROLL
        for (int i = 0; i < 2; ++i) {
            R a = _mm512_shuffle_f64x2(t[i], t[i + 2], 0x88), b = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0x88);
            R c = _mm512_shuffle_f64x2(t[i], t[i + 2], 0xdd), d = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0xdd);
            r[i] = _mm512_shuffle_f64x2(a, b, 0x88);
            r[i + 2] = _mm512_shuffle_f64x2(c, d, 0x88);
            r[i + 4] = _mm512_shuffle_f64x2(a, b, 0xdd);
            r[i + 6] = _mm512_shuffle_f64x2(c, d, 0xdd);
        }
    }
};
#include "gemm_kernels.inc"
}  // namespace avx512
#pragma GCC diagnostic pop
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
struct F32 {
    using T = float;
    using R = __m256;
    static constexpr int W = 8, MR = 6;
    STENO_INLINE static __m256i first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
    STENO_INLINE static R zero() { return _mm256_setzero_ps(); }
    STENO_INLINE static R load(const T *p) { return _mm256_loadu_ps(p); }
    STENO_INLINE static R load(const T *p, int n) { return _mm256_maskload_ps(p, first(n)); }
    STENO_INLINE static void store(T *p, R v) { _mm256_storeu_ps(p, v); }
    STENO_INLINE static void store(T *p, R v, int n) { _mm256_maskstore_ps(p, first(n), v); }
    STENO_INLINE static R broadcast(const T *p) { return _mm256_set1_ps(*p); }
    STENO_INLINE static R fma(R a, R b, R c) { return _mm256_fmadd_ps(a, b, c); }
    STENO_INLINE static R add(R a, R b) { return _mm256_add_ps(a, b); }
    STENO_INLINE static void transpose(R *r) {
        R t[8];
        STENO_UNROLL
        for (int i = 0; i < 8; i += 4) {  // within each 128 bits: 4 x 4
            R a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
            R c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
            t[i] = _mm256_shuffle_ps(a, c, 0x44);
            t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
            t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
            t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
        }
        STENO_UNROLL
        for (int i = 0; i < 4; ++i) {
            r[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
            r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
        }
    }
};
struct F64 {
    using T = double;
    using R = __m256d;
    static constexpr int W = 4, MR = 6;
    STENO_INLINE static __m256i first(int n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
    STENO_INLINE static R zero() { return _mm256_setzero_pd(); }
    STENO_INLINE static R load(const T *p) { return _mm256_loadu_pd(p); }
    STENO_INLINE static R load(const T *p, int n) { return _mm256_maskload_pd(p, first(n)); }
    STENO_INLINE static void store(T *p, R v) { _mm256_storeu_pd(p, v); }
    STENO_INLINE static void store(T *p, R v, int n) { _mm256_maskstore_pd(p, first(n), v); }
    STENO_INLINE static R broadcast(const T *p) { return _mm256_set1_pd(*p); }
    STENO_INLINE static R fma(R a, R b, R c) { return _mm256_fmadd_pd(a, b, c); }
    STENO_INLINE static R add(R a, R b) { return _mm256_add_pd(a, b); }
    STENO_INLINE static void transpose(R *r) {
        R a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
        R c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
        r[0] = _mm256_permute2f128_pd(a, c, 0x20);
        r[1] = _mm256_permute2f128_pd(b, d, 0x20);
        r[2] = _mm256_permute2f128_pd(a, c, 0x31);
        r[3] = _mm256_permute2f128_pd(b, d, 0x31);
    }
};
#include "gemm_kernels.inc"
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

#else

namespace portable {
// One lane at a time: the same chain of fused multiply-adds.
template <class S>
struct Scalar {
    using T = S;
    using R = S;
    static constexpr int W = 1, MR = 8;
    STENO_INLINE static R zero() { return S(0); }
    STENO_INLINE static R load(const T *p) { return *p; }
    STENO_INLINE static R load(const T *p, int) { return *p; }
    STENO_INLINE static void store(T *p, R v) { *p = v; }
    STENO_INLINE static void store(T *p, R v, int) { *p = v; }
    STENO_INLINE static R broadcast(const T *p) { return *p; }
    STENO_INLINE static R fma(R a, R b, R c) { return std::fma(a, b, c); }
    STENO_INLINE static R add(R a, R b) { return a + b; }
    STENO_INLINE static void transpose(R *) {}
};
#if defined(__aarch64__)
struct F32 {
    using T = float;
    using R = float32x4_t;
    static constexpr int W = 4, MR = 8;
    STENO_INLINE static R zero() { return vdupq_n_f32(0); }
    STENO_INLINE static R load(const T *p) { return vld1q_f32(p); }
    STENO_INLINE static R load(const T *p, int n) {
        T t[4] = {};
        std::memcpy(t, p, size_t(n) * sizeof(T));
        return vld1q_f32(t);
    }
    STENO_INLINE static void store(T *p, R v) { vst1q_f32(p, v); }
    STENO_INLINE static void store(T *p, R v, int n) {
        T t[4];
        vst1q_f32(t, v);
        std::memcpy(p, t, size_t(n) * sizeof(T));
    }
    STENO_INLINE static R broadcast(const T *p) { return vdupq_n_f32(*p); }
    STENO_INLINE static R fma(R a, R b, R c) { return vfmaq_f32(c, a, b); }
    STENO_INLINE static R add(R a, R b) { return vaddq_f32(a, b); }
    STENO_INLINE static void transpose(R *r) {
        float32x4x2_t p = vtrnq_f32(r[0], r[1]), q = vtrnq_f32(r[2], r[3]);
        r[0] = vcombine_f32(vget_low_f32(p.val[0]), vget_low_f32(q.val[0]));
        r[1] = vcombine_f32(vget_low_f32(p.val[1]), vget_low_f32(q.val[1]));
        r[2] = vcombine_f32(vget_high_f32(p.val[0]), vget_high_f32(q.val[0]));
        r[3] = vcombine_f32(vget_high_f32(p.val[1]), vget_high_f32(q.val[1]));
    }
};
struct F64 {
    using T = double;
    using R = float64x2_t;
    static constexpr int W = 2, MR = 8;
    STENO_INLINE static R zero() { return vdupq_n_f64(0); }
    STENO_INLINE static R load(const T *p) { return vld1q_f64(p); }
    STENO_INLINE static R load(const T *p, int n) {
        T t[2] = {};
        std::memcpy(t, p, size_t(n) * sizeof(T));
        return vld1q_f64(t);
    }
    STENO_INLINE static void store(T *p, R v) { vst1q_f64(p, v); }
    STENO_INLINE static void store(T *p, R v, int n) {
        T t[2];
        vst1q_f64(t, v);
        std::memcpy(p, t, size_t(n) * sizeof(T));
    }
    STENO_INLINE static R broadcast(const T *p) { return vdupq_n_f64(*p); }
    STENO_INLINE static R fma(R a, R b, R c) { return vfmaq_f64(c, a, b); }
    STENO_INLINE static R add(R a, R b) { return vaddq_f64(a, b); }
    STENO_INLINE static void transpose(R *r) {
        R low = vtrn1q_f64(r[0], r[1]);
        r[1] = vtrn2q_f64(r[0], r[1]);
        r[0] = low;
    }
};
#else
using F32 = Scalar<float>;
using F64 = Scalar<double>;
#endif
#include "gemm_kernels.inc"
}  // namespace portable

#endif

// ---- the other dtypes: plain loops, columns innermost

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
    F im = std::fma(a.imag(), b.real(), std::fma(a.real(), b.imag(), c.imag()));
    c = std::complex<F>(re, im);
}

template <class T>
void plain(int64_t m, int64_t n, int64_t k, const T *a, int64_t a_row, int64_t a_col, const T *b, int64_t b_row, int64_t b_col, T *c, int64_t c_row) {
    for (int64_t i = 0; i < m; ++i) {
        T *row = c + i * c_row;
        for (int64_t j = 0; j < n; ++j) row[j] = T(0);
        for (int64_t p = 0; p < k; ++p) {
            T x = a[i * a_row + p * a_col];
            const T *q = b + p * b_row;
            if (b_col == 1)
                for (int64_t j = 0; j < n; ++j) multiply_add(row[j], x, q[j]);
            else
                for (int64_t j = 0; j < n; ++j) multiply_add(row[j], x, q[j * b_col]);
        }
    }
}

// ---- the whole job, cut for the threads

struct Operand {
    int64_t offset, batch, row, col;
};

struct Job {
    int64_t code, batch, m, n, k;
    Operand lhs, rhs;
    void *a, *b, *c;
    bool by_rows;   // the threads' pieces are rows (else columns) of the result
    int64_t tile;   // rows or columns a piece is a multiple of
    int64_t pieces; // in each product of the batch
    std::atomic<bool> *failed; // no memory for packed panels, on whatever thread
};

template <class T>
void run_one(const Job &j, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
    const T *a = static_cast<const T *>(j.a) + j.lhs.offset + batch * j.lhs.batch + m0 * j.lhs.row;
    const T *b = static_cast<const T *>(j.b) + j.rhs.offset + batch * j.rhs.batch + n0 * j.rhs.col;
    T *c = static_cast<T *>(j.c) + batch * j.m * j.n + m0 * j.n + n0;
    int64_t m = m1 - m0, n = n1 - n0;
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        if (j.k == 0) {
            for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * j.n, n, T(0));
            return;
        }
        int64_t a_row = j.lhs.row, a_col = j.lhs.col, b_row = j.rhs.row, b_col = j.rhs.col, c_row = j.n;
        if (n == 1 && c_row == 1) {  // the lanes run along n: of one column make one row
            std::swap(a, b);
            std::swap(m, n);
            std::swap(a_row, b_col);
            std::swap(a_col, b_row);
        }
#if defined(__x86_64__)
        using Wide = std::conditional_t<std::is_same_v<T, float>, avx512::F32, avx512::F64>;
        using Narrow = std::conditional_t<std::is_same_v<T, float>, avx2::F32, avx2::F64>;
        bool done = has_avx512()
                        ? avx512::product<Wide>(m, n, j.k, a, a_row, a_col, b, b_row, b_col, c, c_row, pack_buffer)
                        : avx2::product<Narrow>(m, n, j.k, a, a_row, a_col, b, b_row, b_col, c, c_row, pack_buffer);
#else
        using V = std::conditional_t<std::is_same_v<T, float>, portable::F32, portable::F64>;
        bool done = portable::product<V>(m, n, j.k, a, a_row, a_col, b, b_row, b_col, c, c_row, pack_buffer);
#endif
        if (!done) j.failed->store(true);
    } else {
        plain<T>(m, n, j.k, a, j.lhs.row, j.lhs.col, b, j.rhs.row, j.rhs.col, c, j.n);
    }
}

void run_piece(const Job &j, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
    switch (j.code) {
        case 0: return run_one<float>(j, batch, m0, m1, n0, n1);
        case 1: return run_one<double>(j, batch, m0, m1, n0, n1);
        case 2: return run_one<std::complex<float>>(j, batch, m0, m1, n0, n1);
        case 3: return run_one<std::complex<double>>(j, batch, m0, m1, n0, n1);
        case 4: return run_one<int8_t>(j, batch, m0, m1, n0, n1);
        case 5: return run_one<int16_t>(j, batch, m0, m1, n0, n1);
        case 6: return run_one<int32_t>(j, batch, m0, m1, n0, n1);
        case 7: return run_one<int64_t>(j, batch, m0, m1, n0, n1);
        case 8: return run_one<uint8_t>(j, batch, m0, m1, n0, n1);
        case 9: return run_one<uint16_t>(j, batch, m0, m1, n0, n1);
        case 10: return run_one<uint32_t>(j, batch, m0, m1, n0, n1);
        case 11: return run_one<uint64_t>(j, batch, m0, m1, n0, n1);
        case 12: return run_one<bool>(j, batch, m0, m1, n0, n1);
    }
}

void run_range(void **bufs, int64_t begin, int64_t end) {
    const Job &j = *static_cast<const Job *>(bufs[0]);
    steno::FlushSubnormals flush;
    int64_t pieces = j.pieces, extent = j.by_rows ? j.m : j.n;
    while (begin < end) {
        int64_t batch = begin / pieces, first = begin % pieces;
        int64_t last = std::min(pieces, first + (end - begin));
        int64_t x0 = first * j.tile, x1 = std::min(extent, last * j.tile);
        if (j.by_rows)
            run_piece(j, batch, x0, x1, 0, j.n);
        else
            run_piece(j, batch, 0, j.m, x0, x1);
        begin += last - first;
    }
}

}  // namespace

extern "C" int32_t steno_gemm(void **bufs, const int64_t *meta) {
    std::atomic<bool> failed{false};
    Job j{meta[0], meta[1], meta[2], meta[3], meta[4], {meta[5], meta[6], meta[7], meta[8]}, {meta[9], meta[10], meta[11], meta[12]}, bufs[0], bufs[1], bufs[2], true, 1, 1, &failed};
    if (!j.batch || !j.m || !j.n) return steno::kOk;
    constexpr int64_t kRows = 48, kColumns = 64;  // multiples of all register tiles
    j.by_rows = (j.m + kRows - 1) / kRows >= (j.n + kColumns - 1) / kColumns;
    j.tile = j.by_rows ? kRows : kColumns;
    j.pieces = ((j.by_rows ? j.m : j.n) + j.tile - 1) / j.tile;
    void *job = &j;
    int64_t total = j.batch * j.pieces;
    double work = double(j.batch) * double(j.m) * double(j.n) * double(j.k + 8);
    // Below about 20 microseconds of work the hand-over does not pay; above, each thread gets a few large pieces.
    int64_t grain = work < 1e6 ? total : std::max<int64_t>(1, total / (2 * std::max(1, steno::num_threads())));
    steno_parallel_for(run_range, &job, total, grain);
    return failed.load() ? steno::kOutOfMemory : steno::kOk;
}
