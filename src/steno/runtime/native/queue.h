// The queue of runs that go on behind their callers: one at a time, in order, on a thread of its own.
#pragma once

#include <atomic>
#include <vector>

#include "executable.h"

namespace steno {

// One run in the queue. Its caller writes it under the GIL and enqueues it; from then on it belongs to the thread that runs it, until it
// has finished.
struct Task {
    uint32_t refs = 1;              // of the queue, of buffers it writes, of tasks that read them, of threads that wait. Under the GIL
    uint64_t sequence = 0;          // its place in the order of all tasks, from 1
    Executable *executable;         // owned until retired, as are the next five
    std::vector<Buffer *> held;     // in flight: all that it reads and writes
    std::vector<Task *> sources;    // unfinished tasks that write what it reads, or failed ones
    PyObject *context, *overrides;  // for host calls: contextvars and configuration of the caller; null: none
    std::vector<void *> in, out;    // arguments of the entry
    struct Copy {
        void *to;
        const void *from;
        size_t nbytes;
    };
    std::vector<Copy> copies;  // made before the entry runs: outputs that begin as copies of inputs
    void *arena;
    int threads;        // how many its parallel regions may use
    size_t out_bytes;   // of memory that is allocated for it
    int32_t status;     // the outcome, written by the thread that runs it: the entry's, or one of those below
    PyObject *error;    // owned: the exception of a host call
    Task *culprit;      // kSourceFailed: the task that failed first. Owned once retired, before that by `sources`
    bool failure_seen;  // a wait has raised it. Under the GIL, as are the next two
    bool waited_at_once;
    std::chrono::steady_clock::time_point enqueued;
    Task *next;  // under the queue's mutex
};

// A task that one reads failed; it did not end before the process forked, this being the child; or before the interpreter ended.
enum : int32_t { kSourceFailed = -1, kLost = -2, kCancelled = -3 };

// The sequence of the last task that has finished: what those before it wrote is visible to who reads this.
extern std::atomic<uint64_t> tasks_finished;
inline bool finished(const Task *t) { return t->sequence <= tasks_finished.load(std::memory_order_acquire); }

// All below needs the GIL. "Waits": without it, and polls signals; false: exception set.

// A task to be filled, with one reference; `drop` gives a reference back.
Task *new_task();
void drop(Task *t);

// Whether a run of this thread can be queued: asynchronous dispatch is on, there is a worker, and this is no callback of a run (which must
// not wait for what stands behind itself).
bool may_queue();

bool queue_is_idle();
bool queue_has_effects();     // unfinished tasks make host calls
bool queue_serves_another();  // the last unfinished task is another thread's
bool queue_has_room(size_t out_bytes);
bool wait_for_room(size_t out_bytes);

// Scratch memory for a task: one piece serves all of them, since they run one after the other. null: MemoryError is set.
Buffer *queue_arena(size_t nbytes);

// Notes the caller's configuration and context for the task's host calls; runs Python code. False: exception set.
bool capture_caller(Task *t);

// Takes over the reference.
void enqueue(Task *t);

// Gives back what finished tasks hold. Cheap if none has finished.
void retire_finished();

// Waits until the task has finished, successfully or not. RuntimeError in a callback of a run that is not before it.
bool wait_for(Task *t);
// Waits until all tasks that are queued now have finished.
bool wait_for_all();
// Sets the exception for what a failed task failed of.
void raise_failure(Task *t);

// Forgets the task that wrote the data, if it has done so.
inline void settle(Buffer *b) {
    if (Task *t = b->producer; t && finished(t) && t->status == kOk) {
        b->producer = nullptr;
        drop(t);
    }
}

// The surroundings of a host call: the GIL, the caller's configuration and context.
class HostCallScope {
  public:
    explicit HostCallScope(Run *run);  // takes the GIL if the run does without it
    ~HostCallScope();
    bool entered() const { return entered_; }  // false: exception set

  private:
    Run *run_;
    int threads_;
    PyObject *trace_;
    PyObject *overrides_ = nullptr;  // owned: what the caller's replaced
    bool entered_ = false;
};

bool init_queue(PyObject *module);

}  // namespace steno
