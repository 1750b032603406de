// Vectors of float and double for kernels that are written once over a type `V` (T, W lanes, R; MR: rows of a register tile; load and store whole
// and of the first n lanes, broadcast, fma) and instantiated for each instruction set: namespaces avx512 and avx2 on x86, portable elsewhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define STENO_INLINE inline __attribute__((always_inline))
// Accumulators must be registers, so loops over them are unrolled whatever the optimisation level.
#define STENO_UNROLL _Pragma("GCC unroll 16")

namespace {

// The blocks of contracted elements: chains of multiply-adds, whose results are added in order. All products must agree on them.
constexpr int64_t kBlockK = 256;

// A sum that is not mixed with the next ones: the compiler knows that integers can be added in any order, and runs out of registers.
template <class R>
STENO_INLINE void in_order(R &sum) {
#if defined(__x86_64__)
    __asm__("" : "+v"(sum));
#endif
}

// Integers wrap around.
template <class T>
STENO_INLINE T wrapping_add(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
        return a + b;
    else
        return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
}

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
struct I32 {
    using T = int32_t;
    using R = __m512i;
    static constexpr int W = 16, MR = 12;
    STENO_INLINE static R zero() { return _mm512_setzero_si512(); }
    STENO_INLINE static R load(const T *p) { return _mm512_loadu_si512(p); }
    STENO_INLINE static R load(const T *p, int n) { return _mm512_maskz_loadu_epi32(F32::first(n), p); }
    STENO_INLINE static void store(T *p, R v) { _mm512_storeu_si512(p, v); }
    STENO_INLINE static void store(T *p, R v, int n) { _mm512_mask_storeu_epi32(p, F32::first(n), v); }
    STENO_INLINE static R broadcast(const T *p) { return _mm512_set1_epi32(*p); }
    STENO_INLINE static R fma(R a, R b, R c) {
        R sum = _mm512_add_epi32(_mm512_mullo_epi32(a, b), c);
        in_order(sum);
        return sum;
    }
    STENO_INLINE static R add(R a, R b) { return _mm512_add_epi32(a, b); }
    STENO_INLINE static void transpose(R *r) {
        F32::R t[W];
        STENO_UNROLL
        for (int i = 0; i < W; ++i) t[i] = _mm512_castsi512_ps(r[i]);
        F32::transpose(t);
        STENO_UNROLL
        for (int i = 0; i < W; ++i) r[i] = _mm512_castps_si512(t[i]);
    }
};
// Elements are pairs of int16: the sum of the two products is added.
struct I16Pairs : I32 {
    STENO_INLINE static R fma(R a, R b, R c) {
        R sum = _mm512_add_epi32(_mm512_madd_epi16(a, b), c);
        in_order(sum);
        return sum;
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
struct I64 {
    using T = int64_t;
    using R = __m512i;
    static constexpr int W = 8, MR = 12;
    STENO_INLINE static R zero() { return _mm512_setzero_si512(); }
    STENO_INLINE static R load(const T *p) { return _mm512_loadu_si512(p); }
    STENO_INLINE static R load(const T *p, int n) { return _mm512_maskz_loadu_epi64(F64::first(n), p); }
    STENO_INLINE static void store(T *p, R v) { _mm512_storeu_si512(p, v); }
    STENO_INLINE static void store(T *p, R v, int n) { _mm512_mask_storeu_epi64(p, F64::first(n), v); }
    STENO_INLINE static R broadcast(const T *p) { return _mm512_set1_epi64(*p); }
    STENO_INLINE static R fma(R a, R b, R c) {
        R sum = _mm512_add_epi64(_mm512_mullo_epi64(a, b), c);
        in_order(sum);
        return sum;
    }
    STENO_INLINE static R add(R a, R b) { return _mm512_add_epi64(a, b); }
    STENO_INLINE static void transpose(R *r) {
        F64::R t[W];
        STENO_UNROLL
        for (int i = 0; i < W; ++i) t[i] = _mm512_castsi512_pd(r[i]);
        F64::transpose(t);
        STENO_UNROLL
        for (int i = 0; i < W; ++i) r[i] = _mm512_castpd_si512(t[i]);
    }
};
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
struct I32 {
    using T = int32_t;
    using R = __m256i;
    static constexpr int W = 8, MR = 6;
    STENO_INLINE static R zero() { return _mm256_setzero_si256(); }
    STENO_INLINE static R load(const T *p) { return _mm256_loadu_si256(reinterpret_cast<const R *>(p)); }
    STENO_INLINE static R load(const T *p, int n) { return _mm256_maskload_epi32(p, F32::first(n)); }
    STENO_INLINE static void store(T *p, R v) { _mm256_storeu_si256(reinterpret_cast<R *>(p), v); }
    STENO_INLINE static void store(T *p, R v, int n) { _mm256_maskstore_epi32(p, F32::first(n), v); }
    STENO_INLINE static R broadcast(const T *p) { return _mm256_set1_epi32(*p); }
    STENO_INLINE static R fma(R a, R b, R c) {
        R sum = _mm256_add_epi32(_mm256_mullo_epi32(a, b), c);
        in_order(sum);
        return sum;
    }
    STENO_INLINE static R add(R a, R b) { return _mm256_add_epi32(a, b); }
    STENO_INLINE static void transpose(R *r) {
        F32::R t[W];
        STENO_UNROLL
        for (int i = 0; i < W; ++i) t[i] = _mm256_castsi256_ps(r[i]);
        F32::transpose(t);
        STENO_UNROLL
        for (int i = 0; i < W; ++i) r[i] = _mm256_castps_si256(t[i]);
    }
};
// Elements are pairs of int16: the sum of the two products is added.
struct I16Pairs : I32 {
    STENO_INLINE static R fma(R a, R b, R c) {
        R sum = _mm256_add_epi32(_mm256_madd_epi16(a, b), c);
        in_order(sum);
        return sum;
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
struct I64 {
    using T = int64_t;
    using R = __m256i;
    static constexpr int W = 4, MR = 6;
    STENO_INLINE static R zero() { return _mm256_setzero_si256(); }
    STENO_INLINE static R load(const T *p) { return _mm256_loadu_si256(reinterpret_cast<const R *>(p)); }
    STENO_INLINE static R load(const T *p, int n) { return _mm256_maskload_epi64(reinterpret_cast<const long long *>(p), F64::first(n)); }
    STENO_INLINE static void store(T *p, R v) { _mm256_storeu_si256(reinterpret_cast<R *>(p), v); }
    STENO_INLINE static void store(T *p, R v, int n) { _mm256_maskstore_epi64(reinterpret_cast<long long *>(p), F64::first(n), v); }
    STENO_INLINE static R broadcast(const T *p) { return _mm256_set1_epi64x(*p); }
    STENO_INLINE static R fma(R a, R b, R c) {  // of halves of 32 bits; what exceeds 64 falls away
        R crossed = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b), _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
        return _mm256_add_epi64(c, _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(crossed, 32)));
    }
    STENO_INLINE static R add(R a, R b) { return _mm256_add_epi64(a, b); }
    STENO_INLINE static void transpose(R *r) {
        F64::R t[W];
        STENO_UNROLL
        for (int i = 0; i < W; ++i) t[i] = _mm256_castsi256_pd(r[i]);
        F64::transpose(t);
        STENO_UNROLL
        for (int i = 0; i < W; ++i) r[i] = _mm256_castpd_si256(t[i]);
    }
};
}  // namespace avx2
#pragma GCC pop_options

inline bool has_avx512() {
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
    STENO_INLINE static R fma(R a, R b, R c) {
        if constexpr (std::is_floating_point_v<S>)
            return std::fma(a, b, c);
        else  // wraps around
            return S(std::make_unsigned_t<S>(a) * std::make_unsigned_t<S>(b) + std::make_unsigned_t<S>(c));
    }
    STENO_INLINE static R add(R a, R b) { return wrapping_add(a, b); }
    STENO_INLINE static void transpose(R *) {}
};
using I32 = Scalar<int32_t>;
using I64 = Scalar<int64_t>;
// Elements are pairs of int16: the sum of the two products is added.
struct I16Pairs : I32 {
    STENO_INLINE static R fma(R a, R b, R c) { return wrapping_add(c, int16_t(a) * int16_t(b) + (a >> 16) * (b >> 16)); }
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
}  // namespace portable

#endif

}  // namespace
