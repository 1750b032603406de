"""Constructors of op records: what elementwise ops, comparisons and reductions have in common.

A family takes the op's domain (the dtypes it accepts), its NumPy specification and its scalar code, and makes the record; rules of
transformations (`jvp=...`, `transpose=...`, `batch=...`) are given operand by operand, or as the constructors of `transforms/rules.py`
make them. Every op is bound to a name in its own file.

Scalar code is `scalar(b, *operands, **params)` over the Builder. For narrow floats it computes in float32 and the result is rounded once,
unless the op is `exact` there (moves bits, or compares): then it gets the narrow scalars themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.dtypes import itemsize_bits
from steno.core.op import OPS, Op
from steno.ir.expr import F32, Builder, Expr, Narrow
from steno.ir.index import ZERO, Index
from steno.ir.kinds import Map, Read, Scalar
from steno.ir.narrow import FORMATS, FloatFormat
from steno.ops.oracle import Oracle
from steno.ops.samples import filled
from steno.transforms.rules import (
    ELEMENTWISE,
    ZERO as NO_DERIVATIVE,
    Axis,
    ForOp,
    broadcast,
    by_argument,
    by_operand,
    full,
    inserted,
    to_dim,
    zeros,
)

Domain = frozenset[Any]

BOOL: Domain = frozenset((dtypes.bool_,))
SIGNED: Domain = frozenset(dtypes.SIGNED)
UNSIGNED: Domain = frozenset(dtypes.UNSIGNED)
INT: Domain = SIGNED | UNSIGNED
FLOAT: Domain = frozenset(dtypes.FLOATS)
COMPLEX: Domain = frozenset(dtypes.COMPLEX)
NUMBER: Domain = INT | FLOAT | COMPLEX
REAL: Domain = BOOL | INT | FLOAT
ANY: Domain = BOOL | NUMBER

_GROUPS = {"bool": BOOL, "integer": INT, "signed integer": SIGNED, "unsigned integer": UNSIGNED, "floating": FLOAT, "complex": COMPLEX}


def describe(domain: Domain) -> str:
    """`floating, complex`, or the dtypes' names where no such words fit."""
    names, rest = [], set(domain)
    for name, group in _GROUPS.items():
        if group <= rest:
            names.append(name)
            rest -= group
    return ", ".join(names + sorted(d.name for d in rest))


def check_domain(op: str, aval: ShapedArray, domain: Domain, position: int | None = None) -> None:
    """TypeError if the op does not take this dtype (at that position)."""
    if (aval.dtype if not getattr(aval.dtype, "made", None) else dtypes.key_fry) not in domain:
        if aval.dtype == dtypes.float0:
            raise TypeError(
                f"{op}: float0s do not support any operations by design: they are derivatives by integers and booleans, all zero"
            )
        where = "" if position is None else f" at position {position}"
        raise TypeError(f"{op} does not accept dtype {dtypes.name(aval.dtype)}{where}. Accepted dtypes: {describe(domain)}.")


def check_equal_dtypes(op: str, avals: Sequence[ShapedArray]) -> None:
    """TypeError unless all operands have one dtype."""
    first = avals[0].dtype
    if any(a.dtype != first for a in avals):
        raise TypeError(
            f"lax.{op} requires arguments to have the same dtypes, got {', '.join(dtypes.name(a.dtype) for a in avals)}. "
            "The functions of numpy convert to a common dtype; lax does not."
        )


def common_shape(op: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The shape of an elementwise result. Operands of rank 0 go with anything; the others have equal rank, and sizes equal or 1.
    TypeError if not."""
    first = avals[0].shape
    if all(a.shape == first for a in avals):
        return first
    shapes = [a.shape for a in avals if a.shape]
    if len({len(s) for s in shapes}) > 1:
        raise TypeError(
            f"{op}: arrays must have equal numbers of dimensions (or none), got shapes {', '.join(str(a.shape) for a in avals)}"
        )
    out = []
    for sizes in zip(*shapes, strict=True):
        proper = {n for n in sizes if n != 1}
        if len(proper) > 1:
            raise TypeError(f"{op} got incompatible shapes for broadcasting: {', '.join(str(a.shape) for a in avals)}.")
        out.append(proper.pop() if proper else 1)
    return tuple(out)


def check_count(op: str, avals: Sequence[ShapedArray], count: int) -> None:
    if len(avals) != count:
        raise TypeError(f"{op} takes {count} operands, got {len(avals)}")


def same(dtype: Any) -> Any:
    return dtype


def to_bool(dtype: Any) -> Any:
    return dtypes.bool_


def elementwise_typ(op: str, *domains: Domain, result: Callable[[Any], Any] = same) -> Callable[..., ShapedArray]:
    """One operand for each domain, all of one dtype; `result` maps it to the result's. Weak if all operands are."""

    def unary_typ(*avals: ShapedArray, **params: Any) -> ShapedArray:
        check_count(op, avals, 1)
        (x,) = avals
        check_domain(op, x, domains[0])
        d = result(x.dtype)
        return x if d == x.dtype else ShapedArray(x.shape, d, x.weak_type)

    def typ(*avals: ShapedArray, **params: Any) -> ShapedArray:
        check_count(op, avals, len(domains))
        for k, (a, domain) in enumerate(zip(avals, domains, strict=True)):
            check_domain(op, a, domain, k)
        check_equal_dtypes(op, avals)
        return ShapedArray(common_shape(op, avals), result(avals[0].dtype), all(a.weak_type for a in avals))

    return unary_typ if len(domains) == 1 else typ


def elementwise_lower(scalar: Callable[..., Scalar], exact: bool = True) -> Callable[..., Map]:
    """`scalar(b, *operands, **params)` at each index. Without `exact`, narrow floats are computed in float32 and rounded to the result's
    dtype."""

    def lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> Map:
        (out,) = avals_out
        stretched = any(a.shape and a.shape != out.shape for a in avals_in)
        axes = [[n != 1 or m == 1 for n, m in zip(a.shape, out.shape, strict=False)] for a in avals_in] if stretched else None
        in_float32 = not exact and any(isinstance(FORMATS.get(a.dtype), FloatFormat) for a in avals_in)

        def operands(indices: Sequence[Index], reads: Sequence[Read]) -> Iterable[Scalar]:
            if axes is None:
                return (r(indices if a.shape else ()) for r, a in zip(reads, avals_in, strict=True))
            return (r([i if own else ZERO for i, own in zip(indices, mine, strict=False)]) for r, mine in zip(reads, axes, strict=True))

        def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
            xs = operands(indices, reads)
            if not in_float32:
                return scalar(b, *xs, **params)
            y = scalar(b, *(x.value if isinstance(x, Narrow) and x.value.dtype == F32 else x for x in xs), **params)
            return b.narrow(out.dtype, y) if out.dtype in FORMATS else y

        return Map(body, flat=not stretched)

    return lower


# bits


def raw_dtype(dtype: Any) -> np.dtype:
    """The unsigned dtype that holds the bits of one element (uint8 for those of fewer bits)."""
    return np.dtype(f"uint{max(itemsize_bits(dtype), 8)}")


def raw_bits(b: Builder, x: Scalar) -> Expr:
    """The bits of a scalar that is neither bool nor complex, as an unsigned integer; upper bits of sub-byte ones are 0."""
    (stored,) = b.to_storage(x)
    return b.bitcast(stored, raw_dtype(x.dtype))


def from_raw_bits(b: Builder, dtype: Any, bits: Expr) -> Scalar:
    """The inverse of `raw_bits`."""
    return b.from_storage(dtype, (bits,)) if itemsize_bits(dtype) < 8 else b.bitcast(bits, dtype)


def given(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters a jaxpr shows of ops whose parameters that are None say nothing."""
    return {k: v for k, v in sorted(params.items()) if v is not None}


# rules of transformations


def later(name: str) -> Callable[..., Any]:
    """The op of that name, for rules in files that its file imports."""
    return lambda *args, **params: OPS[name](*args, **params)


and_, ge, gt, lt, select_n = map(later, ("and", "ge", "gt", "lt", "select_n"))


def number(x: Any, value: Any) -> Any:
    """A constant of the dtype of `x`, of rank 0."""
    return full((), value, x.dtype)


def converted(x: Any, dtype: Any) -> Any:
    """`x` in another dtype."""
    return x if x.dtype == dtype else OPS["convert_element_type"](x, new_dtype=dtype, weak_type=False, sharding=None)


def where(condition: Any, x: Any) -> Any:
    """x where the condition, which has its shape or none, holds, elsewhere zero."""
    return select_n(condition, zeros(x.aval), x)


def one_shape(*scalars: int) -> ForOp:
    """batch of an elementwise op whose operands have one shape, but for those at these positions, which may also be of rank 0."""

    def make(op: Op) -> Callable[..., Any]:
        def batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, int]:
            ranks = [len(x.shape) - (d is not None) for x, d in zip(args, dims, strict=True)]
            rank = max(ranks)
            leader = next((k for k, d in enumerate(dims) if d is not None and ranks[k] == rank), None)
            if leader is None:  # one scalar for each element
                dim = 0
                shape = inserted(args[ranks.index(rank)].shape, 0, axis.size)
            else:
                dim, shape = dims[leader], args[leader].shape

            def whole(k: int) -> Any:
                x, d = args[k], dims[k]
                if ranks[k] < rank or not rank:
                    return x if d is None and k in scalars else broadcast(x, shape, () if d is None else (dim,))
                return to_dim(x, d, dim, axis.size)

            return op(*map(whole, range(len(args))), **params), dim

        return batch

    return ForOp(make)


def operandwise(rule: Any, make: Callable[..., Any]) -> Any:
    """A rule given as one function for each operand (a function of one operand need not stand in a tuple); others as they are."""
    if isinstance(rule, tuple):
        return make(*rule)
    return make(rule) if callable(rule) else rule


# samples


def edges(dtype: Any) -> np.ndarray:
    """The values of a dtype where things go wrong: zeros of both signs, ones, halves, subnormals, extremes, infinities, NaN."""
    d = np.dtype(dtype)
    if d == np.bool_:
        return np.array([False, True])
    if d in INT:
        info = ml_dtypes.iinfo(d)
        low, high = int(info.min), int(info.max)
        near = {v for v in (0, 1, 2, 3, 5, 7, -1, -2, -3, -7, low, low + 1, high, high - 1, high // 2 + 1, 100, 31, 8) if low <= v <= high}
        return np.array(sorted(near), np.int64 if low < 0 else np.uint64).astype(d)
    if d in COMPLEX:
        part = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-3, 30.0], np.empty(0, d).real.dtype)
        out = np.empty((len(part), len(part)), d)
        out.real, out.imag = part[:, None], part
        return out.reshape(-1)
    info = ml_dtypes.finfo(d)
    values = [
        0.0,
        0.5,
        1.0,
        1.5,
        2.0,
        2.5,
        3.0,
        0.25,
        10.0,
        100.0,
        1e-3,
        7.3,
        info.eps,
        info.smallest_normal,
        info.smallest_subnormal,
        info.max,
    ]
    with np.errstate(all="ignore"):
        positive = np.array([*map(float, values), np.inf, np.nan]).astype(d)
        return np.concatenate([positive, (-positive.astype(np.float64)).astype(d)])


def pairs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every element of `x` with every element of `y`, flat."""
    return np.repeat(x, len(y)), np.tile(y, len(x))


def ordered(domain: Domain) -> list[Any]:
    """The dtypes of a domain, in a fixed order."""
    return [d for d in dtypes.ALL if d in domain]


_MAIN = (dtypes.float32, dtypes.int32, dtypes.bool_, dtypes.complex64)


def finite_complex(x: np.ndarray) -> np.ndarray:
    """Complex numbers with components that are not finite replaced; others as they are."""
    if x.dtype.kind != "c":
        return x
    out = x.copy()
    out.real[~np.isfinite(x.real)] = 0.75
    out.imag[~np.isfinite(x.imag)] = -2
    return out


def unary_samples(
    domain: Domain, params: Sequence[dict[str, Any]] = ({},), clean: Callable[[np.ndarray], np.ndarray] = same
) -> Callable[[], Iterable[Any]]:
    """Edge values and random ones of each dtype, and awkward shapes; `clean` takes out what the op is not specified for."""

    def samples() -> Iterable[Any]:
        for p in params:
            for d in ordered(domain):
                yield (clean(edges(d)),), p
                yield (clean(filled((5, 7), d)),), p
            main = next((d for d in _MAIN if d in domain), None)
            if main is not None:
                for shape in [(), (1,), (0, 3), (2, 1, 3)]:
                    yield (clean(filled(shape, main, seed=1)),), p

    return samples


def nary_samples(domains: Sequence[Domain], params: Sequence[dict[str, Any]] = ({},)) -> Callable[[], Iterable[Any]]:
    """For each dtype of the first domain: all pairs of edge values, random ones; operands of rank 0 and of size 1 axes."""
    first = domains[0]

    def operands(shapes: Sequence[tuple[int, ...]], d: Any) -> tuple[np.ndarray, ...]:
        return tuple(filled(s, d, seed=k) for k, s in enumerate(shapes))

    def samples() -> Iterable[Any]:
        n = len(domains)
        for p in params:
            for d in ordered(first):
                x, y = pairs(edges(d)[:40], edges(d)[:40])
                yield (x, y, *[np.roll(x, 7)] * (n - 2))[:n], p
                yield operands([(5, 7)] * n, d), p
            main = next((d for d in _MAIN if d in first), None)
            if main is not None:
                for shapes in [
                    ((),) * n,
                    ((0, 3),) * n,
                    ((2, 3),) + ((),) * (n - 1),
                    ((),) + ((2, 3),) * (n - 1),
                    ((2, 1),) + ((1, 3),) * (n - 1),
                ]:
                    yield operands(shapes, main), p

    return samples


# constructors


def elementwise(
    name: str,
    *domains: Domain,
    oracle: Callable[..., Any],
    scalar: Callable[..., Scalar],
    exact: bool = False,
    ulps: float = 0.0,
    floor: float = 0.0,
    complex_ulps: float = 0.0,
    result: Callable[[Any], Any] = same,
    typ: Callable[..., Any] | None = None,
    samples: Callable[[], Iterable[Any]] | None = None,
    jvp: Any = None,
    transpose: Any = None,
    batch: Any = ELEMENTWISE,
    **fields: Any,
) -> Op:
    """An elementwise op of one operand for each domain. See `elementwise_typ`, `elementwise_lower`, `Oracle`.

    jvp        functions for `by_argument`; not needed where operands or results are neither floating nor complex
    transpose  functions for `by_operand`"""
    if samples is None:
        samples = unary_samples(domains[0]) if len(domains) == 1 else nary_samples(domains)
    if jvp is None and (result is to_bool or not domains[0] & (FLOAT | COMPLEX)):
        jvp = NO_DERIVATIVE
    return Op(
        name,
        typ=typ or elementwise_typ(name, *domains, result=result),
        oracle=Oracle(oracle, ulps, floor, complex_ulps),
        lower=elementwise_lower(scalar, exact),
        samples=samples,
        jvp=operandwise(jvp, by_argument),
        transpose=operandwise(transpose, by_operand),
        batch=batch,
        **fields,
    )


def unary(name: str, domain: Domain, **fields: Any) -> Op:
    """A function of one operand. Fields as of `elementwise`."""
    return elementwise(name, domain, **fields)


def binary(name: str, domain: Domain, **fields: Any) -> Op:
    """A function of two operands of one dtype."""
    return elementwise(name, domain, domain, **fields)


def compare(name: str, domain: Domain, **fields: Any) -> Op:
    """A relation of two operands of one dtype: a bool."""
    return elementwise(name, domain, domain, result=to_bool, exact=True, **fields)
