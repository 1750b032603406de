#include "gemm_amx.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "vectors.h"

#pragma GCC push_options
#pragma GCC target("amx-tile,amx-int8,amx-bf16,avx512f,avx512bw")
#include <immintrin.h>

namespace {

// A tile of memory: 16 rows of 64 bytes. Left: 16 rows of k. Right: 16 groups of k (4 bytes each: 4 elements, or 2), each of 16 columns.
constexpr int64_t kRows = 16, kBytes = 64, kTileBytes = kRows * kBytes;
constexpr int64_t kSide = 2 * kRows;         // rows and columns of a block of four tiles of results
constexpr int64_t kDepthBytes = 4096;        // of k in a block
constexpr int64_t kColumns = 16 * kSide;     // of the right operand that are packed at once

struct Config {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
};

thread_local PackBuffer panels;

bool lent() {
    constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

// 32 rows of k (missing ones are zeros), as tiles in the order of k: each 64 bytes of 16 rows, then those of the other 16.
template <class E>
void pack_left(E *dst, const E *a, int64_t a_row, int64_t a_col, int64_t rows, int64_t kc, int64_t depth) {
    constexpr int64_t kStep = kBytes / sizeof(E);
    for (int64_t k = 0; k < depth; k += kStep)
        for (int64_t i = 0; i < kSide; ++i, dst += kStep) {
            int64_t there = i < rows ? std::clamp<int64_t>(kc - k, 0, kStep) : 0;
            const E *from = a + i * a_row + k * a_col;
            if (there && a_col == 1) std::memcpy(dst, from, size_t(there) * sizeof(E));
            else
                for (int64_t q = 0; q < there; ++q) dst[q] = from[q * a_col];
            std::memset(dst + there, 0, size_t(kStep - there) * sizeof(E));
        }
}

// Whole groups of k of 16 whole columns that lie beside each other.
inline void interleave(uint8_t *dst, const uint8_t *b, int64_t b_row) {
    auto row = [&](int64_t k) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(b + k * b_row)); };
    __m128i r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
    __m128i low = _mm_unpacklo_epi8(r0, r1), high = _mm_unpackhi_epi8(r0, r1), low2 = _mm_unpacklo_epi8(r2, r3), high2 = _mm_unpackhi_epi8(r2, r3);
    auto *to = reinterpret_cast<__m128i *>(dst);
    _mm_storeu_si128(to, _mm_unpacklo_epi16(low, low2));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low, low2));
    _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(high, high2));
    _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(high, high2));
}
inline void interleave(uint16_t *dst, const uint16_t *b, int64_t b_row) {
    auto at = [&](int64_t k) { return reinterpret_cast<const __m128i *>(b + k * b_row); };
    __m128i a0 = _mm_loadu_si128(at(0)), a1 = _mm_loadu_si128(at(0) + 1), b0 = _mm_loadu_si128(at(1)), b1 = _mm_loadu_si128(at(1) + 1);
    auto *to = reinterpret_cast<__m128i *>(dst);
    _mm_storeu_si128(to, _mm_unpacklo_epi16(a0, b0));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(a0, b0));
    _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(a1, b1));
    _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(a1, b1));
}

// 32 columns of k (missing ones are zeros), as tiles in the order of k: 16 groups of 16 columns, then those of the other 16.
template <class E>
void pack_right(E *dst, const E *b, int64_t b_row, int64_t b_col, int64_t columns, int64_t kc, int64_t depth) {
    constexpr int64_t kGroup = 4 / sizeof(E), kStep = kBytes / sizeof(E);
    for (int64_t k = 0; k < depth; k += kStep)
        for (int64_t side = 0; side < kSide; side += kRows)
            for (int64_t g = 0; g < kStep; g += kGroup, dst += kGroup * kRows) {
                const E *from = b + (k + g) * b_row + side * b_col;
                if (b_col == 1 && side + kRows <= columns && k + g + kGroup <= kc) {
                    interleave(dst, from, b_row);
                    continue;
                }
                for (int64_t j = 0; j < kRows; ++j)
                    for (int64_t q = 0; q < kGroup; ++q)
                        dst[j * kGroup + q] = side + j < columns && k + g + q < kc ? from[q * b_row + j * b_col] : E(0);
            }
}

#define STENO_BLOCK(name, multiply) \
    void name(int64_t steps, const uint8_t *a, const uint8_t *b, uint8_t *c, int64_t c_row, bool more) { \
        uint8_t *right = c + kBytes, *below = c + kRows * c_row; \
        if (more) { \
            _tile_loadd(0, c, c_row); \
            _tile_loadd(1, right, c_row); \
            _tile_loadd(2, below, c_row); \
            _tile_loadd(3, below + kBytes, c_row); \
        } else { \
            _tile_zero(0); \
            _tile_zero(1); \
            _tile_zero(2); \
            _tile_zero(3); \
        } \
        for (; steps > 0; --steps, a += 2 * kTileBytes, b += 2 * kTileBytes) { \
            _tile_loadd(4, a, kBytes); \
            _tile_loadd(6, b, kBytes); \
            _tile_loadd(7, b + kTileBytes, kBytes); \
            multiply(0, 4, 6); \
            multiply(1, 4, 7); \
            _tile_loadd(5, a + kTileBytes, kBytes); \
            multiply(2, 5, 6); \
            multiply(3, 5, 7); \
        } \
        _tile_stored(0, c, c_row); \
        _tile_stored(1, right, c_row); \
        _tile_stored(2, below, c_row); \
        _tile_stored(3, below + kBytes, c_row); \
    }

STENO_BLOCK(block_s8s8, _tile_dpbssd)
STENO_BLOCK(block_s8u8, _tile_dpbsud)
STENO_BLOCK(block_u8s8, _tile_dpbusd)
STENO_BLOCK(block_u8u8, _tile_dpbuud)
STENO_BLOCK(block_bf16, _tile_dpbf16ps)
#undef STENO_BLOCK

using Block = decltype(&block_s8s8);

template <class E>
bool run(Block block, int64_t m, int64_t n, int64_t k, const E *a, int64_t a_row, int64_t a_col, const E *b, int64_t b_row, int64_t b_col, uint8_t *c, int64_t c_row) {
    constexpr int64_t kStep = kBytes / sizeof(E), kDepth = kDepthBytes / sizeof(E);
    alignas(64) uint8_t part[kSide * kSide * 4];
    int64_t deepest = (std::min(k, kDepth) + kStep - 1) / kStep * kStep, widest = (std::min(n, kColumns) + kSide - 1) / kSide * kSide;
    E *left = panels.a<E>(size_t(kSide * deepest)), *right = panels.b<E>(size_t(widest * deepest));
    if (!left || !right) return false;
    Config config;
    for (int t = 0; t < 8; ++t) {
        config.bytes[t] = kBytes;
        config.rows[t] = kRows;
    }
    _tile_loadconfig(&config);
    for (int64_t j = 0; j < n; j += kColumns)
        for (int64_t p = 0; p < k; p += kDepth) {
            int64_t w = std::min(kColumns, n - j), kc = std::min(kDepth, k - p), depth = (kc + kStep - 1) / kStep * kStep;
            for (int64_t x = 0; x < w; x += kSide)
                pack_right(right + x * depth, b + p * b_row + (j + x) * b_col, b_row, b_col, std::min(kSide, w - x), kc, depth);
            for (int64_t i = 0; i < m; i += kSide) {
                int64_t h = std::min(kSide, m - i);
                pack_left(left, a + i * a_row + p * a_col, a_row, a_col, h, kc, depth);
                for (int64_t x = 0; x < w; x += kSide) {
                    int64_t v = std::min(kSide, w - x);
                    uint8_t *at = c + (i * c_row + j + x) * 4;
                    const auto *l = reinterpret_cast<const uint8_t *>(left), *r = reinterpret_cast<const uint8_t *>(right + x * depth);
                    if (h == kSide && v == kSide) {
                        block(depth / kStep, l, r, at, c_row * 4, p > 0);
                        continue;
                    }
                    for (int64_t y = 0; p && y < h; ++y) std::memcpy(part + y * kSide * 4, at + y * c_row * 4, size_t(v) * 4);
                    block(depth / kStep, l, r, part, kSide * 4, p > 0);
                    for (int64_t y = 0; y < h; ++y) std::memcpy(at + y * c_row * 4, part + y * kSide * 4, size_t(v) * 4);
                }
            }
        }
    _tile_release();
    return true;
}

}  // namespace

namespace steno {

bool has_amx(AmxKind kind) {
    static const uint32_t features = [] {
        uint32_t a = 0, b = 0, c = 0, d = 0;
        constexpr uint32_t kTile = 1u << 24;
        if (!has_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kTile) || !lent()) return 0u;
        return d;
    }();
    constexpr uint32_t kBf16 = 1u << 22, kInt8 = 1u << 25;
    return features & (kind == AmxKind::bf16 ? kBf16 : kInt8);
}

bool amx_product(AmxKind kind, int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, int64_t a_col, const void *b, int64_t b_row, int64_t b_col, void *c,
                 int64_t c_row) {
    auto *to = static_cast<uint8_t *>(c);
    if (kind == AmxKind::bf16)
        return run(block_bf16, m, n, k, static_cast<const uint16_t *>(a), a_row, a_col, static_cast<const uint16_t *>(b), b_row, b_col, to, c_row);
    constexpr Block kBlocks[] = {block_s8s8, block_s8u8, block_u8s8, block_u8u8};
    return run(kBlocks[int(kind)], m, n, k, static_cast<const uint8_t *>(a), a_row, a_col, static_cast<const uint8_t *>(b), b_row, b_col, to, c_row);
}

}  // namespace steno

#pragma GCC pop_options

#else

namespace steno {
bool has_amx(AmxKind) { return false; }
bool amx_product(AmxKind, int64_t, int64_t, int64_t, const void *, int64_t, int64_t, const void *, int64_t, int64_t, void *, int64_t) { return false; }
}  // namespace steno

#endif
