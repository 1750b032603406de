"""Running folds along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp, element after element in order.

Narrow dtypes go through the dtype their sums are kept in (float32, int8, uint8) and are rounded once for each result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from steno.core.aval import ShapedArray
from steno.core.op import OPS, Op
from steno.ir.expr import Builder, Pair, Scalar
from steno.ir.kinds import Cumulative
from steno.ops.arithmetic import maximum, minimum
from steno.ops.complex_functions import complex_exp, complex_log1p
from steno.ops.convert import convert_element_type
from steno.ops.families import COMPLEX, FLOAT, NUMBER, Domain, check_domain, edges, ordered
from steno.ops.oracle import Oracle, accumulate, as_dtype, complex_mul, complex_of, earlier, highest, later, lowest, widen
from steno.ops.reduce import accumulator
from steno.ops.samples import filled, small


def cumulative(
    name: str,
    domain: Domain,
    *,
    identity: Callable[[Any], Any],
    combine: Callable[[Builder, Scalar, Scalar], Scalar],
    oracle: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ulps: float = 0.0,
    **rules: Any,
) -> Op:
    """The fold of the elements up to each position along `axis` (from the end with `reverse`)."""

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

    return Op(name, typ=typ, oracle=Oracle(specification, ulps, 0.0, ulps), lower=lower, expand=expand, samples=samples, **rules)


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda dtype: value


cumsum = cumulative("cumsum", NUMBER, identity=_constant(0), combine=lambda b, p, q: b.add(p, q), oracle=np.add)
cumprod = cumulative(
    "cumprod",
    NUMBER,
    identity=_constant(1),
    combine=lambda b, p, q: b.mul(p, q),
    oracle=lambda p, q: complex_mul(p, q) if p.dtype.kind == "c" else np.multiply(p, q),
)
cummax = cumulative("cummax", NUMBER, identity=lowest, combine=maximum, oracle=later)
cummin = cumulative("cummin", NUMBER, identity=highest, combine=minimum, oracle=earlier)


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


cumlogsumexp = cumulative("cumlogsumexp", FLOAT | COMPLEX, identity=lowest, combine=_logaddexp, oracle=_logaddexp_oracle, ulps=64)
"""log(exp(x0) + ... + exp(xk))"""
