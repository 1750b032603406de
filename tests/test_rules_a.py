"""Rules of the elementwise, reduction, cumulative and sorting ops: derivatives against finite differences, transposes by dot products,
batches against loops; and what these ops' rules promise beyond that."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import steno
from steno import lax
from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.interpret import apply_oracle, interpret
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ops import arithmetic, bitwise, compare, convert, cumulative, reduce, sort, transcendental, zeta
from steno.testing import check_rules, logical
from steno.transforms.rules import Linear, Zero, instantiate, is_differentiable, rule_of

MODULES = (arithmetic, bitwise, compare, convert, cumulative, reduce, sort, transcendental, zeta)
RECORDS = {o.name: o for m in MODULES for o in vars(m).values() if isinstance(o, Op)}
IMPORTED = {"iota", "slice", "transpose", "broadcast_in_dim", "concatenate", "pad", "reshape", "squeeze", "gather", "rev", "scan"}
PARTS = {"running_fold", "running_recurrence"}  # in expansions only
NAMES = sorted(set(RECORDS) - IMPORTED - PARTS)
Case = tuple[tuple[Any, ...], dict[str, Any]]


def uniform(low: float, high: float, shape: tuple[int, ...] = (2, 3), seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng([seed, *shape]).uniform(low, high, shape))


def complexes(shape: tuple[int, ...] = (2, 3), seed: int = 0) -> np.ndarray:
    return uniform(0.3, 1.5, shape, seed) + 1j * uniform(0.2, 1.4, shape, seed + 1)


def apart(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Numbers with distances of at least 1/4, zero not among them."""
    n = int(np.prod(shape))
    return (np.random.default_rng(seed).permutation(n).reshape(shape) - n // 2) / 4 + 0.1


def integers(shape: tuple[int, ...] = (2, 3), seed: int = 0, low: int = -4, high: int = 4) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(low, high, shape, endpoint=True).astype(np.int32)


RANGES = {
    **dict.fromkeys(["log", "log2", "sqrt", "rsqrt", "digamma", "lgamma", "cbrt"], [(0.4, 3.0)]),
    "log1p": [(-0.6, 2.0)],
    **dict.fromkeys(["asin", "acos", "atanh", "erf_inv", "tan"], [(-0.8, 0.8)]),
    "erfc_inv": [(0.2, 1.8)],
    "ndtri": [(0.1, 0.9)],
    "acosh": [(1.3, 3.0)],
    "asinh": [(-2.0, 2.0), (3.0, 30.0)],
    "lgamma": [(0.4, 3.0), (-2.7, -2.3)],
    "digamma": [(0.4, 3.0), (-2.7, -2.3)],
    "bessel_i1": [(0.2, 3.0), (-3.0, -0.2)],
    "bessel_i1e": [(0.2, 3.0), (-3.0, -0.2)],
    "bessel_i0e": [(0.2, 3.0), (-3.0, -0.2)],
    "abs": [(0.3, 2.0), (-2.0, -0.3)],
    "sign": [(0.3, 2.0), (-2.0, -0.3)],
    "floor": [(1.1, 1.9)],
    "ceil": [(1.1, 1.9)],
    "is_finite": [(1.1, 1.9)],
}
UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i0", "bessel_i1", "bessel_i0e", "bessel_i1e", "cbrt", "ceil",
    "cos", "cosh", "digamma", "erf", "erf_inv", "erfc", "erfc_inv", "exp", "exp2", "exp_neg_square", "expm1", "floor", "is_finite",
    "lgamma", "log", "log_ndtr", "ndtr", "ndtri", "log1p", "log2", "logistic", "neg", "one_minus_square", "rsqrt", "sign", "sin", "sinh",
    "sqrt", "square", "tan", "tanh",
]  # fmt: skip
COMPLEX = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "exp2", "expm1", "imag", "log", "log1p", "log2",
    "logistic", "neg", "one_minus_square", "real", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
]  # fmt: skip
BITS = ["not", "population_count", "clz"]
BITS_OF_TWO = ["and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic", "mulhi"]
RELATIONS = ["eq", "ne", "lt", "le", "gt", "ge", "eq_to", "lt_to", "le_to"]
LOGIC = ["reduce_and", "reduce_or", "reduce_xor"]


def cases(name: str) -> Iterator[Case]:
    """Arguments at which the op is smooth, of every rank and form that its rules tell apart."""
    if name in UNARY:
        for low, high in RANGES.get(name, [(-1.5, 1.5)]):
            yield (uniform(low, high),), {}
        yield (uniform(*RANGES.get(name, [(-1.5, 1.5)])[0], ()),), {}
    if name in COMPLEX:
        yield (complexes(),), {}
    if name == "asinh":
        yield (np.array([-1 + 5j, 1 + 5j, -1 - 5j, 0.1 - 1.3j]),), {}
    if name in BITS:
        yield (integers(),), {}
    if name in BITS_OF_TWO:
        yield (integers(), integers(seed=1)), {}
        yield (integers(), integers((), 1)), {}
    if name in RELATIONS:
        yield (apart((2, 3)), apart((2, 3), 1) + 0.05), {}
        yield (integers(), integers((), 1)), {}
    if name in ("add", "sub", "mul", "div", "add_any", "atan2", "max", "min", "nextafter", "complex", "rem"):
        x, y = uniform(0.5, 2), uniform(2.2, 4, seed=1)
        yield (x, y), {}
        if name not in ("nextafter", "rem"):
            yield (y, x), {}
        yield (x, y[0, 0]), {}
        yield (x[0, 0], y), {}
        yield (x[:, :1], y[:1]), {}
        yield (x[0, 0], y[0, 0]), {}
    if name in ("add", "sub", "mul", "div", "add_any"):
        yield (complexes(), complexes(seed=2)), {}
    if name == "rem":
        yield (np.array([7.3, -7.3, 7.3]), np.array([2.0, 2.0, -2.0])), {}
    if name == "atan2":
        yield (np.array([0.4 + 0.2j, 0.7]), np.array([1.2 - 0.1j, 0.9 + 0.3j])), {}
    yield from _with_parameters(name)
    yield from _folds(name)


def _with_parameters(name: str) -> Iterator[Case]:
    x = uniform(0.5, 2)
    if name == "round":
        for method in (0, 1):
            yield (x / 8 + 1.1,), {"rounding_method": method}
    if name == "conj":
        yield (x,), {"input_dtype": dtypes.float64}
        yield (complexes(),), {"input_dtype": dtypes.complex128}
    if name == "integer_pow":
        for y in (-3, -1, 0, 1, 2, 3, 5):
            yield (-x,), {"y": y}
        yield (complexes(),), {"y": 3}
    if name == "pow":
        yield (x, uniform(-2, 2, seed=1)), {}
        yield (x[0, 0], uniform(-2, 2, seed=1)), {}
        yield (x, uniform(-2, 2, (), seed=1)), {}
        yield (-x, integers()), {}
        yield (x, integers((), low=3).astype(np.int8)), {}
        yield (complexes(), complexes(seed=3)), {}
    if name == "clamp":
        y = np.array([[-0.7, 0.2, 1.6], [0.4, 2.0, -3.0]])
        yield (np.zeros((2, 3)), y, np.full((2, 3), 1.2)), {}
        yield (np.float64(-0.1), y, np.float64(1.2)), {}
        yield (np.full((2, 3), -0.1), y, np.float64(1.2)), {}
        yield (np.float64(-0.1), np.float64(0.3), np.float64(1.2)), {}
    if name == "select_n":
        yield (integers(low=0, high=1).astype(bool), x, -x), {}
        yield (integers(low=-1, high=3), x, -x, x * x), {}
        yield (np.array(True), x, -x), {}
        yield (np.array(1, np.int32), x, -x, x * x), {}
        yield (np.array(False), x[0, 0], -x[0, 0]), {}
        yield (integers(low=0, high=1).astype(bool), complexes(), complexes(seed=1)), {}
        yield (integers(), x), {}
    if name == "convert_element_type":
        yield (x,), _convert(dtypes.complex128)
        yield (complexes(),), _convert(dtypes.complex128)
        yield (complexes(),), _convert(dtypes.float64)
        yield (x,), _convert(dtypes.int32)
        yield (integers(),), _convert(dtypes.float64)
        yield (x,), _convert(dtypes.float64) | {"weak_type": True}
    if name == "bitcast_convert_type":
        yield (x,), {"new_dtype": dtypes.int64}
        yield (x,), {"new_dtype": dtypes.int32}
        yield (integers((2, 3, 2)),), {"new_dtype": dtypes.int64}
    if name == "polynomial":
        yield (x, np.float64(0.3), uniform(-1, 1, seed=1), np.float64(2), uniform(-1, 1, (2, 1), seed=2)), {"unroll": None}
        yield (np.float64(0.7), uniform(-1, 1, seed=1), np.float64(0.2)), {"unroll": None}
        yield (x, np.float64(0.3)), {"unroll": None}
        yield (x,), {"unroll": None}
        yield (complexes(), complexes(seed=1), complexes(seed=2), complexes(seed=3)), {"unroll": None}
    if name == "mul":
        yield (x.astype(np.float32), x.astype(np.float32)), {"out_dtype": dtypes.float64}
    if name == "stop_gradient":
        yield (x,), {}
    if name == "reduce_precision":
        yield (x,), {"exponent_bits": 11, "mantissa_bits": 52}
    if name == "descending_key":
        yield (x,), {}


def _convert(dtype: Any) -> dict[str, Any]:
    return {"new_dtype": dtype, "weak_type": False, "sharding": None}


def _folds(name: str) -> Iterator[Case]:
    x = apart((2, 3, 2))
    if name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
        for axes in [(), (0,), (1,), (2,), (0, 1), (2, 0), (0, 1, 2)]:
            yield (x,), {"axes": axes, "out_sharding": None}
        yield (apart((1, 3)),), {"axes": (0,), "out_sharding": None}
        if name in ("reduce_sum", "reduce_prod"):
            yield (complexes(),), {"axes": (1,), "out_sharding": None}
            yield (np.ones((0, 2)),), {"axes": (0,), "out_sharding": None}
            yield (np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.5]]),), {"axes": (1,), "out_sharding": None}
    if name in LOGIC:
        yield (integers((2, 3, 2)),), {"axes": (1,)}
        yield (integers((2, 3), low=0, high=1).astype(bool),), {"axes": (0, 1)}
    if name in ("argmax", "argmin"):
        for axis in range(3):
            yield (x,), {"axes": (axis,), "index_dtype": dtypes.int32}
    if name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        for (shape, axis), reverse in itertools.product([((2, 4), 1), ((4, 2), 0), ((1, 2), 0), ((0, 2), 0), ((5,), 0)], (False, True)):
            yield (apart(shape),), {"axis": axis, "reverse": reverse}
        if name in ("cumsum", "cumprod", "cumlogsumexp"):
            yield (complexes(),), {"axis": 1, "reverse": False}
    if name == "cumprod":
        yield (np.array([2.0, 0.0, 3.0, 0.0, 1.5]),), {"axis": 0, "reverse": False}
    if name == "linear_recurrence":
        for (shape, axis), reverse in itertools.product([((2, 4), 1), ((4, 2), 0), ((1,), 0), ((0, 2), 0)], (False, True)):
            yield (uniform(-1, 1, shape), uniform(-1, 1, shape, 1)), {"axis": axis, "reverse": reverse}
        yield (complexes(), complexes(seed=1)), {"axis": 1, "reverse": False}
    if name == "sort":
        for axis in range(2):
            one = {"dimension": axis, "is_stable": True, "num_keys": 1}
            yield (apart((3, 4)),), one
            yield (apart((3, 4)), uniform(-1, 1, (3, 4)), integers((3, 4))), one
            yield (integers((3, 4)), apart((3, 4)), uniform(-1, 1, (3, 4))), one | {"num_keys": 2}
    if name == "least":
        for axis in range(2):
            yield (integers((3, 4)),), {"k": 2, "axis": axis}
    if name == "top_k":
        for axis in range(2):
            yield (apart((3, 4)),), {"k": 2, "axis": axis, "is_stable": True}
        yield (integers((3, 4)),), {"k": 2, "axis": 1, "is_stable": True}
    if name == "zeta":
        yield (np.array([2.0, 3.0, 4.0]), np.array([0.7, 2.2, -1.4])), {}
    if name == "polygamma":
        yield (np.array([0.0, 1.0, 2.0]), np.array([0.7, 2.2, -1.4])), {}
        yield (np.float64(1), np.array([0.7, 2.2])), {}
    if name == "reduce":
        yield from _reduce_cases()


def _reduce_cases() -> Iterator[Case]:
    s = ShapedArray((), np.dtype("float64"))
    one = trace_to_jaxpr(lambda p, x: [arithmetic.add(arithmetic.mul(p, x), transcendental.sin(x))], [s, s])
    two = trace_to_jaxpr(lambda p, q, x, y: [arithmetic.add(arithmetic.mul(p, y), x), arithmetic.mul(q, arithmetic.add(x, p))], [s] * 4)
    for dims in [(0,), (1,), (0, 1), ()]:
        yield (uniform(-1, 1), np.float64(0.5)), {"computation": None, "jaxpr": one, "dimensions": dims}
    args = (uniform(-1, 1), uniform(-1, 1, seed=1), np.float64(0.5), np.float64(-0.4))
    yield args, {"computation": None, "jaxpr": two, "dimensions": (1,)}


# what finite differences do not see: the step of a neighbour, orders that are whole numbers, a derivative left out on purpose
NOT_BY_DIFFERENCES = {"nextafter", "polygamma", "stop_gradient", "zeta"}


ORDERS = {"zeta", "polygamma"}  # whose first operand has no derivative


@pytest.mark.parametrize("name", NAMES)
def test_rules(name: str) -> None:
    tried = list(cases(name))
    assert tried
    for args, params in tried:
        check_rules(RECORDS[name], args, params, jvp=name not in NOT_BY_DIFFERENCES)


ONE, OTHER, BOTH, ALL_BUT_FIRST = ("0", "1", "01", "-0")
LINEAR_IN = {
    **dict.fromkeys(["neg", "real", "imag", "conj", "convert_element_type", "reduce_precision", "reduce_sum", "cumsum", "div"], (ONE,)),
    **dict.fromkeys(["add", "sub", "add_any", "complex"], (BOTH,)),
    "mul": (ONE, OTHER),
    "linear_recurrence": (OTHER,),
    "select_n": (ALL_BUT_FIRST,),
    "polynomial": (ALL_BUT_FIRST,),
}


@pytest.mark.parametrize("name", sorted(LINEAR_IN))
def test_transposes(name: str) -> None:
    """<ct, f(t)> = <transpose(ct), t> for operands that the op is linear in, whether derivatives put tangents there or not."""
    rng = np.random.default_rng(0)
    op = RECORDS[name]
    for (args, params), operands in itertools.product(cases(name), LINEAR_IN[name]):
        avals = [logical(x) for x in args]
        out = op.typ(*avals, **params)
        which = range(1, len(args)) if operands == ALL_BUT_FIRST else [int(k) for k in operands]
        if not which or not all(is_differentiable(a) for a in [out, *(avals[k] for k in which)]):
            continue
        ct = random(rng, out)
        xs = [random(rng, a) if k in which else np.asarray(x) for k, (x, a) in enumerate(zip(args, avals, strict=True))]

        def transposed(ct: Any, *xs: Any, which: Any = which, params: Any = params) -> list[Any]:
            found = rule_of(op, "transpose")(ct, *(Linear(x.aval) if k in which else x for k, x in enumerate(xs)), **params)
            assert len(found) == len(xs)
            return [instantiate(found[k]) for k in which]

        got = interpret(trace_to_jaxpr(transposed, [out, *avals]), [ct, *xs])
        assert [(g.shape, g.dtype) for g in got] == [(avals[k].shape, avals[k].dtype) for k in which]
        (moved,), _ = apply_oracle(op, xs, avals, params)
        pairs = [(ct, moved), *zip(got, (xs[k] for k in which), strict=True)]
        left, *right = (float(np.sum(a * b).real) for a, b in pairs)
        assert np.isclose(left, sum(right), rtol=1e-5 if dtypes.float32 in {a.dtype for a in avals} else 1e-9, atol=1e-12), params


def random(rng: np.random.Generator, aval: ShapedArray) -> np.ndarray:
    x = rng.standard_normal(aval.shape)
    return np.asarray(x + 1j * rng.standard_normal(aval.shape) if dtypes.is_complex(aval.dtype) else x).astype(aval.dtype)


def test_every_record_has_rules() -> None:
    """Of derivatives and batches, or an expansion; no op is left to fail."""
    for name in NAMES:
        assert RECORDS[name].jvp is not None, name
        assert RECORDS[name].batch is not None, name
    assert {n for n in NAMES if RECORDS[n].transpose is not None} == set(LINEAR_IN)


@pytest.mark.parametrize("name", [*RELATIONS, *BITS_OF_TWO, *BITS, *LOGIC, "argmax", "argmin", "is_finite", "floor", "ceil", "round"])
def test_no_derivative(name: str) -> None:
    """The tangent is symbolically zero, and of float0 where results are no floats."""
    for args, params in cases(name):
        avals = [logical(x) for x in args]
        seen = []

        def run(*xs: Any, params: Any = params, seen: Any = seen) -> list[Any]:
            out, tangent = rule_of(RECORDS[name], "jvp")(xs, xs, **params)
            seen.append((out.aval, tangent))
            return [out]

        trace_to_jaxpr(run, avals)
        ((out, tangent),) = seen
        assert type(tangent) is Zero and tangent.aval is out.to_tangent_aval()
        assert (tangent.dtype == dtypes.float0) is not is_differentiable(out)


CASTS = {
    "half": {dtypes.float64: dtypes.float16},
    "brain": {dtypes.float64: dtypes.bfloat16},
    "single": {dtypes.float64: dtypes.float32, dtypes.complex128: dtypes.complex64},
}


@pytest.mark.parametrize("cast", CASTS)
def test_dtypes(cast: str) -> None:
    """Tangents and cotangents have the dtypes of their values, to second order (`enable_checks` looks at each rule's)."""
    done = 0
    for name, (args, params) in ((n, c) for n in NAMES if n not in ORDERS for c in cases(n)):
        op = RECORDS[name]
        avals = [a.update(dtype=CASTS[cast].get(a.dtype, a.dtype)) for a in map(logical, args)]
        which = [k for k, a in enumerate(avals) if is_differentiable(a)]
        try:
            results = op.typ(*avals, **params)
        except (TypeError, ValueError):
            continue  # not of the op's domain
        if not which or not all(is_differentiable(a) for a in (results if op.multiple_results else [results])):
            continue

        def pulled(*args: Any, op: Op = op, params: Any = params, which: Any = which) -> Any:
            y, back = steno.vjp(lambda *xs: op(*_with(args, which, xs), **params), *(args[k] for k in which))
            return back(y)

        def twice(*args: Any, pulled: Any = pulled, which: Any = which) -> list[Any]:
            xs = [args[k] for k in which]
            first, second = steno.jvp(lambda *xs: pulled(*_with(args, which, xs)), xs, xs)
            return [*first, *second]

        with steno.enable_checks(True):
            out = trace_to_jaxpr(twice, avals).out_avals
        assert [(a.shape, a.dtype) for a in out] == [(avals[k].shape, avals[k].dtype) for k in which] * 2, (name, params)
        done += 1
    assert done > 50


def _with(args: Any, which: list[int], xs: Any) -> list[Any]:
    out = list(args)
    for k, x in zip(which, xs, strict=True):
        out[k] = x
    return out


@pytest.mark.parametrize("name", ["zeta", "polygamma"])
def test_derivative_by_the_argument_alone(name: str) -> None:
    with steno.enable_x64(True):
        f = getattr(lax, name)
        n, x, h = 2.0, 1.7, 1e-5
        want = (f(n, x + h) - f(n, x - h)) / (2 * h)
        assert np.isclose(steno.grad(lambda v: f(n, v))(x), want, rtol=1e-8)
        with pytest.raises(NotImplementedError, match=f"{name}: no derivative by the order"):
            steno.grad(lambda m: f(m, 1.7))(n)
