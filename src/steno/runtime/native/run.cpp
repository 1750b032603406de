// How a compiled program runs: at once in its caller's thread, or behind it (queue.h).
#include <algorithm>
#include <chrono>
#include <cstring>

#include "executable.h"
#include "fp_state.h"
#include "queue.h"
#include "threads.h"

namespace steno {

PyObject *take_exception() {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

void raise_exception(PyObject *owned) {
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(owned);
#else
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject *>(Py_TYPE(owned))), owned, PyException_GetTraceback(owned));
#endif
}

void raise_status(int32_t status) {
    if (status == kOutOfMemory) PyErr_SetString(PyExc_MemoryError, "Out of memory while running a compiled program");
    else PyErr_Format(PyExc_RuntimeError, "a compiled program ended with status %d", int(status));
}

#define STENO_INLINE inline __attribute__((always_inline))

namespace {

// NumPy's and Python's values must be copied for a queued run. Worth it if they are few bytes, or the run is known to take longer by far:
// at least a nanosecond for each byte, while copying ten takes that.
constexpr size_t kFewBytes = 4096;
constexpr uint64_t kShortRun = 1'000'000;  // nanoseconds. Waking the queue's thread costs some ten thousand

bool already_donated(size_t position) {
    PyErr_Format(PyExc_ValueError,
                 "Attempt to use a buffer that was donated in the same call (flattened argument %zu), as in `f(donate(a), a)`", position);
    return false;
}

// Takes back what a run that did not happen has prepared.
struct Outputs {
    Buffer **out;
    size_t n = 0;
    struct Taken {
        Array *array;
        Buffer *buffer;
    };
    SmallVector<Taken, 16> taken;  // arrays that lose their buffer to an output
    bool done = false;
    explicit Outputs(Buffer **out) : out(out) {}
    ~Outputs() {
        if (done) return;
        for (Taken &t : taken)
            if (!t.array->buffer) t.array->buffer = retain(t.buffer);
        for (size_t k = 0; k < n; ++k) release(out[k]);
    }
};

// Marks the arrays that may be taken over, and finds one that is passed a second time.
inline bool check_donations(const Executable *e, Array *const *arrays, const bool *donated) {
    size_t n = e->n_in();
    bool ok = true;
    for (size_t j = 0; j < n && ok; ++j)
        if (donated[j] && arrays[j] && arrays[j]->buffer->refs == 1) {
            if (arrays[j]->buffer->marked) ok = already_donated(j);
            else arrays[j]->buffer->marked = true;
        }
    for (size_t j = 0; j < n && ok; ++j)
        if (!donated[j] && arrays[j] && arrays[j]->buffer->marked) ok = already_donated(j);
    for (size_t j = 0; j < n; ++j)
        if (arrays[j]) arrays[j]->buffer->marked = false;
    return ok;
}

// `task`: of a queued run, which copies the arrays that outputs begin as (they may not be there yet) and which comes after all that use a
// donated buffer now. Null: at once.
STENO_INLINE bool prepare_outputs(const Executable *e, void **in, Array *const *arrays, const bool *donated, Outputs &outputs, Task *task) {
    for (size_t k = 0, n = e->n_out(); k < n; ++k) {
        int32_t j = e->alias[k];
        if (j >= 0 && donated && donated[j] && arrays[j] && arrays[j]->buffer) {
            Buffer *b = arrays[j]->buffer;
            if (b->refs == 1 && b->writable && (task || !b->in_flight)) {
                if (!outputs.taken.push({arrays[j], b})) return false;
                arrays[j]->buffer = nullptr;
                outputs.out[outputs.n++] = b;
                continue;
            }
        }
        Buffer *b = allocate_for(e->out_avals[k]);
        if (!b) return false;
        outputs.out[outputs.n++] = b;
        if (j >= 0) {
            size_t nbytes = size_t(e->out_avals[k]->nbytes);
            if (task && arrays[j]) task->copies.push_back({b->data, in[j], nbytes});
            else std::memcpy(b->data, in[j], nbytes);
            in[j] = b->data;
        }
    }
    return true;
}

// The inputs are alive and there. `kSpecial`: as the executable says; otherwise nothing but the entry happens meanwhile.
template <bool kSpecial>
STENO_INLINE bool run_now(Executable *e, void **in, Array *const *arrays, const bool *donated, Buffer **out) {
    size_t n_in = e->n_in();
    if (donated && !check_donations(e, arrays, donated)) return false;
    Outputs outputs(out);
    if (!prepare_outputs(e, in, arrays, donated, outputs, nullptr)) return false;
    Scratch arena{nullptr, 0};
    if (e->arena_bytes && !allocate_scratch(e->arena_bytes, &arena)) return false;

    for (size_t k = 0; k < e->captured.size(); ++k) in[n_in + k] = e->captured[k]->data;
    StackArray<void *, 32> out_data(outputs.n);
    StackArray<Buffer *, 32> held(kSpecial ? n_in : 0);
    if (STENO_UNLIKELY(!out_data || !held)) {
        if (arena.data) free_scratch(arena);
        return false;
    }
    for (size_t k = 0; k < outputs.n; ++k) out_data[k] = out[k]->data;
    // While other Python code can run, a `delete()` or a donation elsewhere must not free what this run reads.
    size_t n_held = 0;
    if (kSpecial)
        for (size_t j = 0; j < n_in; ++j)
            if (arrays[j] && arrays[j]->buffer) held[n_held++] = retain(arrays[j]->buffer);
    outputs.done = true;

    Run run{e, nullptr, nullptr};
    int32_t status;
    if (kSpecial) {
        if (e->heavy) run.released = PyEval_SaveThread();
        auto begin = std::chrono::steady_clock::now();
        {
            StrictFloats strict;
            status = e->entry(in, out_data.data(), arena.data, &run);
        }
        e->note_duration(std::chrono::steady_clock::now() - begin);
        if (e->heavy) PyEval_RestoreThread(run.released);
    } else {
        StrictFloats strict;
        status = e->entry(in, out_data.data(), arena.data, &run);
    }
    for (size_t k = 0; k < n_held; ++k) release(held[k]);
    if (arena.data) free_scratch(arena);
    if (STENO_LIKELY(status == kOk)) return true;

    for (size_t k = 0; k < outputs.n; ++k) release(out[k]);
    if (run.error) raise_exception(run.error);
    else raise_status(status);
    return false;
}

class TaskRef {
  public:
    TaskRef() = default;
    TaskRef(const TaskRef &) = delete;
    TaskRef &operator=(const TaskRef &) = delete;
    ~TaskRef() { reset(); }
    // A new task for a run of `e`, if there is none yet.
    Task *make(Executable *e) {
        if (!task_) {
            task_ = new_task();
            task_->executable = reinterpret_cast<Executable *>(Py_NewRef(reinterpret_cast<PyObject *>(e)));
        }
        return task_;
    }
    void reset() {
        if (task_) drop(std::exchange(task_, nullptr));
    }
    Task *release() { return std::exchange(task_, nullptr); }

  private:
    Task *task_ = nullptr;
};

void hold_for(Task *task, Buffer *b) {
    task->held.push_back(b);
    hold(b);
}

// Queues the run. The inputs are alive; `given`: what `in` is. False: exception set, and all but `in` and the task is as before.
bool queue_run(Executable *e, void **in, void *const *given, Array *const *arrays, const bool *donated, Buffer **out, TaskRef &owner) {
    size_t n_in = e->n_in();
    Task *task = owner.make(e);
    if (donated && !check_donations(e, arrays, donated)) return false;
    for (size_t j = 0; j < n_in; ++j)
        if (arrays[j])
            if (Task *source = arrays[j]->buffer->producer; source && (task->sources.empty() || task->sources.back() != source)) {
                task->sources.push_back(source);
                ++source->refs;
            }
    task->held.reserve(n_in + e->n_out() + 1);
    Outputs outputs(out);
    if (!prepare_outputs(e, in, arrays, donated, outputs, task)) return false;
    for (size_t j = 0; j < n_in; ++j) {
        if (arrays[j]) {
            if (arrays[j]->buffer) hold_for(task, arrays[j]->buffer);
        } else if (in[j] == given[j]) {  // not copied into an output
            Buffer *b = allocate_for(e->in_avals[j]);
            if (!b) return false;
            hold_for(task, b);
            release(b);
            std::memcpy(b->data, in[j], size_t(e->in_avals[j]->nbytes));
            in[j] = b->data;
        }
    }
    if (e->arena_bytes) {
        Buffer *arena = queue_arena(e->arena_bytes);
        if (!arena) return false;
        hold_for(task, arena);
        task->arena = arena->data;
    }
    task->in.assign(in, in + n_in);
    for (Buffer *b : e->captured) task->in.push_back(b->data);
    for (size_t k = 0; k < outputs.n; ++k) task->out.push_back(out[k]->data);

    outputs.done = true;
    task->out_bytes = e->out_bytes;
    task->threads = num_threads();
    for (size_t k = 0; k < outputs.n; ++k) {
        hold_for(task, out[k]);
        Task *before = std::exchange(out[k]->producer, task);
        ++task->refs;
        if (before) drop(before);  // one of `sources`
    }
    enqueue(owner.release());
    return true;
}

// Whether a run that need not be queued should be.
bool prefers_queue(Executable *e, size_t copied_bytes) {
    if (!e->host_calls.empty() && queue_has_effects()) return true;  // side effects keep their order
    // While the queue serves another thread, this one runs beside it rather than behind it.
    if (!e->heavy || queue_serves_another()) return false;
    uint64_t latest = e->latest_nanoseconds.load(std::memory_order_relaxed);
    if (copied_bytes > kFewBytes && copied_bytes > latest) return false;
    return !(latest && latest < kShortRun && e->patience.wants_result_now());
}

bool execute_specially(Executable *e, void **in, Array *const *arrays, const bool *donated, Buffer **out) try {
    retire_finished();
    TaskRef task;
    bool captured = e->host_calls.empty();  // what the task must know of its caller
    size_t n_in = e->n_in();
    StackArray<void *, 32> given(n_in);  // an attempt to queue the run changes `in`
    if (!given) return false;
    std::copy_n(in, n_in, given.data());
    bool second_attempt = false;
    for (;;) {  // again after each wait: other code ran meanwhile
        Task *source = nullptr;
        bool overtakes = false;  // it may write memory that queued runs use
        size_t copied_bytes = 0;
        for (size_t j = 0; j < n_in; ++j) {
            in[j] = given[j];
            if (!arrays[j]) {
                copied_bytes += size_t(e->in_avals[j]->nbytes);
                continue;
            }
            if (!check_alive(arrays[j])) return false;
            Buffer *b = arrays[j]->buffer;
            settle(b);
            if (b->producer) source = b->producer;
            overtakes |= donated && donated[j] && b->in_flight;
        }
        if ((source || overtakes || prefers_queue(e, copied_bytes)) && may_queue()) {
            if (!captured) {
                if (!capture_caller(task.make(e))) return false;
                captured = true;
                continue;
            }
            if (!queue_has_room(e->out_bytes)) {
                if (!wait_for_room(e->out_bytes)) return false;
                continue;
            }
            if (queue_run(e, in, given.data(), arrays, donated, out, task)) return true;
            if (second_attempt || queue_is_idle() || !PyErr_ExceptionMatches(PyExc_MemoryError)) return false;
            // Queued runs give memory back when they have ended.
            PyErr_Clear();
            second_attempt = true;
            task.reset();
            captured = e->host_calls.empty();
            if (!wait_for_all()) return false;
            continue;
        }
        if (!source) return run_now<true>(e, in, arrays, donated, out);
        if (!finished(source)) {
            if (!wait_for(source)) return false;
            continue;
        }
        raise_failure(source);
        return false;
    }
} catch (const std::bad_alloc &) {
    PyErr_NoMemory();
    return false;
}

}  // namespace

bool execute(Executable *e, void **in, Array *const *arrays, const bool *donated, Buffer **out) {
    size_t n_in = e->n_in();
    bool plain = !e->special;
    for (size_t j = 0; j < n_in; ++j)
        if (arrays[j]) {
            if (STENO_UNLIKELY(!check_alive(arrays[j]))) return false;
            Buffer *b = arrays[j]->buffer;
            if (STENO_UNLIKELY(b->producer || (b->in_flight && donated && donated[j]))) plain = false;
            in[j] = b->data;
        }
    if (STENO_UNLIKELY(!plain)) return execute_specially(e, in, arrays, donated, out);
    return run_now<false>(e, in, arrays, donated, out);
}

}  // namespace steno
