"""Asynchronous dispatch: results that are not there yet, waits, errors, order, donation, threads, callbacks, fork, exit."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from native_c import address, array, aval, program

import steno
import steno.numpy as snp
from steno import _native, lax
from steno._native import ArrayImpl, Executable
from steno.callback import effects_barrier
from steno.compiler.compiled import compile_jaxpr
from steno.core import config as core_config

I32, V1000, V2 = aval((), np.int32), aval((1000,), np.int32), aval((2,))


def sleepy(milliseconds):
    """The same number, later."""
    return SLEEPY.run([milliseconds])[0]


SLOW = 20000  # microseconds


def host(callback, heavy=True, name="slow_host"):
    return program(name, [V2], [V2], host_calls=[(callback, [V2], [V2])], heavy=heavy)


def numbers(first=0):
    return array(np.arange(first, first + 1000), np.int32)


@pytest.fixture(autouse=True)
def programs():
    """New ones for each test, because executables remember how long they ran and whether somebody waited for them."""
    global SLEEPY, INC, INC_LIGHT, INC_IN_PLACE, FAIL, INLINE_HOST
    SLEEPY = program("sleepy", [I32], [I32], heavy=True)
    INC = program("slow_inc", [V1000, I32], [V1000], heavy=True)
    INC_LIGHT = program("slow_inc", [V1000, I32], [V1000])
    INC_IN_PLACE = program("slow_inc", [V1000, I32], [V1000], heavy=True, aliases=[(0, 0)])
    FAIL = program("slow_fail", [I32, I32, I32], [I32, I32], heavy=True)
    INLINE_HOST = host(lambda x: [np.asarray(x)], heavy=False, name="host")
    yield
    with contextlib.suppress(Exception):
        _native.wait_for_runs()
    assert _native.pending_runs() == 0


# ---- futures ------------------------------------------------------------------------------------------------------------------------


def test_a_heavy_run_returns_at_once():
    begin = time.perf_counter()
    y = sleepy(300)
    assert time.perf_counter() - begin < 0.2
    assert not y.is_ready() and _native.pending_runs() == 1
    assert y.shape == () and y.dtype == np.int32 and y.aval is I32 and y.nbytes == 4 and not y.is_deleted()
    y.copy_to_host_async()
    z = y.with_aval(I32)
    assert not z.is_ready() and time.perf_counter() - begin < 0.25
    assert y.block_until_ready() is y
    assert time.perf_counter() - begin > 0.29
    assert y.is_ready() and z.is_ready() and y.item() == z.item() == 300 and _native.pending_runs() == 0


LOOKS = {
    "_value": lambda y: int(y._value),
    "asarray": lambda y: int(np.asarray(y)),
    "array": lambda y: int(np.array(y, copy=True)),
    "memoryview": lambda y: memoryview(y)[()],
    "dlpack": lambda y: int(np.from_dlpack(y)),
    "from_dlpack": lambda y: int(_native.from_dlpack(y)),
    "item": lambda y: y.item(),
    "int": int,
    "float": float,
    "complex": complex,
    "bool": lambda y: 30 * bool(y),
    "index": lambda y: len(range(y)),
    "tolist": lambda y: y.tolist(),
    "repr": lambda y: int(repr(y).split("(")[1].split(",")[0]),
    "str": lambda y: int(str(y)),
    "format": lambda y: int(f"{y}"),
    "copy": lambda y: int(copy.copy(y)),
    "deepcopy": lambda y: int(copy.deepcopy(y)),
    "pickle": lambda y: int(pickle.loads(pickle.dumps(y))),
    "pointer": lambda y: int(np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int32 * 1).from_address(y.unsafe_buffer_pointer()))[0]),
    "tree": lambda y: int(steno.block_until_ready({"a": y})["a"]),
    "captured": lambda y: int(Executable(address("inc"), [I32], [I32], captured=[y]) and y),
    "callback": lambda y: int(program("host", [I32], [I32], host_calls=[(lambda x: [y], [I32], [I32])]).run([1])[0]),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_looks_wait(look):
    y = sleepy(30)
    assert not y.is_ready()
    assert look(y) == 30


def test_chains_and_views():
    x = y = numbers()
    for k in range(100):
        y = (INC if k % 3 else INC_LIGHT).run([y, 200 * (k % 2)])[0]
    assert (np.asarray(x) == np.arange(1000)).all()
    view = np.asarray(y)
    assert (view == np.arange(100, 1100)).all()
    del y
    gc.collect()
    assert (view == np.arange(100, 1100)).all()


def test_small_runs_stand_behind_what_they_need():
    y = INC.run([numbers(), SLOW])[0]
    z = INC_LIGHT.run([y, 0])[0]
    ready = INC_LIGHT.run([numbers(), 0])[0]
    assert not z.is_ready() and ready.is_ready()
    assert np.asarray(z)[0] == 2


def test_numpy_arguments_are_copied():
    for make in (lambda: np.arange(1000, dtype=np.int32), lambda: np.arange(2000, dtype=np.int32)[::2], lambda: np.arange(1000.0)):
        x = make()
        expected = x.astype(np.int32) + 1
        time_ = np.int32(SLOW)
        y = INC.run([x, time_])[0]
        assert not y.is_ready()
        x[:] = -1
        assert (np.asarray(y) == expected).all()
    x = np.arange(1000, dtype=np.int32)
    y = INC_IN_PLACE.run([x, SLOW])[0]
    x[:] = -1
    assert (np.asarray(y) == np.arange(1, 1001)).all()


def test_aliased_inputs_are_copied_when_they_are_there():
    x = INC.run([numbers(), SLOW])[0]
    y = INC_IN_PLACE.run([x, 0])[0]
    assert not y.is_ready()
    assert np.asarray(y)[0] == 2 and np.asarray(x)[0] == 1


def test_the_arena_is_shared():
    e = program("slow_arena", [V1000, I32], [V1000], heavy=True, arena_bytes=4000)
    small = program("slow_arena", [V1000, I32], [V1000], arena_bytes=1 << 20)
    outs = []
    for k in range(40):
        x = numbers(k)
        outs.append((small if k % 7 == 3 else e).run([x, 300])[0])
    for k, y in enumerate(outs):
        assert np.asarray(y)[0] == k + 1


def test_who_always_waits_at_once_gets_short_runs_at_once():
    x = numbers()
    ready = []
    for _ in range(40):
        y = INC.run([x, 100])[0]
        ready.append(y.is_ready())
        y.block_until_ready()
    assert not any(ready[:3]) and sum(ready) >= 20 and not all(ready[10:])
    for _ in range(40):
        y = INC.run([x, 100])[0]
    assert not y.is_ready()
    for _ in range(40):
        y = sleepy(2)
        assert not y.is_ready()
        y.block_until_ready()


def test_the_queue_is_bounded():
    most = 0
    y = []
    for _ in range(80):
        y.append(sleepy(2))
        most = max(most, _native.pending_runs())
    assert most <= 32 and not y[-1].is_ready()
    assert [v.item() for v in y] == [2] * 80


def test_too_large_results_fail_at_the_call():
    huge = aval((1 << 46,))
    e = program("nothing", [], [huge], heavy=True)
    with pytest.raises(MemoryError):
        e.run([])
    sleepy(20)
    with pytest.raises(MemoryError):
        e.run([])


def test_memory_comes_back():
    effects_barrier()
    before = _native.memory_info()["in_use"]
    x = numbers()
    for _ in range(50):
        y = INC.run([x, 100])[0]
    del x, y
    effects_barrier()
    gc.collect()
    assert _native.memory_info()["in_use"] == before


def test_memory_comes_back_without_a_wait():
    before = _native.memory_info()["in_use"]
    INC.run([np.zeros(1000, np.int32), 1000])
    deadline = time.time() + 10
    while _native.pending_runs() and time.time() < deadline:
        time.sleep(0.001)
    for _ in range(1000):  # the main thread is asked between two bytecodes
        pass
    assert _native.memory_info()["in_use"] == before


def test_pending_arrays_may_be_deleted():
    y = INC.run([numbers(), SLOW])[0]
    z = INC.run([y, 0])[0]
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        y.block_until_ready()
    assert np.asarray(z)[0] == 2
    w = sleepy(100)
    threading.Timer(0.03, w.delete).start()
    with pytest.raises(RuntimeError, match="deleted"):
        w.block_until_ready()


def test_executables_may_be_deleted():
    collected = threading.Event()
    e = host(lambda x: [np.asarray(x)] if collected.wait(60) else [])
    r = weakref.ref(e)
    y = e.run([array(np.ones(2))])[0]
    del e
    gc.collect()
    assert r() is not None
    collected.set()
    assert np.asarray(y)[0] == 1
    gc.collect()
    assert r() is None


# ---- errors -------------------------------------------------------------------------------------------------------------------------


class Special(Exception):
    pass


def failing(x):
    raise Special("from the callback", 42)


def test_errors_surface_at_the_wait():
    (y,) = host(failing).run([array([1, 2])])
    z = host(lambda x: [x]).run([y])[0]  # never called
    w = program("add3", [V2, V2], [V2]).run([y, array([1, 1])])[0]
    errors = []
    for v in (y, y, z, w):
        for look in (lambda v: v.block_until_ready(), np.asarray, repr):
            with pytest.raises(Special, match="from the callback") as info:
                look(v)
            assert info.value.args[1] == 42 and info.traceback[-1].name == "failing"
            errors.append(info.value)
    assert y.is_ready() and len(set(map(id, errors))) == len(errors)
    fine = host(lambda x: [np.asarray(x) * 2])
    assert fine.run([array([1, 2])])[0]._value.tolist() == [2, 4]
    with core_config.cpu_enable_async_dispatch(False), pytest.raises(Special):  # as an argument of a run that is not queued
        INLINE_HOST.run([y])
    effects_barrier()  # somebody has seen it


def test_errors_of_all_outputs_and_statuses():
    for status, error in ((1, RuntimeError), (2, MemoryError), (7, RuntimeError)):
        y, z = FAIL.run([3, status, 1000])
        for v in (y, z, y):
            with pytest.raises(error, match="memory" if status == 2 else f"status {status}"):
                v.item()
    y, z = FAIL.run([3, 0, 1000])
    assert (y.item(), z.item()) == (3, 6)


def test_the_barrier_raises_what_nobody_has_seen():
    y = host(failing).run([array([1, 2])])[0]
    with pytest.raises(Special):
        effects_barrier()
    effects_barrier()
    with pytest.raises(Special):
        y.block_until_ready()
    effects_barrier()


def test_failed_arrays_leave_nothing():
    effects_barrier()
    gc.collect()
    before = _native.memory_info()["in_use"]

    def attempt():
        y = host(failing).run([array([1, 2])])[0]
        z = INC_LIGHT  # something in the frame
        with contextlib.suppress(Special):
            y.block_until_ready()
        return z

    attempt()
    with contextlib.suppress(Special):
        effects_barrier()
    gc.collect()
    assert _native.memory_info()["in_use"] == before


def interrupt_after(seconds):
    t = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    t.start()
    return t


@pytest.fixture
def ctrl_c():
    """Ctrl-C raises, also in a process that was started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_wait_not_the_run():
    y = sleepy(1000)
    begin = time.perf_counter()
    t = interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        y.block_until_ready()
    assert time.perf_counter() - begin < 0.8
    t.join()
    assert y.item() == 1000


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_the_queue_is_full():
    outs = [sleepy(50) for _ in range(32)]
    t = interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(16):
            outs.append(sleepy(50))
    t.join()
    assert 32 <= len(outs) < 48


# ---- order, donation ----------------------------------------------------------------------------------------------------------------


def test_donation_chain():
    effects_barrier()
    before = _native.memory_info()["in_use"]
    x = numbers()
    pointer = x.unsafe_buffer_pointer()
    for k in range(1000):
        old, x = x, INC_IN_PLACE.run([x, 10 * (k % 50 == 0)], (0,))[0]
        assert old.is_deleted()
    assert x.unsafe_buffer_pointer() == pointer
    assert (np.asarray(x) == np.arange(1000, 2000)).all()
    del x, old
    assert _native.memory_info()["in_use"] == before


def test_donated_memory_is_written_after_it_was_read():
    x = numbers()
    readers = [INC.run([x, 2000])[0] for _ in range(3)]
    y = INC_IN_PLACE.run([x, 0], (0,))[0]
    light = program("slow_inc", [V1000, I32], [V1000], aliases=[(0, 0)])
    z = light.run([y, 0], (0,))[0]
    assert x.is_deleted() and y.is_deleted()
    assert np.asarray(z)[0] == 2 and [np.asarray(r)[0] for r in readers] == [1, 1, 1]

    x = numbers()
    reader = INC.run([x, SLOW])[0]
    y = light.run([x, 0], (0,))[0]  # a small run must not overtake the reader
    assert x.is_deleted()
    assert np.asarray(reader)[0] == np.asarray(y)[0] == 1


def test_donation_is_refused_while_views_exist():
    x = numbers()
    view = np.asarray(x)
    y = INC_IN_PLACE.run([x, 1000], (0,))[0]
    assert not x.is_deleted() and np.asarray(y)[0] == 1 and view[0] == 0
    pending = INC.run([numbers(), 1000])[0]
    other = pending.with_aval(V1000)
    y = INC_IN_PLACE.run([pending, 0], (0,))[0]
    assert not pending.is_deleted() and np.asarray(y)[0] == 2 and np.asarray(other)[0] == 1


def test_the_same_array_twice_once_donated():
    e = program("alias", [aval((4,))] * 2, [aval((4,))] * 2, aliases=[(0, 0)], heavy=True)
    x = array([1, 2, 3, 4])
    with pytest.raises(ValueError, match="donated in the same call"):
        e.run([x, x], (0,))
    assert not x.is_deleted() and _native.pending_runs() == 0


def test_side_effects_keep_their_order():
    seen = []

    def note(x):
        seen.append(int(np.asarray(x)[0]))
        return [x]

    slow, quick = host(note), host(note, heavy=False, name="host")
    for k in range(10):
        (slow if k % 4 == 1 else quick).run([array([k, k])])
    effects_barrier()
    assert seen == list(range(10))


# ---- callbacks ----------------------------------------------------------------------------------------------------------------------


def test_callbacks_run_programs_at_once():
    threads = []

    def callback(x):
        y = INC.run([numbers(), 100])[0]
        assert y.is_ready()
        effects_barrier()
        threads.append(threading.get_ident())
        z = inner.run([x])[0]
        assert z.is_ready()
        return [np.asarray(z) + np.float32(y)[:2]]

    def nested(x):
        threads.append(threading.get_ident())
        return [np.asarray(x) * 10]

    inner = host(nested)
    y = host(callback).run([array([1, 2])])[0]
    later = sleepy(1)
    assert np.asarray(y).tolist() == [11, 22] and later.item() == 1
    assert threads[0] == threads[1] != threading.get_ident()


def test_a_callback_cannot_wait_for_itself():
    box = []

    def callback(x):
        while len(box) < 2:
            time.sleep(0.001)
        for y in box:
            with pytest.raises(RuntimeError, match="a callback waits for a program"):
                y.block_until_ready()
        return [x]

    e = host(callback)
    box.append(e.run([array([1, 2])])[0])
    box.append(sleepy(1))
    assert box[0]._value.tolist() == [1, 2]


def test_callbacks_may_use_threads():
    def callback(x):
        out = []
        t = threading.Thread(target=lambda: out.append(INC.run([numbers(), 100])[0].block_until_ready()))
        t.start()
        t.join(20)
        assert out
        return [x]

    assert host(callback).run([array([1, 2])])[0]._value.tolist() == [1, 2]


VARIABLE = contextvars.ContextVar("VARIABLE", default="none")


def test_the_surroundings_of_the_caller_travel():
    seen = []

    def callback(x):
        seen.append((_native.config_token(), core_config.enable_x64.value, VARIABLE.get(), _native.num_threads(), _native.current_trace()))
        with core_config.enable_x64(False):
            pass
        return [x]

    e = host(callback)
    steno.config.update("steno_num_threads", 5)
    try:
        token = VARIABLE.set("mine")
        with core_config.enable_x64(True), core_config.num_threads(3):
            outside = _native.config_token()
            y = e.run([array([1, 2])])[0]
        VARIABLE.reset(token)
        z = e.run([array([1, 2])])[0]
        steno.block_until_ready((y, z))
    finally:
        steno.config.update("steno_num_threads", 0)
    assert seen == [(outside, True, "mine", 3, None), (None, False, "none", 5, None)]


def test_floating_point_state_of_queued_runs():
    e = program("subnormal", [aval(())], [aval(())], heavy=True)
    y = e.run([np.float32(1e-38)])[0]
    assert y.item() == np.float32(1e-38) / 2 != 0


# ---- the knob -----------------------------------------------------------------------------------------------------------------------


def test_the_knob():
    with core_config.cpu_enable_async_dispatch(False):
        assert sleepy(5).is_ready()
        out = []
        t = threading.Thread(target=lambda: out.append(sleepy(50).is_ready()))  # of this thread alone
        t.start()
        t.join()
        assert out == [False]
        effects_barrier()
    pending = INC.run([numbers(), SLOW])[0]
    steno.config.update("jax_cpu_enable_async_dispatch", False)
    try:
        y = INC.run([pending, 0])[0]
        assert y.is_ready() and np.asarray(y)[0] == 2
        with pytest.raises(Special):
            host(failing).run([array([1, 2])])
        with core_config.cpu_enable_async_dispatch(True):
            assert not sleepy(50).is_ready()
    finally:
        steno.config.update("jax_cpu_enable_async_dispatch", True)
    assert not sleepy(50).is_ready()


def run_python(code: str, **env: str):
    source = f"import sys; sys.path[:0] = {sys.path!r}\n" + code
    return subprocess.run([sys.executable, "-c", source], env={**os.environ, **env}, capture_output=True, text=True, timeout=120)


PRELUDE = """
import os, signal, threading, time, atexit
import numpy as np
from native_c import program, aval, array
from steno import _native
I32 = aval((), np.int32)
V2 = aval((2,))
SLEEPY = program("sleepy", [I32], [I32], heavy=True)
def sleepy(ms): return SLEEPY.run([ms])[0]
def host(callback): return program("slow_host", [V2], [V2], host_calls=[(callback, [V2], [V2])], heavy=True)
"""


def test_environment_variable():
    code = PRELUDE + "print(sleepy(20).is_ready())"
    assert run_python(code, JAX_CPU_ENABLE_ASYNC_DISPATCH="0").stdout == "True\n"
    assert run_python(code).stdout == "False\n"


# ---- threads ------------------------------------------------------------------------------------------------------------------------


def test_threads_do_not_wait_for_each_other():
    long = sleepy(1000)
    out = []

    def other():
        begin = time.perf_counter()
        value = sleepy(10).item()
        out.append((value, time.perf_counter() - begin))

    t = threading.Thread(target=other)
    t.start()
    t.join()
    assert out[0][0] == 10 and out[0][1] < 0.7
    assert not long.is_ready() and long.item() == 1000


def test_many_threads():
    failures = []
    shared = INC.run([numbers(), 500])[0]
    doubling = host(lambda x: [np.asarray(x) * 2], name="host")
    broken = host(failing, name="host")
    stop = time.time() + 4

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            while time.time() < stop:
                x, expected = numbers(seed), seed
                pending = []
                for _ in range(int(rng.integers(1, 40))):
                    kind = rng.integers(0, 8)
                    if kind < 3:
                        x = (INC, INC_LIGHT, INC_IN_PLACE)[kind].run([x, int(rng.integers(0, 50))])[0]
                    elif kind == 3:
                        x = INC_IN_PLACE.run([x, int(rng.integers(0, 50))], (0,))[0]
                    elif kind == 4:
                        pending.append((doubling.run([array([seed, expected])])[0], [2 * seed, 2 * expected]))
                        continue
                    elif kind == 5:
                        y = broken.run([array([1, 2])])[0] if rng.integers(0, 2) else None
                        if y is not None:
                            try:
                                y.block_until_ready()
                                failures.append("no error")
                            except Special:
                                pass
                        continue
                    elif kind == 6:
                        INC.run([shared, 10])[0].delete()
                        continue
                    else:
                        x = INC.run([np.asarray(x), 1])[0]
                    expected += 1
                if not (np.asarray(x) == np.arange(expected, expected + 1000)).all():
                    failures.append(("chain", np.asarray(x)[:3], expected))
                for y, value in pending:
                    if y._value.tolist() != value:
                        failures.append(("host", y._value, value))
        except Special:
            pass  # where nothing can be queued, at the call
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    with contextlib.suppress(Special):
        effects_barrier()
    assert np.asarray(shared)[0] == 1


# ---- fork and exit ------------------------------------------------------------------------------------------------------------------

FORK = """
for _ in range(3):
    pending = [sleepy(20) for _ in range(5)]
    pid = os.fork()
    if pid == 0:
        ok = all(y.is_ready() and y.item() == 20 for y in pending)
        more = sleepy(30)
        ok = ok and not more.is_ready() and more.item() == 30
        again = sleepy(10)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if again.item() == 10 and sleepy(5).item() == 5 else 1)
        os._exit(0 if ok and os.waitpid(pid, 0)[1] == 0 else 1)
    assert [y.item() for y in pending] == [20] * 5
    assert os.waitpid(pid, 0)[1] == 0
calls = []
y = host(lambda x: calls.append(1) or [x]).run([array([1, 2])])[0]  # the queue needs the GIL while we fork
pid = os.fork()
if pid == 0:
    os._exit(0 if y._value.tolist() == [1, 2] and calls == [1] else 1)
assert os.waitpid(pid, 0)[1] == 0

import ctypes
libc = ctypes.PyDLL(None)
y, z = sleepy(300), sleepy(1)
pid = libc.fork()  # no hook of Python's: what is pending is lost, but only to the child
if pid == 0:
    code = 1
    try:
        z.item()
    except RuntimeError as error:
        code = 0 if "forked" in str(error) and y.is_ready() and sleepy(5).item() == 5 else 2
    os._exit(code)
assert y.item() == 300 and z.item() == 1
assert os.waitpid(pid, 0)[1] == 0
print("ok")
"""


def test_fork():
    done = run_python(PRELUDE + FORK)
    assert done.stdout == "ok\n", done.stderr


def test_fork_in_a_callback():
    code = """
def callback(x):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if sleepy(5).item() == 5 else 1)
    return [np.float32([os.waitpid(pid, 0)[1], 7])]
y = host(callback).run([array([1, 2])])[0]
z = sleepy(5)
assert y._value.tolist() == [0, 7] and z.item() == 5
print("ok")
"""
    done = run_python(PRELUDE + code)
    assert done.stdout == "ok\n", done.stderr


def test_exit_waits_for_the_queue():
    code = """
import sys
ended = threading.Event()
def say(*words): sys.stdout.write(" ".join(map(str, words)) + "\\n")  # at once, whatever other threads say
def callback(x):
    ended.wait()
    say("print", int(np.asarray(x)[0]))
    return [x]
atexit.register(lambda: say("before: pending", _native.pending_runs()))
for k in range(5):
    host(callback).run([array([k, k])])
say("end of the program")
ended.set()
"""
    done = run_python("import atexit; atexit.register(lambda: print('after', sleepy(1).is_ready()))\n" + PRELUDE + code)
    lines = done.stdout.splitlines()
    assert lines[0] == "end of the program" and lines[-1] == "after True" and not done.stderr, done.stderr
    assert [x for x in lines if x.startswith("print")] == [f"print {k}" for k in range(5)]
    assert any(x.startswith("before: pending") for x in lines) and done.returncode == 0


def test_exit_tells_of_failures():
    code = """
def callback(x):
    raise ValueError("nobody looked")
y = host(callback).run([array([1, 2])])[0]
"""
    done = run_python(PRELUDE + code)
    assert "ValueError: nobody looked" in done.stderr
    done = run_python(PRELUDE + code + "try: y.item(0)\nexcept ValueError: pass")
    assert not done.stderr


def test_ctrl_c_at_exit():
    code = """
signal.signal(signal.SIGINT, signal.default_int_handler)
y = [sleepy(200) for _ in range(30)]
def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
begin = time.time()
atexit.unregister(_native._close_queue)
try:
    _native._close_queue()
except KeyboardInterrupt:
    print("interrupted", time.time() - begin < 2, sum(x.is_ready() for x in y))
try:
    y[-1].item()
except RuntimeError as error:
    print(error)
"""
    done = run_python(PRELUDE + code)
    assert done.stdout == "interrupted True 30\nthis array was not computed: the interpreter ends\n", done.stderr


# ---- through the face ---------------------------------------------------------------------------------------------------------------


@steno.jit
def heavy(x):
    for _ in range(4):
        x = snp.sin(x @ x * 1e-3)
    return x


@pytest.fixture(scope="module")
def matrix():
    return snp.asarray(np.random.default_rng(0).random((600, 600), np.float32))


def test_jitted_functions(matrix):
    with core_config.cpu_enable_async_dispatch(False):
        first, second = heavy(matrix), heavy(heavy(matrix))
        assert first.is_ready()
        total = float((second + 1).sum())
    x = heavy(matrix)
    y = heavy(x)
    pending = not y.is_ready()
    value = (y + 1).sum()
    assert pending and isinstance(y, ArrayImpl)
    assert float(value) == total
    assert (np.asarray(x) == np.asarray(first)).all() and (np.asarray(y) == np.asarray(second)).all()


def test_jitted_donation_chain(matrix):
    step = steno.jit(lambda x: snp.cos(x) + x * 0.5, donate_argnums=0)
    expected, x = matrix, matrix + 0
    with core_config.cpu_enable_async_dispatch(False):
        plain = steno.jit(lambda x: snp.cos(x) + x * 0.5)
        for _ in range(100):
            expected = plain(expected)
    for _ in range(100):
        x = step(x)
    assert (np.asarray(x) == np.asarray(expected)).all()


def test_prints_of_jitted_functions(matrix, capsys):
    @steno.jit
    def f(x):
        y = heavy(x)
        steno.debug.print("sum {}", y.sum() * 0 + x[0, 0] * 0 + 7, ordered=True)
        return y

    for _ in range(3):
        f(matrix)
    steno.debug.print("eager", ordered=True)
    effects_barrier()
    assert capsys.readouterr().out == "sum 7.0\nsum 7.0\nsum 7.0\neager\n"


def test_errors_of_jitted_functions(matrix):
    def bad(x):
        raise Special("no")

    @steno.jit
    def f(x):
        return heavy(x) + steno.pure_callback(bad, steno.ShapeDtypeStruct((), np.float32), x[0, 0])

    with pytest.raises(steno.errors.JaxRuntimeError, match="Special: no") as info:
        f(matrix).block_until_ready()
    assert isinstance(info.value.__cause__, Special)
    y = f(matrix)
    z = y.sum()
    with pytest.raises(steno.errors.JaxRuntimeError, match="Special: no"):
        float(z)


def test_what_a_first_run_is_expected_to_take():
    """A thread that waits runs a short one itself, which Ctrl-C cannot end: so not one whose loops may never end."""

    def plan(f, *args):
        return compile_jaxpr(steno.make_jaxpr(f)(*args)).plan

    x = np.ones(1000, np.float32)
    assert plan(lambda x: x + 1, x).bounded
    assert plan(lambda x: lax.fori_loop(0, 10, lambda i, x: x * 2, x), x).bounded
    endless = [
        lambda x: lax.while_loop(lambda x: x[0] < 9, lambda x: x * 2, x),
        lambda x: lax.fori_loop(0, 10, lambda i, x: lax.while_loop(lambda x: x[0] < 9, lambda x: x * 2, x), x),
        lambda x: lax.cond(x[0] > 0, lambda x: lax.while_loop(lambda x: x[0] < 9, lambda x: x * 2, x), lambda x: x, x),
    ]
    assert not any(plan(f, x).bounded for f in endless)
