// Who runs tasks: a thread of our own, or a thread that waits for them if the next one is known to be short, which saves two switches
// between threads. One at a time in any case (`executing`), so that order alone makes it safe to write the memory of a donated input that
// tasks before read.
//
// The mutex protects the lists; it is never held while the GIL is acquired. All else is the GIL's. The thread that runs a task needs the
// GIL for host calls only: what a task holds is given back later by whoever has the GIL (`retire_finished`): the next dispatch, whoever
// waited, or the main thread between two bytecodes.
#include "queue.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>

#include "fp_state.h"
#include "state.h"
#include "threads.h"

namespace steno {

std::atomic<uint64_t> tasks_finished{0};

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMaxTasks = 32;
constexpr size_t kAheadBytes = size_t(8) << 20;  // of results that are not there yet: more would take turns in memory instead of the caches
constexpr uint64_t kNotQueued = UINT64_MAX;
constexpr std::chrono::milliseconds kPoll{50};    // between two looks at signals
constexpr uint64_t kShortTask = 5'000'000;        // nanoseconds: a waiting thread runs it, though it cannot be interrupted meanwhile
constexpr std::chrono::microseconds kAtOnce{20};  // a wait so soon after the dispatch had nothing to do meanwhile
constexpr size_t kSpareTasks = 64;

struct Queue {
    // Under `mutex`.
    std::mutex mutex;
    std::condition_variable work;            // for the worker: there is a task
    std::condition_variable progress;        // for waiting threads: `wanted` has finished
    Task *first = nullptr, *last = nullptr;  // waiting to be run
    Task *executing = nullptr;
    Task *done_first = nullptr, *done_last = nullptr;  // finished, not retired
    uint64_t wanted = UINT64_MAX;
    int effects = 0;  // unfinished tasks with host calls

    // Under the GIL.
    uint64_t enqueued = 0;  // sequence of the last task
    uint64_t retired = 0;
    size_t out_bytes = 0;     // of tasks that are not retired
    pthread_t owner{};        // who queued the last one
    Buffer *arena = nullptr;  // owned
    Task *failure = nullptr;  // owned: the first failed task whose failure nobody has seen
    bool worker = false;      // it exists
    bool closed = false;      // the interpreter ends
    bool forking = false;
    bool async = true;          // the process's setting
    std::vector<Task *> spare;  // to reuse
};

// Never destroyed: the worker waits in it when the process ends.
Queue &queue() {
    static Queue *q = new Queue;
    return *q;
}

std::atomic<bool> retirement_requested{false};
PyObject *capture_overrides = nullptr, *swap_overrides = nullptr;  // owned: see set_overrides

STENO_THREAD_LOCAL int thread_async = -1;                  // this thread's setting; -1: the process's
STENO_THREAD_LOCAL int callbacks = 0;                      // host calls that this thread is in
STENO_THREAD_LOCAL const Task *running = nullptr;          // the task that this thread runs
STENO_THREAD_LOCAL PyThreadState *worker_state = nullptr;  // of the worker, once it has made a host call

// Runs a task, without the GIL.
void perform(Task *t) {
    if (t->status != kOk) return;
    for (Task *source : t->sources)
        if (source->status != kOk) {
            t->culprit = source->culprit ? source->culprit : source;
            t->status = kSourceFailed;
            return;
        }
    for (const Task::Copy &c : t->copies) std::memcpy(c.to, c.from, c.nbytes);
    const Task *outer = std::exchange(running, t);
    int limit = exchange_thread_limit(t->threads);
    Run run{t->executable, t, nullptr, nullptr};
    auto begin = Clock::now();
    {
        StrictFloats strict;
        t->status = t->executable->entry(t->in.data(), t->out.data(), t->arena, &run);
    }
    t->executable->note_duration(Clock::now() - begin);
    t->error = run.error;
    exchange_thread_limit(limit);
    running = outer;
}

bool is_short(const Task *t) {
    if (!t->executable->host_calls.empty()) return false;  // a signal must not end a callback
    uint64_t latest = t->executable->latest_nanoseconds.load(std::memory_order_relaxed);
    return !t->executable->heavy || (latest && latest < kShortTask);
}

int retire_when_called(void *) {
    retirement_requested.store(false);
    retire_finished();
    return 0;
}

// Runs the first task; there is one, and none is being executed. `lock` is given back and taken again meanwhile.
void run_first(Queue &q, std::unique_lock<std::mutex> &lock) {
    Task *t = q.first;
    q.first = t->next;
    if (!q.first) q.last = nullptr;
    q.executing = t;
    lock.unlock();
    perform(t);
    lock.lock();
    t->next = nullptr;
    (q.done_last ? q.done_last->next : q.done_first) = t;
    q.done_last = t;
    q.executing = nullptr;
    q.effects -= !t->executable->host_calls.empty();
    if (t->sequence > tasks_finished.load()) tasks_finished.store(t->sequence, std::memory_order_release);  // less: see after_fork_in_child
    if (t->sequence >= q.wanted) {  // those whose task is another one say so again
        q.wanted = UINT64_MAX;
        q.progress.notify_all();
    }
}

void work(Queue *q) {
    StrictFloats strict;  // a thread begins with its creator's environment
    std::unique_lock<std::mutex> lock(q->mutex);
    for (;;) {
        q->work.wait(lock, [&] { return q->first && !q->executing; });
        run_first(*q, lock);
        if (q->wanted != UINT64_MAX || retirement_requested.exchange(true)) continue;  // whoever waits retires it
        lock.unlock();
        if (Py_AddPendingCall(retire_when_called, nullptr)) retirement_requested.store(false);
        lock.lock();
    }
}

bool start_worker(Queue &q) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for Python's main thread
    try {
        std::thread(work, &q).detach();
        q.worker = true;
    } catch (const std::system_error &) {}
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return q.worker;
}

// Waits until the task of this sequence has finished.
bool wait_until(uint64_t sequence, bool interruptible = true) {
    if (sequence <= tasks_finished.load(std::memory_order_acquire)) return true;
    if (running && sequence >= running->sequence) {
        PyErr_SetString(PyExc_RuntimeError, "a callback waits for a program that cannot finish before the callback has returned");
        return false;
    }
    Queue &q = queue();
    bool ok = true;
    PyThreadState *state = PyEval_SaveThread();
    auto next_poll = Clock::now() + kPoll;
    std::unique_lock<std::mutex> lock(q.mutex);
    while (ok && sequence > tasks_finished.load(std::memory_order_relaxed)) {
        if (q.first && !q.executing && is_short(q.first)) {
            run_first(q, lock);
        } else {
            if (q.first && !q.executing) q.work.notify_one();  // it has found this thread executing, and sleeps
            q.wanted = std::min(q.wanted, sequence);
            q.progress.wait_until(lock, next_poll);
        }
        if (interruptible && Clock::now() >= next_poll) {
            lock.unlock();
            PyEval_RestoreThread(state);
            ok = PyErr_CheckSignals() == 0;
            state = PyEval_SaveThread();
            next_poll = Clock::now() + kPoll;
            lock.lock();
        }
    }
    bool more = q.first && !q.executing;  // which the worker has left to this thread
    lock.unlock();
    if (more) q.work.notify_one();
    PyEval_RestoreThread(state);
    retire_finished();
    return ok;
}

// The sequence of the task after which there is room again: half of the queue is free then, so that not every further run waits.
uint64_t room_after(const Queue &q) { return q.enqueued - std::min(q.enqueued - tasks_finished.load(), kMaxTasks) / 2; }

// A failure as an exception of its own each time: one that is raised would keep the frames it passed, and so the arrays in them.
PyObject *fresh_exception(PyObject *error) {
    Ref module(PyImport_ImportModule("copy"));
    Ref made(module ? PyObject_CallMethod(module.get(), "copy", "O", error) : nullptr);
    if (!made || Py_TYPE(made.get()) != Py_TYPE(error)) {
        PyErr_Clear();
        return Py_NewRef(error);
    }
    PyException_SetCause(made.get(), PyException_GetCause(error));
    PyException_SetContext(made.get(), PyException_GetContext(error));
    Ref traceback(PyException_GetTraceback(error));
    if (traceback) PyException_SetTraceback(made.get(), traceback.get());
    return made.release();
}

// Gives back all that a task holds but its outcome.
void strip(Task *t) {
    for (Buffer *b : t->held) {
        if (b->producer == t && t->status == kOk) {
            b->producer = nullptr;
            drop(t);
        }
        unhold(b);
    }
    t->held.clear();
    if (t->culprit) ++t->culprit->refs;
    for (Task *source : t->sources) drop(source);
    t->sources.clear();
    t->in.clear();
    t->out.clear();
    t->copies.clear();
    if (t->sequence != kNotQueued) t->executable->patience.note(t->waited_at_once);
    auto *executable = reinterpret_cast<PyObject *>(std::exchange(t->executable, nullptr));
    PyObject *context = std::exchange(t->context, nullptr), *overrides = std::exchange(t->overrides, nullptr);
    Py_XDECREF(executable);
    Py_XDECREF(context);
    Py_XDECREF(overrides);
}

void keep_failure(Queue &q, Task *t) {
    if (q.failure && !q.failure->failure_seen) return;
    if (q.failure) drop(q.failure);
    q.failure = t;
    ++t->refs;
}

}  // namespace

Task *new_task() {
    Queue &q = queue();
    Task *t;
    if (q.spare.empty()) {
        t = new Task();
    } else {
        t = q.spare.back();
        q.spare.pop_back();
    }
    t->refs = 1;
    t->sequence = kNotQueued;
    t->waited_at_once = false;
    t->status = kOk;
    t->failure_seen = false;
    t->arena = nullptr;
    t->error = nullptr;
    t->culprit = t->next = nullptr;
    t->executable = nullptr;
    t->context = t->overrides = nullptr;
    return t;
}

void drop(Task *t) {
    if (--t->refs) return;
    if (t->executable) strip(t);  // never queued
    PyObject *error = std::exchange(t->error, nullptr);
    if (t->culprit) drop(std::exchange(t->culprit, nullptr));
    auto &spare = queue().spare;
    if (spare.size() < kSpareTasks) spare.push_back(t);
    else delete t;
    Py_XDECREF(error);
}

bool may_queue() {
    Queue &q = queue();
    if (callbacks || q.closed || q.forking || (thread_async < 0 ? !q.async : !thread_async)) return false;
    return q.worker || start_worker(q);
}

bool queue_is_idle() { return queue().enqueued == tasks_finished.load(std::memory_order_relaxed); }

bool queue_has_effects() {
    if (queue_is_idle()) return false;
    Queue &q = queue();
    std::lock_guard<std::mutex> lock(q.mutex);
    return q.effects > 0;
}

bool queue_serves_another() { return !queue_is_idle() && !pthread_equal(queue().owner, pthread_self()); }

bool queue_has_room(size_t out_bytes) {
    Queue &q = queue();
    uint64_t unfinished = q.enqueued - tasks_finished.load(std::memory_order_relaxed);
    // Two tasks keep the worker busy; more wait only while all their results are small.
    return unfinished < 2 || (unfinished < kMaxTasks && q.out_bytes + out_bytes <= kAheadBytes);
}

bool wait_for_room(size_t out_bytes) {
    while (!queue_has_room(out_bytes))
        if (!wait_until(room_after(queue()))) return false;
    return true;
}

Buffer *queue_arena(size_t nbytes) {
    Queue &q = queue();
    if (q.arena && q.arena->nbytes >= nbytes) return q.arena;
    if (q.arena) release(std::exchange(q.arena, nullptr));
    return q.arena = allocate_buffer(nbytes);
}

void enqueue(Task *t) {
    Queue &q = queue();
    t->sequence = ++q.enqueued;
    q.out_bytes += t->out_bytes;
    q.owner = pthread_self();
    bool idle;
    {
        std::lock_guard<std::mutex> lock(q.mutex);
        (q.last ? q.last->next : q.first) = t;
        q.last = t;
        q.effects += !t->executable->host_calls.empty();
        idle = !q.executing && q.first == t;
    }
    if (idle) q.work.notify_one();
    t->enqueued = Clock::now();
}

void retire_finished() {
    Queue &q = queue();
    if (q.retired == tasks_finished.load(std::memory_order_acquire)) return;
    Task *t;
    {
        std::lock_guard<std::mutex> lock(q.mutex);
        t = std::exchange(q.done_first, nullptr);
        q.done_last = nullptr;
    }
    while (t) {
        Task *next = std::exchange(t->next, nullptr);
        q.out_bytes -= t->out_bytes;
        q.retired = std::max(q.retired, t->sequence);
        if (t->status != kOk && !t->culprit) keep_failure(q, t);
        strip(t);  // may run Python code, which may come here again: for other tasks
        drop(t);
        t = next;
    }
    if (q.arena && queue_is_idle()) release(std::exchange(q.arena, nullptr));
}

bool wait_for(Task *t) {
    ++t->refs;
    if (Clock::now() - t->enqueued < kAtOnce) t->waited_at_once = true;
    bool ok = wait_until(t->sequence);
    drop(t);
    return ok;
}

bool wait_for_all() { return wait_until(queue().enqueued); }

void raise_failure(Task *t) {
    if (t->culprit) t = t->culprit;
    ++t->refs;  // Python code may run below
    t->failure_seen = true;
    if (t->error) {
        Ref e(fresh_exception(t->error));
        PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(e.get())), e.get());
    } else if (t->status == kLost) {
        PyErr_SetString(PyExc_RuntimeError, "this array was being computed when the process forked: only the parent has it");
    } else if (t->status == kCancelled) {
        PyErr_SetString(PyExc_RuntimeError, "this array was not computed: the interpreter ends");
    } else {
        raise_status(t->status);
    }
    drop(t);
}

bool wait_until_ready(Array *a) {
    for (;;) {
        retire_finished();
        if (!check_alive(a)) return false;
        settle(a->buffer);
        Task *t = a->buffer->producer;
        if (!t) return true;
        if (finished(t)) {
            raise_failure(t);
            return false;
        }
        if (!wait_for(t)) return false;
    }
}

// ---- host calls -----------------------------------------------------------------------------------------------------------------

HostCallScope::HostCallScope(Run *run) : run_(run) {
    const Task *t = run->task;
    if (!t) {
        if (run->released) PyEval_RestoreThread(run->released);
    } else if (worker_state) {
        PyEval_RestoreThread(worker_state);
    } else {
        PyGILState_Ensure();  // for good: the worker never ends
        worker_state = PyThreadState_Get();
    }
    ++callbacks;
    threads_ = thread_limit();
    // Inside, programs evaluate: the trace under which the run was started is none of the callback's business.
    trace_ = std::exchange(thread_state.trace, nullptr);
    if (t && t->overrides && !(overrides_ = PyObject_CallOneArg(swap_overrides, t->overrides))) return;
    if (t && t->context && PyContext_Enter(t->context) < 0) return;
    entered_ = true;
}

HostCallScope::~HostCallScope() {
    const Task *t = run_->task;
    bool ok = !(t && t->context && entered_) || PyContext_Exit(t->context) == 0;
    if (overrides_) {
        Ref mine(PyObject_CallOneArg(swap_overrides, overrides_));
        ok = ok && mine;
        Py_DECREF(overrides_);
    }
    if (!ok) PyErr_WriteUnraisable(nullptr);
    Py_XSETREF(thread_state.trace, trace_);
    exchange_thread_limit(threads_);
    --callbacks;
    if (t) PyEval_SaveThread();
    else if (run_->released) run_->released = PyEval_SaveThread();
}

// ---- the ends: of a process in two, of the interpreter --------------------------------------------------------------------------------

namespace {

// Forks from Python wait for the queue first (the hooks below), so the child has all that was computed. Others (of C libraries) find
// the lists in order, and the child finds tasks that never end marked as lost.
void before_fork() { queue().mutex.lock(); }
void after_fork_in_parent() { queue().mutex.unlock(); }
void after_fork_in_child() {
    Queue &q = queue();
    new (&q.mutex) std::mutex;
    new (&q.work) std::condition_variable;
    new (&q.progress) std::condition_variable;
    q.wanted = UINT64_MAX;
    q.worker = false;
    retirement_requested.store(false);
    if (q.executing && q.executing != running) {  // its thread is not here
        q.executing->next = q.first;
        q.first = q.executing;
        if (!q.last) q.last = q.first;
        q.executing = nullptr;
    }
    for (Task *t = q.first; t; t = t->next) t->status = kLost;
    if (q.executing) q.executing->status = kLost;  // the fork is in one of its callbacks; all else goes on
    if (q.first) {
        (q.done_last ? q.done_last->next : q.done_first) = q.first;
        q.done_last = q.last;
        q.first = q.last = nullptr;
    }
    q.effects = q.executing && !q.executing->executable->host_calls.empty();
    tasks_finished.store(q.enqueued);
}

PyObject *fork_begins(PyObject *, PyObject *) {
    Queue &q = queue();
    q.forking = true;
    if (!running) wait_until(q.enqueued, false);
    Py_RETURN_NONE;
}

PyObject *fork_ends(PyObject *, PyObject *) {
    queue().forking = false;
    Py_RETURN_NONE;
}

// Raises the failure that no wait has raised, if there is one. (One that a wait has raised was handled, or ended the program.)
PyObject *raise_unseen_failure(Queue &q) {
    retire_finished();
    Task *t = std::exchange(q.failure, nullptr);
    if (!t) Py_RETURN_NONE;
    bool unseen = !t->failure_seen;
    if (unseen) raise_failure(t);
    drop(t);
    return unseen ? nullptr : Py_NewRef(Py_None);
}

PyObject *wait_for_runs(PyObject *, PyObject *) {
    if (!running && !wait_for_all()) return nullptr;
    return raise_unseen_failure(queue());
}

PyObject *wait_for_effects(PyObject *, PyObject *) {
    if (!running && queue_has_effects() && !wait_for_all()) return nullptr;
    Py_RETURN_NONE;
}

// Nothing is queued from here on. After Ctrl-C only the task being executed is waited for: it uses memory that goes away.
PyObject *close_queue(PyObject *, PyObject *) {
    Queue &q = queue();
    q.closed = true;
    if (!wait_for_all()) {
        PyObject *error = take_exception();
        {
            std::lock_guard<std::mutex> lock(q.mutex);
            for (Task *t = q.first; t; t = t->next) t->status = kCancelled;
        }
        wait_until(q.enqueued, false);
        raise_exception(error);
        return nullptr;
    }
    return raise_unseen_failure(q);
}

PyObject *pending_runs(PyObject *, PyObject *) { return PyLong_FromUnsignedLongLong(queue().enqueued - tasks_finished.load()); }

PyObject *set_async_dispatch(PyObject *, PyObject *args) {
    PyObject *thread;
    int process;
    if (!PyArg_ParseTuple(args, "pO:set_async_dispatch", &process, &thread)) return nullptr;
    int local = Py_IsNone(thread) ? -1 : PyObject_IsTrue(thread);
    if (local < 0 && PyErr_Occurred()) return nullptr;
    queue().async = process;
    thread_async = local;
    Py_RETURN_NONE;
}

PyObject *set_overrides(PyObject *, PyObject *args) {
    PyObject *capture, *swap;
    if (!PyArg_ParseTuple(args, "OO:set_overrides", &capture, &swap)) return nullptr;
    Py_XSETREF(capture_overrides, Py_NewRef(capture));
    Py_XSETREF(swap_overrides, Py_NewRef(swap));
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"wait_for_runs", wait_for_runs, METH_NOARGS,
     "wait_for_runs(): until all programs that were started have ended. Raises what the first one failed of whose failure nobody has "
     "seen yet."},
    {"wait_for_effects", wait_for_effects, METH_NOARGS,
     "wait_for_effects(): until the host calls of programs in the queue have been made."},
    {"pending_runs", pending_runs, METH_NOARGS, "pending_runs() -> how many programs are queued or being run behind their callers."},
    {"set_async_dispatch", set_async_dispatch, METH_VARARGS,
     "set_async_dispatch(process, thread): whether programs may be queued; `thread`, if not None, is what holds for this thread."},
    {"set_overrides", set_overrides, METH_VARARGS,
     "set_overrides(capture, swap): callbacks on other threads run under the caller's configuration: capture() gives this thread's, None "
     "if there is nothing special about it; swap(configuration) -> the previous one."},
    {"_fork_begins", fork_begins, METH_NOARGS, nullptr},
    {"_fork_ends", fork_ends, METH_NOARGS, nullptr},
    {"_close_queue", close_queue, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

bool register_hooks(PyObject *module) {
    Ref begins(PyObject_GetAttrString(module, "_fork_begins")), ends(PyObject_GetAttrString(module, "_fork_ends")),
        close(PyObject_GetAttrString(module, "_close_queue"));
    Ref os(PyImport_ImportModule("os")), at_exit(PyImport_ImportModule("atexit"));
    if (!begins || !ends || !close || !os || !at_exit) return false;
    Ref hook(PyObject_GetAttrString(os.get(), "register_at_fork")), none(PyTuple_New(0));
    Ref hooks(Py_BuildValue("{s:O,s:O,s:O}", "before", begins.get(), "after_in_parent", ends.get(), "after_in_child", ends.get()));
    Ref registered(hook && none && hooks ? PyObject_Call(hook.get(), none.get(), hooks.get()) : nullptr);
    Ref closing(registered ? PyObject_CallMethod(at_exit.get(), "register", "O", close.get()) : nullptr);
    return bool(closing);
}

}  // namespace

bool capture_caller(Task *t) {
    if (capture_overrides) {
        PyObject *overrides = PyObject_CallNoArgs(capture_overrides);
        if (!overrides) return false;
        if (Py_IsNone(overrides)) Py_DECREF(overrides);
        else t->overrides = overrides;
    }
    t->context = PyContext_CopyCurrent();
    return t->context != nullptr;
}

bool init_queue(PyObject *module) {
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child)) {
        PyErr_NoMemory();
        return false;
    }
    return PyModule_AddFunctions(module, methods) == 0 && register_hooks(module);
}

}  // namespace steno
