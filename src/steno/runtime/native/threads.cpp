// One job at a time. The caller publishes it in `Pool::job`, opens it, works on it itself, closes it, and waits until no worker is inside:
//     caller:  open = 1 ... open = 0; wait until active == 0          worker:  ++active; if (open) work; --active
// Both sides write first and read then (sequentially consistent), so either the worker sees a closed job and keeps off, or the caller
// waits for it. A worker that wakes up late costs nothing: the caller has done its share already.
// Idle workers spin for some microseconds, since the next region of a program mostly follows at once, then sleep on a futex.
#include "threads.h"

#include "fp_state.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace steno {

namespace {

constexpr int kPiecesPerThread = 4;  // more pieces balance uneven work, fewer cost less
constexpr std::chrono::microseconds kSpin{50};
constexpr int kMaxThreads = 1024;

struct Job {
    void (*fn)(void **, int64_t, int64_t);
    void **bufs;
    int64_t n;
    int64_t piece;
    int64_t workers;  // how many may join
};

struct Pool {
    std::mutex busy;  // held by the caller of the running region, and while workers are started
    int started = 0;  // workers; under `busy`
    Job job{};        // written while closed and nobody is inside
    alignas(64) std::atomic<int64_t> next{0};
    alignas(64) std::atomic<uint32_t> epoch{0};  // counts regions; what workers wait for
    std::atomic<uint32_t> sleepers{0};
    alignas(64) std::atomic<int32_t> open{0};
    std::atomic<int32_t> active{0};
    std::atomic<int64_t> joined{0};
};

std::atomic<Pool *> the_pool{nullptr};
std::atomic<int> limit{1};  // of the process
int default_limit = 1;
STENO_THREAD_LOCAL int own_limit = 0;    // of this thread; 0: none
STENO_THREAD_LOCAL bool inside = false;  // in a parallel region

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Spins until done() or until kSpin has passed; whether it is done.
template <class Done>
bool spin_until(Done done) {
    auto end = std::chrono::steady_clock::now() + kSpin;
    do {
        for (int k = 0; k < 32; ++k) {
            if (done()) return true;
            relax();
        }
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

void futex(std::atomic<uint32_t> *word, int operation, uint32_t value) {
    syscall(SYS_futex, reinterpret_cast<uint32_t *>(word), operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

void take_pieces(Pool &p) {
    const Job &job = p.job;
    for (;;) {
        int64_t begin = p.next.fetch_add(job.piece, std::memory_order_relaxed);
        if (begin >= job.n) return;
        job.fn(job.bufs, begin, std::min(begin + job.piece, job.n));
    }
}

void work(Pool &p) {
    p.active.fetch_add(1);
    if (p.open.load() && p.joined.fetch_add(1) < p.job.workers) take_pieces(p);
    p.active.fetch_sub(1);
}

void worker(Pool *p, uint32_t seen) {
    inside = true;
    StrictFloats strict;  // a thread begins with its creator's environment
    for (;;) {
        spin_until([&] { return p->epoch.load(std::memory_order_relaxed) != seen; });
        while (p->epoch.load() == seen) {
            p->sleepers.fetch_add(1);
            futex(&p->epoch, FUTEX_WAIT, seen);
            p->sleepers.fetch_sub(1);
        }
        seen = p->epoch.load();
        work(*p);
    }
}

// Under `busy`. Fewer than wanted if the system refuses.
void start_workers(Pool &p, int wanted) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for Python's main thread
    for (; p.started < wanted; ++p.started) {
        try {
            std::thread(worker, &p, p.epoch.load()).detach();
        } catch (const std::system_error &) {
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Pool &pool() {
    Pool *p = the_pool.load(std::memory_order_acquire);
    if (STENO_LIKELY(p != nullptr)) return *p;
    auto *made = new Pool;  // never destroyed: workers wait in it when the process ends
    if (!the_pool.compare_exchange_strong(p, made)) {
        delete made;
        return *p;
    }
    return *made;
}

// In the child of a fork there are no workers, and another thread may have held `busy`: begin anew.
void after_fork_in_child() {
    the_pool.store(nullptr);
    inside = false;
}

// The processors this process may run on, with the quota of its control group taken into account.
int usable_processors() {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : int(std::thread::hardware_concurrency());
    if (FILE *f = std::fopen("/sys/fs/cgroup/cpu.max", "re")) {
        long long quota, period;
        if (std::fscanf(f, "%lld %lld", &quota, &period) == 2 && period > 0) n = std::min<long long>(n, (quota + period - 1) / period);
        std::fclose(f);
    }
    return std::clamp(n, 1, kMaxThreads);
}

bool parse_count(PyObject *o, const char *where, int *out) {
    long n = PyLong_AsLong(o);
    if (n == -1 && PyErr_Occurred()) return false;
    if (n < 0 || n > kMaxThreads) {
        PyErr_Format(PyExc_ValueError, "%s: the number of threads must be between 0 and %d, got %ld", where, kMaxThreads, n);
        return false;
    }
    *out = int(n);
    return true;
}

PyObject *set_num_threads(PyObject *, PyObject *n) {
    int count;
    if (!parse_count(n, "set_num_threads", &count)) return nullptr;
    limit.store(count ? count : default_limit);
    Py_RETURN_NONE;
}

PyObject *get_num_threads(PyObject *, PyObject *) { return PyLong_FromLong(num_threads()); }

PyObject *swap_thread_limit(PyObject *, PyObject *n) {
    int count;
    if (!parse_count(n, "swap_thread_limit", &count)) return nullptr;
    return PyLong_FromLong(exchange_thread_limit(count));
}

PyMethodDef methods[] = {
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads(n): how many threads a program may use, in the whole process; 0: STENO_NUM_THREADS, or all processors."},
    {"num_threads", get_num_threads, METH_NOARGS, "num_threads() -> how many threads a program started by this thread may use."},
    {"swap_thread_limit", swap_thread_limit, METH_O,
     "swap_thread_limit(n) -> the previous one: a bound for programs started by this thread; 0: none but the process's."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int num_threads() {
    int n = limit.load(std::memory_order_relaxed);
    return own_limit ? std::min(own_limit, n) : n;
}

int thread_limit() { return own_limit; }
int exchange_thread_limit(int n) { return std::exchange(own_limit, n); }

bool init_threads(PyObject *module) {
    default_limit = usable_processors();
    if (const char *text = std::getenv("STENO_NUM_THREADS"); text && *text) {
        char *end;
        long n = std::strtol(text, &end, 10);
        if (*end || n < 0 || n > kMaxThreads) {
            PyErr_Format(PyExc_ValueError, "STENO_NUM_THREADS must be a number from 0 (all processors) to %d, got '%s'", kMaxThreads, text);
            return false;
        }
        if (n) default_limit = int(n);
    }
    limit.store(default_limit);
    if (pthread_atfork(nullptr, nullptr, after_fork_in_child)) {
        PyErr_NoMemory();
        return false;
    }
    return PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace steno

using namespace steno;

void steno_parallel_for(void (*fn)(void **, int64_t, int64_t), void **bufs, int64_t n, int64_t grain) {
    if (n <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    int threads = num_threads();
    if (n <= grain || threads == 1 || inside) return fn(bufs, 0, n);
    Pool &p = pool();
    std::unique_lock<std::mutex> lock(p.busy, std::try_to_lock);
    if (!lock) return fn(bufs, 0, n);

    int64_t grains = (n + grain - 1) / grain;
    int64_t pieces = std::min<int64_t>(grains, int64_t(threads) * kPiecesPerThread);
    int64_t piece = (grains + pieces - 1) / pieces * grain;
    int workers = int(std::min<int64_t>(threads, (n + piece - 1) / piece)) - 1;
    if (STENO_UNLIKELY(p.started < workers)) start_workers(p, workers);

    p.job = Job{fn, bufs, n, piece, workers};
    p.next.store(0, std::memory_order_relaxed);
    p.joined.store(0, std::memory_order_relaxed);
    inside = true;
    p.open.store(1);
    p.epoch.fetch_add(1);
    if (p.sleepers.load()) futex(&p.epoch, FUTEX_WAKE, uint32_t(workers));
    take_pieces(p);
    p.open.store(0);
    if (p.active.load() && !spin_until([&] { return p.active.load() == 0; }))
        while (p.active.load()) sched_yield();  // a worker has lost its processor in the middle of a piece
    inside = false;
}
