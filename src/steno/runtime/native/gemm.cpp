#include "gemm.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "executable.h"
#include "fp_state.h"
#include "multiply_add.h"
#include "then.h"
#include "threads.h"
#include "vectors.h"

namespace {

thread_local PackBuffer pack_buffer;

// ---- the kernels, for each instruction set

#define STENO_KERNELS "gemm_kernels.inc"
#include "for_each_target.inc"

// ---- the other dtypes: plain loops, columns innermost

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
    const steno::Then *then;  // what runs on each block of the result, or null
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
    int64_t rows = j.n == 1 ? 1 : j.m, count = std::max(int64_t(1), kBlockBytes / then.itemsize / (j.m * j.n));
    for (int64_t last; begin < end; begin = last) {
        last = std::min(end, begin + count);
        {
            std::optional<steno::FlushSubnormals> flush;
            if (flushes(j)) flush.emplace();
            for (int64_t batch = begin; batch < last; ++batch) run_piece(j, batch, 0, j.m, 0, j.n);
        }
        then(begin * rows, (last - begin) * rows, 0, j.n == 1 ? j.m : j.n);
    }
}

void run_range(void **bufs, int64_t begin, int64_t end) {
    const Job &j = *static_cast<const Job *>(bufs[0]);
    if (j.then && j.pieces == 1 && j.batch > 1) return run_products_then(j, begin, end);
    auto run = j.then ? run_then : run_piece;
    std::optional<steno::FlushSubnormals> flush;
    if (!j.then && flushes(j)) flush.emplace();
    int64_t pieces = j.pieces, extent = j.by_rows ? j.m : j.n;
    while (begin < end) {
        int64_t batch = begin / pieces, first = begin % pieces;
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
