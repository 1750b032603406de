"""Specifications and types of the elementwise, reduction, cumulative and sorting ops against the real JAX."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from peer import NO_JAX, Arr, Call, Failure, peer

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ops import arithmetic, bitwise, compare, convert, cumulative, reduce, sort, transcendental, zeta
from steno.testing import same, ulp

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

MODULES = (arithmetic, bitwise, compare, convert, cumulative, reduce, sort, transcendental, zeta)
RECORDS = {o.name: o for m in MODULES for o in vars(m).values() if isinstance(o, Op)}
OWN_NAMES = {
    "add_any",
    "stop_gradient",
    "reduce",
    "running_fold",
    "running_recurrence",
    "linear_recurrence",
    "bessel_i0",
    "bessel_i1",
    "erfc_inv",
    "ndtr",
    "ndtri",
    "log_ndtr",
    "exp_neg_square",
    "descending_key",
    "least",
    "zeta",  # of other values for q < 0 and infinite q
    "polygamma",
}
IMPORTED = {
    "broadcast_in_dim",
    "concatenate",
    "gather",
    "iota",
    "pad",
    "reshape",
    "rev",
    "scan",
    "slice",
    "squeeze",
    "transpose",
}
DTYPES = {
    np.dtype(d)
    for d in (
        "bool",
        "int8",
        "int32",
        "int64",
        "uint8",
        "uint32",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        ml_dtypes.bfloat16,
    )
} | {dtypes.int4}
LAX_NAMES = {"not": "bitwise_not", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
# real JAX takes minutes to compile these for complex numbers
SLOW = {"asin", "acos", "asinh", "acosh", "atanh"}
# JAX counts four-bit numbers in eight bits, compares real parts only, and its nan or its sign of zero follow from other formulas
DIFFERENT = {
    ("exp2", "bfloat16"),
    ("exp2", "float16"),
    ("top_k", "int4"),
    ("population_count", "int4"),
    ("mulhi", "int4"),
    ("abs", "int4"),
    ("clamp", "complex64"),
    ("clamp", "complex128"),
}
# how far JAX may be off, in units of the last place; these ops accumulate in other orders, or are coarse in JAX
COARSE = {
    "bessel_i1e": 64,
    "erfc": 64,
    "digamma": 64,
    "pow": 64,
    "sinh": 64,
    "cosh": 64,
    "exp2": 64,
    "lgamma": 64,
    "cumsum": 16,
    "cumprod": 16,
    "cumlogsumexp": 64,
    "reduce_sum": 16,
    "reduce_prod": 64,
}
ON_CUT = {"sqrt", "rsqrt", "log", "log2"}  # JAX does not tell the sides of the cut by the sign of zero
UNORDERED_NAN = {"reduce_max", "reduce_min", "cummax", "cummin"}  # complex: what NaNs do depends on the order


def call(op: Op, args: list[Any], params: dict[str, Any]) -> Call:
    """The function of lax for an op and its parameters."""
    name, path, xs = op.name, f"jax.lax.{LAX_NAMES.get(op.name, op.name)}", [Arr(x) for x in args]
    if name in ("eq_to", "lt_to", "le_to"):
        return Call(f"jax.lax.{name}_p.bind", *xs, x64=True)
    if name in ("convert_element_type", "bitcast_convert_type"):
        return Call(path, *xs, params["new_dtype"], x64=True)
    if name == "round":
        return Call(path, *xs, Call("jax.lax.RoundingMethod", params["rounding_method"]), x64=True)
    if name in ("argmax", "argmin"):
        return Call(path, *xs, axis=params["axes"][0], index_dtype=params["index_dtype"], x64=True)
    if name.startswith("reduce_") and "axes" in params:
        return Call(path, *xs, params["axes"], x64=True)
    if name == "polynomial":
        return Call(path, xs[0], xs[1:], x64=True)
    if name == "sort":
        return Call(path, xs, x64=True, **params)
    if name == "conj":
        return Call(path, *xs, x64=True)
    return Call(path, *xs, x64=True, **params)


def samples(op: Op) -> list[tuple[list[np.ndarray], dict[str, Any]]]:
    """Samples of the record that JAX can try; without STENO_TEST_ALL some 20 of them, since JAX takes 40 ms for each."""
    tried = list(usable(op))
    step = 1 if os.environ.get("STENO_TEST_ALL") else -(-len(tried) // 20)
    return tried[::step]


def usable(op: Op) -> Iterable[tuple[list[np.ndarray], dict[str, Any]]]:
    for args, params in op.samples():
        xs = [np.asarray(x) for x in args]
        used = {x.dtype for x in xs} | {d for d in params.values() if isinstance(d, np.dtype)}
        small = all(x.size <= 1700 for x in xs)
        if not small or not used <= DTYPES or (op.name in SLOW and xs[0].dtype.kind == "c"):
            continue
        if (op.name, xs[0].dtype.name) in DIFFERENT or params.get("weak_type") or params.get("index_dtype", dtypes.int32).itemsize < 4:
            continue  # the functions of lax give no weak types; JAX compares positions modulo the width
        yield xs, params


def subnormal(x: np.ndarray) -> np.ndarray:
    """Where JAX flushes to zero."""
    if x.dtype.kind == "c":
        return subnormal(x.real) | subnormal(x.imag)
    if dtypes.kind(x.dtype) != "f":
        return np.zeros(x.shape, bool)
    least = max(float(ml_dtypes.finfo(x.dtype).smallest_normal), 2.0**-126 if x.dtype != np.float64 else 0.0)
    with np.errstate(invalid="ignore"):
        size = np.abs(x.astype(np.float64))
    return (size < least) & (size != 0)


def agrees(op: Op, got: np.ndarray, want: np.ndarray, args: list[np.ndarray]) -> np.ndarray:
    ok = same(got, want)
    kind = dtypes.kind(want.dtype)
    with np.errstate(all="ignore"):
        if kind == "f":
            error = np.abs(got.astype(np.longdouble) - want.astype(np.longdouble))
            size = np.maximum(np.abs(want.astype(np.longdouble)), op.oracle.floor)
            ok = ok | (error <= COARSE.get(op.name, 4.0) * ulp(size, want.dtype))
            # what JAX flushes on the way
            ok = ok | (want == 0) & (error < 2.0**-100)
        elif kind == "c":
            size = np.abs(want.astype(np.clongdouble))
            error = np.abs(got.astype(np.clongdouble) - want.astype(np.clongdouble))
            ok = ok | (error <= 256 * ulp(size, want.real.dtype)) | ~np.isfinite(want) | ~np.isfinite(got)
    if kind == "c" and op.name in UNORDERED_NAN and np.isnan(args[0]).any():
        return np.ones_like(ok)
    if kind == "c" and op.name in ON_CUT:
        ok = ok | (args[0].imag == 0) & (args[0].real < 0)
    if op.name in ("sort", "top_k") and any(subnormal(x).any() for x in args):
        return np.ones_like(ok)
    if op.name == "pow" and args[1].dtype.kind == "i":
        ok = ok | (np.abs(args[1].astype(np.int64)) > 2**24)  # JAX takes the exponent for a float32, an even number
    for x in [*args, got, want]:
        flushed = subnormal(x)
        if flushed.shape == ok.shape or not flushed.shape:
            ok = ok | flushed
        elif flushed.any():
            return np.ones_like(ok)
    return ok


def logical(x: np.ndarray) -> ShapedArray:
    return ShapedArray(x.shape, x.dtype)


@pytest.mark.parametrize("name", sorted(set(RECORDS) - OWN_NAMES - IMPORTED))
def test_specification(name: str) -> None:
    op = RECORDS[name]
    tried = samples(op)
    there = peer()
    assert there is not None
    for (args, params), want in zip(tried, there.batch([call(op, a, p) for a, p in tried]), strict=True):
        context = f"{name}{params} of {[logical(x).str_short() for x in args]}"
        assert not isinstance(want, Failure), f"{context}: JAX raised {want}"
        got = op.oracle(*args, **params)
        types = op.typ(*map(logical, args), **params)
        leaves = want[1] if isinstance(want, tuple) else [want]
        for g, w, t in zip(got if op.multiple_results else [got], leaves, types if op.multiple_results else [types], strict=True):
            assert (t.shape, t.dtype.name, t.weak_type) == (w.shape, w.dtype, w.weak), f"{context}: {t}, JAX {w}"
            ok = agrees(op, np.asarray(g), w.value, args)
            assert ok.all(), f"{context} at {np.argwhere(~ok)[:3].tolist()}: {np.asarray(g)[~ok][:3]}, JAX {w.value[~ok][:3]}"


def test_binary_ops_on_weak_types() -> None:
    there = peer()
    assert there is not None
    cases = []
    for name in ("add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2", "nextafter", "eq", "lt", "complex"):
        for weak in [(True, True), (True, False), (False, True)]:
            cases.append((name, weak))
    x = np.float32([1.0, 2.0])
    calls = [Call(f"jax.lax.{n}", Arr(x, weak=a), Arr(x, weak=b)) for n, (a, b) in cases]
    for (name, (a, b)), want in zip(cases, there.batch(calls), strict=True):
        got = RECORDS[name].typ(ShapedArray((2,), x.dtype, a), ShapedArray((2,), x.dtype, b))
        assert (got.dtype.name, got.weak_type) == (want.dtype, want.weak), (name, a, b)
