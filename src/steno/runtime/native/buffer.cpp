// Size classes: powers of two with four steps between them (at most 25 % waste), from 64 bytes. Blocks below 1 MiB come from the
// C library, and wait in one list for each class when freed; larger ones are mapped, in huge pages as far as these fit, and wait as ranges of addresses.
// What waits is bounded by `pool_limit` bytes: beyond it the oldest memory goes back to the system, and so does what nobody wanted for a while, looked at
// whenever a large block is freed.
#include "buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "queue.h"
#include "ranges.h"
#include "threads.h"

namespace steno {

namespace {

constexpr int kSteps = 4;
constexpr int kFirstBits = 6;                             // 64 bytes
constexpr int kClasses = (48 - kFirstBits) * kSteps + 1;  // up to 2^48 bytes
constexpr uint8_t kForeign = 255;
constexpr size_t kMapFrom = size_t(1) << 20;
constexpr size_t kHugePage = size_t(2) << 20;
// In some virtual machines memory that nothing has touched for long is not there until its host finds it, page by page: for one huge page that took
// 3.6 ms, twenty times as long as filling it with zeros. Small pages mostly come from what was used lately, so they are taken when huge ones are slow; what is
// then used again and again moves into huge ones, in which passes over large arrays are some 20 % faster.
constexpr std::chrono::microseconds kSlowHugePage{1000};
constexpr uint8_t kHugeAfter = 8;  // times that a place was used
constexpr size_t kSmallPerClass = size_t(256) << 10;  // bytes waiting in one small class
constexpr double kIdleSeconds = 30.0;
constexpr int kPoison = 0xA5;

static_assert(kClasses < kForeign, "size classes fit a byte");

size_t class_bytes(int c) {
    int octave = c / kSteps, step = c % kSteps;
    size_t base = size_t(1) << (kFirstBits + octave);
    return (base + (base / kSteps) * step + 63) & ~size_t(63);
}

// The smallest class that holds nbytes; -1: none does.
int class_of(size_t nbytes) {
    if (nbytes <= 64) return 0;
    if (nbytes > class_bytes(kClasses - 1)) return -1;
    int top = 63 - __builtin_clzll(nbytes - 1);  // nbytes - 1 has `top` as its highest bit
    int c = (top - kFirstBits) * kSteps + int(((nbytes - 1) >> (top - 2)) & 3) + 1;
    return c;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// How often places were used lately: as far as they do not displace each other.
class Uses {
  public:
    uint8_t count(void *data, size_t bytes) {
        auto at = reinterpret_cast<uintptr_t>(data);
        Place &p = places_[(at / 4096 ^ bytes / 4096) % kPlaces];
        if (p.at != at || p.bytes != bytes) p = {at, bytes, 0};
        return p.count = std::min<uint8_t>(p.count, kHugeAfter) + 1;
    }

  private:
    static constexpr size_t kPlaces = 64;
    struct Place {
        uintptr_t at;
        size_t bytes;
        uint8_t count;
    } places_[kPlaces] = {};
};

struct Pool {
    std::vector<void *> small[kClasses];
    FreeRanges large;
    Uses uses;  // of large blocks
    size_t small_bytes = 0;  // waiting
    size_t in_use = 0;       // handed out, class sizes
    size_t limit = 0;
    double last_trim = 0;
    bool poison = false;  // what is given back is filled with kPoison, so that who still reads it sees
    std::vector<Buffer *> records;  // Buffer structs to reuse
};

Pool &pool() {
    static Pool *p = [] {
        auto *made = new Pool;
        size_t physical = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
        made->limit = std::min(physical / 8, size_t(2) << 30);
        return made;
    }();
    return *p;
}

bool is_large(int c) { return class_bytes(c) >= kMapFrom; }

void *map_block(size_t bytes) {
    // Aligned to a huge page, so that all of it can be in huge pages.
    size_t align = bytes >= kHugePage ? kHugePage : size_t(4096);
    size_t padded = bytes + align;
    if (padded < bytes) return nullptr;
    void *raw = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    auto start = reinterpret_cast<uintptr_t>(raw), data = (start + align - 1) & ~(align - 1);
    if (data > start) munmap(raw, data - start);
    if (size_t tail = start + padded - (data + bytes)) munmap(reinterpret_cast<void *>(data + bytes), tail);
#ifdef MADV_HUGEPAGE
    if (bytes >= kHugePage) madvise(reinterpret_cast<void *>(data), bytes, MADV_HUGEPAGE);
#endif
    return reinterpret_cast<void *>(data);
}

// The system finds the pages now, for a whole piece at a time and on all threads, rather than for each page when it is first written: half
// the time. Where it cannot (before Linux 5.14), it does so then. `huge`: in huge pages even if they are slow.
void populate(void *data, size_t bytes, bool huge) {
#ifdef MADV_POPULATE_WRITE
    std::atomic<bool> slow{false};
    void *bufs[] = {data, reinterpret_cast<char *>(data) + bytes, huge ? nullptr : &slow};
    steno_parallel_for(
        [](void **bufs, int64_t begin, int64_t end) {
            auto *slow = static_cast<std::atomic<bool> *>(bufs[2]);
            for (int64_t k = begin; k < end; ++k) {
                char *from = static_cast<char *>(bufs[0]) + size_t(k) * kHugePage;
                size_t bytes = std::min<size_t>(kHugePage, static_cast<char *>(bufs[1]) - from);
                bool small = slow && slow->load(std::memory_order_relaxed);
                if (small) madvise(from, bytes, MADV_NOHUGEPAGE);
                auto start = std::chrono::steady_clock::now();
                madvise(from, bytes, MADV_POPULATE_WRITE);
                if (slow && !small && std::chrono::steady_clock::now() - start > kSlowHugePage) slow->store(true, std::memory_order_relaxed);
            }
        },
        bufs, int64_t((bytes + kHugePage - 1) / kHugePage), 1);
#endif
}

// Of memory that holds nothing.
void move_into_huge_pages(void *data, size_t bytes) {
#ifdef MADV_HUGEPAGE
    auto from = (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage, to = (reinterpret_cast<uintptr_t>(data) + bytes) / kHugePage * kHugePage;
    if (from >= to) return;
    auto *inner = reinterpret_cast<void *>(from);
    if (madvise(inner, to - from, MADV_HUGEPAGE) == 0 && madvise(inner, to - from, MADV_DONTNEED) == 0) populate(inner, to - from, true);
#endif
}

size_t map_bytes(int c) { return whole_pages(class_bytes(c)); }

// Gives large memory that waits back to the system, see `FreeRanges::trim`.
void trim(size_t keep, double before) {
    pool().large.trim(keep, before, [](void *data, size_t bytes) { munmap(data, bytes); });
}

void trim_small() {
    Pool &p = pool();
    for (auto &list : p.small) {
        for (void *data : list) std::free(data);
        list.clear();
    }
    p.small_bytes = 0;
}

void *take_block(int c, size_t nbytes) {
    Pool &p = pool();
    size_t bytes = class_bytes(c);
    if (is_large(c)) {
        void *data = p.large.take(map_bytes(c));
        if (!data) {
            data = map_block(map_bytes(c));
            if (!data) {
                trim(0, 0);
                trim_small();
                data = map_block(map_bytes(c));
            }
            if (!data) return nullptr;
            populate(data, whole_pages(nbytes), false);
        } else if (p.uses.count(data, map_bytes(c)) == kHugeAfter) {
            move_into_huge_pages(data, map_bytes(c));
        }
        p.in_use += bytes;
        return data;
    }
    auto &list = p.small[c];
    if (STENO_LIKELY(!list.empty())) {
        void *data = list.back();
        list.pop_back();
        p.small_bytes -= bytes;
        p.in_use += bytes;
        return data;
    }
    void *data = nullptr;
    if (posix_memalign(&data, kAlignment, bytes)) return nullptr;
    p.in_use += bytes;
    return data;
}

void give_block(void *data, int c) {
    Pool &p = pool();
    size_t bytes = class_bytes(c);
    p.in_use -= bytes;
    if (STENO_UNLIKELY(p.poison)) std::memset(data, kPoison, bytes);
    if (is_large(c)) {
        double t = now();
        p.large.give(data, map_bytes(c), t);
        if (p.large.bytes() > p.limit || t - p.last_trim > kIdleSeconds / 4) {
            p.last_trim = t;
            trim(p.limit, t - kIdleSeconds);
        }
    } else if (p.small[c].size() * bytes < kSmallPerClass) {
        p.small[c].push_back(data);
        p.small_bytes += bytes;
    } else {
        std::free(data);
    }
}

bool out_of_memory(size_t nbytes) {
    if (nbytes >= SIZE_MAX / 2) PyErr_SetString(PyExc_MemoryError, "Out of memory: the array is larger than the address space");
    else PyErr_Format(PyExc_MemoryError, "Out of memory while trying to allocate %zu bytes", nbytes);
    return false;
}

inline Buffer *new_record(void *data, size_t nbytes, uint8_t size_class, bool writable, PyObject *owner) {
    auto &records = pool().records;
    Buffer *b;
    if (STENO_LIKELY(!records.empty())) {
        b = records.back();
        records.pop_back();
    } else {
        b = new Buffer;
    }
    b->data = data;
    b->nbytes = nbytes;
    b->refs = 1;
    b->size_class = size_class;
    b->writable = writable;
    b->marked = false;
    b->in_flight = 0;
    b->producer = nullptr;
    b->owner = owner;
    return b;
}

PyObject *memory_info(PyObject *, PyObject *) {
    retire_finished();
    Pool &p = pool();
    return Py_BuildValue("{s:n,s:n,s:n}", "in_use", Py_ssize_t(p.in_use), "cached", Py_ssize_t(p.large.bytes() + p.small_bytes), "limit",
                         Py_ssize_t(p.limit));
}

PyObject *set_pool_limit(PyObject *, PyObject *bytes) {
    Py_ssize_t n = PyLong_AsSsize_t(bytes);
    if (n == -1 && PyErr_Occurred()) return nullptr;
    if (n < 0) {
        PyErr_Format(PyExc_ValueError, "set_pool_limit: bytes must not be negative, got %zd", n);
        return nullptr;
    }
    pool().limit = size_t(n);
    trim(pool().limit, 0);
    Py_RETURN_NONE;
}

PyObject *trim_pool(PyObject *, PyObject *) {
    retire_finished();
    trim(0, 0);
    trim_small();
    Py_RETURN_NONE;
}

PyObject *poison_freed_memory(PyObject *, PyObject *on) {
    int yes = PyObject_IsTrue(on);
    if (yes < 0) return nullptr;
    pool().poison = yes;
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"memory_info", memory_info, METH_NOARGS,
     "memory_info() -> dict of bytes: in_use by arrays and runs, cached for reuse, limit of what is cached."},
    {"set_pool_limit", set_pool_limit, METH_O, "set_pool_limit(bytes): how much freed memory is kept for reuse."},
    {"trim_pool", trim_pool, METH_NOARGS, "trim_pool(): gives all memory kept for reuse back to the system."},
    {"poison_freed_memory", poison_freed_memory, METH_O,
     "poison_freed_memory(on): whether memory that arrays and runs give back is filled with bytes 0xA5."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

Buffer *allocate_buffer(size_t nbytes) {
    int c = class_of(nbytes);
    void *data = c < 0 ? nullptr : take_block(c, nbytes);
    if (STENO_UNLIKELY(!data)) {
        out_of_memory(nbytes);
        return nullptr;
    }
    return new_record(data, nbytes, uint8_t(c), true, nullptr);
}

Buffer *foreign_buffer(void *data, size_t nbytes, PyObject *owner) { return new_record(data, nbytes, kForeign, false, Py_NewRef(owner)); }

void free_buffer(Buffer *b) {
    if (STENO_UNLIKELY(b->in_flight)) return;
    if (STENO_UNLIKELY(b->producer != nullptr)) drop(b->producer);  // it has finished, nobody asked
    if (b->size_class == kForeign) Py_DECREF(b->owner);
    else give_block(b->data, b->size_class);
    auto &records = pool().records;
    if (records.size() < 4096) records.push_back(b);
    else delete b;
}

bool allocate_scratch(size_t nbytes, Scratch *out) {
    int c = class_of(nbytes);
    void *data = c < 0 ? nullptr : take_block(c, nbytes);
    if (STENO_UNLIKELY(!data)) return out_of_memory(nbytes);
    *out = Scratch{data, uint8_t(c)};
    return true;
}

void free_scratch(Scratch scratch) { give_block(scratch.data, scratch.size_class); }

size_t pool_limit() { return pool().limit; }

bool init_buffer(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace steno
