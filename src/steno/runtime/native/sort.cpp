// Every key becomes an unsigned integer of the same order. Then, for each row:
//   * with AVX-512: a vectorised quicksort (sort_avx512.cpp), if equals cannot be told apart; of one long row, each thread sorts
//     a piece, and then they merge them together;
//   * many short rows: 16 at a time through Batcher's odd-even merge network (Knuth, The Art of Computer Programming 3, 5.3.4), one
//     row in each vector lane;
//   * one short row: std::sort;
//   * long rows: least significant digit radix sort; one long row is cut into as many pieces as there are threads, which count
//     and then scatter together.
// The elements sorted are the key alone if it is the only operand; the key and a 32-bit payload; or the key and its position, which
// then moves every operand. Several keys are sorted one after the other, the last one first.
// Keys do not tell -0.0 from 0.0, nor NaNs from each other; where a key is turned back into a float, `Specials` restores them.
#include "sort.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "sort_avx512.h"
#include "threads.h"

namespace steno {

namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kNetworkKeys = 1024;  // longest rows for the network: a block of 16 fits the second level cache
constexpr int64_t kNetworkPairs = 512;
constexpr int64_t kComparisonSort = 96;    // below: std::sort
constexpr int64_t kWideDigits = 8192;      // from here 11-bit digits, below 8-bit ones
constexpr int64_t kElementsPerPiece = 1 << 13;

// Codes are part of compiled programs: their numbers must not change.
enum Code : int64_t {
    kUInt8 = 0,
    kUInt16 = 1,
    kUInt32 = 2,
    kUInt64 = 3,
    kInt8 = 4,
    kInt16 = 5,
    kInt32 = 6,
    kInt64 = 7,
    kFloat16 = 8,
    kBFloat16 = 9,
    kFloat32 = 10,
    kFloat64 = 11,
    kComplex64 = 12,
    kComplex128 = 13,
    kFirstNarrow = 16,  // and on: `narrow`
};

// Types of one byte that are no plain integers, by the order of their 256 bytes.
struct OneByte {
    const char *name;
    int (*rank)(int byte);
};

constexpr int kNaN = 1024;

// Sign and magnitude, of `bits` bits; bits above them do not count.
int signed_magnitude(int b, int bits) {
    int magnitude = b & ((1 << (bits - 1)) - 1);
    return b >> (bits - 1) & 1 ? 256 - magnitude : 256 + magnitude;
}
// Eight bits, a magnitude above `infinity` is a NaN.
template <int Infinity>
int ieee(int b) {
    return (b & 0x7F) > Infinity ? kNaN : signed_magnitude(b, 8);
}
// Eight bits, the only NaN where -0 would be.
int unsigned_zero(int b) { return b == 0x80 ? kNaN : signed_magnitude(b, 8); }
template <int Bits>
int no_nan(int b) {
    return signed_magnitude(b, Bits);
}
template <int Bits>
int two_complement(int b) {
    return (b & ((1 << Bits) - 1)) ^ 1 << (Bits - 1);
}
template <int Bits>
int natural(int b) {
    return b & ((1 << Bits) - 1);
}

const OneByte narrow[] = {
    {"float8_e3m4", ieee<0x70>},
    {"float8_e4m3", ieee<0x78>},
    {"float8_e4m3b11fnuz", unsigned_zero},
    {"float8_e4m3fn", ieee<0x7E>},
    {"float8_e4m3fnuz", unsigned_zero},
    {"float8_e5m2", ieee<0x7C>},
    {"float8_e5m2fnuz", unsigned_zero},
    {"float8_e8m0fnu", [](int b) { return b == 0xFF ? kNaN : b; }},
    {"float6_e2m3fn", no_nan<6>},
    {"float6_e3m2fn", no_nan<6>},
    {"float4_e2m1fn", no_nan<4>},
    {"int4", two_complement<4>},
    {"int2", two_complement<2>},
    {"uint4", natural<4>},
    {"uint2", natural<2>},
};
constexpr int64_t kNarrow = sizeof(narrow) / sizeof(*narrow);

int64_t item_size(int64_t code) {
    static const int8_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
    return code >= kFirstNarrow ? 1 : sizes[code];
}

// ---- keys -----------------------------------------------------------------------------------------------------------------------

// A key type: Raw is what lies in memory, Key its image. `exact`: unmap(map(x)) == x for every x.
template <class T>
struct Unsigned {
    using Raw = T;
    using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    static constexpr int bits = sizeof(T) * 8;
    static constexpr bool exact = true;
    Key map(Raw x) const { return x; }
    Raw unmap(Key k) const { return Raw(k); }
};

template <class T>
struct Signed : Unsigned<T> {
    using typename Unsigned<T>::Key;
    static constexpr T sign = T(T(1) << (sizeof(T) * 8 - 1));
    Key map(T x) const { return T(x ^ sign); }
    T unmap(Key k) const { return T(T(k) ^ sign); }
};

// IEEE formats. Infinity: the bits of +inf.
template <class T, T Infinity>
struct Float : Unsigned<T> {
    using typename Unsigned<T>::Key;
    static constexpr bool exact = false;
    static constexpr T sign = T(T(1) << (sizeof(T) * 8 - 1)), ones = T(~T(0));
    Key map(T x) const {
        T magnitude = T(x & T(~sign));
        T key = T(x & sign ? T(~x) : T(x | sign));
        key = magnitude == 0 ? sign : key;
        return magnitude > Infinity ? ones : key;
    }
    T unmap(Key k) const { return T(T(k) & sign ? T(T(k) ^ sign) : T(~T(k))); }
    static T special(T x) { return T(x == sign) | T(T(x & T(~sign)) > Infinity); }
    static bool is_nan(T x) { return T(x & T(~sign)) > Infinity; }
    static bool is_zero(T x) { return T(x & T(~sign)) == 0; }
    static bool is_negative(T x) { return x & sign; }
};

struct Table {
    using Raw = uint8_t;
    using Key = uint32_t;
    static constexpr int bits = 16;
    static constexpr bool exact = false;
    uint16_t rank[256];
    explicit Table(const OneByte &type) {
        for (int b = 0; b < 256; ++b) rank[b] = uint16_t(type.rank(b));
    }
    Key map(Raw x) const { return rank[x]; }
};

using F16 = Float<uint16_t, 0x7C00>;
using BF16 = Float<uint16_t, 0x7F80>;
using F32 = Float<uint32_t, 0x7F800000u>;
using F64 = Float<uint64_t, 0x7FF0000000000000ull>;

// Calls f(key type, stride) for one component of a key: `part` 0, or 0 and 1 for complex numbers.
template <class F>
bool with_key(int64_t code, F f) {
    switch (code) {
    case kUInt8: return f(Unsigned<uint8_t>(), 1);
    case kUInt16: return f(Unsigned<uint16_t>(), 1);
    case kUInt32: return f(Unsigned<uint32_t>(), 1);
    case kUInt64: return f(Unsigned<uint64_t>(), 1);
    case kInt8: return f(Signed<uint8_t>(), 1);
    case kInt16: return f(Signed<uint16_t>(), 1);
    case kInt32: return f(Signed<uint32_t>(), 1);
    case kInt64: return f(Signed<uint64_t>(), 1);
    case kFloat16: return f(F16(), 1);
    case kBFloat16: return f(BF16(), 1);
    case kFloat32: return f(F32(), 1);
    case kFloat64: return f(F64(), 1);
    case kComplex64: return f(F32(), 2);
    case kComplex128: return f(F64(), 2);
    default: return f(Table(narrow[code - kFirstNarrow]), 1);
    }
}

int parts(int64_t code) { return code == kComplex64 || code == kComplex128 ? 2 : 1; }

// The loops over rows, for the widest vectors the machine has.

template <class K>
STENO_CLONES bool has_special(const typename K::Raw *row, int64_t n) {
    typename K::Raw any = 0;
    for (int64_t i = 0; i < n; ++i) any |= K::special(row[i]);
    return any;
}

template <class K>
STENO_CLONES void map_row(const K key, const typename K::Raw *row, typename K::Key *to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = key.map(row[i]);
}

template <class K>
STENO_CLONES void unmap_row(const K key, const typename K::Key *from, typename K::Raw *row, int64_t n) {
    for (int64_t i = 0; i < n; ++i) row[i] = key.unmap(from[i]);
}

// Keys of 32 bits above values, or above the positions from `first` on (values null).
template <class K>
STENO_CLONES void pack_row(const K key, const typename K::Raw *row, const uint32_t *values, int64_t first, uint64_t *to, int64_t n) {
    if (values)
        for (int64_t i = 0; i < n; ++i) to[i] = uint64_t(key.map(row[i])) << 32 | values[i];
    else
        for (int64_t i = 0; i < n; ++i) to[i] = uint64_t(key.map(row[i])) << 32 | uint64_t(first + i);
}

// The reverse; positions choose from `values`.
template <class K>
STENO_CLONES void unpack_row(const K key, const uint64_t *from, const uint32_t *values, typename K::Raw *row, uint32_t *to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) row[i] = key.unmap(uint32_t(from[i] >> 32));
    if (values)
        for (int64_t i = 0; i < n; ++i) to[i] = values[uint32_t(from[i])];
    else
        for (int64_t i = 0; i < n; ++i) to[i] = uint32_t(from[i]);
}

// The zeros and NaNs of a row in their order, to be written over the run of zeros and the run of NaNs of the sorted row.
template <class K>
struct Specials {
    using Raw = typename K::Raw;
    std::vector<Raw> zeros, nans;
    size_t below_zero = 0;

    // Reads the row if it has any (-0.0 or NaN); throws std::bad_alloc.
    Specials(const Raw *row, int64_t n) {
        if (!has_special<K>(row, n)) return;
        for (int64_t i = 0; i < n; ++i) {
            if (K::is_nan(row[i])) nans.push_back(row[i]);
            else if (K::is_zero(row[i])) zeros.push_back(row[i]);
            else below_zero += K::is_negative(row[i]);
        }
    }
    void restore(Raw *sorted, int64_t n) const {
        std::copy(zeros.begin(), zeros.end(), sorted + below_zero);
        std::copy(nans.begin(), nans.end(), sorted + n - int64_t(nans.size()));
    }
};

template <class T>
struct Specials<Unsigned<T>> {
    Specials(const T *, int64_t) {}
    void restore(T *, int64_t) const {}
};
template <class T>
struct Specials<Signed<T>> : Specials<Unsigned<T>> {
    using Specials<Unsigned<T>>::Specials;
};

// ---- what is sorted -------------------------------------------------------------------------------------------------------------

struct KeyAndValue {
    uint64_t key;
    uint64_t value;
    bool operator<(const KeyAndValue &o) const { return key != o.key ? key < o.key : value < o.value; }
};

// How elements show their key: bare keys; a key of 32 bits above a value of 32 bits; a key of 64 bits beside a value.
template <class E>
struct Bare {
    using Element = E;
    static uint64_t key(E e) { return e; }
};
struct Packed {
    using Element = uint64_t;
    static uint64_t key(uint64_t e) { return e >> 32; }
    static uint64_t make(uint64_t key, uint64_t value) { return key << 32 | value; }
    static uint64_t value(uint64_t e) { return uint32_t(e); }
};
struct Paired {
    using Element = KeyAndValue;
    static uint64_t key(const KeyAndValue &e) { return e.key; }
    static KeyAndValue make(uint64_t key, uint64_t value) { return {key, value}; }
    static uint64_t value(const KeyAndValue &e) { return e.value; }
};
template <class K>
using Keyed = std::conditional_t<sizeof(typename K::Key) == 8, Paired, Packed>;

// ---- pieces of a long row --------------------------------------------------------------------------------------------------------

// Calls f(piece, begin, end) for `pieces` even parts of [0, n), on several threads if there is more than one.
template <class F>
void for_pieces(int64_t pieces, int64_t n, F f) {
    if (pieces == 1) return f(0, 0, n);
    struct Context {
        F *f;
        int64_t pieces, n;
    } context{&f, pieces, n};
    void *bufs[] = {&context};
    steno_parallel_for(
        [](void **b, int64_t begin, int64_t end) {
            auto *c = static_cast<Context *>(b[0]);
            for (int64_t k = begin; k < end; ++k) (*c->f)(k, k * c->n / c->pieces, (k + 1) * c->n / c->pieces);
        },
        bufs, pieces, 1);
}

// ---- radix sort --------------------------------------------------------------------------------------------------------------------

// Sorts n elements by the lowest `bits` of their keys; stable. `a` has the elements, `b` is as large; returns where the result is.
template <class S, int Digit>
typename S::Element *radix_sort(typename S::Element *a, typename S::Element *b, int64_t n, int bits, int64_t pieces) {
    using E = typename S::Element;
    constexpr int64_t kBuckets = int64_t(1) << Digit;
    std::vector<int64_t> counts(size_t(pieces * kBuckets));
    for (int shift = 0; shift < bits; shift += Digit) {
        auto digit = [shift](const E &e) { return int64_t(S::key(e) >> shift) & (kBuckets - 1); };
        for_pieces(pieces, n, [&](int64_t p, int64_t begin, int64_t end) {
            int64_t *count = counts.data() + p * kBuckets;
            std::fill_n(count, kBuckets, 0);
            for (int64_t i = begin; i < end; ++i) ++count[digit(a[i])];
        });
        bool uniform = false;
        int64_t sum = 0;
        for (int64_t d = 0; d < kBuckets; ++d) {
            int64_t start = sum;
            for (int64_t p = 0; p < pieces; ++p) {
                int64_t c = counts[size_t(p * kBuckets + d)];
                counts[size_t(p * kBuckets + d)] = sum;
                sum += c;
            }
            uniform |= sum - start == n;
        }
        if (uniform) continue;
        for_pieces(pieces, n, [&](int64_t p, int64_t begin, int64_t end) {
            int64_t *position = counts.data() + p * kBuckets;
            for (int64_t i = begin; i < end; ++i) b[position[digit(a[i])]++] = a[i];
        });
        std::swap(a, b);
    }
    return a;
}

// ---- merge sort of pieces -----------------------------------------------------------------------------------------------------------

bool vectorised = have_avx512_sort();  // changed by tests only, while nothing is sorted

// How many of the first k elements of the merge of a and b come from a.
template <class E>
int64_t merge_split(const E *a, int64_t na, const E *b, int64_t nb, int64_t k) {
    int64_t low = std::max<int64_t>(0, k - nb), high = std::min(k, na);
    while (low < high) {
        int64_t i = (low + high) / 2;
        if (a[i] < b[k - i - 1]) low = i + 1;
        else high = i;
    }
    return low;
}

template <class E>
void merge(const E *a, const E *a_end, const E *b, const E *b_end, E *to) {
    while (a != a_end && b != b_end) {
        bool second = *b < *a;
        *to++ = second ? *b : *a;
        b += second;
        a += !second;
    }
    to = std::copy(a, a_end, to);
    std::copy(b, b_end, to);
}

// Sorts `pieces` parts of a[0..n) by themselves and merges them, two by two, each merge cut into parts of even size.
template <class E>
E *sort_and_merge(E *a, E *b, int64_t n, int64_t pieces) {
    auto bound = [&](int64_t p) { return std::min(p, pieces) * n / pieces; };
    for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) { avx512_sort(a + begin, b + begin, end - begin); });
    for (int64_t run = 1; run < pieces; run *= 2) {
        for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) {
            for (int64_t p = 0; p < pieces; p += 2 * run) {
                int64_t start = bound(p), middle = bound(p + run), stop = bound(p + 2 * run);
                int64_t first = std::max(begin, start) - start, last = std::min(end, stop) - start;
                if (first >= last) continue;
                const E *x = a + start, *y = a + middle;
                int64_t nx = middle - start, ny = stop - middle;
                int64_t i = merge_split(x, nx, y, ny, first), j = merge_split(x, nx, y, ny, last);
                merge(x + i, x + j, y + (first - i), y + (last - j), b + start + first);
            }
        });
        std::swap(a, b);
    }
    return a;
}

// Sorts by the lowest `bits` of the keys. `comparable`: equals cannot be told apart, so that their order does not matter.
template <class S>
typename S::Element *sort_elements(typename S::Element *a, typename S::Element *b, int64_t n, int bits, int64_t pieces, bool comparable) {
    if constexpr (std::is_unsigned_v<typename S::Element>) {
        if (comparable && vectorised) return sort_and_merge(a, b, n, pieces);
    }
    if (comparable && n <= kComparisonSort) {
        std::sort(a, a + n);
        return a;
    }
    return n < kWideDigits || bits <= 16 ? radix_sort<S, 8>(a, b, n, bits, pieces) : radix_sort<S, 11>(a, b, n, bits, pieces);
}

// ---- memory ------------------------------------------------------------------------------------------------------------------------

// Scratch memory of a sort. One block is kept for the next sort: fresh memory costs a page fault for every 4096 bytes.
class Workspace {
  public:
    explicit Workspace(size_t bytes) : bytes_((bytes + 63) & ~size_t(63)) {
        if (!kept_busy.exchange(true)) {
            borrowed_ = true;
            if (kept_bytes < bytes_) {
                std::free(kept);
                kept = allocate(bytes_);
                kept_bytes = kept ? bytes_ : 0;
            }
            data_ = static_cast<char *>(kept);
        } else {
            data_ = static_cast<char *>(allocate(bytes_));
        }
        if (data_) return;
        give_back();
        throw std::bad_alloc();
    }
    Workspace(const Workspace &) = delete;
    ~Workspace() { give_back(); }

    template <class T>
    T *take(int64_t n) {
        T *out = reinterpret_cast<T *>(data_ + used_);
        used_ += (size_t(n) * sizeof(T) + 63) & ~size_t(63);
        return out;
    }
    template <class T>
    static size_t need(int64_t n) {
        return (size_t(n) * sizeof(T) + 63) & ~size_t(63);
    }

  private:
    // Scattering touches many places at once: without huge pages each would need a look at the page tables.
    static void *allocate(size_t bytes) {
        constexpr size_t huge = size_t(2) << 20;
        if (bytes < huge) return std::aligned_alloc(64, bytes);
        bytes = (bytes + huge - 1) & ~(huge - 1);
        void *data = std::aligned_alloc(huge, bytes);
#ifdef MADV_HUGEPAGE
        if (data) madvise(data, bytes, MADV_HUGEPAGE);
#endif
        return data;
    }

    void give_back() {
        if (!borrowed_) return std::free(data_);
        if (kept_bytes > kKeep) {
            std::free(kept);
            kept = nullptr;
            kept_bytes = 0;
        }
        kept_busy.store(false);
    }

    static constexpr size_t kKeep = size_t(64) << 20;
    static inline std::atomic<bool> kept_busy{false};
    static inline void *kept = nullptr;   // under kept_busy
    static inline size_t kept_bytes = 0;  // under kept_busy

    size_t bytes_, used_ = 0;
    char *data_ = nullptr;
    bool borrowed_ = false;
};

// ---- the program -------------------------------------------------------------------------------------------------------------------

struct Job {
    void *const *operands;
    int64_t rows, n, num_keys, num_operands;
    const int64_t *codes;

    template <class T>
    T *row(int64_t operand, int64_t r) const {
        return reinterpret_cast<T *>(static_cast<char *>(operands[operand]) + r * n * item_size(codes[operand]));
    }
};

// The key alone, a row at a time.
template <class K>
void sort_keys(const Job &job, const K &key, int64_t first, int64_t last, int64_t pieces) {
    using Key = typename K::Key;
    int64_t n = job.n;
    Workspace work(2 * Workspace::need<Key>(n));
    Key *a = work.take<Key>(n), *b = work.take<Key>(n);
    for (int64_t r = first; r < last; ++r) {
        auto *row = job.row<typename K::Raw>(0, r);
        Specials<K> specials(row, n);
        for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) { map_row(key, row + begin, a + begin, end - begin); });
        Key *sorted = sort_elements<Bare<Key>>(a, b, n, K::bits, pieces, true);
        for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) { unmap_row(key, sorted + begin, row + begin, end - begin); });
        specials.restore(row, n);
    }
}

// One key of at most 32 bits and one operand of 32 bits, which travels with it.
template <class K>
void sort_with_payload(const Job &job, const K &key, int64_t first, int64_t last, int64_t pieces) {
    int64_t n = job.n;
    Workspace work(2 * Workspace::need<uint64_t>(n));
    auto *a = work.take<uint64_t>(n), *b = work.take<uint64_t>(n);
    for (int64_t r = first; r < last; ++r) {
        auto *row = job.row<typename K::Raw>(0, r);
        auto *payload = job.row<uint32_t>(1, r);
        Specials<K> specials(row, n);
        // The radix sort, being stable, carries the payload itself; the other one its position.
        for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) {
            pack_row(key, row + begin, vectorised ? nullptr : payload + begin, begin, a + begin, end - begin);
        });
        uint64_t *sorted = sort_elements<Packed>(a, b, n, K::bits, pieces, vectorised);
        auto *moved = reinterpret_cast<uint32_t *>(sorted == a ? b : a);
        for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) {
            unpack_row(key, sorted + begin, vectorised ? payload : nullptr, row + begin, moved + begin, end - begin);
        });
        for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) { std::copy(moved + begin, moved + end, payload + begin); });
        specials.restore(row, n);
    }
}

// row[i] = row[order[i]], through `scratch`.
template <class T, class Position>
void permute(T *row, const Position *order, int64_t n, T *scratch, int64_t pieces) {
    for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) scratch[i] = row[order[i]];
    });
    for_pieces(pieces, n,
               [&](int64_t, int64_t begin, int64_t end) { std::memcpy(row + begin, scratch + begin, size_t(end - begin) * sizeof(T)); });
}

struct Item16 {
    uint64_t a, b;
};

template <class Position>
void permute_operand(const Job &job, int64_t operand, int64_t r, const Position *order, void *scratch, int64_t pieces) {
    switch (item_size(job.codes[operand])) {
    case 1: return permute(job.row<uint8_t>(operand, r), order, job.n, static_cast<uint8_t *>(scratch), pieces);
    case 2: return permute(job.row<uint16_t>(operand, r), order, job.n, static_cast<uint16_t *>(scratch), pieces);
    case 4: return permute(job.row<uint32_t>(operand, r), order, job.n, static_cast<uint32_t *>(scratch), pieces);
    case 8: return permute(job.row<uint64_t>(operand, r), order, job.n, static_cast<uint64_t *>(scratch), pieces);
    default: return permute(job.row<Item16>(operand, r), order, job.n, static_cast<Item16 *>(scratch), pieces);
    }
}

// Any keys and operands: sorts positions, then moves every operand.
void sort_positions(const Job &job, int64_t first, int64_t last, int64_t pieces) {
    int64_t n = job.n;
    Workspace work(2 * Workspace::need<KeyAndValue>(n) + 2 * Workspace::need<uint32_t>(n));
    auto *order = work.take<uint32_t>(n), *next = work.take<uint32_t>(n);
    auto *a = work.take<KeyAndValue>(n), *b = work.take<KeyAndValue>(n);
    for (int64_t r = first; r < last; ++r) {
        for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) order[i] = uint32_t(i);
        });
        for (int64_t k = job.num_keys; k-- > 0;)
            for (int part = parts(job.codes[k]); part-- > 0;)
                with_key(job.codes[k], [&](const auto &key, int stride) {
                    using K = std::decay_t<decltype(key)>;
                    using S = Keyed<K>;
                    auto *row = job.row<typename K::Raw>(k, r);
                    auto *x = reinterpret_cast<typename S::Element *>(a), *y = reinterpret_cast<typename S::Element *>(b);
                    for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) x[i] = S::make(key.map(row[int64_t(order[i]) * stride + part]), uint64_t(i));
                    });
                    auto *sorted = sort_elements<S>(x, y, n, K::bits, pieces, true);
                    for_pieces(pieces, n, [&](int64_t, int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) next[i] = order[S::value(sorted[i])];
                    });
                    std::swap(order, next);
                    return true;
                });
        for (int64_t k = 0; k < job.num_operands; ++k) permute_operand(job, k, r, order, a, pieces);
    }
}

// ---- many short rows ----------------------------------------------------------------------------------------------------------------

// Vectors of one row of a block; machines without such wide registers use several.
typedef uint32_t Lanes32 __attribute__((vector_size(kLanes * 4)));
typedef uint64_t Lanes64 __attribute__((vector_size(kLanes * 8)));

// Sorts each column of `block` (n rows of kLanes columns). Comparators beyond n, of a network for a power of two, are left out:
// they would meet infinities.
#define STENO_NETWORK(name, Lanes)                                                       \
    STENO_CLONES void name(Lanes *block, int64_t n) {                                    \
        for (int log_p = 0; (int64_t(1) << log_p) < n; ++log_p)                          \
            for (int64_t k = int64_t(1) << log_p; k >= 1; k /= 2)                        \
                for (int64_t j = k & ((int64_t(1) << log_p) - 1); j + k < n; j += 2 * k) \
                    for (int64_t i = j, end = std::min(j + k, n - k); i < end; ++i) {    \
                        if (i >> (log_p + 1) != (i + k) >> (log_p + 1)) continue;        \
                        Lanes x = block[i], y = block[i + k];                            \
                        block[i] = x < y ? x : y;                                        \
                        block[i + k] = x < y ? y : x;                                    \
                    }                                                                    \
    }
STENO_NETWORK(network_32, Lanes32)
STENO_NETWORK(network_64, Lanes64)
#undef STENO_NETWORK

void network(uint32_t *block, int64_t n) { network_32(reinterpret_cast<Lanes32 *>(block), n); }
void network(uint64_t *block, int64_t n) { network_64(reinterpret_cast<Lanes64 *>(block), n); }

// The key alone. Rows of a last, incomplete block are sorted by themselves.
template <class K>
void sort_short_keys(const Job &job, const K &key, int64_t first, int64_t last) {
    using Key = typename K::Key;
    int64_t n = job.n;
    Workspace work(Workspace::need<Key>(n * kLanes));
    Key *block = work.take<Key>(n * kLanes);
    for (; first + kLanes <= last; first += kLanes) {
        auto *rows = job.row<typename K::Raw>(0, first);
        for (int64_t c = 0; c < kLanes; ++c)
            for (int64_t i = 0; i < n; ++i) block[i * kLanes + c] = key.map(rows[c * n + i]);
        network(block, n);
        for (int64_t c = 0; c < kLanes; ++c) {
            auto *row = rows + c * n;
            Specials<K> specials(row, n);
            for (int64_t i = 0; i < n; ++i) row[i] = key.unmap(block[i * kLanes + c]);
            specials.restore(row, n);
        }
    }
    if (first < last) sort_keys(job, key, first, last, 1);
}

// One key of at most 32 bits, with positions.
template <class K>
void sort_short_positions(const Job &job, const K &key, int64_t first, int64_t last) {
    int64_t n = job.n;
    Workspace work(Workspace::need<uint64_t>(n * kLanes) + Workspace::need<uint32_t>(n) + Workspace::need<Item16>(n));
    auto *block = work.take<uint64_t>(n * kLanes);
    auto *order = work.take<uint32_t>(n);
    auto *scratch = work.take<Item16>(n);
    for (; first + kLanes <= last; first += kLanes) {
        auto *rows = job.row<typename K::Raw>(0, first);
        for (int64_t c = 0; c < kLanes; ++c)
            for (int64_t i = 0; i < n; ++i) block[i * kLanes + c] = Packed::make(key.map(rows[c * n + i]), uint64_t(i));
        network(block, n);
        for (int64_t c = 0; c < kLanes; ++c) {
            for (int64_t i = 0; i < n; ++i) order[i] = uint32_t(block[i * kLanes + c]);
            for (int64_t k = 0; k < job.num_operands; ++k) permute_operand(job, k, first + c, order, scratch, 1);
        }
    }
    if (first < last) sort_positions(job, first, last, 1);
}

// Rows first to last - 1, or one row in `pieces`.
void sort_rows(const Job &job, int64_t first, int64_t last, int64_t pieces) {
    with_key(job.codes[0], [&](const auto &key, int stride) {
        using K = std::decay_t<decltype(key)>;
        constexpr bool narrow_key = sizeof(typename K::Key) == 4;
        constexpr bool invertible = !std::is_same_v<K, Table>;
        if (job.num_keys > 1 || stride > 1) {
            sort_positions(job, first, last, pieces);
            return true;
        }
        bool many = !vectorised && last - first >= kLanes;
        if constexpr (invertible) {
            if (job.num_operands == 1) {
                if (many && job.n <= kNetworkKeys) sort_short_keys(job, key, first, last);
                else sort_keys(job, key, first, last, pieces);
                return true;
            }
        }
        if constexpr (narrow_key) {
            if (many && job.n <= kNetworkPairs) {
                sort_short_positions(job, key, first, last);
                return true;
            }
            if constexpr (invertible) {
                if (job.num_operands == 2 && item_size(job.codes[1]) == 4) {
                    sort_with_payload(job, key, first, last, pieces);
                    return true;
                }
            }
        }
        sort_positions(job, first, last, pieces);
        return true;
    });
}

struct RowsTask {
    const Job *job;
    std::atomic<bool> out_of_memory{false};
};

void rows_body(void **bufs, int64_t begin, int64_t end) {
    auto *task = static_cast<RowsTask *>(bufs[0]);
    try {
        sort_rows(*task->job, begin, end, 1);
    } catch (const std::bad_alloc &) {
        task->out_of_memory = true;
    }
}

PyObject *sort_code(PyObject *, PyObject *dtype) {
    static const char *names[] = {"uint8", "uint16",  "uint32",   "uint64",  "int8",    "int16",     "int32",
                                  "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
    Ref name(PyObject_GetAttrString(dtype, "name"));
    if (!name) return nullptr;
    for (size_t k = 0; k < sizeof(names) / sizeof(*names); ++k)
        if (PyUnicode_CompareWithASCIIString(name.get(), names[k]) == 0) return PyLong_FromSize_t(k);
    if (PyUnicode_CompareWithASCIIString(name.get(), "bool") == 0) return PyLong_FromLongLong(kUInt8);
    for (int64_t k = 0; k < kNarrow; ++k)
        if (PyUnicode_CompareWithASCIIString(name.get(), narrow[k].name) == 0) return PyLong_FromLongLong(kFirstNarrow + k);
    PyErr_Format(PyExc_TypeError, "sort: elements of type %U have no order", name.get());
    return nullptr;
}

PyObject *swap_sort_avx512(PyObject *, PyObject *on) {
    int wanted = PyObject_IsTrue(on);
    if (wanted < 0) return nullptr;
    return PyBool_FromLong(std::exchange(vectorised, wanted && have_avx512_sort()));
}

PyMethodDef methods[] = {
    {"swap_sort_avx512", swap_sort_avx512, METH_O, "swap_sort_avx512(on) -> previous: off, sorts do without AVX-512, for tests."},
    {"sort_code", sort_code, METH_O, "sort_code(dtype) -> int: how steno_sort calls a dtype in its meta."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool vectorised_sort() { return vectorised; }

bool init_sort(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace steno

using namespace steno;

int32_t steno_sort(void **buffers, const int64_t *meta) try {
    Job job{buffers, meta[0], meta[1], meta[2], meta[3], meta + 4};
    if (job.rows <= 0 || job.n <= 1) return 0;
    if (job.n > int64_t(UINT32_MAX)) return 2;  // positions have 32 bits
    int threads = num_threads();
    if (job.rows < threads && job.n >= kParallelRow) {
        for (int64_t r = 0; r < job.rows; ++r) sort_rows(job, r, r + 1, threads);
        return 0;
    }
    RowsTask task;
    task.job = &job;
    void *bufs[] = {&task};
    int64_t grain = std::max<int64_t>(1, kElementsPerPiece / job.n);
    if (!vectorised && job.n <= kNetworkKeys && job.rows > kLanes)
        grain = (grain + kLanes - 1) / kLanes * kLanes;  // whole blocks of the network
    steno_parallel_for(rows_body, bufs, job.rows, grain);
    return task.out_of_memory ? 2 : 0;
} catch (const std::bad_alloc &) {
    return 2;
}
