#include "gemm.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <unistd.h>

#include "executable.h"
#include "fp_state.h"
#include "gemm_amx.h"
#include "multiply_add.h"
#include "then.h"
#include "threads.h"
#include "vectors.h"

namespace {

thread_local PackBuffer pack_buffer;

// On AMD's processors (measured on Zen 5) a matrix is read faster nearly in order than in many streams with prefetches, and out of the third-level cache
// without any. Elsewhere that is so in the second-level cache.
bool is_amd() {
#if defined(__x86_64__)
    static const bool amd = __builtin_cpu_is("amd");
    return amd;
#else
    return false;
#endif
}

int64_t cached_bytes() {
    static const int64_t bytes = is_amd() ? std::max<int64_t>(1 << 20, sysconf(_SC_LEVEL3_CACHE_SIZE) / 2) : 1 << 20;
    return bytes;
}

// ---- the kernels, for each instruction set

#define STENO_KERNELS "gemm_kernels.inc"
#include "for_each_target.inc"

// ---- the other dtypes: plain loops, columns innermost

STENO_FMA_BEGIN
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

// One element, of many k-blocks: eight of their chains at a time, since a chain waits for itself.
template <class T>
void dot_blocks(int64_t first, int64_t last, int64_t k, const T *a, int64_t a_col, const T *b, int64_t b_row, T *sums) {
    constexpr int64_t kChains = 8;
    for (; first < last; first += kChains) {
        int64_t chains = std::min(kChains, last - first), from = first * kBlockK;
        T acc[kChains] = {};
        if (chains == kChains && from + kChains * kBlockK <= k) {
            for (int64_t p = 0; p < kBlockK; ++p)
                STENO_UNROLL
                for (int64_t c = 0; c < kChains; ++c) {
                    int64_t at = from + c * kBlockK + p;
                    acc[c] = std::fma(a[at * a_col], b[at * b_row], acc[c]);
                }
        } else {
            for (int64_t c = 0; c < chains; ++c)
                for (int64_t at = from + c * kBlockK, end = std::min(k, at + kBlockK); at < end; ++at) acc[c] = std::fma(a[at * a_col], b[at * b_row], acc[c]);
        }
        std::copy_n(acc, chains, sums + first);
    }
}
STENO_FMA_END

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
    const steno::Then *then;  // what runs on each block of the result, or null
};

#if defined(__x86_64__)
#define STENO_LANES(name) \
    struct name { \
        using Wide = avx512::name; \
        using Narrow = avx2::name; \
    };
#else
#define STENO_LANES(name) using name = portable::name;
#endif
namespace lanes {
STENO_LANES(F32)
STENO_LANES(F64)
STENO_LANES(I32)
STENO_LANES(I64)
STENO_LANES(I16Pairs)
}  // namespace lanes
#undef STENO_LANES

// A product on this thread in the vectors of this machine, added to what is at `c` if `more`. False: there was no memory.
template <class L, class T>
bool product(int64_t m, int64_t n, int64_t k, const T *a, int64_t a_row, int64_t a_col, const T *b, int64_t b_row, int64_t b_col, T *c, int64_t c_row, bool more) {
    if (n == 1 && c_row == 1) {  // the lanes run along n: of one column make one row
        std::swap(a, b);
        std::swap(m, n);
        std::swap(a_row, b_col);
        std::swap(a_col, b_row);
    }
#if defined(__x86_64__)
    using Wide = typename L::Wide;
    using Narrow = typename L::Narrow;
    return has_avx512() ? avx512::product<Wide>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, pack_buffer, more)
                        : avx2::product<Narrow>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, pack_buffer, more);
#else
    return portable::product<L>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, pack_buffer, more);
#endif
}

// Blocks of operands that are converted first: so much memory at most, and panels are as full as can be.
constexpr int64_t kConvertedRows = 96, kConvertedColumns = 512, kConvertedDepth = 8 * kBlockK;

// Complex numbers by a real product of twice the size, whose k runs over real and imaginary parts in turns:
//     (re)   (a.re, -a.im)(b.re)
//     (im) = (a.im,  a.re)(b.im)
template <class L, class F>
bool complex_product(int64_t m, int64_t n, int64_t k, const std::complex<F> *a, int64_t a_row, int64_t a_col, const std::complex<F> *b, int64_t b_row,
                     int64_t b_col, std::complex<F> *c, int64_t c_row) {
    thread_local PackBuffer parts, results;
    for (int64_t j = 0; j < n; j += kConvertedColumns) {
        int64_t w = std::min(kConvertedColumns, n - j);
        for (int64_t p = 0; p < k; p += kConvertedDepth / 2) {
            int64_t kc = std::min(kConvertedDepth / 2, k - p);
            F *right = parts.b<F>(size_t(2 * kc * w));
            if (!right) return false;
            for (int64_t q = 0; q < kc; ++q) {
                const std::complex<F> *from = b + (p + q) * b_row + j * b_col;
                F *re = right + 2 * q * w, *im = re + w;
                for (int64_t x = 0; x < w; ++x) {
                    re[x] = from[x * b_col].real();
                    im[x] = from[x * b_col].imag();
                }
            }
            for (int64_t i = 0; i < m; i += kConvertedRows) {
                int64_t h = std::min(kConvertedRows, m - i);
                F *left = parts.a<F>(size_t(4 * h * kc)), *out = results.a<F>(size_t(2 * h * w));
                if (!left || !out) return false;
                for (int64_t y = 0; y < h; ++y) {
                    const std::complex<F> *from = a + (i + y) * a_row + p * a_col;
                    F *re = left + 2 * y * kc, *im = re + 2 * h * kc;
                    for (int64_t q = 0; q < kc; ++q) {
                        std::complex<F> x = from[q * a_col];
                        re[2 * q] = x.real();
                        re[2 * q + 1] = -x.imag();
                        im[2 * q] = x.imag();
                        im[2 * q + 1] = x.real();
                    }
                }
                if (p)
                    for (int64_t y = 0; y < h; ++y)
                        for (int64_t x = 0; x < w; ++x) {
                            std::complex<F> z = c[(i + y) * c_row + j + x];
                            out[y * w + x] = z.real();
                            out[(h + y) * w + x] = z.imag();
                        }
                if (!product<L>(2 * h, w, 2 * kc, left, 2 * kc, 1, right, w, 1, out, w, p > 0)) return false;
                for (int64_t y = 0; y < h; ++y)
                    for (int64_t x = 0; x < w; ++x) c[(i + y) * c_row + j + x] = {out[y * w + x], out[(h + y) * w + x]};
            }
        }
    }
    return true;
}

// Rows of two matrices, contiguous, multiplied with each other.
template <class L, class T>
void row_dots(int64_t n, int64_t k, const T *a, int64_t a_row, const T *b, int64_t b_row, T *c) {
#if defined(__x86_64__)
    using Wide = typename L::Wide;
    using Narrow = typename L::Narrow;
    has_avx512() ? avx512::row_dots<Wide>(n, k, a, a_row, b, b_row, c) : avx2::row_dots<Narrow>(n, k, a, a_row, b, b_row, c);
#else
    portable::row_dots<L>(n, k, a, a_row, b, b_row, c);
#endif
}

template <class T>
using FloatLanes = std::conditional_t<std::is_same_v<T, float>, lanes::F32, lanes::F64>;

struct Bfloat {
    uint16_t bits;
    operator float() const {
        uint32_t x = uint32_t(bits) << 16;
        float f;
        std::memcpy(&f, &x, sizeof f);
        return f;
    }
};

// Operands converted to T, block by block.
template <class L, class T, class A, class B>
bool converted_product(int64_t m, int64_t n, int64_t k, const A *a, int64_t a_row, int64_t a_col, const B *b, int64_t b_row, int64_t b_col, T *c, int64_t c_row) {
    thread_local PackBuffer wide;
    for (int64_t j = 0; j < n; j += kConvertedColumns)
        for (int64_t p = 0; p < k; p += kConvertedDepth) {
            int64_t w = std::min(kConvertedColumns, n - j), kc = std::min(kConvertedDepth, k - p);
            T *right = wide.b<T>(size_t(kc * w)), *left = wide.a<T>(size_t(std::min(m, kConvertedRows) * kc));
            if (!left || !right) return false;
            for (int64_t q = 0; q < kc; ++q)
                for (int64_t x = 0; x < w; ++x) right[q * w + x] = b[(p + q) * b_row + (j + x) * b_col];
            for (int64_t i = 0; i < m; i += kConvertedRows) {
                int64_t h = std::min(kConvertedRows, m - i);
                for (int64_t y = 0; y < h; ++y)
                    for (int64_t q = 0; q < kc; ++q) left[y * kc + q] = a[(i + y) * a_row + (p + q) * a_col];
                if (!product<L>(h, w, kc, left, kc, 1, right, w, 1, c + i * c_row + j, c_row, p > 0)) return false;
            }
        }
    return true;
}

template <class A>
void paired(int32_t *out, const A *in, int64_t rows, int64_t k, int64_t row, int64_t col, int64_t *to_row, int64_t *to_col) {
#if defined(__x86_64__)
    has_avx512() ? avx512::paired(out, in, rows, k, row, col, to_row, to_col) : avx2::paired(out, in, rows, k, row, col, to_row, to_col);
#else
    portable::paired(out, in, rows, k, row, col, to_row, to_col);
#endif
}

// Bytes: two that follow each other in k are one element, whose products are added at once. As in `converted_product`.
template <class A, class B>
bool byte_product(int64_t m, int64_t n, int64_t k, const A *a, int64_t a_row, int64_t a_col, const B *b, int64_t b_row, int64_t b_col, int32_t *c, int64_t c_row) {
    thread_local PackBuffer wide;
    for (int64_t j = 0; j < n; j += kConvertedColumns)
        for (int64_t p = 0; p < k; p += 2 * kConvertedDepth) {
            int64_t w = std::min(kConvertedColumns, n - j), kc = std::min(2 * kConvertedDepth, k - p), pairs = (kc + 1) / 2;
            auto *right = wide.b<int32_t>(size_t(pairs * w)), *left = wide.a<int32_t>(size_t(std::min(m, kConvertedRows) * pairs));
            if (!left || !right) return false;
            int64_t row, col, right_row, right_col;
            paired(right, b + p * b_row + j * b_col, w, kc, b_col, b_row, &right_col, &right_row);
            for (int64_t i = 0; i < m; i += kConvertedRows) {
                int64_t h = std::min(kConvertedRows, m - i);
                paired(left, a + i * a_row + p * a_col, h, kc, a_row, a_col, &row, &col);
                if (!product<lanes::I16Pairs>(h, w, pairs, left, row, col, right, right_row, right_col, c + i * c_row + j, c_row, p > 0)) return false;
            }
        }
    return true;
}

// Operands that the matrix unit takes as they are, results of four bytes.
template <class T, class A, class B>
void run_narrow(const Job &j, steno::AmxKind kind, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
    const A *a = static_cast<const A *>(j.a) + j.lhs.offset + batch * j.lhs.batch + m0 * j.lhs.row;
    const B *b = static_cast<const B *>(j.b) + j.rhs.offset + batch * j.rhs.batch + n0 * j.rhs.col;
    T *c = static_cast<T *>(j.c) + batch * j.m * j.n + m0 * j.n + n0;
    int64_t m = m1 - m0, n = n1 - n0;
    bool done = true;
    if (j.k == 0)
        for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * j.n, n, T(0));
    else if (steno::has_amx(kind))
        done = steno::amx_product(kind, m, n, j.k, a, j.lhs.row, j.lhs.col, b, j.rhs.row, j.rhs.col, c, j.n);
    else if constexpr (sizeof(A) == 1)
        done = byte_product(m, n, j.k, a, j.lhs.row, j.lhs.col, b, j.rhs.row, j.rhs.col, c, j.n);
    else
        done = converted_product<lanes::F32>(m, n, j.k, a, j.lhs.row, j.lhs.col, b, j.rhs.row, j.rhs.col, c, j.n);
    if (!done) j.failed->store(true);
}

constexpr int64_t kLongDot = 100'000;  // of which two threads compute a part each

// One element of float32 or float64. The blocks' sums are added in order, whoever computed them.
template <class T>
struct Dot {
    int64_t k;
    const T *a, *b;
    int64_t a_col, b_row;
    T *sums;
    bool run(T *c, bool parallel) {
        int64_t blocks = (k + kBlockK - 1) / kBlockK;
        sums = pack_buffer.a<T>(size_t(blocks));
        if (!sums) return false;
        void *self = this;
        if (parallel)
            steno_parallel_for(run_blocks, &self, blocks, std::max<int64_t>(1, blocks / std::max(1, steno::num_threads())));
        else
            compute(0, blocks);
        T total = sums[0];
        for (int64_t p = 1; p < blocks; ++p) total += sums[p];
        *c = total;
        return true;
    }
    static void run_blocks(void **bufs, int64_t begin, int64_t end) {
        steno::FlushSubnormals flush;
        static_cast<const Dot *>(bufs[0])->compute(begin, end);
    }
    void compute(int64_t begin, int64_t end) const {
        if (int64_t whole = std::min(end, k / kBlockK) - begin; a_col == 1 && b_row == 1 && whole > 0) {
            row_dots<FloatLanes<T>>(whole, kBlockK, a + begin * kBlockK, kBlockK, b + begin * kBlockK, kBlockK, sums + begin);
            begin += whole;
        }
        dot_blocks(begin, end, k, a, a_col, b, b_row, sums);
    }
};

template <class T>
void run_one(const Job &j, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
    const T *a = static_cast<const T *>(j.a) + j.lhs.offset + batch * j.lhs.batch + m0 * j.lhs.row;
    const T *b = static_cast<const T *>(j.b) + j.rhs.offset + batch * j.rhs.batch + n0 * j.rhs.col;
    T *c = static_cast<T *>(j.c) + batch * j.m * j.n + m0 * j.n + n0;
    int64_t m = m1 - m0, n = n1 - n0, k = j.k;
    if (k == 0) {
        for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * j.n, n, T(0));
        return;
    }
    int64_t a_row = j.lhs.row, a_col = j.lhs.col, b_row = j.rhs.row, b_col = j.rhs.col;
    bool done = true;
    if constexpr (std::is_floating_point_v<T>)
        if (j.m == 1 && j.n == 1 && k > 2 * kBlockK) {
            if (!Dot<T>{k, a, b, a_col, b_row, nullptr}.run(c, j.batch == 1 && k >= kLongDot)) j.failed->store(true);
            return;
        }
    if constexpr (std::is_same_v<T, float>) {
        done = product<lanes::F32>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, j.n, false);
    } else if constexpr (std::is_same_v<T, double>) {
        done = product<lanes::F64>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, j.n, false);
    } else if constexpr (std::is_same_v<T, int32_t>) {
        done = product<lanes::I32>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, j.n, false);
    } else if constexpr (std::is_same_v<T, int64_t>) {
        done = product<lanes::I64>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, j.n, false);
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
        // Below, plain loops take less; they are the same chains, if one block of the real product holds all of them.
        using L = std::conditional_t<std::is_same_v<T, std::complex<float>>, lanes::F32, lanes::F64>;
        if (j.m * j.n * k <= 64 && 2 * k <= kBlockK)
            plain<T>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, j.n);
        else
            done = complex_product<L>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, j.n);
    } else {
        plain<T>(m, n, k, a, a_row, a_col, b, b_row, b_col, c, j.n);
    }
    if (!done) j.failed->store(true);
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
        case 10: return run_one<int32_t>(j, batch, m0, m1, n0, n1);  // the same bits
        case 11: return run_one<int64_t>(j, batch, m0, m1, n0, n1);
        case 12: return run_one<bool>(j, batch, m0, m1, n0, n1);
        case 13: return run_narrow<int32_t, int8_t, int8_t>(j, steno::AmxKind::s8s8, batch, m0, m1, n0, n1);
        case 14: return run_narrow<int32_t, int8_t, uint8_t>(j, steno::AmxKind::s8u8, batch, m0, m1, n0, n1);
        case 15: return run_narrow<int32_t, uint8_t, int8_t>(j, steno::AmxKind::u8s8, batch, m0, m1, n0, n1);
        case 16: return run_narrow<int32_t, uint8_t, uint8_t>(j, steno::AmxKind::u8u8, batch, m0, m1, n0, n1);
        case 17: return run_narrow<float, Bfloat, Bfloat>(j, steno::AmxKind::bf16, batch, m0, m1, n0, n1);
    }
}

template <class T>
void run_dots(const Job &j, int64_t begin, int64_t end) {
    const T *a = static_cast<const T *>(j.a) + j.lhs.offset + begin * j.lhs.batch, *b = static_cast<const T *>(j.b) + j.rhs.offset + begin * j.rhs.batch;
    row_dots<FloatLanes<T>>(end - begin, j.k, a, j.lhs.batch, b, j.rhs.batch, static_cast<T *>(j.c) + begin);
}

// Whole products of the batch.
void run_products(const Job &j, int64_t begin, int64_t end) {
    if (j.code < 2 && j.m == 1 && j.n == 1 && j.k > 0 && end - begin > 1 && j.lhs.col == 1 && j.rhs.row == 1)
        return j.code ? run_dots<double>(j, begin, end) : run_dots<float>(j, begin, end);
    for (int64_t batch = begin; batch < end; ++batch) run_piece(j, batch, 0, j.m, 0, j.n);
}

// Products of so many multiplications are code of the programs that need them (compiler/small_products.py), which keeps subnormals. Where such a product comes
// here all the same (among a batch), it does so too.
constexpr int64_t kTiny = 512, kShallow = 16;

bool flushes(const Job &j) { return j.k > kShallow || j.m * j.n * j.k > kTiny; }

constexpr int64_t kRows = 12, kColumns = 32;  // about a register tile

// Blocks of the result that stay in the second-level cache until `then` has seen them: those that `product` makes, or several.
constexpr int64_t kBlockBytes = 1 << 20, kBlockRows = 192, kBlockColumns = 512;

// A piece in such blocks.
void run_then(const Job &j, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
    const steno::Then &then = *j.then;
    int64_t elements = kBlockBytes / then.itemsize, width = n1 - n0;
    if (then.by_columns && j.n > 1) width = std::min(width, std::max(kBlockColumns, elements / (m1 - m0) / kBlockColumns * kBlockColumns));
    int64_t height = std::max(int64_t(1), elements / width / kBlockRows) * kBlockRows;
    for (int64_t x = n0; x < n1; x += width)
        for (int64_t y = m0; y < m1; y += height) {
            int64_t right = std::min(n1, x + width), below = std::min(m1, y + height);
            {
                std::optional<steno::FlushSubnormals> flush;
                if (flushes(j)) flush.emplace();
                run_piece(j, batch, y, below, x, right);
            }
            if (j.n == 1)
                then(batch, 1, y, below);
            else
                then(batch * j.m + y, below - y, x, right);
        }
}

// Whole products, as many as make one block.
void run_products_then(const Job &j, int64_t begin, int64_t end) {
    const steno::Then &then = *j.then;
    int64_t rows = j.n == 1 ? 1 : j.m, count = kBlockBytes / then.itemsize / (j.m * j.n);
    if (count <= 1) {
        for (int64_t batch = begin; batch < end; ++batch) run_then(j, batch, 0, j.m, 0, j.n);
        return;
    }
    for (int64_t last; begin < end; begin = last) {
        last = std::min(end, begin + count);
        {
            std::optional<steno::FlushSubnormals> flush;
            if (flushes(j)) flush.emplace();
            run_products(j, begin, last);
        }
        then(begin * rows, (last - begin) * rows, 0, j.n == 1 ? j.m : j.n);
    }
}

void run_range(void **bufs, int64_t begin, int64_t end) {
    const Job &j = *static_cast<const Job *>(bufs[0]);
    auto run = j.then ? run_then : run_piece;
    std::optional<steno::FlushSubnormals> flush;
    if (!j.then && flushes(j)) flush.emplace();
    int64_t pieces = j.pieces, extent = j.by_rows ? j.m : j.n;
    while (begin < end) {
        int64_t batch = begin / pieces, first = begin % pieces;
        if (int64_t whole = (end - begin) / pieces; first == 0 && whole > 1) {
            j.then ? run_products_then(j, batch, batch + whole) : run_products(j, batch, batch + whole);
            begin += whole * pieces;
            continue;
        }
        int64_t last = std::min(pieces, first + (end - begin));
        int64_t x0 = first * j.tile, x1 = std::min(extent, last * j.tile);
        if (j.by_rows)
            run(j, batch, x0, x1, 0, j.n);
        else
            run(j, batch, 0, j.m, x0, x1);
        begin += last - first;
    }
}

int32_t multiply(void **bufs, const int64_t *meta, const steno::Then *then) {
    std::atomic<bool> failed{false};
    Job j{meta[0], meta[1], meta[2], meta[3], meta[4], {meta[5], meta[6], meta[7], meta[8]}, {meta[9], meta[10], meta[11], meta[12]}, bufs[0], bufs[1], bufs[2], true, 1, 1, &failed, then};
    if (!j.batch || !j.m || !j.n) return steno::kOk;
    j.by_rows = (then && !then->by_columns) || j.m >= j.n;
    j.tile = j.by_rows && j.n > 1 ? kRows : then ? steno::kThenColumns : kColumns;
    j.pieces = ((j.by_rows ? j.m : j.n) + j.tile - 1) / j.tile;
    void *job = &j;
    int64_t total = j.batch * j.pieces;
    double work = double(j.batch) * double(j.m) * double(j.n) * double(j.k + 8) + (then ? then->work : 0);
    // One piece for each thread, since each packs one of the operands whole; two where that is little beside the rest.
    int64_t threads = std::max(1, steno::num_threads()), shares = threads;
    if (total * j.tile >= threads * 1024) shares *= 2;
    int64_t grain = work < steno::kParallelWork ? total : (total + shares - 1) / shares;
    steno_parallel_for(run_range, &job, total, grain);
    return failed.load() ? steno::kOutOfMemory : steno::kOk;
}

}  // namespace

extern "C" int32_t steno_gemm(void **bufs, const int64_t *meta) { return multiply(bufs, meta, nullptr); }

extern "C" int32_t steno_gemm_then(void **bufs, const int64_t *meta, StenoThen *run, void **then_bufs) {
    steno::Then then(run, then_bufs, meta);
    return multiply(bufs, meta + steno::kThenMeta, &then);
}
