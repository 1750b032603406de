"""Eager ops: one piece of code for arrays of all sizes; operators on operands seen before run without Python."""

from __future__ import annotations

import gc
import operator
import sys
import weakref

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import _native, lax
from steno.backends import cpu
from steno.core.config import num_threads

SIZES = [(0,), (1,), (15,), (16,), (17,), (255,), (256,), (257,), (1000,), (70_001,), (3, 5), (1, 1), (4, 0), (2, 3, 4), (300, 301)]


@pytest.fixture
def compilations(monkeypatch):
    """The programs compiled for any size, and those for one."""
    steno.clear_caches()
    counts = {"any": 0, "one": 0}
    for name, inner in (("any", cpu.compile_for_any_size), ("one", cpu.compile_jaxpr)):

        def counting(*args, inner=inner, name=name, **kwargs):
            counts[name] += 1
            return inner(*args, **kwargs)

        monkeypatch.setattr(cpu, f"compile_{'for_any_size' if name == 'any' else 'jaxpr'}", counting)
    yield counts
    steno.clear_caches()


def values(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype is bool:
        return rng.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 100, shape).astype(dtype)
    x = rng.standard_normal(shape) + 1
    return (x + 1j * rng.standard_normal(shape) if np.issubdtype(dtype, np.complexfloating) else x).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, snp.bfloat16, np.int8, bool, np.complex64, np.uint16])
def test_every_size_by_one_program(compilations, dtype):
    unary, binary = (lax.bitwise_not, lax.bitwise_xor) if dtype is bool else (lax.neg, lax.mul)
    x_any = [values(s, dtype) for s in SIZES]
    y_any = [values(s, dtype, 1) for s in SIZES]
    got = [(unary(steno.device_put(x)), binary(steno.device_put(x), y)) for x, y in zip(x_any, y_any, strict=True)]
    assert compilations == {"any": 2, "one": 0}
    for x, y, (a, b) in zip(x_any, y_any, got, strict=True):
        want_a, want_b = steno.jit(lambda x, y: (unary(x), binary(x, y)))(x, y)
        assert np.asarray(a).tobytes() == np.asarray(want_a).tobytes() and a.shape == x.shape
        assert np.asarray(b).tobytes() == np.asarray(want_b).tobytes() and b.dtype == x.dtype


def test_scalars_stay_scalars_and_parameters_belong_to_the_program(compilations):
    for shape in SIZES:
        x = steno.device_put(values(shape, np.float32))
        np.testing.assert_array_equal(lax.max(x, np.float32(0.5)), np.maximum(x, np.float32(0.5)))
        np.testing.assert_array_equal(lax.integer_pow(x, 2), np.asarray(x) ** 2)
        np.testing.assert_array_equal(lax.convert_element_type(x, np.int32), np.asarray(x).astype(np.int32))
    assert compilations["any"] == 3
    np.testing.assert_array_equal(lax.integer_pow(x, 3), np.asarray(x) * np.asarray(x) * np.asarray(x))
    assert compilations["any"] == 4


def test_what_is_not_elementwise_is_compiled_for_its_shape(compilations):
    for n in (3, 4):
        x = steno.device_put(np.arange(2 * n, dtype=np.float32).reshape(2, n))
        np.testing.assert_array_equal(lax.reduce_sum(x, axes=(0,)), np.asarray(x).sum(0))
        np.testing.assert_array_equal(lax.transpose(x, (1, 0)), np.asarray(x).T)
    assert compilations["any"] == 0 and compilations["one"] == 4


def test_large_arrays_have_code_of_their_own(compilations):
    x = steno.device_put(np.ones(cpu.LARGE_BYTES // 8 + 1, np.float32))
    assert np.asarray(lax.neg(x))[-1] == -1 and compilations == {"any": 0, "one": 1}


def test_several_threads_and_one_agree():
    x = values((100_003,), np.float32)
    results = []
    for n in (1, 2, 3):
        with num_threads(n):
            results.append(np.asarray(lax.exp(steno.device_put(x))).tobytes())
    assert len(set(results)) == 1


# operators

OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.eq,
    operator.ne,
]
OPERATORS += [operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


def in_python(f, *args) -> int:
    """How many Python functions a call of f runs."""
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        f(*args)
    finally:
        sys.setprofile(None)
    return calls


def test_a_known_operation_runs_no_python():
    x, y = snp.arange(4.0), snp.arange(4.0) + 1
    for f in (operator.add, operator.sub, operator.mul, operator.truediv, operator.lt):
        for a, b in ((x, y), (x, 2.5), (x, 3), (2.5, x)):
            f(a, b), f(a, b)
            assert in_python(f, a, b) == 0, (f, a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, snp.bfloat16, np.uint8, bool, np.complex64])
def test_operators_agree_with_functions_on_tracers(dtype):
    """Twice: by Python, and as what is known then. A tracer's operators are Python's."""
    x, y = (steno.device_put(values((5,), dtype, k)) for k in (0, 1))
    integral = snp.issubdtype(dtype, np.integer)
    for f in [*OPERATORS, *(BITS if integral or dtype is bool else [])]:
        for a, b in ((x, y), (x, y[:1]), (x, x[0]), (x, 2), (3, x), (x, 2.5), (0.5, x), (x, True), (x, -1), (x, np.float32(2)), (x, 1j)):
            outcomes = []
            for g in (steno.jit(f), f, f, f):
                try:
                    r = g(a, b)
                    outcomes.append((np.asarray(r).tobytes(), r.aval))
                except (TypeError, ValueError, OverflowError) as e:
                    outcomes.append(type(e))
            first = outcomes[1]
            assert outcomes[2] == first and outcomes[3] == first, (f, a, b, outcomes)
            if f is not operator.pow and all(isinstance(v, snp.ndarray) for v in (a, b)):  # a known exponent of rank 0 is a number
                assert outcomes[0] == first, (f, a, b, outcomes)


def test_numbers_that_do_not_fit():
    x = snp.arange(3)
    assert (x + 1).tolist() == [1, 2, 3]
    for _ in range(2):
        with pytest.raises(OverflowError):
            x + 2**40
        with pytest.raises(OverflowError):
            x + 2**100
    y = snp.arange(3.0)
    for _ in range(3):
        assert float((y + (2**31 - 1))[0]) == 2.0**31 and float((y * 3)[2]) == 6
        with pytest.raises(OverflowError):
            y + 2**31


def test_configuration_decides():
    x = snp.arange(3.0)
    x / x
    for _ in range(2):
        x + 1
        with steno.debug_nans(True), pytest.raises(FloatingPointError):
            x / x
        with (
            steno.numpy_dtype_promotion("strict"),
            pytest.raises(ValueError, match="promotion"),
        ):
            x + snp.arange(3)
        with steno.enable_x64(True):
            assert (x + 1.0).dtype == np.float32 and (snp.arange(3.0) + 1).dtype == np.float64
    with steno.no_execution(True), pytest.raises(RuntimeError, match="no_execution"):
        x + 1


def test_tracers_deleted_arrays_and_other_operands():
    x, y = snp.arange(3.0), snp.ones(3)
    x + y, x + y
    assert str(steno.make_jaxpr(lambda a: x + a)(y)).count("add") == 1
    assert steno.grad(lambda a: (x * a).sum())(y).tolist() == [0, 1, 2]
    assert steno.vmap(lambda a: x + a)(snp.ones((2, 3))).shape == (2, 3)
    with pytest.raises(TypeError):
        x + "text"
    with pytest.raises(TypeError):
        x + [1, 2, 3]
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x + y
    assert x.__add__.__name__ == "method" or x.__add__.__name__ == "__add__"
    with pytest.raises(TypeError):
        type(x).__add__(x)


def test_clear_caches_forgets_and_nothing_leaks():
    x = snp.arange(7.0)
    x * x, x * x
    executable = cpu.native_op(lax.mul_p, (x.aval, x.aval))
    alive = weakref.ref(executable)
    del executable
    steno.clear_caches()
    x * snp.ones(3)[0]  # the operator notices
    gc.collect()
    assert alive() is None
    assert (x * x).tolist() == [k * k for k in range(7)]


def test_an_operator_takes_two_operands():
    f = _native.Operator(lambda a, b: (a, b), lambda a, b: None)
    assert f(1, 2) == (1, 2) and f.__wrapped__(1, 2) == (1, 2) and f.__get__(3)(4) == (3, 4)
    for wrong in ((), (1,), (1, 2, 3)):
        with pytest.raises(TypeError, match="two operands"):
            f(*wrong)
