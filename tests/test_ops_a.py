"""Elementwise, reduction, cumulative and sorting ops: what they refuse, types of results, and properties their samples do not show."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import steno
from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import OPS, Op
from steno.core.trace import trace_to_jaxpr
from steno.ops import arithmetic, bitwise, compare, convert, cumulative, oracle, reduce, sort, transcendental, zeta
from steno.testing import check_op, differences, same

MODULES = (arithmetic, bitwise, compare, convert, cumulative, reduce, sort, transcendental, zeta)
RECORDS = {o.name: o for m in MODULES for o in vars(m).values() if isinstance(o, Op)}
FOLLOWERS = {"running_fold", "running_recurrence"}  # parts of reduce and of linear_recurrence


def aval(shape: tuple[int, ...] = (3, 4), dtype: Any = "float32", weak: bool = False) -> ShapedArray:
    return ShapedArray(shape, np.dtype(dtype), weak)


F, N, B, C, S = aval(), aval(dtype="int32"), aval(dtype="bool"), aval(dtype="complex64"), aval(())
W = aval(weak=True)
KEYS = ShapedArray((3, 4), dtypes.key_fry)
REDUCE = {"computation": None, "jaxpr": trace_to_jaxpr(lambda p, x: [arithmetic.add(p, x)], [S, S]), "dimensions": (0,)}
SORT = {"dimension": 1, "is_stable": True, "num_keys": 1}
CONVERT = {"weak_type": False, "sharding": None}


def test_every_record_has_samples() -> None:
    assert {n for n, o in RECORDS.items() if o.samples is None} == FOLLOWERS
    assert all(OPS[n] is o for n, o in RECORDS.items())


@pytest.mark.parametrize(
    ("name", "avals", "params", "error", "words"),
    [
        ("neg", (B,), {}, TypeError, "neg does not accept dtype bool"),
        ("neg", (KEYS,), {}, TypeError, "key<fry>"),
        ("neg", (F, F), {}, TypeError, "takes 1 operands, got 2"),
        ("abs", (aval(dtype="uint8"),), {}, TypeError, "signed integer, floating, complex"),
        ("floor", (N,), {}, TypeError, "floor does not accept dtype int32. Accepted dtypes: floating"),
        ("exp", (N,), {}, TypeError, "floating, complex"),
        ("cbrt", (C,), {}, TypeError, "complex64"),
        ("not", (F,), {}, TypeError, "bool, integer"),
        ("clz", (B,), {}, TypeError, "clz"),
        ("real", (F,), {}, TypeError, "real does not accept dtype float32"),
        ("complex", (aval(dtype="float16"),) * 2, {}, TypeError, "float32, float64"),
        ("add", (F, N), {}, TypeError, "lax.add requires arguments to have the same dtypes, got float32, int32"),
        ("add", (F, B), {}, TypeError, "add does not accept dtype bool at position 1"),
        ("add", (F, aval((3, 5))), {}, TypeError, "add got incompatible shapes for broadcasting: (3, 4), (3, 5)"),
        ("add", (F, aval((4,))), {}, TypeError, "equal numbers of dimensions (or none), got shapes (3, 4), (4,)"),
        ("add", (F,), {}, TypeError, "takes 2 operands, got 1"),
        ("mul", (F, F), {"out_dtype": dtypes.bool_}, TypeError, "out_dtype"),
        ("lt", (C, C), {}, TypeError, "lt does not accept dtype complex64"),
        ("lt", (KEYS, KEYS), {}, TypeError, "key<fry>"),
        ("rem", (C, C), {}, TypeError, "rem"),
        ("pow", (N, N), {}, TypeError, "pow does not accept dtype int32 at position 0"),
        ("pow", (F, aval(dtype="float16")), {}, TypeError, "exponent must have an integer dtype or that of the base"),
        ("integer_pow", (N,), {"y": -1}, TypeError, "negative powers"),
        ("clamp", (aval((4,)), F, S), {}, TypeError, "min.shape=(4,), operand.shape=(3, 4)"),
        ("clamp", (aval((), "int32"), F, S), {}, TypeError, "lax.clamp requires arguments to have the same dtypes"),
        ("select_n", (B,), {}, TypeError, "at least one case"),
        ("select_n", (B, F, F, F), {}, TypeError, "more than 2 cases, got 3"),
        ("select_n", (F, F, F), {}, TypeError, "boolean or integer dtype, got float32"),
        ("select_n", (B, F, N), {}, TypeError, "same dtypes, got float32, int32"),
        ("select_n", (B, F, S), {}, TypeError, "same shapes, got (3, 4), ()"),
        ("select_n", (aval((4,), "bool"), F, F), {}, TypeError, "got shape (4,) and cases of shape (3, 4)"),
        ("convert_element_type", (KEYS,), {"new_dtype": dtypes.int32, **CONVERT}, ValueError, "from key<fry> to int32"),
        ("bitcast_convert_type", (B,), {"new_dtype": dtypes.int8}, TypeError, "bool and complex"),
        ("bitcast_convert_type", (KEYS,), {"new_dtype": dtypes.int8}, ValueError, "PRNG keys"),
        ("bitcast_convert_type", (aval((3,), "int8"),), {"new_dtype": dtypes.float32}, ValueError, "holds 3 * 8 bits"),
        ("bitcast_convert_type", (aval((), "int8"),), {"new_dtype": dtypes.float32}, ValueError, "holds 1 * 8 bits"),
        ("reduce_precision", (F,), {"exponent_bits": 0, "mantissa_bits": 3}, ValueError, "exponent_bits must be positive, got 0"),
        ("reduce_precision", (F,), {"exponent_bits": 3, "mantissa_bits": -1}, ValueError, "mantissa_bits"),
        ("reduce_precision", (N,), {"exponent_bits": 3, "mantissa_bits": 1}, TypeError, "int32"),
        ("reduce_sum", (F,), {"axes": (2,)}, ValueError, "axes (2,) are out of bounds for an operand of type float32[3,4]"),
        ("reduce_sum", (F,), {"axes": (-1,)}, ValueError, "wanted 0 <= axis < 2"),
        ("reduce_sum", (F,), {"axes": (1, 1)}, ValueError, "duplicate value"),
        ("reduce_sum", (B,), {"axes": (0,)}, TypeError, "reduce_sum does not accept dtype bool"),
        ("reduce_and", (F,), {"axes": (0,)}, TypeError, "reduce_and does not accept dtype float32"),
        ("argmax", (F,), {"axes": (2,), "index_dtype": dtypes.int32}, ValueError, "argmax: axes (2,)"),
        ("argmax", (F,), {"axes": (0, 1), "index_dtype": dtypes.int32}, ValueError, "one axis, got (0, 1)"),
        ("argmax", (F,), {"axes": (0,), "index_dtype": dtypes.float32}, TypeError, "integer type, got float32"),
        ("argmin", (aval((0, 3)),), {"axes": (0,), "index_dtype": dtypes.int32}, ValueError, "require non-empty"),
        ("argmin", (C,), {"axes": (0,), "index_dtype": dtypes.int32}, TypeError, "complex64"),
        ("reduce", (F, F), REDUCE, ValueError, "reduce found non-scalar initial value, of shapes (3, 4)"),
        ("reduce", (F, aval((), "int32")), REDUCE, TypeError, "got int32 for float32"),
        ("reduce", (F, S), {**REDUCE, "dimensions": (5,)}, ValueError, "reduce: axes (5,)"),
        ("reduce", (N, aval((), "int32")), REDUCE, TypeError, "got float32[] for int32"),
        ("cumsum", (F,), {"axis": 2, "reverse": False}, ValueError, "axis 2 is out of bounds for an operand of shape (3, 4)"),
        ("cumsum", (F,), {"axis": -1, "reverse": False}, ValueError, "axis -1"),
        ("cummax", (B,), {"axis": 0, "reverse": False}, TypeError, "cummax does not accept dtype bool"),
        ("sort", (), SORT, TypeError, "at least one operand"),
        ("sort", (F, aval((4, 3))), SORT, TypeError, "equal shapes, got (3, 4), (4, 3)"),
        ("sort", (F,), {**SORT, "dimension": 2}, ValueError, "dimension 2 is out of bounds"),
        ("sort", (F,), {**SORT, "num_keys": 2}, ValueError, "num_keys must lie in [1, 1]"),
        ("sort", (KEYS,), SORT, TypeError, "key<fry> at position 0"),
        ("top_k", (F,), {"k": 5, "axis": 1}, ValueError, "got k=5 for an operand of shape (3, 4) and axis 1"),
        ("top_k", (F,), {"k": -1, "axis": 1}, ValueError, "negative"),
        ("top_k", (F,), {"k": 1, "axis": 2}, ValueError, "axis 2 is out of bounds"),
        ("top_k", (C,), {"k": 1, "axis": 0}, ValueError, "complex"),
    ],
)
def test_errors(name: str, avals: tuple[ShapedArray, ...], params: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        RECORDS[name].typ(*avals, **params)
    assert words in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "avals", "params", "want"),
    [
        ("add", (F, S), {}, F),
        ("add", (S, F), {}, F),
        ("add", (aval((3, 1)), aval((1, 4))), {}, F),
        ("add", (W, W), {}, W),
        ("add", (W, F), {}, F),
        ("add", (aval(()), W), {}, F),
        ("exp", (W,), {}, W),
        ("is_finite", (W,), {}, aval(dtype="bool", weak=True)),
        ("abs", (C,), {}, F),
        ("conj", (W,), {"input_dtype": dtypes.float32}, aval(dtype="complex64", weak=True)),
        ("complex", (F, W), {}, C),
        ("eq", (KEYS, KEYS), {}, B),
        ("pow", (F, aval(dtype="uint8")), {}, F),
        ("mul", (aval(dtype="int8"),) * 2, {"out_dtype": dtypes.int32}, N),
        ("clamp", (aval((), weak=True), W, S), {}, F),
        ("select_n", (aval((), "bool"), W, W), {}, W),
        ("select_n", (B, KEYS, KEYS), {}, KEYS),
        ("convert_element_type", (W,), {"new_dtype": dtypes.float32, **CONVERT}, F),
        ("convert_element_type", (F,), {"new_dtype": dtypes.int32, "weak_type": True, "sharding": None}, aval(dtype="int32", weak=True)),
        ("convert_element_type", (KEYS,), {"new_dtype": dtypes.key_fry, **CONVERT}, KEYS),
        ("bitcast_convert_type", (W,), {"new_dtype": dtypes.float32}, F),
        ("bitcast_convert_type", (F,), {"new_dtype": dtypes.int8}, aval((3, 4, 4), "int8")),
        ("bitcast_convert_type", (F,), {"new_dtype": dtypes.float64}, None),
        ("bitcast_convert_type", (aval((5, 2)),), {"new_dtype": dtypes.float64}, aval((5,), "float64")),
        ("bitcast_convert_type", (aval((5, 2), dtypes.int4),), {"new_dtype": dtypes.uint8}, aval((5,), "uint8")),
        ("reduce_sum", (W,), {"axes": (1,)}, aval((3,), weak=True)),
        ("reduce_max", (B,), {"axes": (0, 1)}, aval((), "bool")),
        ("argmax", (W,), {"axes": (0,), "index_dtype": dtypes.int32}, aval((4,), "int32")),
        ("cumsum", (W,), {"axis": 0, "reverse": True}, W),
        ("stop_gradient", (KEYS,), {}, KEYS),
        ("add_any", (B, B), {}, B),
    ],
)
def test_types(name: str, avals: tuple[ShapedArray, ...], params: dict[str, Any], want: ShapedArray | None) -> None:
    if want is None:
        with pytest.raises(ValueError, match="holds 4"):
            RECORDS[name].typ(*avals, **params)
    else:
        assert RECORDS[name].typ(*avals, **params) is want


def test_types_of_several_results() -> None:
    assert sort.sort.typ(F, KEYS, **SORT) == [F, KEYS]
    assert sort.top_k.typ(W, k=2, axis=1) == [aval((3, 2), weak=True), aval((3, 2), "int32", weak=True)]
    assert reduce.reduce_.typ(F, S, **REDUCE) == [aval((4,))]


# values


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 127, 128, 4095, 4096, 4097, 12289])
def test_canonical_order_of_sums(n: int) -> None:
    """The order written out, element by element."""
    x = (np.random.default_rng(n).standard_normal(n) * 10.0 ** np.random.default_rng(n + 1).integers(-3, 4, n)).astype(np.float32)

    def tree(items: list[np.float32]) -> np.float32:
        h = 1 << max(len(items) - 1, 0).bit_length()
        while (h := h // 2) >= 1:
            for i in range(min(h, len(items) - h)):
                items[i] = items[i] + items[i + h]
        return items[0]

    blocks = []
    for start in range(0, n, 4096):
        block = x[start : start + 4096]
        lanes = []
        for lane in range(min(64, len(block))):
            acc = block[lane]
            for k in range(lane + 64, len(block), 64):
                acc = acc + block[k]
            lanes.append(acc)
        blocks.append(tree(lanes))
    want = np.float32(0) + tree(blocks) if blocks else np.float32(0)
    assert reduce.reduce_sum.oracle(x, axes=(0,)) == want
    check_op(reduce.reduce_sum, (x,), {"axes": (0,)})


@pytest.mark.parametrize("shape", [(3, 5000), (5000, 3), (2, 70, 80), (17, 1, 300), (20000,)])
@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod", "reduce_max", "argmax"])
def test_large_reductions(name: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    axes = [(len(shape) - 1,), (0,)] if len(shape) > 1 else [(0,)]
    for a in axes if name == "argmax" else [*axes, tuple(range(len(shape)))]:
        check_op(RECORDS[name], (x,), {"axes": a, **({"index_dtype": dtypes.int32} if name == "argmax" else {})})


def test_reduce_goes_from_left_to_right() -> None:
    """As JAX does on a CPU, also by computations that are not associative."""
    program = trace_to_jaxpr(lambda p, x: [arithmetic.sub(arithmetic.mul(p, p), x)], [S, S])
    x = np.array([[2, -1, 0.5], [1, 3, 0.25]], np.float32)
    params = {"computation": None, "jaxpr": program, "dimensions": (0, 1)}
    want = np.float32(1)
    for v in x.reshape(-1):
        want = want * want - v
    (got,) = reduce.reduce_.oracle(x, np.float32(1), **params)
    assert got == want
    check_op(reduce.reduce_, (x, np.float32(1)), params)


def test_sums_of_narrow_floats_are_rounded_once() -> None:
    ones = np.ones(1000, dtypes.bfloat16)
    assert reduce.reduce_sum.oracle(ones, axes=(0,)) == 1000
    assert cumulative.cumsum.oracle(ones, axis=0, reverse=False)[-1] == 1000
    check_op(reduce.reduce_sum, (ones,), {"axes": (0,)})
    check_op(cumulative.cumsum, (ones,), {"axis": 0, "reverse": False})


def test_integers_wrap() -> None:
    assert reduce.reduce_sum.oracle(np.full(10, 100, np.int8), axes=(0,)) == np.int8(-24)
    assert arithmetic.div.oracle(np.int32(-(2**31)), np.int32(-1)) == -(2**31)
    assert arithmetic.div.oracle(np.uint8(7), np.uint8(0)) == 255
    assert arithmetic.rem.oracle(np.int32(7), np.int32(0)) == 7
    assert arithmetic.abs_.oracle(np.int8(-128)) == -128


@pytest.mark.parametrize("seed", range(6))
def test_sort_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = [(1000,), (300, 40), (3, 2000), (5, 100, 4), (2, 3, 700), (100000,)][seed]
    keys = rng.integers(-50, 50, shape).astype(np.float32)
    keys[rng.random(shape) < 0.05] = np.nan
    position = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    for axis in range(len(shape)):
        check_op(sort.sort, (keys, position), {"dimension": axis, "is_stable": True, "num_keys": 1})


def test_top_k_is_total() -> None:
    x = np.array([1, np.nan, -np.nan, 0.0, -0.0, np.inf, 0.0], np.float32)
    values, positions = sort.top_k.oracle(x, k=7, axis=0)
    assert positions.tolist() == [1, 5, 0, 3, 6, 4, 2]
    assert not differences(values, x[positions])


POINTS = [-40.3, -7.25, -2.5, -0.5, -1e-3, 1e-9, 0.3, 0.5, 1.0, 1.5, 4.0, 11.9, 12.1, 29.999, 30.001, 700.0]


@pytest.mark.parametrize(
    ("function", "exact", "points"),
    [
        (oracle.digamma, mpmath.digamma, POINTS),
        (oracle.bessel_i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), POINTS),
        (oracle.bessel_i1e, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), POINTS),
        (oracle.erf_inv, mpmath.erfinv, [-0.999999, -0.9, -0.5, -1e-12, 1e-3, 0.3, 0.51, 0.95, 0.999]),
        (oracle.erfc_inv, lambda y: mpmath.erfinv(1 - y), [1e-20, 1e-4, 0.3, 0.7, 1.0, 1.2, 1.9]),
    ],
    ids=["digamma", "bessel_i0e", "bessel_i1e", "erf_inv", "erfc_inv"],
)
def test_special_functions_of_oracles(function: Any, exact: Any, points: list[float]) -> None:
    with mpmath.workdps(40), np.errstate(all="ignore"):
        for x in points:
            want = exact(mpmath.mpf(x))
            assert abs(function(np.array([x]))[0] - want) <= 4 * np.finfo(float).eps * abs(want), x


def test_lowered_reduction_of_no_axes_is_the_operand() -> None:
    x = np.array([-0.0, 1.0], np.float32)
    assert np.signbit(reduce.reduce_sum.oracle(x, axes=())[0])
    check_op(reduce.reduce_sum, (x,), {"axes": ()})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_of_floats_have_the_bits_of_fmod(dtype: Any) -> None:
    """Quotients near whole numbers, small, great, infinite, of subnormal numbers."""
    rng, bits = np.random.default_rng(0), np.uint32 if dtype == np.float32 else np.uint64
    y = rng.standard_normal(4000).astype(dtype)
    multiple = (y.astype(np.float64) * rng.integers(-(2**23), 2**23, 4000)).astype(dtype)
    anything = [rng.integers(0, np.iinfo(bits).max, 4000, bits, endpoint=True).view(dtype) for _ in range(2)]
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3, 1e-40, 2.0**22, 2.0**22 - 1, 2.0**24, np.finfo(dtype).max], dtype)
    cases = [
        (multiple, y),
        (np.nextafter(multiple, dtype(0)), y),
        (y, np.roll(y, 1)),
        anything,
        [m.ravel() for m in np.meshgrid(special, special)],
    ]
    x, y = (np.concatenate(side) for side in zip(*cases, strict=True))
    with steno.enable_x64(True), np.errstate(all="ignore"):
        assert same(np.asarray(steno.jit(steno.lax.rem)(x, y)), np.fmod(x, y)).all()
