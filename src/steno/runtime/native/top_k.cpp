// A row is read once. Candidates, keys with their positions, are put into a buffer of more than 2 k of them: first whatever comes.
// When the buffer is full, the k least stay, and from then on only keys below the greatest of these are candidates: equal ones that
// come later are no better. The vectorised scan skips chunks without any. As there is room for k more, the buffer is full at
// most n / k times, even if each key is below all before it.
#include "top_k.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "sort.h"
#include "sort_avx512.h"
#include "threads.h"

namespace steno {

namespace {

constexpr int64_t kChunk = 32;             // keys that are skipped together
constexpr int64_t kRoom = 2 * kChunk;      // candidates beyond 2 k
constexpr int64_t kSorted = 1 << 14;       // up to here vectors sort candidates faster than std::nth_element finds the k least
constexpr int64_t kElementsPerPiece = 1 << 14;

// A key beside its position, in one integer if both fit.
template <class T>
using Candidate = std::conditional_t<sizeof(T) == 8, std::pair<uint64_t, uint64_t>, uint64_t>;

template <class T>
constexpr std::make_unsigned_t<T> kSign = std::is_signed_v<T> ? std::make_unsigned_t<T>(1) << (sizeof(T) * 8 - 1) : 0;

template <class T>
inline Candidate<T> candidate(T key, int64_t position) {
    auto ordered = std::make_unsigned_t<T>(std::make_unsigned_t<T>(key) ^ kSign<T>);
    if constexpr (sizeof(T) == 8) return {ordered, uint64_t(position)};
    else return uint64_t(ordered) << 32 | uint64_t(position);
}

template <class T>
T key_of(const Candidate<T> &c) {
    using U = std::make_unsigned_t<T>;
    if constexpr (sizeof(T) == 8) return T(c.first ^ kSign<T>);
    else return T(U(U(c >> 32) ^ kSign<T>));
}

int32_t position_of(uint64_t c) { return int32_t(uint32_t(c)); }
int32_t position_of(const std::pair<uint64_t, uint64_t> &c) { return int32_t(c.second); }

// Adds the candidates among row[i..end) that are below `limit`, while there is room for a whole chunk; returns where it stopped.
template <class T>
STENO_CLONES int64_t add_below(const T *row, int64_t i, int64_t end, T limit, Candidate<T> *found, int64_t &count, int64_t capacity) {
    int64_t n = count;
    while (i < end && n + kChunk <= capacity) {
        int64_t size = std::min(kChunk, end - i);
        if (size == kChunk) {
            T any = 0;
            for (int64_t j = 0; j < kChunk; ++j) any |= T(row[i + j] < limit);
            if (!any) {
                i += kChunk;
                continue;
            }
        }
        for (int64_t j = 0; j < size; ++j) {
            found[n] = candidate(row[i + j], i + j);
            n += row[i + j] < limit;
        }
        i += size;
    }
    count = n;
    return i;
}

// Sorts candidates; `scratch` is as large.
template <class C>
void sort_candidates(C *found, C *scratch, int64_t count) {
    if constexpr (std::is_same_v<C, uint64_t>)
        if (vectorised_sort()) return avx512_sort(found, scratch, count);
    std::sort(found, found + count);
}

// Brings the k least of `count` candidates to the front, the greatest of them last; returns how many they are.
template <class C>
int64_t keep_least(C *found, C *scratch, int64_t count, int64_t k) {
    if (count <= k) return count;
    if (std::is_same_v<C, uint64_t> && vectorised_sort() && count <= kSorted) sort_candidates(found, scratch, count);
    else std::nth_element(found, found + k - 1, found + count);
    return k;
}

// The size of the buffer. Behind it lies scratch memory of the same size.
int64_t capacity_for(int64_t k) { return 2 * k + kRoom; }

// `pieces` buffers with their scratch memory; throws std::bad_alloc.
template <class T>
std::unique_ptr<Candidate<T>[]> places(int64_t k, int64_t pieces) {
    return std::unique_ptr<Candidate<T>[]>(new Candidate<T>[size_t(2 * pieces * capacity_for(k))]);
}

// The k least of row[begin..end), or all if there are fewer, in any order, in `found` (`places(k, 1)`); returns how many.
template <class T>
int64_t select_least(const T *row, int64_t begin, int64_t end, int64_t k, Candidate<T> *found) {
    int64_t capacity = capacity_for(k);
    int64_t count = std::min(capacity, end - begin), i = begin + count;
    for (int64_t j = 0; j < count; ++j) found[j] = candidate(row[begin + j], begin + j);
    for (;;) {
        count = keep_least(found, found + capacity, count, k);
        if (i == end) return count;
        i = add_below(row, i, end, key_of<T>(found[k - 1]), found, count, capacity);
    }
}

// Sorts k candidates and writes their positions.
template <class C>
void write_positions(C *found, C *scratch, int64_t k, int32_t *to) {
    sort_candidates(found, scratch, k);
    for (int64_t j = 0; j < k; ++j) to[j] = position_of(found[j]);
}

template <class T>
struct Job {
    const T *keys;
    int32_t *positions;
    int64_t n, k;
    Candidate<T> *found = nullptr;  // of one row in pieces, as is what follows
    int64_t *counts = nullptr, pieces = 1;
    std::atomic<bool> out_of_memory{false};

    Candidate<T> *place(int64_t p) const { return found + p * capacity_for(k); }

    void rows(int64_t first, int64_t last) {
        auto room = places<T>(k, 1);
        for (int64_t r = first; r < last; ++r) {
            select_least(keys + r * n, 0, n, k, room.get());
            write_positions(room.get(), room.get() + capacity_for(k), k, positions + r * k);
        }
    }

    void piece(int64_t p) { counts[p] = select_least(keys, p * n / pieces, (p + 1) * n / pieces, k, place(2 * p)); }
};

template <class T>
void rows_body(void **bufs, int64_t begin, int64_t end) {
    auto *job = static_cast<Job<T> *>(bufs[0]);
    try {
        job->rows(begin, end);
    } catch (const std::bad_alloc &) {
        job->out_of_memory = true;
    }
}

template <class T>
void pieces_body(void **bufs, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) static_cast<Job<T> *>(bufs[0])->piece(p);
}

// One row, each thread a part of it; then the least of what they found.
template <class T>
void select_together(Job<T> &job, int64_t pieces) {
    auto room = places<T>(job.k, pieces);
    std::vector<int64_t> counts(size_t(pieces), 0);
    job.found = room.get();
    job.counts = counts.data();
    job.pieces = pieces;
    void *bufs[] = {&job};
    steno_parallel_for(pieces_body<T>, bufs, pieces, 1);
    int64_t count = counts[0];
    for (int64_t p = 1; p < pieces; ++p) {
        std::copy(job.place(2 * p), job.place(2 * p) + counts[size_t(p)], job.found + count);
        count += counts[size_t(p)];
    }
    // At most half of the places are taken: the others are scratch memory.
    keep_least(job.found, job.place(pieces), count, job.k);
    write_positions(job.found, job.place(pieces), job.k, job.positions);
}

template <class T>
int32_t select_rows(void **buffers, int64_t rows, int64_t n, int64_t k) {
    Job<T> job{static_cast<const T *>(buffers[0]), static_cast<int32_t *>(buffers[1]), n, k};
    int threads = num_threads();
    if (rows < threads && n >= kParallelRow) {
        for (int64_t r = 0; r < rows; ++r, job.keys += n, job.positions += k) select_together(job, threads);
        return 0;
    }
    void *bufs[] = {&job};
    steno_parallel_for(rows_body<T>, bufs, rows, std::max<int64_t>(1, kElementsPerPiece / n));
    return job.out_of_memory ? 2 : 0;
}

}  // namespace

}  // namespace steno

using namespace steno;

int32_t steno_top_k(void **buffers, const int64_t *meta) try {
    int64_t rows = meta[0], n = meta[1], k = meta[2];
    if (rows <= 0 || k <= 0) return 0;
    switch (meta[3]) {  // as sort.cpp has them
    case 0: return select_rows<uint8_t>(buffers, rows, n, k);
    case 1: return select_rows<uint16_t>(buffers, rows, n, k);
    case 2: return select_rows<uint32_t>(buffers, rows, n, k);
    case 3: return select_rows<uint64_t>(buffers, rows, n, k);
    case 4: return select_rows<int8_t>(buffers, rows, n, k);
    case 5: return select_rows<int16_t>(buffers, rows, n, k);
    case 6: return select_rows<int32_t>(buffers, rows, n, k);
    default: return select_rows<int64_t>(buffers, rows, n, k);
    }
} catch (const std::bad_alloc &) {
    return 2;
}
