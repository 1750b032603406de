"""Comparisons and choice: eq ... ge, the total order of floats, select_n."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.expr import Builder, Expr, Narrow, Pair
from steno.ir.kinds import Scalar
from steno.ops.arithmetic import less
from steno.ops.families import (
    ANY,
    BOOL,
    INT,
    REAL,
    check_equal_dtypes,
    compare,
    edges,
    elementwise_lower,
    nary_samples,
    one_shape,
    ordered,
    pairs,
)
from steno.ops.oracle import Oracle, total_order, widen
from steno.ops.samples import filled
from steno.transforms.rules import Linear, Zero, instantiate, zero_of, zeros

KEYS = frozenset(dtypes.KEYS)


def _real(relation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: relation(widen(x), widen(y))


def _equal(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "V" and x.dtype.names:  # keys
        return functools.reduce(np.logical_and, (np.equal(x[n], y[n]) for n in x.dtype.names))
    return np.equal(widen(x), widen(y))


_ANY_SAMPLES = nary_samples((ANY, ANY))

eq = compare("eq", ANY | KEYS, oracle=_equal, scalar=lambda b, x, y: b.eq(x, y), samples=_ANY_SAMPLES)
ne = compare("ne", ANY | KEYS, oracle=lambda x, y: ~_equal(x, y), scalar=lambda b, x, y: b.ne(x, y), samples=_ANY_SAMPLES)
lt = compare("lt", REAL, oracle=_real(np.less), scalar=less)
gt = compare("gt", REAL, oracle=_real(np.greater), scalar=lambda b, x, y: less(b, y, x))


def _at_most(b: Builder, x: Scalar, y: Scalar) -> Expr:
    return b.or_(b.not_(x), y) if x.dtype == dtypes.bool_ else b.le(x, y)


le = compare("le", REAL, oracle=_real(np.less_equal), scalar=_at_most)
ge = compare("ge", REAL, oracle=_real(np.greater_equal), scalar=lambda b, x, y: _at_most(b, y, x))

# the total order


def order_key(b: Builder, x: Scalar) -> Expr:
    """A signed integer in the order of `total_order`; integers and bools as they are."""
    v = x.value if isinstance(x, Narrow) else x
    assert isinstance(v, Expr)
    if v.dtype.kind != "f":
        return v
    signed = np.dtype(f"int{8 * v.dtype.itemsize}")
    bits = b.bitcast(v, signed)
    return b.select(b.lt(bits, 0), b.xor(bits, np.iinfo(signed).max), bits)


def _by_key(relation: Callable[[Builder, Scalar, Scalar], Expr]) -> Callable[[Builder, Scalar, Scalar], Expr]:
    return lambda b, x, y: relation(b, order_key(b, x), order_key(b, y))


def _total(relation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: relation(total_order(x), total_order(y))


def _eq_to(b: Builder, x: Scalar, y: Scalar) -> Expr:
    return b.eq(x, y) if isinstance(x, Pair) else b.eq(order_key(b, x), order_key(b, y))


def _eq_to_oracle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x == y if x.dtype.kind == "c" else total_order(x) == total_order(y)


eq_to = compare("eq_to", ANY, oracle=_eq_to_oracle, scalar=_eq_to)
"""Equality in the total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN; complex numbers have the usual one."""
lt_to = compare("lt_to", REAL, oracle=_total(np.less), scalar=_by_key(less))
le_to = compare("le_to", REAL, oracle=_total(np.less_equal), scalar=_by_key(_at_most))

# select_n


def _select_typ(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    if not cases:
        raise TypeError("select_n takes at least one case")
    if which.dtype not in BOOL | INT:
        raise TypeError(f"select_n: `which` must be of a boolean or integer dtype, got {dtypes.name(which.dtype)}")
    if which.dtype == dtypes.bool_ and len(cases) > 2:
        raise TypeError(f"select_n: a boolean `which` cannot have more than 2 cases, got {len(cases)}")
    first = cases[0]
    if any(c.shape != first.shape for c in cases):
        raise TypeError(f"select_n: cases must have the same shapes, got {', '.join(str(c.shape) for c in cases)}")
    check_equal_dtypes("select_n", cases)
    if which.shape not in ((), first.shape):
        raise TypeError(
            f"select_n: `which` must be a scalar or have the shape of the cases, got shape {which.shape} and cases of shape {first.shape}"
        )
    return first if len(cases) == 1 else ShapedArray(first.shape, first.dtype, all(c.weak_type for c in cases))


def _select_oracle(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    last = len(cases) - 1
    at = np.clip(which.astype(np.float64 if which.dtype == np.uint64 else np.int64), 0, last).astype(np.int64)
    out = np.broadcast_to(cases[last], cases[last].shape)
    for k in range(last):
        here = (at == k).reshape(at.shape + (1,) * (cases[k].ndim - at.ndim)) if at.ndim else at == k
        out = np.where(here, cases[k], out)
    return out


def _select(b: Builder, which: Scalar, *cases: Scalar) -> Scalar:
    """cases[clip(which, 0, n - 1)]"""
    w = which.value if isinstance(which, Narrow) else which
    assert isinstance(w, Expr)
    out = cases[-1]
    if w.dtype == dtypes.bool_:
        return b.select(w, out, cases[0])
    for k in range(len(cases) - 2, -1, -1):
        out = b.select(b.le(w, k), cases[k], out)
    return out


def _select_samples() -> Iterable[Any]:
    for d in ordered(ANY):
        x, y = pairs(edges(d)[:40], edges(d)[:40])
        yield (filled(x.shape, "bool"), x, y), {}
    for d in ordered(INT):
        which = filled((40,), d)
        yield (which, *(filled((40,), "float32", k) for k in range(3))), {}
        yield (edges(d), *(np.full(edges(d).shape, k, np.int32) for k in range(4))), {}
    f = [filled((2, 3), "float32", k) for k in range(3)]
    yield (np.array(True), *f[:2]), {}
    yield (np.array(1, np.int32), *f), {}
    yield (filled((2, 3), "int32"), f[0]), {}
    yield (filled((), "bool"), filled((), "float32"), filled((), "float32", 1)), {}
    yield (filled((0, 2), "bool"), filled((0, 2), "float32"), filled((0, 2), "float32")), {}


def _select_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    out = select_n(*primals)
    given = tangents[1:]
    if all(type(g) is Zero for g in given):
        return out, zero_of(out)
    return out, select_n(primals[0], *map(instantiate, given))


def _select_transpose(ct: Any, which: Any, *cases: Any) -> list[Any]:
    nothing = zeros(ct.aval)

    def only(k: int) -> Any:
        return select_n(which, *(ct if j == k else nothing for j in range(len(cases))))

    return [None, *(only(k) if type(c) is Linear else None for k, c in enumerate(cases))]


select_n = Op(
    "select_n",
    typ=_select_typ,
    oracle=Oracle(_select_oracle),
    lower=elementwise_lower(_select),
    samples=_select_samples,
    jvp=_select_jvp,
    transpose=_select_transpose,
    batch=one_shape(0),
)
"""Each element from one of the cases: `which` counts them, kept in range; False and True are 0 and 1."""
