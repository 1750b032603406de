"""Operators, methods and protocols of arrays: what they defer to, what other libraries see, what configuration changes."""

from __future__ import annotations

import copy
import operator
import pickle
import warnings

import numpy as np
import pytest

import steno
import steno.numpy as jnp
from steno import lax


class Unknown:
    """A type that knows arrays, and that arrays do not know."""

    def __radd__(self, other: object) -> str:
        return "radd"

    def __rmatmul__(self, other: object) -> str:
        return "rmatmul"

    def __eq__(self, other: object) -> str:  # type: ignore[override]
        return "eq"

    def __gt__(self, other: object) -> str:
        return "gt"

    __hash__ = None  # type: ignore[assignment]


class Wrapped:
    """Something that becomes an array."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __jax_array__(self) -> object:
        return jnp.asarray(self.value)


F = jnp.array([1.0, 2.0, 3.0])


def test_operators_defer_to_types_they_do_not_know() -> None:
    u = Unknown()
    assert F + u == "radd"
    assert F @ u == "rmatmul"
    assert (F == u) == "eq"
    assert (F < u) == "gt"
    with pytest.raises(TypeError):
        F - u
    assert steno.jit(lambda x: [x + u, 1][1:])(F)[0] == 1


@pytest.mark.parametrize("other", [[1.0], (1.0,), {1.0}, {"a": 1.0}])
@pytest.mark.parametrize("op", [operator.add, operator.mul, operator.truediv, operator.mod, operator.pow])
def test_containers_are_no_operands(op: object, other: object) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        op(F, other)  # type: ignore[operator]
    with pytest.raises(TypeError):
        op(other, F)  # type: ignore[operator]


def test_objects_that_become_arrays() -> None:
    w = Wrapped([1.0, 1.0, 2.0])
    assert (F + w).tolist() == [2.0, 3.0, 5.0]
    assert jnp.sin(Wrapped(0.0)).item() == 0.0
    assert jnp.sum(w).item() == 4.0
    assert lax.add(F, w).tolist() == [2.0, 3.0, 5.0]
    assert jnp.asarray(w).tolist() == [1.0, 1.0, 2.0]
    assert jnp.stack([F, w]).shape == (2, 3)
    assert jnp.where(True, w, F).tolist() == [1.0, 1.0, 2.0]
    assert F[Wrapped(1)].item() == 2.0
    assert F.at[0].set(Wrapped(7.0)).tolist() == [7.0, 2.0, 3.0]


def test_numpy_gives_way() -> None:
    for host in (np.ones(3, np.float32), np.float32(1), np.float64(1), np.ones(3)):
        for op in (operator.add, operator.mul, operator.sub, operator.truediv, operator.lt, operator.eq):
            assert isinstance(op(host, F), jnp.ndarray)
            assert isinstance(op(F, host), jnp.ndarray)
    assert isinstance(np.ones((2, 3)) @ F, jnp.ndarray)
    assert isinstance(np.add(F, 1), np.ndarray)


def test_in_place_operators_make_new_arrays() -> None:
    x = y = F
    x += 1
    assert y.tolist() == [1.0, 2.0, 3.0] and x.tolist() == [2.0, 3.0, 4.0]


def test_copies_and_pickles() -> None:
    for x in (F, jnp.int8([1, 2]), jnp.array(1.5), jnp.zeros((0, 3)), jnp.bfloat16([1, 2]), jnp.array(True)):
        for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.copy(), jnp.copy(x), jnp.array(x)):
            assert y.aval is x.aval and np.array_equal(
                np.asarray(y).view(np.uint8) if y.ndim else np.asarray(y), np.asarray(x).view(np.uint8) if x.ndim else np.asarray(x)
            )
    assert pickle.loads(pickle.dumps(jnp.float32)) is jnp.float32
    assert pickle.loads(pickle.dumps(jnp.add)) is jnp.add


def test_isinstance_and_namespace() -> None:
    assert isinstance(F, jnp.ndarray) and not isinstance(np.ones(3), jnp.ndarray)
    assert steno.jit(lambda x: jnp.float32(isinstance(x, jnp.ndarray)))(F).item() == 1.0
    assert F.__array_namespace__() is jnp
    assert F.__array_namespace__(api_version="2023.12") is jnp
    with pytest.raises(ValueError, match="1970"):
        F.__array_namespace__(api_version="1970.01")


def test_scalar_types() -> None:
    assert np.dtype(jnp.float32) == np.float32 and jnp.float32 == np.float32 and jnp.float32 != np.float64
    assert jnp.float32 == np.dtype("float32") and hash(jnp.float32) == hash(np.float32)
    assert isinstance(np.float32(1), jnp.float32) and repr(jnp.int8) == "<class 'jax.numpy.int8'>"
    assert {np.float32: 1}[jnp.float32] == 1
    assert jnp.zeros(2, jnp.bfloat16).dtype == jnp.bfloat16


def test_unhashable() -> None:
    with pytest.raises(TypeError):
        hash(F)
    with pytest.raises(TypeError):
        set([F])


def test_iteration_in_chunks() -> None:
    x = jnp.arange(1000)
    assert [int(v) for v in x] == list(range(1000))
    assert [r.shape for r in jnp.zeros((3, 2))] == [(2,)] * 3
    a, b = jnp.array([1, 2])
    assert (int(a), int(b)) == (1, 2)


def test_float64_asked_for_by_name_warns() -> None:
    with pytest.warns(UserWarning, match="float64.*float32"):
        assert jnp.zeros(2, "float64").dtype == jnp.float32
    with pytest.warns(UserWarning, match="int64"):
        F.astype(np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jnp.zeros(2, float).dtype == jnp.float32
        assert jnp.asarray(np.zeros(2)).dtype == jnp.float32
    with steno.enable_x64(True):
        assert jnp.zeros(2, "float64").dtype == jnp.float64
        assert (jnp.zeros(2) + 1).dtype == jnp.float64
    assert (jnp.zeros(2) + 1).dtype == jnp.float32


def test_unsafe_updates_warn() -> None:
    with pytest.warns(FutureWarning, match="float32.*int32"):
        jnp.arange(3).at[0].set(1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jnp.zeros(3).at[0].set(1)
        jnp.zeros(3, jnp.int8).at[0].set(300)
        jnp.zeros(3, jnp.float16).at[0].add(1.5)


def test_strict_promotion() -> None:
    with steno.numpy_dtype_promotion("strict"):
        assert (F + 1).dtype == jnp.float32
        assert (F * 2.5).dtype == jnp.float32
        with pytest.raises(ValueError, match="float32.*int32"):
            F + jnp.arange(3)
        with pytest.raises(ValueError):
            jnp.where(True, F, jnp.arange(3))
    assert (F + jnp.arange(3)).dtype == jnp.float32


def test_rank_promotion() -> None:
    m = jnp.ones((2, 3))
    with steno.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="rank"):
            m + F
        with pytest.raises(TypeError, match=r"add got incompatible shapes for broadcasting: \(2, 3\), \(4,\)"):
            m + jnp.ones(4)
        assert (m + 1.0).shape == (2, 3) and (m + jnp.float32(1)).shape == (2, 3)
    with steno.numpy_rank_promotion("warn"):
        for _ in range(2):
            with pytest.warns(UserWarning, match="rank"):
                m + F
    assert (m + F).shape == (2, 3)


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute"):
        jnp.nothing_of_this_name  # noqa: B018
    with pytest.raises(AttributeError):
        F.nothing_of_this_name  # noqa: B018


def test_methods_on_tracers() -> None:
    @steno.jit
    def f(x: jnp.ndarray) -> list[jnp.ndarray]:
        return [
            x.sum(),
            x.mean(0),
            x.T,
            x.mT,
            x.reshape(-1),
            x.astype(int),
            x.at[0].add(1),
            x[0],
            x.max(axis=1),
            x @ x.T,
            x.ravel(),
            x.clip(0, 1),
            x.argmax(),
            x.cumsum(1),
            x.var(),
            x.std(ddof=1),
            x.take(jnp.array([0])),
            x.squeeze(),
            x.flatten(),
            x.view(jnp.int32),
            x.round(1),
            x.real,
            x.imag,
            x.dot(x.T),
            x.sort(),
            x.repeat(2),
            x.swapaxes(0, 1),
            x.trace(),
            x.diagonal(),
            x.prod(),
            x.any(),
            x.all(),
            x.ptp(),
            x.conj(),
            x.copy(),
            x.min(keepdims=True),
            -x,
            abs(x),
        ]

    m = jnp.arange(6.0).reshape(2, 3)
    got = f(m)
    want = f.__wrapped__(m)
    assert [a.aval for a in got] == [b.aval for b in want]
    for a, b in zip(got, want, strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b))


WIDE_CALLS = (
    "x + 1", "x + x", "x[i]", "jnp.take(x, i)", "jnp.round(x, 2)", "x.mean()", "x.std()", "jnp.average(x)", "jnp.mean(i)",
    "jnp.diag(x)", "jnp.nan_to_num(x)", "jnp.histogram(x)[1]", "jnp.sinc(x)", "jnp.gradient(x)", "jnp.median(x)", "lax.mul(x, x)",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*64-bit types are off")
@pytest.mark.parametrize("call", WIDE_CALLS)
def test_arrays_of_64_bits_where_x64_is_off(call: str) -> None:
    """Made where it was on, they are computed with, in one width or the other; the result is near."""
    with steno.enable_x64(True):
        names = {"x": jnp.linspace(0.1, 1.0, 4), "i": jnp.arange(4), "jnp": jnp, "lax": lax}
        want = eval(call, names)
    np.testing.assert_allclose(eval(call, names), want, rtol=1e-6)
