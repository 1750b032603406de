"""Executables: arguments, results, donation, host calls, failures, threads."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import ml_dtypes
import numpy as np
import pytest
from native_c import address, array, aval, library, program

from steno import _native, config
from steno._native import ArrayImpl, Executable
from steno.core import config as core_config

V3, V4, S = aval((3,)), aval((4,)), aval(())


class TypedScalar:
    def __init__(self, value, type_):
        self.value, self.aval = value, type_


# ---- arguments and results ----------------------------------------------------------------------------------------------------


def test_run():
    e = program("add3", [V3, V3], [V3])
    (out,) = e.run([array([1, 2, 3]), array([10, 20, 30])])
    assert out.aval is V3 and out._value.tolist() == [11, 22, 33]
    assert e.in_avals == (V3, V3) and e.out_avals == (V3,) and not e.heavy and e.arena_bytes == 0
    assert program("add3", [V3, V3], [aval((3,), weak_type=True)]).run((array([1, 2, 3]), array([1, 1, 1])))[0].weak_type


@pytest.mark.parametrize("heavy", [False, True])
def test_ndarray_arguments(heavy):
    e = program("add3", [V3, V3], [V3], heavy=heavy)
    base = np.arange(12, dtype=np.float32)
    for x in (
        base[:3],
        base[1:4],
        base[::4],
        base.astype(np.float64)[:3],
        base.astype(">f4")[:3],
        np.broadcast_to(np.float32(2), 3),
        base[:3].astype(np.int64),
    ):
        assert e.run([x, np.ones(3, np.float32)])[0]._value.tolist() == (x + 1).tolist()
    raw = np.frombuffer(b"x" + np.float32([1, 2, 3]).tobytes(), np.uint8)[1:].view(np.float32)
    assert not raw.flags.aligned
    assert e.run([raw, array([0, 0, 0])])[0]._value.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "x",
    [
        1.0,
        1,
        True,
        np.float32(1),
        np.float64(1),
        np.int8(1),
        np.array(1.0),
        np.bool_(True),
        ml_dtypes.bfloat16(1),
        TypedScalar(np.float32(1), S),
    ],
    ids=lambda x: type(x).__name__,
)
def test_scalar_arguments(x):
    assert program("inc", [S], [S]).run([x])[0].item() == 2.0


@pytest.mark.parametrize("dtype", "?bhilBHILefdFD")
def test_scalars_of_each_dtype(dtype):
    t = aval((), dtype)
    copy = Executable(address("alias"), [t], [t])  # not run: see below
    assert copy.in_avals == (t,)
    for x in (1, 1.0, True, 1j, np.float32(1), np.dtype(dtype).type(1)):
        if isinstance(x, complex) and t.dtype.kind != "c":
            continue
        (out,) = Executable(address("nothing"), [t], [t], aliases=[(0, 0)]).run([x])
        assert out.dtype == np.dtype(dtype) and out.item() == np.dtype(dtype).type(x)


def test_integer_bounds():
    for dtype in "bhilBHIL":
        info = np.iinfo(dtype)
        e = Executable(address("nothing"), [aval((), dtype)], [aval((), dtype)], aliases=[(0, 0)])
        for x in (info.min, info.max):
            assert e.run([int(x)])[0].item() == x
        for x in (int(info.min) - 1, int(info.max) + 1, 2**70, -(2**70)):
            with pytest.raises(OverflowError, match=f"{x} is out of bounds for {np.dtype(dtype).name}"):
                e.run([x])


def test_argument_errors():
    e = program("add3", [V3, V3], [V3])
    x = array([1, 2, 3])
    with pytest.raises(TypeError, match="1 arguments given, 2 wanted"):
        e.run([x])
    with pytest.raises(TypeError, match=r"argument 1 is float32\[4\], wanted float32\[3\]"):
        e.run([x, array([1, 2, 3, 4])])
    with pytest.raises(TypeError, match=r"argument 1 is int32\[3\], wanted float32\[3\]"):
        e.run([x, array([1, 2, 3], np.int32)])
    with pytest.raises(TypeError, match=r"argument 0 is an ndarray of float64 and shape \(4,\)"):
        e.run([np.ones(4), x])
    with pytest.raises(TypeError, match="argument 0 is a float"):
        e.run([1.0, x])
    for wrong in ("a", None, object(), [1, 2, 3]):
        with pytest.raises(TypeError, match=f"argument 0 is a {type(wrong).__name__}"):
            e.run([wrong, x])
    y = array([1, 2, 3])
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        e.run([x, y])
    with pytest.raises(TypeError):
        e.run()
    with pytest.raises(TypeError, match="unexpected keyword"):
        e.run([x, x], donate=(0,))


def test_constructor_errors():
    a = address("nothing")
    with pytest.raises(ValueError, match="null"):
        Executable(0, [], [])
    with pytest.raises(TypeError):
        Executable("x", [], [])
    with pytest.raises(TypeError, match="ShapedArrays"):
        Executable(a, [1], [])
    with pytest.raises(ValueError, match="negative"):
        Executable(a, [], [], -1)
    for aliases in ([(0, 1)], [(1, 0)], [(0, 0), (0, 0)], [(-1, 0)]):
        with pytest.raises(ValueError, match="take over"):
            Executable(a, [V3], [V3], aliases=aliases)
    with pytest.raises(ValueError, match="take over"):
        Executable(a, [V3], [V4], aliases=[(0, 0)])
    with pytest.raises(TypeError, match="ArrayImpl"):
        Executable(a, [V3], [], captured=[np.ones(3)])
    with pytest.raises(ValueError, match="captured"):
        Executable(a, [V3], [], captured=[array([1, 2, 3, 4])])
    with pytest.raises(ValueError, match="captured"):
        Executable(a, [], [], captured=[array([1, 2, 3, 4])])


def test_captured():
    c = array([10, 20, 30])
    e = program("add3", [V3, V3], [V3], captured=[c])
    assert e.run([array([1, 2, 3])])[0]._value.tolist() == [11, 22, 33]
    c.delete()
    del c
    assert e.run([array([1, 2, 3])])[0]._value.tolist() == [11, 22, 33]


def test_arena_and_memory():
    t = aval((1000,))
    e = program("arena1000", [t], [t], arena_bytes=4000)
    x = np.arange(1000, dtype=np.float32)
    gc.collect()
    before = _native.memory_info()["in_use"]
    for _ in range(20):
        assert (e.run([x])[0]._value == x + 1).all()
    assert _native.memory_info()["in_use"] == before


def test_too_large():
    huge = aval((2**40, 2**20))
    with pytest.raises(MemoryError):
        Executable(address("nothing"), [], [S, huge]).run([])
    with pytest.raises(MemoryError):
        Executable(address("nothing"), [], [S], 2**60).run([])
    x = array([1, 2, 3])
    with pytest.raises(MemoryError):
        Executable(address("nothing"), [V3], [V3, huge], aliases=[(0, 0)]).run([x], donated=[0])
    assert x._value.tolist() == [1, 2, 3]


def test_status():
    i32 = aval((), np.int32)
    e = Executable(address("fail"), [i32], [i32])
    assert len(e.run([0])) == 1
    with pytest.raises(MemoryError):
        e.run([2])
    with pytest.raises(RuntimeError, match="status 7"):
        e.run([7])


def test_floating_point_environment():
    """Flush-to-zero, set by others, is off inside programs."""
    libm = ctypes.CDLL("libm.so.6")
    env = ctypes.create_string_buffer(256)
    e = program("subnormal", [S], [S])
    tiny = np.float32(1.5e-38)
    bits = lambda: e.run([tiny])[0]._value.tobytes()  # noqa: E731  (a conversion to a Python float would flush, too)
    expected = bits()
    assert any(expected)
    if os.uname().machine != "x86_64":
        return
    libm.fegetenv(env)
    saved = env.raw
    mxcsr = int.from_bytes(saved[28:32], "little")
    changed = ctypes.create_string_buffer(saved[:28] + (mxcsr | 0x8040).to_bytes(4, "little") + saved[32:], 256)
    libm.fesetenv(changed)
    try:
        actual = bits()
    finally:
        libm.fesetenv(env)
    assert actual == expected


# ---- donation -------------------------------------------------------------------------------------------------------------------


def test_alias_not_donated():
    e = program("alias", [V4, V4], [V4, V4], aliases=[(0, 0)])
    for x in (array([1, 2, 3, 4]), np.float32([1, 2, 3, 4])):
        a, b = e.run([x, x])
        assert a._value.tolist() == [2, 3, 4, 5] and b._value.tolist() == [2, 4, 6, 8] and np.asarray(x).tolist() == [1, 2, 3, 4]


def test_donated():
    e = program("alias", [V4, V4], [V4, V4], aliases=[(0, 0)])
    x, y = array([1, 2, 3, 4]), array([5, 6, 7, 8])
    pointer = x.unsafe_buffer_pointer()
    a, b = e.run([x, y], donated=[0])
    assert x.is_deleted() and a.unsafe_buffer_pointer() == pointer and a._value.tolist() == [2, 3, 4, 5]
    assert not y.is_deleted() and b._value.tolist() == [10, 12, 14, 16]
    with pytest.raises(RuntimeError, match="deleted"):
        e.run([x, y])
    a, b = e.run([y, b], donated=[1])  # nothing aliases input 1
    assert not b.is_deleted() and not y.is_deleted()


@pytest.mark.parametrize(
    "other",
    [lambda x: x._value, lambda x: memoryview(x), lambda x: x.with_aval(aval((4,), np.int32)), np.asarray],
    ids=["value", "memoryview", "with_aval", "asarray"],
)
def test_donation_refused_while_views_exist(other):
    e = program("alias", [V4, V4], [V4, V4], aliases=[(0, 0)])
    x = array([1, 2, 3, 4])
    view = other(x)
    a, _ = e.run([x, array([0, 0, 0, 0])], donated=[0])
    assert not x.is_deleted() and x._value.tolist() == [1, 2, 3, 4] and a._value.tolist() == [2, 3, 4, 5]
    del view
    e.run([x, array([0, 0, 0, 0])], donated=[0])
    assert x.is_deleted()


def test_foreign_memory_is_not_taken_over():
    e = program("alias", [V4, V4], [V4, V4], aliases=[(0, 0)])
    owner = np.float32([1, 2, 3, 4])
    x = ArrayImpl.adopt(owner, V4)
    e.run([x, owner], donated=[0])
    assert owner.tolist() == [1, 2, 3, 4] and not x.is_deleted()


def test_donated_twice():
    e = program("alias", [V4, V4], [V4, V4], aliases=[(0, 0)])
    x = array([1, 2, 3, 4])
    for donated in ([0], [0, 1], [1]):
        with pytest.raises(ValueError, match="donated in the same call"):
            e.run([x, x], donated=donated)
    assert e.run([x, x])[0]._value.tolist() == [2, 3, 4, 5]
    with pytest.raises(ValueError):
        e.run([x, x], donated=[2])


# ---- host calls -----------------------------------------------------------------------------------------------------------------

V2 = aval((2,))


def host_program(callback, heavy=False, result=V2):
    return program("host", [V2], [result], host_calls=[(callback, [V2], [result])], heavy=heavy)


@pytest.mark.parametrize("heavy", [False, True])
def test_host_call(heavy):
    seen = []

    def callback(x):
        assert _native.current_trace() is None
        seen.append(x)
        return [np.asarray(x) * 2]

    e = host_program(callback, heavy)
    (out,) = e.run([array([1, 2])])
    assert out._value.tolist() == [2, 4]
    assert type(seen[0]) is ArrayImpl and seen[0].aval is V2 and seen[0]._value.tolist() == [1, 2]
    trace = object()
    _native.swap_trace(trace)
    try:
        e.run([array([1, 2])])
        assert _native.current_trace() is trace
    finally:
        _native.swap_trace(None)


@pytest.mark.parametrize("heavy", [False, True])
def test_host_call_raises(heavy):
    class Special(Exception):
        pass

    def callback(x):
        raise Special("from the callback", 42)

    with pytest.raises(Special, match="from the callback") as info:
        host_program(callback, heavy).run([array([1, 2])])[0].block_until_ready()
    assert info.value.args[1] == 42 and info.traceback[-1].name == "callback"
    e = host_program(lambda x: [x], heavy)
    assert e.run([array([1, 2])])[0]._value.tolist() == [1, 2]


@pytest.mark.parametrize(
    "result,error",
    [
        (lambda x: [np.ones(3, np.float32)], ValueError),
        (lambda x: [np.ones(2, np.int32)], ValueError),
        (lambda x: [array([1, 2, 3])], ValueError),
        (lambda x: [], ValueError),
        (lambda x: None, TypeError),
        (lambda x: [object()], ValueError),
        (lambda: [], TypeError),
        (lambda x: x.delete() or [x], RuntimeError),
    ],
)
def test_host_call_wrong_results(result, error):
    with pytest.raises(error):
        host_program(result).run([array([1, 2])])


def test_host_call_results_of_all_kinds():
    for make in (
        lambda x: [array([3, 4])],
        lambda x: (np.float32([3, 4]),),
        lambda x: [np.float32([3, 0, 4, 0])[::2]],
        lambda x: [np.array([3, 4], ">f4")],
    ):
        assert host_program(make).run([array([1, 2])])[0]._value.tolist() == [3, 4]


def test_host_call_deletes_and_reenters():
    x = array([1, 2])
    inner = host_program(lambda y: [y])

    def callback(y):
        x.delete()
        gc.collect()
        return inner.run([np.asarray(y) + 1])

    assert host_program(callback).run([x])[0]._value.tolist() == [2, 3]
    assert x.is_deleted()


def test_cycles_through_callbacks_are_collected():
    class Box:
        pass

    def make():
        box = Box()
        box.executable = host_program(lambda x: [box and x])
        return weakref.ref(box.executable)

    r = make()
    gc.collect()
    assert r() is None


# ---- threads ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def four_threads():
    before = _native.num_threads()
    _native.set_num_threads(4)
    yield
    _native.set_num_threads(before)


def test_parallel_for_covers_each_index_once(four_threads):
    lib = library()
    for n in (0, 1, 2, 3, 7, 100, 1000, 12345):
        for grain in (1, 2, 64, 1000):
            seen = np.zeros(n + 1, np.int32)
            lib.cover(ctypes.c_void_p(seen.ctypes.data), ctypes.c_int64(n), ctypes.c_int64(grain))
            assert seen.tolist() == [1] * n + [0]


def test_nested_regions(four_threads):
    t = aval((100000,), np.int32)
    (out,) = program("nested", [], [t]).run([])
    assert (out._value == 1).all()


def test_results_do_not_depend_on_threads(four_threads):
    t = aval((1000000,))
    e = program("parallel", [t], [t], heavy=True)
    x = np.random.default_rng(0).random(1000000, np.float32)
    results = []
    for n in (1, 2, 4):
        previous = _native.swap_thread_limit(n)
        assert previous == 0 and _native.num_threads() == n
        results.append(e.run([x])[0]._value)
        _native.swap_thread_limit(previous)
    assert (results[0] == np.sqrt(x) * x).all()
    assert all((r == results[0]).all() for r in results)


def test_thread_counts():
    before = _native.num_threads()
    try:
        _native.set_num_threads(3)
        assert _native.num_threads() == 3
        for bad in (-1, 10**6):
            with pytest.raises(ValueError, match="between"):
                _native.set_num_threads(bad)
        with pytest.raises(TypeError):
            _native.set_num_threads("2")
        _native.set_num_threads(0)
        assert _native.num_threads() >= 1
    finally:
        _native.set_num_threads(before)


def test_the_knob():
    before = _native.num_threads()
    try:
        config.update("steno_num_threads", 5)
        assert _native.num_threads() == 5
        with core_config.num_threads(2):
            assert _native.num_threads() == 2
            with core_config.num_threads(3):
                assert _native.num_threads() == 3
            assert _native.num_threads() == 2
            with core_config.num_threads(0):
                assert _native.num_threads() == 5
        assert _native.num_threads() == 5
    finally:
        config.update("steno_num_threads", 0)
        _native.set_num_threads(before)


def run_python(code: str, **env: str):
    source = f"import sys; sys.path[:0] = {sys.path!r}\n" + code
    return subprocess.run([sys.executable, "-c", source], env={**os.environ, **env}, capture_output=True, text=True, timeout=60)


def test_environment_variable():
    code = "from steno import _native; print(_native.num_threads())"
    assert run_python(code, STENO_NUM_THREADS="3").stdout == "3\n"
    assert int(run_python(code, STENO_NUM_THREADS="0").stdout) >= 1
    assert "STENO_NUM_THREADS must be a number" in run_python(code, STENO_NUM_THREADS="many").stderr


def test_gil_is_released():
    i32 = aval((), np.int32)
    e = program("sleepy", [i32], [i32], heavy=True)
    counter, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            counter[0] += 1
            time.sleep(0.002)

    t = threading.Thread(target=tick)
    t.start()
    e.run([200])[0].block_until_ready()
    n = counter[0]
    stop.set()
    t.join()
    assert n >= 10


def test_delete_while_running():
    i32 = aval((), np.int32)
    e = program("sleepy", [i32], [i32], heavy=True)
    x = array(100, np.int32)
    out = []
    t = threading.Thread(target=lambda: out.append(e.run([x])))
    t.start()
    time.sleep(0.03)
    x.delete()
    junk = [array(7, np.int32) for _ in range(100)]
    t.join()
    assert out[0][0].item() == 100 and junk


def test_many_threads_run_at_once(four_threads):
    t = aval((1000000,))
    e = program("parallel", [t], [t], heavy=True)
    host = host_program(lambda x: [np.asarray(x) + 1], heavy=True)
    x = np.random.default_rng(0).random(1000000, np.float32)
    expected = np.sqrt(x) * x
    failures = []

    def work(seed):
        try:
            for k in range(10):
                if not (e.run([x])[0]._value == expected).all():
                    failures.append("wrong")
                if host.run([array([seed, k])])[0]._value.tolist() != [seed + 1, k + 1]:
                    failures.append("host")
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


FORK = """
import os, sys
import numpy as np
from native_c import program, aval
from steno import _native
_native.set_num_threads(4)
t = aval((1000000,))
e = program("parallel", [t], [t], heavy=True)
x = np.random.default_rng(0).random(1000000, np.float32)
expected = np.sqrt(x) * x
check = lambda: (e.run([x])[0]._value == expected).all()
assert check()
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        ok = check()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if check() else 1)
        os._exit(0 if ok and os.waitpid(pid, 0)[1] == 0 else 1)
    children.append(pid)
assert check()
assert all(os.waitpid(p, 0)[1] == 0 for p in children)
print("ok")
"""


def test_fork():
    done = run_python(FORK)
    assert done.stdout == "ok\n", done.stderr
