"""The jitted callable: signatures, hits without Python, forwarded and constant results, donation, threads."""

from __future__ import annotations

import collections
import copy
import enum
import functools
import gc
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest
from native_c import address, array, aval, program

from steno import _native
from steno._native import ArrayImpl, Executable, JitEntry, JitFunction
from steno.core import aval as core_aval
from steno.tree_util import tree_flatten, tree_structure


def typeof(x):
    if isinstance(x, ArrayImpl):
        return x.aval
    if type(x) in (bool, int, float, complex):
        dtype = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}[type(x)]
        if _native.config_token() == "x64":
            dtype = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}[type(x)]
        return aval((), dtype, type(x) is not bool)
    if isinstance(x, (np.ndarray, np.generic)):
        dtype = x.dtype
        if dtype.kind in "OSUMmV" and dtype.num < 256:
            raise TypeError("not an array")
        if _native.config_token() != "x64":
            dtype = np.dtype({"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}.get(dtype.name, dtype))
        return aval(x.shape, dtype)
    raise TypeError(type(x))


@pytest.fixture(autouse=True)
def the_typeof():
    _native.set_typeof(typeof)
    yield
    _native.set_typeof(core_aval.typeof)


class Jit:
    """A jitted identity-like function: counts its misses; the executable copies each leaf (in C: nothing, with aliases)."""

    def __init__(self, fun=lambda *args, **kwargs: (args, kwargs), *, static_argnums=(), static_argnames=(), plan=None, donate=()):
        self.misses = []
        self.fun, self.plan, self.donate = fun, plan, donate
        self.nums, self.names = static_argnums, static_argnames
        self.jitted = JitFunction(fun, self.miss, static_argnums, static_argnames)

    def miss(self, args, kwargs):
        self.misses.append((args, kwargs))
        dynamic = tuple(a for k, a in enumerate(args) if k not in self.nums), {k: v for k, v in kwargs.items() if k not in self.names}
        leaves, _ = tree_flatten(dynamic)
        types = [typeof(x) for x in leaves]
        if self.plan is not None:
            return self.plan(leaves, types), "missed"
        out, tree = tree_flatten(self.fun(*args, **kwargs))
        picks = []
        for y in out:
            picks.append(next(k for k, x in enumerate(leaves) if x is y and k not in picks))
        e = Executable(address("nothing"), types, [types[p] for p in picks], aliases=[(k, p) for k, p in enumerate(picks)])
        entry = JitEntry(e, tree, [("output", k) for k in range(len(picks))], [types[p] for p in picks], range(len(leaves)), self.donate)
        return entry, "missed"

    def __call__(self, *args, **kwargs):
        return self.jitted(*args, **kwargs)


def scalar_inc(**kwargs):
    """x + 1 for one float32 scalar, compiled."""

    def plan(leaves, types):
        return JitEntry(Executable(address("inc"), types, types), tree_structure(0), [("output", 0)], types, [0])

    return Jit(plan=plan, **kwargs)


# ---- hits and misses --------------------------------------------------------------------------------------------------------------


def test_hit():
    f = scalar_inc()
    assert f(array(1.0)) == "missed" and f.jitted._cache_size() == 1
    out = f(array(2.0))
    assert type(out) is ArrayImpl and out.item() == 3.0 and len(f.misses) == 1
    assert f(np.float32(5)).item() == 6.0 and len(f.misses) == 1  # an array, a NumPy scalar and a 0-d ndarray have one type
    assert f(np.array(5.0)).item() == 6.0 and len(f.misses) == 1
    assert f(2.0) == "missed"  # weak
    assert f(7.0).item() == 8.0 and len(f.misses) == 2
    f.jitted._clear_cache()
    assert f.jitted._cache_size() == 0 and f(7.0) == "missed" and f(7.0).item() == 8.0


def test_a_hit_runs_no_python():
    f = scalar_inc().jitted
    tree = Jit(lambda p: {"out": p["b"][0], "also": (p["a"], [p["b"][1]])}).jitted
    p = {"a": np.ones(3), "b": (array(1.0), 2.0), "c": {"d": [np.int8(3), 4, True, 1j]}}
    x = array(1.0)
    f(x), tree(p)
    events = []
    sys.setprofile(lambda frame, event, arg: events.append((event, frame.f_code.co_name)))
    try:
        f(x)
        tree(p)
    finally:
        sys.setprofile(None)
    assert [e for e in events if e[0] == "call"] == []


def test_results_are_trees():
    f = Jit(lambda p: {"out": p["b"][0], "also": (p["a"], [p["b"][1], None])})
    p = {"a": np.arange(3.0), "b": (array(1.0), 2.0)}
    f(p)
    out = f({"b": (array(5.0), 6.0), "a": np.arange(3.0) * 2})
    assert len(f.misses) == 1 and list(out) == ["also", "out"]
    assert (
        out["out"].item() == 5.0
        and out["also"][0]._value.tolist() == [0, 2, 4]
        and out["also"][1][0].weak_type
        and out["also"][1][1] is None
    )


Point = collections.namedtuple("Point", "x y")


def test_signatures():
    x = array([1.0, 2.0])
    calls = [
        ((x,), {}),
        ((x, x), {}),
        (([x],), {}),
        (((x,),), {}),
        ((), {"x": x}),
        ((), {"y": x}),
        ((x,), {"y": x}),
        (({"a": x},), {}),
        (({"b": x},), {}),
        ((Point(x, x),), {}),
        ((None,), {}),
        ((), {}),
        ((array([1.0]),), {}),
        ((array([1, 2], np.int32),), {}),
        ((x.with_aval(aval((2,), np.float32, True)),), {}),
        ((1.0,), {}),
        ((1,), {}),
        ((True,), {}),
        ((1j,), {}),
        ((np.int8(1),), {}),
        ((np.ones((2, 2), ml_dtypes.bfloat16),), {}),
    ]
    f = Jit()
    for n, (args, kwargs) in enumerate(calls, 1):
        assert f(*args, **kwargs) == "missed"
        assert f.jitted._cache_size() == n
    for args, kwargs in calls + calls[::-1]:
        out = f(*args, **kwargs)
        assert out != "missed" and tree_structure(out) == tree_structure((args, kwargs))
    assert len(f.misses) == len(calls)
    # keywords in another order are the same call
    f(a=x, b=1.0)
    assert f(b=2.0, a=x) != "missed"


def test_leaves_that_python_looks_at():
    f = Jit()

    class Weird:
        pass

    big = 2**31
    for leaf in (
        Weird(),
        "text",
        big,
        -big - 1,
        2**70,
        np.array(["a"]),
        np.array([None]),
        np.arange(3).astype(">f4"),
        np.ma.array([1.0]),
        np.datetime64("2020-01-01"),
        np.str_("x"),
    ):
        before = len(f.misses)
        for _ in range(2):
            with pytest.raises((TypeError, AttributeError, StopIteration)):
                f(leaf)
                raise TypeError  # the stand-in accepts some of them
        assert len(f.misses) == before + 2
    assert f(big - 1) == "missed" and f(-big)[0][0].item() == -big

    class E(enum.IntEnum):
        A = 1

    class F(float):
        pass

    assert f(1.5) == "missed" and f(F(2.5))[0][0].item() == 2.5
    assert f(E.A)[0][0].item() == 1 and f(np.float64(3)) == "missed" and f(np.float64(3))[0][0].dtype == np.float32


def test_64_bit_values_are_narrowed():
    f = Jit()
    for x in (
        np.float64(1e300),
        np.array([1.5, 1e300]),
        np.int64(2**40 + 1),
        np.array([2**40 + 1, -1]),
        np.uint64(2**63),
        np.array([2**33 + 3], np.uint64),
        np.complex128(1 + 2j),
        np.array([1 + 2j]),
        np.arange(6.0)[::2],
        np.arange(6)[::-1],
    ):
        f(x)
        out = f(x)[0][0]
        with np.errstate(over="ignore"):
            expected = np.asarray(x).astype(out.dtype)
        assert out.itemsize * 2 == np.asarray(x).itemsize and out._value.tolist() == expected.tolist()


def test_configuration_is_part_of_the_key():
    f = scalar_inc()
    f(array(1.0))
    for swap in (_native.swap_config_token, _native.swap_global_config_token):
        previous = swap("another")
        assert f(array(1.0)) == "missed"
        assert f(array(1.0)).item() == 2.0
        swap(previous)
        assert f(array(1.0)).item() == 2.0
    assert f.jitted._cache_size() == 3
    g = Jit()
    g(1.0)
    previous = _native.swap_config_token("x64")
    assert g(1.0) == "missed" and g(1.0)[0][0].dtype == np.float64 and g(2**40) == "missed" and g(2**40)[0][0].item() == 2**40
    _native.swap_config_token(previous)
    assert g(1.0)[0][0].dtype == np.float32


def test_a_trace_goes_to_python():
    f = scalar_inc()
    f(array(1.0))
    f.plan = lambda leaves, types: None
    _native.swap_trace(object())
    try:
        assert f(array(1.0)) == "missed"
    finally:
        _native.swap_trace(None)
    assert f(array(1.0)).item() == 2.0


def test_nothing_is_cached_without_an_entry():
    f = Jit(plan=lambda leaves, types: None)
    assert f(1.0) == "missed" and f(1.0) == "missed" and f.jitted._cache_size() == 0


def test_exceptions_of_misses_come_through():
    def miss(args, kwargs):
        raise KeyError(args, kwargs)

    f = JitFunction(None, miss)
    with pytest.raises(KeyError) as info:
        f(1, 2, a=3)
    assert info.value.args == ((1, 2), {"a": 3})
    for wrong in (None, (1, 2, 3), (1, 2), [None, 2]):
        with pytest.raises(TypeError, match="miss must return a pair"):
            JitFunction(None, lambda args, kwargs: wrong)(1.0)  # noqa: B023


# ---- static arguments -----------------------------------------------------------------------------------------------------------------


def test_static_arguments():
    f = Jit(lambda x, n, *, mode=None: x, static_argnums=(1,), static_argnames=("n", "mode"))
    x = array(1.0)
    for n, args in enumerate([(x, 1), (x, 1.0), (x, True), (x, "a"), (x, (1, 2)), (x, None), (x, np.float32)], 1):
        assert f(*args) == "missed" and f.jitted._cache_size() == n
    assert f(x, tuple([1, 2])).item() == 1.0 and f(x, 1).item() == 1.0 and f(x, True).item() == 1.0
    assert f(x, n=1) == "missed" and f(n=1, x=x) == "missed" and f(x, n=1).item() == 1.0
    assert f(x, 1, mode="a") == "missed" and f(x, 1, mode="b") == "missed" and f(x, 1, mode="a").item() == 1.0
    assert f(x, mode="q", n=2) == "missed" and f(x, n=2, mode="q").item() == 1.0
    assert f(x, mode=2, n="q") == "missed"


def test_static_values_compare_by_eq():
    class Key:
        def __init__(self, v):
            self.v = v

        def __hash__(self):
            return 7

        def __eq__(self, other):
            if "raise" in (self.v, other.v):
                raise ZeroDivisionError
            return self.v == other.v

    with pytest.raises(TypeError):
        JitFunction(None, None, static_argnums=0)
    x = array(1.0)
    f = Jit(lambda k, x: x, static_argnums=(0,))
    assert f(Key(1), x) == "missed" and f(Key(2), x) == "missed"
    assert f(Key(1), x).item() == 1 and f(Key(2), x).item() == 1
    with pytest.raises(ZeroDivisionError):
        f(Key("raise"), x)


def test_unhashable_statics_go_to_python():
    f = Jit(lambda k, x: x, static_argnums=(0,))
    assert f([1], array(1.0)) == "missed" and f([1], array(1.0)) == "missed" and f.jitted._cache_size() == 0


def test_constructor_errors():
    with pytest.raises(ValueError, match="negative"):
        JitFunction(None, None, static_argnums=(-1,))
    with pytest.raises(TypeError, match="must be str"):
        JitFunction(None, None, static_argnames=(1,))
    with pytest.raises(TypeError):
        JitFunction(None)
    e, leaf, s = Executable(address("inc"), [aval(())], [aval(())]), tree_structure(0), aval(())
    JitEntry(e, leaf, [("output", 0)], [s], [0])
    for arguments in (
        (e, leaf, [("output", 1)], [s], [0]),
        (e, leaf, [("output", 0)], [aval((2,))], [0]),
        (e, leaf, [("output", 0)], [s], []),
        (e, leaf, [("output", 0)], [s], [-1]),
        (e, leaf, [], [], [0]),
        (e, leaf, [("thing", 0)], [s], [0]),
        (None, leaf, [("output", 0)], [s], []),
    ):
        with pytest.raises(ValueError):
            JitEntry(*arguments)
    for arguments in ((1, leaf, [], [], []), (e, 1, [], [], []), (e, leaf, ["a"], [s], [0]), (e, leaf, [("output", "a")], [s], [0])):
        with pytest.raises((TypeError, ValueError)):
            JitEntry(*arguments)
    with pytest.raises(ValueError, match="beyond the 1"):
        Jit(plan=lambda leaves, types: JitEntry(None, leaf, [("input", 1)], [s], []))(1.0)
    entry = JitEntry(None, leaf, [("input", 0)], [s], [])
    f = Jit(plan=lambda leaves, types: entry)
    f(1.0)
    with pytest.raises(ValueError, match="another signature"):
        f(1)


# ---- results that are not computed ----------------------------------------------------------------------------------------------------


def test_forwarded_and_constant_results():
    constant, other = array([7.0, 8.0]), object()
    tree = tree_structure([0, 0, 0, 0])

    def plan(leaves, types):
        e = Executable(address("inc"), types[1:2], types[1:2])
        outputs = [("input", 0), ("output", 0), ("constant", constant), ("constant", other)]
        return JitEntry(e, tree, outputs, [types[0], types[1], None, None], [1])

    f = Jit(plan=plan)
    x = array([1.0, 2.0])
    f(x, 1.0)
    a, b, c, d = f(x, 1.0)
    assert a is not x and a.aval is x.aval and a.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert b.item() == 2.0 and d is other
    assert c is not constant and c.unsafe_buffer_pointer() == constant.unsafe_buffer_pointer()
    a.delete(), c.delete()
    assert x._value.tolist() == [1, 2] and f(x, 1.0)[2]._value.tolist() == [7, 8]
    n = np.float32([5, 6])
    a = f(n, 1.0)[0]
    n[:] = 0
    assert a._value.tolist() == [5, 6]
    assert f(np.array([5.0, 6.0]), 1.0)[0].dtype == np.float32 and len(f.misses) == 1


def test_one_output_in_two_leaves():
    def plan(leaves, types):
        return JitEntry(Executable(address("inc"), types, types), tree_structure((0, 0)), [("output", 0)] * 2, types * 2, [0])

    f = Jit(plan=plan)
    f(array(1.0))
    a, b = f(array(1.0))
    a.delete()
    assert b.item() == 2.0


def test_out_avals_may_differ_in_weak_type():
    weak = aval((), np.float32, True)
    f = Jit(plan=lambda leaves, types: JitEntry(Executable(address("inc"), types, types), tree_structure(0), [("output", 0)], [weak], [0]))
    f(array(1.0))
    assert f(array(1.0)).aval is weak


def test_nothing_to_run():
    f = Jit(plan=lambda leaves, types: JitEntry(None, tree_structure(()), [], [], []))
    assert f(1.0) == "missed" and f(1.0) == ()


# ---- donation --------------------------------------------------------------------------------------------------------------------------


def test_donation():
    f = Jit(lambda x, y: x, donate=(0,))
    y = array(1.0)
    f(array([1.0, 2.0]), y)
    x = array([3.0, 4.0])
    pointer = x.unsafe_buffer_pointer()
    out = f(x, y)
    assert x.is_deleted() and not y.is_deleted() and out.unsafe_buffer_pointer() == pointer
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[2\]"):
            f(x, y)
    assert len(f.misses) == 1
    x = array([3.0, 4.0])
    view = x._value
    assert f(x, y)._value.tolist() == [3, 4] and not x.is_deleted() and view.tolist() == [3, 4]
    g = Jit(lambda x, y: x, donate=(0,))
    g(array([1.0, 2.0]), array([1.0, 2.0]))
    x = array([3.0, 4.0])
    with pytest.raises(ValueError, match="donated in the same call"):
        g(x, x)


def test_donated_and_forwarded():
    f = Jit(plan=lambda leaves, types: JitEntry(None, tree_structure(0), [("input", 0)], types, [], [0]))
    x = array([1.0, 2.0])
    pointer = x.unsafe_buffer_pointer()
    f(x)
    out = f(x)
    assert x.is_deleted() and out.unsafe_buffer_pointer() == pointer and out._value.tolist() == [1, 2]
    assert f(np.float32([1, 2]))._value.tolist() == [1, 2]


# ---- a callable like others --------------------------------------------------------------------------------------------------------------


def test_attributes():
    def fun(x):
        """Doc."""
        return x

    f = JitFunction(fun, lambda args, kwargs: (None, (args, kwargs)), options={"a": 1})
    functools.update_wrapper(f, fun)
    assert f.__wrapped__ is fun and f.__name__ == "fun" and f.__doc__ == "Doc." and f._fun is fun and f._options == {"a": 1}
    f.extra = 3
    assert f.extra == 3 and f.__dict__["extra"] == 3
    assert repr(f).startswith("<PjitFunction of <function") and callable(f)
    assert weakref.ref(f)() is f and hash(f) == hash(f) and copy.copy(f) is f is copy.deepcopy(f)
    assert f(1, *[2], a=3, **{"b": 4}) == ((1, 2), {"a": 3, "b": 4})
    with pytest.raises(AttributeError):
        f._fun = None

    class C:
        method = f

    c = C()
    assert c.method(1) == ((c, 1), {}) and C.method is f and c.method.__self__ is c
    assert f() == ((), {})


def test_cycles_are_collected():
    class Owner:
        pass

    def make():
        owner = Owner()

        def miss(args, kwargs):
            owner.seen = args
            return JitEntry(None, tree_structure(0), [("constant", owner)], [None], []), None

        owner.f = JitFunction(miss, miss, static_argnums=(0,))
        owner.f(owner)
        assert owner.f(owner) is owner
        return weakref.ref(owner)

    r = make()
    gc.collect()
    assert r() is None


def test_no_leaks():
    f = Jit(lambda p: {"out": p["b"][0]})
    p = {"a": np.ones(3), "b": (array(np.ones(100)), 2.0)}
    f(p)
    for _ in range(100):
        f(p)
    gc.collect()
    t = aval((100,))
    memory, references = _native.memory_info()["in_use"], sys.getrefcount(t)
    for _ in range(1000):
        f(p)
    assert _native.memory_info()["in_use"] == memory and sys.getrefcount(t) == references


def test_many_signatures():
    f = scalar_inc()
    f.plan = lambda leaves, types: JitEntry(None, tree_structure(0), [("input", 0)], types[:1], [])
    for k in range(2000):
        assert f([1.0] * (k % 50 + 1), {str(k): k}) == "missed"
    assert f.jitted._cache_size() == 2000
    for k in range(1999, -1, -1):
        assert f([float(k)] * (k % 50 + 1), {str(k): k}).item() == k
    assert len(f.jitted._entries()) == 2000 and len(f.misses) == 2000


def test_a_full_cache_is_emptied():
    f = Jit(plan=lambda leaves, types: JitEntry(None, tree_structure(0), [("input", 0)], types, []), static_argnums=(0,))
    for k in range(9000):
        f(k, 1.0)
    assert 0 < f.jitted._cache_size() < 8193 and f(8999, 1.0).item() == 1.0


def test_recursion_and_clearing_while_comparing():
    x = array(1.0)

    class Key:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            f.jitted._clear_cache()
            gc.collect()
            return True

    f = Jit(lambda k, x: x, static_argnums=(0,))
    f(Key(), x)
    for _ in range(5):
        f(Key(), x)


# ---- threads -----------------------------------------------------------------------------------------------------------------------------


def test_threads():
    t = aval((1000000,))
    heavy = Jit(
        plan=lambda leaves, types: JitEntry(program("parallel", [t], [t], heavy=True), tree_structure(0), [("output", 0)], [t], [0])
    )
    light = scalar_inc()
    x = np.random.default_rng(0).random(1000000, np.float32)
    expected = np.sqrt(x) * x
    heavy(x), light(array(1.0))
    failures = []

    def work(seed):
        try:
            for k in range(12):
                out = heavy(x if k % 2 else array(x))
                if not isinstance(out, str) and not (out._value == expected).all():
                    failures.append("wrong")
                for j in range(50):
                    if (y := light(array(j))) != "missed" and y.item() != j + 1:
                        failures.append("light")
                if seed == 0 and k % 3 == 0:
                    heavy.jitted._clear_cache(), light.jitted._clear_cache()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
