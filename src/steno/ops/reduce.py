"""Reductions along axes: sums, products, extrema, logic, positions of extrema, and folds by a user's computation.

All but the last are folds in the canonical order (ir/loops.py), so results do not depend on layout, vector width or threads. Narrow floats
are accumulated in float32 and rounded once; integers wrap in their dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray, typed_scalar
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr, open_jaxpr
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ir.expr import I64, Builder, Expr, Scalar
from steno.ir.kinds import Cumulative, Reduce
from steno.ir.narrow import FORMATS
from steno.ops.arithmetic import add, div, less, max_, maximum, minimum, mul
from steno.ops.compare import eq, lt, select_n
from steno.ops.families import ANY, BOOL, INT, NUMBER, REAL, Domain, check_domain, converted, edges, later as op_named, operandwise, ordered
from steno.ops.inline import lanes_function, scalar_function
from steno.ops.join import concatenate
from steno.ops.oracle import Oracle, as_dtype, complex_mul, earlier, fold, highest, later, lowest, widen
from steno.ops.samples import filled, small
from steno.ops.scan import scan
from steno.ops.shape import broadcast_in_dim, pad, reshape, rev, slice_, squeeze, transpose
from steno.ops.structural import unchanged
from steno.transforms import rules
from steno.transforms.batching import batch_flat, batch_jaxpr
from steno.transforms.forward import jvp_flat
from steno.transforms.linearize import linearize_flat
from steno.transforms.rules import (
    LINEAR,
    ZERO as NO_DERIVATIVE,
    Axis,
    Linear,
    Zero,
    align,
    broadcast,
    by_argument,
    by_operand,
    full,
    permute,
    reduction as dropping,
    shifted,
    sum_over,
    to_dim,
    zero_of,
)

Shape = tuple[int, ...]


def check_axes(op: str, x: ShapedArray, axes: Sequence[int]) -> None:
    """ValueError for an axis the operand does not have, or that occurs twice."""
    if any(not 0 <= a < x.ndim for a in axes):
        raise ValueError(f"{op}: axes {tuple(axes)} are out of bounds for an operand of type {x.str_short()}; wanted 0 <= axis < {x.ndim}")
    if len(set(axes)) != len(axes):
        raise ValueError(f"{op}: duplicate value in 'axes' {tuple(axes)}")


def without(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(n for a, n in enumerate(shape) if a not in axes)


def accumulator(dtype: Any) -> Any:
    """What elements of a dtype are folded in: float32, int8 or uint8 for narrow dtypes, itself for others."""
    f = FORMATS.get(dtype)
    return dtype if f is None else f.value


cumprod = op_named("cumprod")


def previous(x: Any, axis: int, reverse: bool, first: Any) -> Any:
    """x moved by one place along an axis, to higher positions (lower ones with `reverse`), `first` coming in."""
    widths = (-1, 1, 0) if reverse else (1, -1, 0)
    return pad(x, full((), first, x.dtype), padding_config=tuple(widths if a == axis else (0, 0, 0) for a in range(len(x.shape))))


def reduction(
    name: str,
    domain: Domain,
    *,
    identity: Callable[[Any], Any],
    combine: Callable[[Builder, Scalar, Scalar], Scalar],
    oracle: Callable[[np.ndarray, np.ndarray], np.ndarray],
    filler: Callable[..., np.ndarray] = filled,
    jvp: Any = NO_DERIVATIVE,
    transpose: Callable[..., Any] | None = None,
) -> Op:
    """A fold of the elements along `axes`. `identity(dtype)`: the neutral element of the dtype; `oracle(acc, x)`: `combine` on ndarrays;
    `jvp(g, out, x, **params)` or a rule: the tangent; `transpose(ct, x, **params)`: the cotangent, of a linear one."""

    def typ(x: ShapedArray, *, axes: Shape, out_sharding: Any = None) -> ShapedArray:
        check_domain(name, x, domain)
        check_axes(name, x, axes)
        return ShapedArray(without(x.shape, axes), x.dtype, x.weak_type)

    def specification(x: np.ndarray, *, axes: Shape, out_sharding: Any = None) -> np.ndarray:
        if not axes:
            return x.copy()
        (out,) = fold((widen(x),), axes, (identity(x.dtype),), lambda p, q: (oracle(p[0], q[0]),))
        return as_dtype(out, x.dtype)

    def lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, axes: Shape, out_sharding: Any = None) -> Any:
        d = avals_in[0].dtype
        if not axes:
            return unchanged(avals_in, avals_out)
        acc = accumulator(d)
        return Reduce(
            axes=tuple(sorted(axes)),
            identity=lambda b: (b.const(identity(d), acc),),
            combine=lambda b, p, q: (combine(b, p[0], q[0]),),
            element=None if acc == d else lambda b, position, values: (b.convert(values[0], acc),),
            result=None if acc == d else lambda b, p: (b.convert(p[0], d),),
        )

    def samples() -> Iterable[Any]:
        for d in ordered(domain):
            yield (edges(d),), {"axes": (0,)}
            yield (filler((5, 70), d),), {"axes": (1,)}
            yield (filler((70, 5), d),), {"axes": (0,)}
            yield (np.zeros((0, 2), d),), {"axes": (0,)}
        main = dtypes.float32 if dtypes.float32 in domain else dtypes.int32
        for shape, axes in [
            ((), ()),
            ((3,), ()),
            ((3, 4), (0, 1)),
            ((3, 4), (1, 0)),
            ((2, 3, 4), (0, 2)),
            ((2, 3, 4), (1,)),
            ((1, 5), (0,)),
            ((5, 1), (1,)),
            ((3, 0), (0,)),
            ((0,), (0,)),
            ((1,), (0,)),
            ((63,), (0,)),
            ((64,), (0,)),
            ((65,), (0,)),
            ((200,), (0,)),
            ((4096,), (0,)),
            ((9000,), (0,)),
            ((2, 130, 70), (1, 2)),
        ]:
            yield (small(shape, main, 1) if math.prod(shape) > 1000 else filler(shape, main, 1),), {"axes": axes}

    return Op(
        name,
        typ=typ,
        oracle=Oracle(specification),
        lower=lower,
        samples=samples,
        jvp=operandwise(jvp, by_argument),
        transpose=operandwise(transpose, by_operand),
        batch=dropping("axes"),
    )


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda dtype: value


def _spread(ct: Any, x: Linear, *, axes: Shape, **_: Any) -> Any:
    return broadcast(ct, x.shape, [d for d in range(x.ndim) if d not in axes])


reduce_sum = reduction(
    "reduce_sum",
    NUMBER,
    identity=_constant(0),
    combine=lambda b, p, q: b.add(p, q),
    oracle=np.add,
    jvp=LINEAR,
    transpose=_spread,
)


def _prod_tangent(g: Any, out: Any, x: Any, *, axes: Shape, **_: Any) -> Any:
    if math.prod(x.shape[a] for a in axes) == 1:
        return sum_over(g, axes)
    return sum_over(mul(g, _product_of_others(x, axes)), axes)


def _product_of_others(x: Any, axes: Shape) -> Any:
    """For each element the product of the others along the axes: those before it times those behind it, whatever is zero."""
    order = (*axes, *(a for a in range(len(x.shape)) if a not in axes))
    if len(axes) == 1:
        flat, axis = x, axes[0]
    else:
        moved = permute(x, order)
        flat, axis = rules.reshape(moved, (math.prod(moved.shape[: len(axes)]), *moved.shape[len(axes) :])), 0
    if flat.shape[axis] == 2:
        out = rev(flat, dimensions=(axis,))
    else:
        out = mul(*(previous(cumprod(flat, axis=axis, reverse=r), axis, r, 1) for r in (False, True)))
    return out if len(axes) == 1 else permute(rules.reshape(out, moved.shape), [order.index(a) for a in range(len(order))])


reduce_prod = reduction(
    "reduce_prod",
    NUMBER,
    identity=_constant(1),
    combine=lambda b, p, q: b.mul(p, q),
    oracle=lambda p, q: complex_mul(p, q) if p.dtype.kind == "c" else np.multiply(p, q),
    jvp=_prod_tangent,
)


def _extremum_tangent(g: Any, out: Any, x: Any, *, axes: Shape, **_: Any) -> Any:
    """The mean over the elements that are extreme."""
    there = converted(eq(x, rules.reshape(out, tuple(1 if a in axes else n for a, n in enumerate(x.shape)))), x.dtype)
    return div(sum_over(mul(g, there), axes), sum_over(there, axes))


reduce_max = reduction("reduce_max", ANY, identity=lowest, combine=maximum, oracle=later, jvp=_extremum_tangent)
"""NaN if there is one; the least value of the dtype for no elements."""
reduce_min = reduction("reduce_min", ANY, identity=highest, combine=minimum, oracle=earlier, jvp=_extremum_tangent)

_LOGIC = BOOL | (INT - frozenset((dtypes.int2, dtypes.int4, dtypes.uint2, dtypes.uint4)))


def _all_bits(dtype: Any) -> Any:
    return True if dtype == dtypes.bool_ else -1 if dtype in dtypes.SIGNED else int(np.iinfo(dtype).max)


reduce_and = reduction("reduce_and", _LOGIC, identity=_all_bits, combine=lambda b, p, q: b.and_(p, q), oracle=np.bitwise_and)
reduce_or = reduction("reduce_or", _LOGIC, identity=_constant(0), combine=lambda b, p, q: b.or_(p, q), oracle=np.bitwise_or)
reduce_xor = reduction("reduce_xor", _LOGIC, identity=_constant(0), combine=lambda b, p, q: b.xor(p, q), oracle=np.bitwise_xor)

# positions of extrema

_NOWHERE = (1 << 63) - 1


def _arg_typ(name: str) -> Callable[..., ShapedArray]:
    def typ(x: ShapedArray, *, axes: Shape, index_dtype: Any) -> ShapedArray:
        check_domain(name, x, REAL)
        if len(axes) != 1:
            raise ValueError(f"{name}: axes must hold one axis, got {axes}")
        check_axes(name, x, axes)
        if index_dtype not in INT:
            raise TypeError(f"{name}: index_dtype must be an integer type, got {dtypes.name(index_dtype)}")
        if x.shape[axes[0]] < 1:
            raise ValueError(f"{name}: extrema require non-empty reduced dimensions, got an operand of shape {x.shape} and axis {axes[0]}")
        return ShapedArray(without(x.shape, axes), index_dtype)

    return typ


def _arg_oracle(position: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The first NaN, or the first of the extreme elements."""

    def run(x: np.ndarray, *, axes: Shape, index_dtype: Any) -> np.ndarray:
        v = widen(x)
        nan = v != v
        first = position(np.where(nan, np.zeros((), v.dtype), v), axis=axes[0])
        at = np.where(nan.any(axis=axes[0]), np.argmax(nan, axis=axes[0]), first)
        return as_dtype(at.astype(accumulator(index_dtype)), index_dtype)

    return run


def _arg_lower(neutral: Callable[[Any], Any], better: Callable[[Builder, Scalar, Scalar], Expr]) -> Callable[..., Reduce]:
    """Folds (value, position) pairs; `better(b, x, y)`: x wins over y."""

    def lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, axes: Shape, index_dtype: Any) -> Reduce:
        d = avals_in[0].dtype
        acc = accumulator(d)

        def combine(b: Builder, p: tuple[Scalar, ...], q: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
            (x, i), (y, j) = p, q
            tie = b.eq(x, y)
            wins = better(b, y, x)
            if dtypes.kind(d) == "f":
                x_nan, y_nan = b.is_nan(x), b.is_nan(y)
                tie = b.or_(tie, b.and_(x_nan, y_nan))
                wins = b.or_(wins, b.and_(y_nan, b.not_(x_nan)))
            take = b.or_(wins, b.and_(tie, b.lt(j, i)))
            return b.select(take, y, x), b.select(take, j, i)

        return Reduce(
            axes=axes,
            identity=lambda b: (b.const(neutral(d), acc), b.const(_NOWHERE, I64)),
            combine=combine,
            element=lambda b, position, values: (values[0] if acc == d else b.convert(values[0], acc), position),
            result=lambda b, p: (b.convert(p[1], index_dtype),),
        )

    return lower


def _arg_samples() -> Iterable[Any]:
    index = {"index_dtype": dtypes.int32}
    for d in ordered(REAL):
        yield (edges(d),), {"axes": (0,), **index}
        yield (filled((5, 70), d),), {"axes": (1,), **index}
        yield (filled((70, 5), d),), {"axes": (0,), **index}
    for values in [[1, 3, np.nan, 3, np.nan], [-0.0, 0.0, -0.0], [np.inf] * 3, [-np.inf] * 3, [2, 3, 3, 2]]:
        yield (np.array(values, np.float32),), {"axes": (0,), **index}
    for d in (dtypes.int64, dtypes.uint8, dtypes.int4):
        yield (small((300,), "int32"),), {"axes": (0,), "index_dtype": d}
        yield (np.arange(300, dtype=np.int32),), {"axes": (0,), "index_dtype": d}
    for shape, axis in [((2, 3, 4), 1), ((1, 2), 0), ((0, 3), 1), ((9000,), 0)]:
        yield (small(shape, "float32"),), {"axes": (axis,), **index}


argmax = Op(
    "argmax",
    typ=_arg_typ("argmax"),
    oracle=Oracle(_arg_oracle(np.argmax)),
    lower=_arg_lower(lowest, lambda b, x, y: less(b, y, x)),
    samples=_arg_samples,
    jvp=NO_DERIVATIVE,
    batch=dropping("axes"),
)
"""The position of the first NaN, else of the first greatest element, modulo the width of `index_dtype`."""
argmin = Op(
    "argmin",
    typ=_arg_typ("argmin"),
    oracle=Oracle(_arg_oracle(np.argmin)),
    lower=_arg_lower(highest, less),
    samples=_arg_samples,
    jvp=NO_DERIVATIVE,
    batch=dropping("axes"),
)

# folds by a computation


def _check_reduce(operands: Sequence[ShapedArray], inits: Sequence[ShapedArray], dimensions: Shape) -> None:
    shapes = [a.shape for a in operands]
    if not operands or len(operands) != len(inits):
        raise TypeError(f"reduce takes operands and as many initial values, got {len(operands)} operands and {len(inits)} initial values")
    if any(s != shapes[0] for s in shapes):
        raise TypeError(f"reduce: operands must have equal shapes, got {', '.join(map(str, shapes))}")
    if any(i.shape for i in inits):
        raise ValueError(f"reduce found non-scalar initial value, of shapes {', '.join(str(i.shape) for i in inits)}")
    for x, i in zip(operands, inits, strict=True):
        if x.dtype != i.dtype:
            raise TypeError(
                f"reduce: an initial value must have its operand's dtype, got {dtypes.name(i.dtype)} for {dtypes.name(x.dtype)}"
            )
    check_axes("reduce", operands[0], dimensions)


def _reduce_typ(*avals: ShapedArray, computation: Any, jaxpr: Jaxpr | ClosedJaxpr, dimensions: Shape) -> list[ShapedArray]:
    n = len(avals) // 2
    operands, inits = avals[:n], avals[n:]
    _check_reduce(operands, inits, dimensions)
    out = [v.aval for v in open_jaxpr(jaxpr).outvars]
    for x, o in zip(operands, out, strict=True):
        if o.shape or o.dtype != x.dtype:
            raise TypeError(
                f"reduce: the computation must give scalars of the operands' dtypes, got {o.str_short()} for {dtypes.name(x.dtype)}"
            )
    return [ShapedArray(without(x.shape, dimensions), x.dtype, x.weak_type and i.weak_type) for x, i in zip(operands, inits, strict=True)]


def _reduce_oracle(*args: np.ndarray, computation: Any, jaxpr: Any, dimensions: Shape) -> list[np.ndarray]:
    n = len(args) // 2
    operands, inits = args[:n], args[n:]
    run = lanes_function(jaxpr)
    axes = sorted(dimensions)
    kept = without(operands[0].shape, axes)
    count = math.prod(operands[0].shape[a] for a in axes)
    rows = [np.moveaxis(x, axes, range(len(axes))).reshape(count, *kept) for x in operands]
    acc = [np.broadcast_to(i, kept) for i in inits]
    for row in zip(*rows, strict=True):
        acc = [np.broadcast_to(y, kept) for y in run(*acc, *row)]
    return [np.array(a) for a in acc]


def _reduce_expand(*args: Any, computation: Any, jaxpr: Any, dimensions: Shape) -> list[Any]:
    """The last element of the running fold along a new first axis, which begins with the initial value."""
    n = len(args) // 2
    operands, inits = args[:n], args[n:]
    shape, axes = operands[0].shape, sorted(dimensions)
    kept = without(shape, axes)
    count = math.prod(shape[a] for a in axes)
    order = (*axes, *(a for a in range(len(shape)) if a not in axes))

    def row(x: Any, init: Any) -> Any:
        flat = reshape(transpose(x, permutation=order), dimensions=None, new_sizes=(count, *kept), sharding=None)
        return concatenate(broadcast_in_dim(init, shape=(1, *kept), broadcast_dimensions=(), sharding=None), flat, dimension=0)

    rows = [row(x, i) for x, i in zip(operands, inits, strict=True)]
    there = typed_scalar(True, dtypes.bool_)
    present = broadcast_in_dim(there, shape=(count + 1, *kept), broadcast_dimensions=(), sharding=None)
    start, limit = (count,) + (0,) * len(kept), (count + 1, *kept)
    _, *out = running_fold(present, *rows, jaxpr=jaxpr)
    return [squeeze(slice_(y, start_indices=start, limit_indices=limit, strides=None), dimensions=(0,)) for y in out]


def _running_oracle(present: np.ndarray, *rows: np.ndarray, jaxpr: Any) -> list[np.ndarray]:
    run = lanes_function(jaxpr)
    out = [x.copy() for x in rows]
    for k in range(1, len(present)):
        for o, y in zip(out, run(*(o[k - 1] for o in out), *(x[k] for x in rows)), strict=True):
            o[k] = y
    return [present.copy(), *out]


def _running_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, jaxpr: Any) -> Cumulative:
    """Accumulators hold nothing at first, as their flag says: a computation need not have a neutral element."""
    run = scalar_function(jaxpr)

    def combine(b: Builder, p: tuple[Any, ...], q: tuple[Any, ...]) -> tuple[Scalar, ...]:
        both = run(b, *p[1:], *q[1:])
        return (q[0], *(b.select(p[0], c, y) for c, y in zip(both, q[1:], strict=True)))

    return Cumulative(axis=0, reverse=False, identity=lambda b: tuple(b.const(0, a.dtype) for a in avals_in), combine=combine)


def _running_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Any) -> tuple[list[Any], list[int]]:
    out = running_fold(*(to_dim(x, d, 1, axis.size) for x, d in zip(args, dims, strict=True)), jaxpr=jaxpr)
    return out, [1] * len(out)


running_fold = Op(
    "running_fold",
    typ=lambda *avals, jaxpr: list(avals),
    oracle=_running_oracle,
    lower=_running_lower,
    multiple_results=True,
    batch=_running_batch,
)
"""Of use to `reduce` only: fold by a computation along axis 0, beginning with the first elements; the first operand is True throughout."""


def _reduce_samples() -> Iterable[Any]:
    def program(f: Callable[..., Any], *ds: Any) -> Any:
        return trace_to_jaxpr(f, [ShapedArray((), d) for d in ds + ds])

    f, i = dtypes.float32, dtypes.int32
    total = program(lambda p, x: [add(p, mul(x, x))], f)
    largest = program(lambda p, k, x, j: [max_(p, x), select_n(lt(p, x), k, j)], f, i)
    for shape, dims in [
        ((3, 4), (0,)),
        ((3, 4), (1,)),
        ((200,), (0,)),
        ((2, 3, 4), (0, 2)),
        ((0, 3), (0,)),
        ((1, 3), (0,)),
        ((3, 0), (0,)),
        ((2,), ()),
    ]:
        params = {"computation": None, "jaxpr": total, "dimensions": dims}
        yield (small(shape, f), np.float32(0.5)), params
        position = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
        yield (small(shape, f), position, np.float32(-np.inf), np.int32(-1)), {**params, "jaxpr": largest}


def _as_scan(*args: Any, computation: Any, jaxpr: Jaxpr | ClosedJaxpr, dimensions: Shape) -> list[Any]:
    """The fold as a loop over the elements to be folded, for what has no rule of its own: derivatives."""
    n = len(args) // 2
    shape, axes = args[0].shape, sorted(dimensions)
    kept = without(shape, axes)
    count, width = math.prod(shape[a] for a in axes), math.prod(kept)
    order = (*axes, *(a for a in range(len(shape)) if a not in axes))
    rows = [rules.reshape(permute(x, order), (count, width)) for x in args[:n]]
    closed = jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())
    body, _ = batch_jaxpr(closed, Axis(None, width), [True] * (2 * n), True)
    starts = [broadcast(i, (width,), ()) for i in args[n:]]
    out = scan(*starts, *rows, jaxpr=body, length=count, reverse=False, unroll=1, num_consts=0, num_carry=n)
    return [rules.reshape(y, kept) for y in out]


def _reduce_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    out, out_tangents, _ = jvp_flat(lambda *xs: (_as_scan(*xs, **params), ()), primals, tangents)
    return out, out_tangents


def _reduce_linearize(nonzero: Sequence[bool], *primals: Any, **params: Any) -> tuple[list[Any], Callable[..., list[Any]]]:
    out, varying, program, _ = linearize_flat(lambda *xs: (_as_scan(*xs, **params), ()), primals, nonzero)

    def lin(*tangents: Any) -> list[Any]:
        moved = iter(eval_jaxpr(program.jaxpr, program.consts, *(t for t in tangents if type(t) is not Zero)))
        return [next(moved) if v else zero_of(y) for y, v in zip(out, varying, strict=True)]

    return out, lin


def _reduce_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list[Any], list[Any]]:
    """Initial values that differ between elements of the batch are put in front of what is folded."""
    n = len(args) // 2
    if any(d is not None for d in dims[n:]):
        return batch_flat(lambda *xs: _reduce_expand(*xs, **params), axis, args, dims)
    operands, dim = align(axis, args[:n], dims[:n])
    dimensions = params["dimensions"]
    out = reduce_(*operands, *args[n:], **params | {"dimensions": shifted(dimensions, dim)})
    return out, [dim - sum(d < dim for d in dimensions)] * n


reduce_ = Op(
    "reduce",
    typ=_reduce_typ,
    oracle=_reduce_oracle,
    expand=_reduce_expand,
    multiple_results=True,
    samples=_reduce_samples,
    jvp=_reduce_jvp,
    linearize=_reduce_linearize,
    batch=_reduce_batch,
)
"""A fold by a computation, from the initial values on through the elements in row-major order: `jaxpr` takes accumulators, then elements,
and gives accumulators. Operands, then their initial values."""
