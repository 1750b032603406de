"""Running folds along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp, element after element in order.

Narrow dtypes go through the dtype their sums are kept in (float32, int8, uint8) and are rounded once for each result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import OPS, Op
from steno.ir.expr import Builder, Pair, Scalar
from steno.ir.kinds import Cumulative
from steno.ops.arithmetic import clamp, maximum, min_, minimum, mul, share, sub
from steno.ops.complex_functions import complex_exp, complex_log1p
from steno.ops.convert import convert_element_type
from steno.ops.families import COMPLEX, FLOAT, NUMBER, Domain, check_domain, converted, edges, number, operandwise, ordered
from steno.ops.oracle import Oracle, accumulate, as_dtype, complex_mul, complex_of, earlier, highest, later, lowest, widen
from steno.ops.reduce import accumulator, previous
from steno.ops.samples import filled, small
from steno.ops.shape import pad, slice_
from steno.ops.transcendental import exp
from steno.transforms.rules import LINEAR, Linear, Zero, add, along, by_argument, by_operand


def cumulative(
    name: str,
    domain: Domain,
    *,
    identity: Callable[[Any], Any],
    combine: Callable[[Builder, Scalar, Scalar], Scalar],
    oracle: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ulps: float = 0.0,
    jvp: Any = None,
    transpose: Any = None,
) -> Op:
    """The fold of the elements up to each position along `axis` (from the end with `reverse`). `jvp(g, out, x, axis, reverse)`: the
    tangent where there is more than one element, or a rule."""

    def typ(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        check_domain(name, x, domain)
        if not 0 <= axis < x.ndim:
            raise ValueError(f"{name}: axis {axis} is out of bounds for an operand of shape {x.shape}; wanted 0 <= axis < {x.ndim}")
        return x

    def specification(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        return as_dtype(accumulate(widen(x), axis, reverse, identity(x.dtype), oracle), x.dtype)

    def lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, axis: int, reverse: bool) -> Cumulative | None:
        d = avals_in[0].dtype
        if accumulator(d) != d:
            return None
        return Cumulative(
            axis=axis,
            reverse=reverse,
            identity=lambda b: (b.const(identity(d), d),),
            combine=lambda b, p, q: (combine(b, p[0], q[0]),),
        )

    def expand(x: Any, *, axis: int, reverse: bool) -> Any:
        wide = convert_element_type(x, new_dtype=accumulator(x.dtype), weak_type=False, sharding=None)
        out = OPS[name](wide, axis=axis, reverse=reverse)
        return convert_element_type(out, new_dtype=x.dtype, weak_type=x.aval.weak_type, sharding=None)

    def samples() -> Iterable[Any]:
        for d in ordered(domain):
            yield (edges(d)[:8],), {"axis": 0, "reverse": False}
            yield (filled((5, 7), d),), {"axis": 1, "reverse": True}
            yield (small((4, 3), d),), {"axis": 0, "reverse": False}
        yield (small((300,), "float32"),), {"axis": 0, "reverse": False}
        yield (small((40, 2), "bfloat16"),), {"axis": 0, "reverse": True}
        for shape, axis in [((2, 3, 4), 1), ((1,), 0), ((0, 2), 0), ((2, 0), 0), ((3, 1), 1)]:
            for reverse in (False, True):
                yield (small(shape, "float32"),), {"axis": axis, "reverse": reverse}

    def tangent(g: Any, out: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        return g if x.shape[axis] < 2 else jvp(g, out, x, axis, reverse)

    return Op(
        name,
        typ=typ,
        oracle=Oracle(specification, ulps, 0.0, ulps),
        lower=lower,
        expand=expand,
        samples=samples,
        jvp=by_argument(tangent) if callable(jvp) else jvp,
        transpose=operandwise(transpose, by_operand),
        batch=along("axis"),
    )


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda dtype: value


cumsum = cumulative(
    "cumsum",
    NUMBER,
    identity=_constant(0),
    combine=lambda b, p, q: b.add(p, q),
    oracle=np.add,
    jvp=LINEAR,
    transpose=lambda ct, x, *, axis, reverse: cumsum(ct, axis=axis, reverse=not reverse),
)

# y[k] = a[k] y[k - 1] + x[k]: how tangents of running folds run on


def _recurrence_oracle(a: np.ndarray, x: np.ndarray, *, axis: int, reverse: bool) -> list[np.ndarray]:
    factors, terms = np.moveaxis(a, axis, 0), np.moveaxis(x, axis, 0)
    out = np.empty_like(terms)
    acc = np.zeros_like(terms[:1]).sum(axis=0)
    for k in reversed(range(len(terms))) if reverse else range(len(terms)):
        acc = (complex_mul if x.dtype.kind == "c" else np.multiply)(factors[k], acc) + terms[k]
        out[k] = acc
    return [a.copy(), np.moveaxis(out, 0, axis)]


def _recurrence_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, axis: int, reverse: bool) -> Cumulative:
    """The first part of an accumulator is the element's factor: of no use, but results are one for each part."""
    d = avals_in[0].dtype
    return Cumulative(
        axis=axis,
        reverse=reverse,
        identity=lambda b: (b.const(0, d), b.const(0, d)),
        combine=lambda b, p, q: (q[0], b.add(b.mul(q[0], p[1]), q[1])),
    )


running_recurrence = Op(
    "running_recurrence",
    typ=lambda a, x, *, axis, reverse: [a, x],
    oracle=_recurrence_oracle,
    lower=_recurrence_lower,
    multiple_results=True,
)
"""Of use to `linear_recurrence` only: the factors, then its result."""


def _linear_recurrence_typ(a: ShapedArray, x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
    check_domain("linear_recurrence", x, FLOAT | COMPLEX)
    if a.shape != x.shape or a.dtype != x.dtype:
        raise TypeError(f"linear_recurrence: factors and terms must be of one type, got {a.str_short()} and {x.str_short()}")
    if not 0 <= axis < x.ndim:
        raise ValueError(f"linear_recurrence: axis {axis} is out of bounds for operands of shape {x.shape}; wanted 0 <= axis < {x.ndim}")
    return x


def _linear_recurrence_expand(a: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    wide = accumulator(x.dtype)
    _, out = running_recurrence(converted(a, wide), converted(x, wide), axis=axis, reverse=reverse)
    return converted(out, x.dtype)


def _linear_recurrence_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axis: int, reverse: bool) -> tuple[Any, Any]:
    a, x = primals
    out = linear_recurrence(a, x, axis=axis, reverse=reverse)
    by_factor, by_term = tangents
    if type(by_factor) is not Zero:
        by_term = add(mul(by_factor, previous(out, axis, reverse, 0)), by_term)
    return out, linear_recurrence(a, by_term, axis=axis, reverse=reverse)


def _linear_recurrence_transpose(ct: Any, a: Any, x: Linear, *, axis: int, reverse: bool) -> list[Any]:
    return [None, linear_recurrence(previous(a, axis, not reverse, 0), ct, axis=axis, reverse=not reverse)]


def _linear_recurrence_samples() -> Iterable[Any]:
    for d in ordered(FLOAT | COMPLEX):
        yield (small((4, 3), d), small((4, 3), d, 1)), {"axis": 0, "reverse": False}
    for shape, axis in [((2, 3, 4), 1), ((1,), 0), ((0, 2), 0), ((2, 0), 0), ((3, 1), 1), ((70,), 0)]:
        for reverse in (False, True):
            yield (small(shape, "float32"), small(shape, "float32", 1)), {"axis": axis, "reverse": reverse}


def _linear_recurrence_oracle(a: np.ndarray, x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    return as_dtype(_recurrence_oracle(widen(a), widen(x), axis=axis, reverse=reverse)[1], x.dtype)


linear_recurrence = Op(
    "linear_recurrence",
    typ=_linear_recurrence_typ,
    oracle=Oracle(_linear_recurrence_oracle),
    expand=_linear_recurrence_expand,
    samples=_linear_recurrence_samples,
    jvp=_linear_recurrence_jvp,
    transpose=_linear_recurrence_transpose,
    batch=along("axis"),
)
"""y[k] = a[k] y[k - 1] + x[k] along `axis`, beginning with x (from the end with `reverse`); linear in x. What the derivatives of running
folds are made of."""


def _cumprod_tangent(g: Any, out: Any, x: Any, axis: int, reverse: bool) -> Any:
    """t[k] = t[k - 1] x[k] + out[k - 1] g[k]"""
    return linear_recurrence(x, mul(g, previous(out, axis, reverse, 1)), axis=axis, reverse=reverse)


def _part(x: Any, axis: int, low: int, high: int) -> Any:
    """x without the first `low` and the last `high` elements along the axis."""
    starts, limits = [0] * len(x.shape), list(x.shape)
    starts[axis], limits[axis] = low, x.shape[axis] - high
    return slice_(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=None)


def _but_last(x: Any, axis: int, reverse: bool) -> Any:
    """What has a successor in the order of the fold."""
    return _part(x, axis, *((1, 0) if reverse else (0, 1)))


def _but_first(x: Any, axis: int, reverse: bool) -> Any:
    """What has a predecessor."""
    return _but_last(x, axis, not reverse)


def _with_first_zero(x: Any, axis: int, reverse: bool) -> Any:
    """A zero in front of the elements along the axis (with `reverse`: behind them)."""
    widths = (0, 1, 0) if reverse else (1, 0, 0)
    return pad(x, number(x, 0), padding_config=tuple(widths if a == axis else (0, 0, 0) for a in range(len(x.shape))))


def _extremum_tangent(part: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """t[k] = s t[k - 1] + (1 - s) g[k], where s = part(out[k - 1], x[k])"""

    def tangent(g: Any, out: Any, x: Any, axis: int, reverse: bool) -> Any:
        s = _with_first_zero(part(_but_last(out, axis, reverse), _but_first(x, axis, reverse)), axis, reverse)
        return linear_recurrence(s, mul(g, sub(number(s, 1), s)), axis=axis, reverse=reverse)

    return tangent


cumprod = cumulative(
    "cumprod",
    NUMBER,
    identity=_constant(1),
    combine=lambda b, p, q: b.mul(p, q),
    oracle=lambda p, q: complex_mul(p, q) if p.dtype.kind == "c" else np.multiply(p, q),
    jvp=_cumprod_tangent,
)
cummax = cumulative("cummax", NUMBER, identity=lowest, combine=maximum, oracle=later, jvp=_extremum_tangent(share))
cummin = cumulative("cummin", NUMBER, identity=highest, combine=minimum, oracle=earlier, jvp=_extremum_tangent(lambda p, x: share(x, p)))


def _logaddexp(b: Builder, p: Scalar, q: Scalar) -> Scalar:
    """max + log1p(exp(-|p - q|)). Complex: of the one of greater real part, z, and the other, w: z + log1p(exp(w - z)), the imaginary part
    brought into [-pi, pi]."""
    if isinstance(p, Pair) and isinstance(q, Pair):
        swap = b.lt(p.first, q.first)
        z, w = b.select(swap, q, p), b.select(swap, p, q)
        alone = b.or_(b.eq(w.first, -np.inf), b.eq(z.first, np.inf))
        out = b.select(alone, z, b.add(z, complex_log1p(b, complex_exp(b, b.sub(w, z)))))
        turns = b.round_even(b.div(out.second, 2 * np.pi))
        return b.pair(out.dtype, out.first, b.sub(out.second, b.mul(turns, 2 * np.pi)))
    top = b.max(p, q)
    gap = b.neg(b.abs(b.sub(p, q)))
    # inf - inf is no gap
    return b.select(b.is_inf(top), top, b.add(top, b.call("log1p", b.call("exp", gap))))


def _logaddexp_oracle(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    if p.dtype.kind != "c":
        return np.logaddexp(p, q)
    swap = p.real < q.real
    z, w = np.where(swap, q, p), np.where(swap, p, q)
    alone = (w.real == -np.inf) | (z.real == np.inf)
    out = np.where(alone, z, z + np.log1p(np.exp(w - z)))
    turn = out.real.dtype.type(2 * np.pi)
    return complex_of(out.real, out.imag - np.rint(out.imag / turn) * turn)


def _cumlogsumexp_tangent(g: Any, out: Any, x: Any, axis: int, reverse: bool) -> Any:
    """t[k] = exp(out[k - 1] - out[k]) t[k - 1] + exp(x[k] - out[k]) g[k], with the greatest number for infinity."""
    if not dtypes.is_complex(x.dtype):
        most = float(dtypes.finfo(x.dtype).max)
        out = clamp(number(x, -most), out, number(x, most))
        x = min_(x, number(x, most))
    change = sub(_but_last(out, axis, reverse), _but_first(out, axis, reverse))
    kept = _with_first_zero(exp(change, accuracy=None), axis, reverse)
    return linear_recurrence(kept, mul(g, exp(sub(x, out), accuracy=None)), axis=axis, reverse=reverse)


cumlogsumexp = cumulative(
    "cumlogsumexp",
    FLOAT | COMPLEX,
    identity=lowest,
    combine=_logaddexp,
    oracle=_logaddexp_oracle,
    ulps=64,
    jvp=_cumlogsumexp_tangent,
)
"""log(exp(x0) + ... + exp(xk))"""
