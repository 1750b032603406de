"""Python called from programs: debug.print, debug.callback, pure_callback, io_callback; eager, under jit, and their errors."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import debug
from steno._native import ArrayImpl
from steno.callback import effects_barrier, io_callback, pure_callback
from steno.core.aval import typeof
from steno.core.errors import JaxRuntimeError
from steno.core.interpret import to_array
from steno.ops import arithmetic, host

F32 = steno.ShapeDtypeStruct((3,), np.float32)


def arr(x: Any, dtype: Any = np.float32) -> ArrayImpl:
    x = np.asarray(x, dtype)
    return to_array(x, typeof(x))


X = arr([0.0, 1.0, 2.0])
MODES = [lambda f: f, steno.jit]


@pytest.fixture(params=MODES, ids=["eager", "jit"])
def mode(request: pytest.FixtureRequest) -> Any:
    return request.param


# debug.print


@pytest.mark.parametrize(
    ("fmt", "args", "kwargs", "want"),
    [
        ("x={}", (X,), {}, "x=[0. 1. 2.]"), ("x={x} {}", (1,), {"x": 2.5}, "x=2.5 1"), ("hello", (), {}, "hello"),
        ("hello {{}}", (), {}, "hello {{}}"),
        ("a {{}} {}", (1,), {}, "a {} 1"), ("{} {y}", (X,), {"y": "foo"}, "[0. 1. 2.] foo"), ("{} {}", ("a", X), {}, "a [0. 1. 2.]"),
        ("{}", (None,), {}, "None"),
        ("{x.shape} {x.dtype}", (), {"x": X}, "(3,) float32"), ("{x[0]}", (), {"x": [1, 2]}, "1"), ("{x:.2f}", (), {"x": arr(2.5)}, "2.50"),
        ("{:d}|{:>5}|", (arr(4, np.int32), arr(5, np.int32)), {}, "4|    5|"), ("{0} {1} {0}", (1, 2), {}, "1 2 1"),
        ("{}", (True,), {}, "True"),
        ("{}", (arr([1 / 3, 2 / 3]),), {}, "[0.33333334 0.6666667 ]"), ("{!r}", (arr(1.5),), {}, "Array(1.5, dtype=float32)"),
    ],
)  # fmt: skip
def test_print(mode: Any, fmt: str, args: Any, kwargs: Any, want: str, capsys: Any) -> None:
    arrays = [a for a in (*args, *kwargs.values()) if isinstance(a, ArrayImpl)]

    def f(*xs: Any) -> None:
        given = iter(xs)
        replaced = [next(given) if isinstance(a, ArrayImpl) else a for a in args]
        debug.print(fmt, *replaced, **{k: next(given) if isinstance(a, ArrayImpl) else a for k, a in kwargs.items()})

    mode(f)(*arrays)
    effects_barrier()
    assert capsys.readouterr().out == want + "\n"


def test_print_once_for_each_call_and_in_order(capsys: Any) -> None:
    @steno.jit
    def f(x: Any) -> Any:
        print("tracing", x)
        debug.print("first {}", x)
        debug.print("then {x}", x=x, ordered=True)
        return arithmetic.add(x, x)

    for v in (1.0, 5.0, 7.0):
        f(arr(v))
    effects_barrier()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tracing Traced<float32[]>with<DynamicJaxprTrace>"
    assert lines[1:] == ["first 1.0", "then 1.0", "first 5.0", "then 5.0", "first 7.0", "then 7.0"]


def test_print_uses_the_options_of_the_trace(capsys: Any) -> None:
    with np.printoptions(precision=2):
        steno.jit(lambda x: debug.print("{}", x))(arr([1 / 3, 1.0]))
    effects_barrier()
    assert capsys.readouterr().out == "[0.33 1.  ]\n"


@pytest.mark.parametrize(
    ("fmt", "args", "kwargs", "error", "words"),
    [
        ("x", (X,), {}, ValueError, r"positional arguments .*\[0\]"), ("{x}", (), {"x": X, "y": 1}, ValueError, "'y'"),
        ("{}", (), {}, IndexError, None),
        ("{x}", (1,), {}, KeyError, "x"),
        (3, (), {}, TypeError, "must be a string"), ("{", (1,), {}, ValueError, None), ("{} {0}", (1,), {}, ValueError, None),
    ],
)  # fmt: skip
def test_print_bad_format(fmt: Any, args: Any, kwargs: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        debug.print(fmt, *args, **kwargs)
    with pytest.raises(error, match=words):
        steno.jit(lambda: debug.print(fmt, *args, **kwargs))()


def test_print_of_trees_and_partial(capsys: Any) -> None:
    steno.jit(lambda x: debug.print("{}", [x, {"a": x, "b": "s"}, None]))(arr(2, np.int32))
    debug.print(ordered=True)("{} {y}", 1, y="b")
    assert capsys.readouterr().out == "[Array(2, dtype=int32), {'a': Array(2, dtype=int32), 'b': 's'}, None]\n1 b\n"


def test_log(caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "steno.debug"):
        steno.jit(lambda x: debug.log("x is {} 100%", x))(arr(2.0))
        debug.log("and {}", 1)
    assert [r.getMessage() for r in caplog.records] == ["x is 2.0 100%", "and 1"]


def test_jaxpr_of_print() -> None:
    jaxpr = steno.make_jaxpr(lambda x: debug.print("x = {}", x, ordered=True))(X)
    (eqn,) = jaxpr.eqns
    assert eqn.op is host.debug_print and eqn.effects == {host.ordered_debug_effect} and jaxpr.effects == {host.ordered_debug_effect}
    assert "debug_print[" in str(jaxpr) and "fmt=x = {}" in str(jaxpr)


# debug.callback


def test_callback(mode: Any) -> None:
    seen: list[Any] = []

    def f(x: Any) -> None:
        debug.callback(lambda *a, **k: seen.append((a, k)), {"a": x}, 1, "s", y=None, k=2.0)

    mode(f)(X)
    effects_barrier()
    ((args, kwargs),) = seen
    assert isinstance(args[0]["a"], ArrayImpl) and args[0]["a"].tolist() == [0, 1, 2]
    assert isinstance(args[1], ArrayImpl) and args[1].tolist() == 1 and args[1].dtype == np.int32
    assert args[2] == "s" and kwargs["y"] is None and isinstance(kwargs["k"], ArrayImpl)


def test_callbacks_keep_their_order() -> None:
    seen: list[float] = []

    @steno.jit
    def f(x: Any) -> Any:
        for k in range(5):
            debug.callback(lambda v, k=k: seen.append(k), x, ordered=True)
            x = arithmetic.add(x, x)
        return x

    f(X)
    f(X)
    effects_barrier()
    assert seen == [0, 1, 2, 3, 4] * 2


def test_callback_error(mode: Any) -> None:
    def fail(x: Any) -> None:
        raise ValueError("boom")

    with pytest.raises((ValueError, JaxRuntimeError), match="boom") as caught:
        mode(lambda x: debug.callback(fail, x))(X)
        effects_barrier()
    assert isinstance(caught.value if isinstance(caught.value, ValueError) else caught.value.__cause__, ValueError)
    with pytest.raises(TypeError, match="must be callable"):
        debug.callback(3, X)


# pure_callback, io_callback

CALLS = [pure_callback, io_callback, lambda *a, **k: io_callback(*a, ordered=True, **k)]


@pytest.mark.parametrize("call", CALLS, ids=["pure", "io", "io-ordered"])
def test_values(mode: Any, call: Any) -> None:
    def f(x: Any) -> Any:
        y = call(np.sin, F32, x)
        s, d = call(
            lambda a, k: (np.float32(np.asarray(a["v"]).sum()), {"n": np.asarray(a["v"], np.int32) + np.int32(k)}),
            (F32.update(shape=()), {"n": F32.update(dtype=np.int32)}),
            {"v": x},
            k=2,
        )
        return arithmetic.add(y, y), s, d

    y, s, d = mode(f)(X)
    np.testing.assert_allclose(np.asarray(y), 2 * np.sin([0, 1, 2]), rtol=1e-6)
    assert float(s) == 3.0 and s.shape == () and d["n"].tolist() == [2, 3, 4] and d["n"].dtype == np.int32


def test_result_forms(mode: Any) -> None:
    assert mode(lambda x: pure_callback(lambda v: np.asarray(v, np.float64), F32, x))(X).dtype == np.float32
    assert mode(lambda x: pure_callback(lambda v: 1.5, F32.update(shape=()), x))(X).tolist() == 1.5
    assert mode(lambda x: pure_callback(lambda v: [v, v], (F32, F32), x))(X)[1].tolist() == [0, 1, 2]
    assert mode(lambda x: pure_callback(lambda v: None, None, x))(X) is None
    assert mode(lambda x: pure_callback(lambda v: v, X, x))(X).tolist() == [0, 1, 2]
    assert mode(lambda: pure_callback(lambda: np.zeros((0, 3), np.int8), steno.ShapeDtypeStruct((0, 3), np.int8)))().shape == (0, 3)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (np.zeros(2, np.float32), "shape"),
        (np.zeros(3, np.int32), "dtype"),
        ((X, X), "2 results"),
        ([1, 2, 3], "3 results"),
        (None, "0 results"),
        ("s", "shape|dtype"),
    ],
)
def test_wrong_results(mode: Any, returned: Any, words: str) -> None:
    for call in CALLS:
        with pytest.raises(JaxRuntimeError, match=words):
            mode(lambda x, call=call: call(lambda v: returned, F32, x))(X).block_until_ready()


def test_errors_reach_the_caller(mode: Any) -> None:
    def fail(x: Any) -> Any:
        raise KeyError("boom")

    for call in CALLS:
        with pytest.raises(JaxRuntimeError, match="boom") as caught:
            mode(lambda x, call=call: call(fail, F32, x))(X).block_until_ready()
        assert isinstance(caught.value.__cause__, KeyError) and "in fail" in str(caught.value)
    assert mode(lambda x: arithmetic.add(x, x))(X).tolist() == [0, 2, 4]


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="result_shape_dtypes"):
        pure_callback(np.sin, 3, X)
    with pytest.raises(ValueError, match="x64"):
        pure_callback(np.sin, F32.update(dtype=np.float64), X)
    with pytest.raises(TypeError, match="result_shape_dtypes"):
        pure_callback(np.sin, F32.update(dtype=np.dtype("S3")), X)
    with pytest.raises(ValueError, match="vmap_method"):
        pure_callback(np.sin, F32, X, vmap_method="foo")
    with pytest.raises(TypeError, match="position 0"):
        pure_callback(np.sin, F32, "a")
    with pytest.raises(TypeError, match="callable"):
        io_callback(None, F32, X)


def test_io_runs_once_for_each_call() -> None:
    count = [0]

    def tick() -> Any:
        count[0] += 1
        return np.int32(count[0])

    f = steno.jit(lambda: io_callback(tick, steno.ShapeDtypeStruct((), np.int32), ordered=True))
    assert [int(f()) for _ in range(3)] == [1, 2, 3]
    steno.jit(lambda: (io_callback(tick, steno.ShapeDtypeStruct((), np.int32)), None)[1])()
    effects_barrier()
    assert count[0] == 4


def test_callback_may_run_programs(mode: Any) -> None:
    double = steno.jit(lambda x: arithmetic.add(x, x))
    assert mode(lambda x: pure_callback(lambda v: double(v), F32, x))(X).tolist() == [0, 2, 4]


def test_equal_callbacks_share_a_program() -> None:
    f = steno.make_jaxpr(lambda x: (pure_callback(np.sin, F32, x), pure_callback(np.sin, F32, x)))(X)
    a, b = f.eqns
    assert a.params == b.params and hash(a.params["callback"]) == hash(b.params["callback"])
    assert str(a.params["callback"]).startswith("_FlatCallback(callback_func=<ufunc 'sin'>, in_tree=PyTreeDef(((*,), {})))")


@pytest.mark.parametrize("wrap", [lambda f: f, steno.jit], ids=["eager", "jit"])
def test_maps_of_maps_print_in_order(wrap, capsys) -> None:
    """The map that is innermost is the slowest, wherever the axes are."""
    x = snp.arange(24).reshape(2, 3, 4)
    for first, second in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)):
        f = steno.vmap(steno.vmap(lambda a, b: debug.print("{} {}", a, b), in_axes=(second, None)), in_axes=(first, 0))
        wrap(f)(x, snp.arange(x.shape[first]))
        effects_barrier()
        values = np.moveaxis(np.asarray(x), first, 0)
        wanted = [f"{np.moveaxis(values[k], second, 0)[m]} {k}" for m in range(values[0].shape[second]) for k in range(len(values))]
        assert capsys.readouterr().out.splitlines() == wanted
