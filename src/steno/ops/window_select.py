"""The derivatives of windows' extrema: which element of each window is the extreme one, and what is taken from or put at its place.

Elements are looked at in row-major order; the next one replaces the chosen one unless `select_prim` (`ge` or `le`) holds between the chosen
and the next: so the first of equal elements is chosen, and behind a NaN the search begins anew. What lies outside is never chosen.
In windows of more than `UNROLLED` taps it is not specified which element is chosen beside a NaN."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import OPS, Op
from steno.ir.expr import I64, Builder, Expr, Scalar
from steno.ir.index import Index, Value, linear, unlinear
from steno.ir.kinds import Map, Read, Reduce, Update
from steno.ops.compare import ge, le
from steno.ops.families import FLOAT, NUMBER, REAL, check_domain
from steno.ops.oracle import as_dtype, widen
from steno.ops.reduce import accumulator
from steno.ops.reduce_window import (
    UNROLLED,
    WINDOWED,
    _patches_oracle,
    _window_samples,
    check_windows,
    folded,
    geometry,
    window_patches,
)
from steno.ops.samples import small
from steno.ops.shape import same_dtype
from steno.ops.sliding import Shape, Sliding, both, counts, parameters, taps_at_most
from steno.transforms import rules
from steno.transforms.rules import ZERO as NO_DERIVATIVE, Axis, Linear, Zero, align, by_operand, zero_of

I32 = dtypes.int32


def _chosen(values: np.ndarray, present: np.ndarray, select: Op) -> np.ndarray:
    """(elements, windows) --> the position of the chosen element; -1 where there is none."""
    wide = widen(values)
    best, where = np.zeros(wide.shape[1:], wide.dtype), np.full(wide.shape[1:], -1, np.int32)
    with np.errstate(all="ignore"):
        for k in range(len(wide)):
            keeps = best >= wide[k] if select is ge else best <= wide[k]
            take = present[k] & ~((where >= 0) & keeps)
            best, where = np.where(take, wide[k], best), np.where(take, np.int32(k), where)
    return where


def _keeps(b: Builder, select: Op, p: Scalar, q: Scalar) -> Expr:
    return b.ge(p, q) if select is ge else b.le(p, q)


# the position of the chosen element


def _arg_typ(x: ShapedArray, *, select_prim: Op, **params: Any) -> ShapedArray:
    check_domain("window_arg", x, REAL)
    check_windows("window_arg", x, params)
    return ShapedArray(counts(geometry(x.shape, **params)), I32)


def _arg_oracle(x: np.ndarray, *, select_prim: Op, **params: Any) -> np.ndarray:
    n = x.ndim
    values = _patches_oracle(x, fill="zero", **params)
    present = _patches_oracle(np.ones(x.shape, bool), fill="zero", **params)
    flat = (math.prod(values.shape[:n]), *values.shape[n:])
    return _chosen(values.reshape(flat), present.reshape(flat), select_prim)


def _arg_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, select_prim: Op, **params: Any) -> Map | None:
    axes = geometry(avals_in[0].shape, **params)
    if taps_at_most(axes) > UNROLLED:
        return None
    acc = accumulator(avals_in[0].dtype)
    window = tuple(a.window for a in axes)

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        best: Scalar | None = None
        where: Scalar = b.const(-1, I32)
        for taps in itertools.product(*(a.taps(b, o) for a, o in zip(axes, indices, strict=True))):
            guard: Expr | None = None
            for t in taps:
                guard = both(b, guard, t.guard)
            value = b.convert(reads[0]([t.at for t in taps], guard), acc)
            place = b.convert(b.index(linear([t.element for t in taps], window)), I32)
            if best is None:
                best = value
                where = place if guard is None else b.select(guard, place, where)
                continue
            take = both(b, guard, b.not_(b.and_(b.ge(where, 0), _keeps(b, select_prim, best, value))))
            assert take is not None
            best, where = b.select(take, value, best), b.select(take, place, where)
        return where

    return Map(body)


def _arg_expand(x: Any, *, select_prim: Op, **params: Any) -> Any:
    n = len(x.shape)
    values = window_patches(x, fill="zero", **params)
    present = window_patches(rules.full(x.shape, True, dtypes.bool_), fill="zero", **params)
    flat = (math.prod(values.shape[:n]), *values.shape[n:])
    return first_chosen(rules.reshape(values, flat), rules.reshape(present, flat), select_prim=select_prim)


window_arg = Op(
    "window_arg",
    typ=_arg_typ,
    oracle=_arg_oracle,
    lower=_arg_lower,
    expand=_arg_expand,
    samples=lambda: (
        ((small(shape, "float32"),), dict(params, select_prim=select)) for shape, params in _window_samples() for select in (ge, le)
    ),
    jvp=NO_DERIVATIVE,
    batch=WINDOWED,
)
"""For each window the row-major position of its chosen element, int32; -1 if it has none."""


def _first_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, select_prim: Op) -> Reduce:
    acc = accumulator(avals_in[0].dtype)

    def combine(b: Builder, p: tuple[Any, ...], q: tuple[Any, ...]) -> tuple[Scalar, ...]:
        before = b.lt(p[1], q[1])
        tie = b.and_(_keeps(b, select_prim, p[0], q[0]), _keeps(b, select_prim, q[0], p[0]))
        better = b.select(tie, b.not_(before), b.not_(_keeps(b, select_prim, p[0], q[0])))
        take = b.and_(b.ge(q[1], 0), b.or_(b.lt(p[1], 0), better))
        return b.select(take, q[0], p[0]), b.select(take, q[1], p[1])

    return Reduce(
        axes=(0,),
        identity=lambda b: (b.const(0, acc), b.const(-1, I64)),
        combine=combine,
        element=lambda b, position, values: (b.convert(values[0], acc), b.select(values[1], position, b.const(-1, I64))),
        result=lambda b, p: (b.convert(p[1], I32),),
    )


first_chosen = Op(
    "first_chosen",
    typ=lambda x, present, *, select_prim: ShapedArray(x.shape[1:], I32),
    oracle=lambda x, present, *, select_prim: _chosen(x, present, select_prim),
    lower=_first_lower,
    samples=lambda: [((small((70, 3), "float32"), small((70, 3), "bool")), dict(select_prim=s)) for s in (ge, le)],
    jvp=NO_DERIVATIVE,
    batch=lambda axis, args, dims, *, select_prim: (
        first_chosen(*(rules.to_dim(x, d, 1, axis.size) for x, d in zip(args, dims, strict=True)), select_prim=select_prim),
        0,
    ),
)
"""Of use to `window_arg` only: the same for all elements of a window along axis 0, and whether they are there."""


# what lies at chosen places


def _places(b: Builder, axes: Sequence[Sliding], indices: Sequence[Index], position: Scalar) -> list[Index]:
    """Where the element at `position` of the window at `indices` lies in the operand."""
    window = tuple(a.window for a in axes)
    size = math.prod(window)
    flat = Index(0, ((Value(b.convert(position, I64), 0, size - 1), 1),)) if size > 1 else Index(0)
    return [(o * a.stride + j * a.dilation - a.low) // a.base for a, o, j in zip(axes, indices, unlinear(flat, window), strict=True)]


def _np_places(axes: Sequence[Sliding], position: np.ndarray) -> tuple[np.ndarray, ...]:
    elements = np.unravel_index(np.maximum(position, 0), [a.window for a in axes])
    out = []
    for k, (a, j) in enumerate(zip(axes, elements, strict=True)):
        o = np.arange(a.count).reshape([-1 if d == k else 1 for d in range(len(axes))])
        out.append((o * a.stride + j * a.dilation - a.low) // a.base)
    return tuple(out)


def _take_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> Map:
    x = avals_in[0]
    axes = geometry(x.shape, **params)

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        zero = b.const(0, x.dtype)
        if not x.size:
            return zero
        position = reads[1](indices)
        there = b.ge(position, 0)
        return b.select(there, reads[0](_places(b, axes, indices, position), there), zero)

    return Map(body)


def _take_oracle(x: np.ndarray, position: np.ndarray, **params: Any) -> np.ndarray:
    if not x.size or not position.size:
        return np.zeros(position.shape, x.dtype)
    places = _np_places(geometry(x.shape, **params), position)
    inside = tuple(np.clip(p, 0, n - 1) for p, n in zip(places, x.shape, strict=True))
    return np.where(position >= 0, x[inside], np.zeros((), x.dtype)).astype(x.dtype)


def _take_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, int]:
    from_op = OPS["window_take"]
    args, dim = align(axis, args, dims)
    return WINDOWED.make(from_op)(axis, args, [dim] * len(args), **params)


def _positioned() -> Iterable[tuple[Shape, np.ndarray, dict[str, Any]]]:
    for shape, params in _window_samples():
        yield shape, _arg_oracle(small(shape, "float32"), select_prim=ge, **params), params


window_take = Op(
    "window_take",
    typ=lambda x, position, **params: x.update(shape=position.shape),
    oracle=_take_oracle,
    lower=_take_lower,
    samples=lambda: (((small(shape, "float32", 1), at), params) for shape, at, params in _positioned()),
    jvp=lambda primals, tangents, **params: (
        window_take(*primals, **params),
        window_take(tangents[0], primals[1], **params),
    ),
    transpose=lambda ct, x, position, **params: [window_put(ct, position, shape=x.shape, **params), None],
    batch=_take_batch,
)
"""The elements of an array at the places that `window_arg` gives; zero at -1."""


def _put_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, shape: Shape, **params: Any) -> Map | None:
    axes = geometry(shape, **params)
    turned = [a.turned() for a in axes]
    if taps_at_most(turned) > UNROLLED:
        return None
    dtype = avals_out[0].dtype
    acc = accumulator(dtype)
    window = tuple(a.window for a in axes)

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        def element(at: Sequence[Index], elements: Sequence[Index], guard: Expr | None) -> Scalar:
            own = linear([-j + (a.window - 1) for a, j in zip(axes, elements, strict=True)], window)
            here = b.eq(reads[1](at, guard), b.convert(b.index(own), I32))
            return b.select(here, b.convert(reads[0](at, guard), acc), b.const(0, acc))

        return b.convert(folded(b, turned, indices, element, b.const(0, acc), lambda p, q: b.add(p, q)), dtype)

    return Map(body)


def _put_oracle(ct: np.ndarray, position: np.ndarray, *, shape: Shape, **params: Any) -> np.ndarray:
    axes = geometry(shape, **params)
    if taps_at_most([a.turned() for a in axes]) > UNROLLED:
        return _add_oracle(np.zeros(shape, widen(ct).dtype), widen(ct), position, **params).astype(ct.dtype)
    window = [a.window for a in axes]
    elements = np.arange(math.prod(window)).reshape((*window, *(1,) * len(axes)))
    spread = np.where(position == elements, widen(ct), np.zeros((), widen(ct).dtype))
    return as_dtype(OPS["window_unpatch"].oracle(spread, shape=shape, **params), ct.dtype)


def _put_expand(ct: Any, position: Any, *, shape: Shape, **params: Any) -> Any:
    wide = OPS["convert_element_type"](ct, new_dtype=accumulator(ct.dtype), weak_type=False, sharding=None)
    out = window_add(rules.full(shape, 0, wide.dtype), wide, position, **params)
    return OPS["convert_element_type"](out, new_dtype=ct.dtype, weak_type=False, sharding=None)


def _put_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, shape: Shape, **params: Any) -> tuple[Any, int]:
    args, dim = align(axis, args, dims)
    batched = (*shape[:dim], axis.size, *shape[dim:])
    return WINDOWED.make(window_put)(axis, args, [dim] * 2, shape=batched, **params)


window_put = Op(
    "window_put",
    typ=lambda ct, position, *, shape, **params: ct.update(shape=shape),
    oracle=_put_oracle,
    lower=_put_lower,
    expand=_put_expand,
    samples=lambda: (((small(at.shape, "float32", 1), at), dict(params, shape=shape)) for shape, at, params in _positioned()),
    jvp=lambda primals, tangents, **params: (
        window_put(*primals, **params),
        window_put(tangents[0], primals[1], **params),
    ),
    transpose=lambda ct, x, position, *, shape, **params: [window_take(ct, position, **params), None],
    batch=_put_batch,
)
"""An array of `shape` in which each element is the sum of what the windows that chose it have in the operand: the transpose of
`window_take`."""


def _add_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> Update:
    axes = geometry(avals_in[0].shape, **params)

    def target(b: Builder, i: Sequence[Index], reads: Sequence[Read]) -> tuple[Sequence[Index], Expr | None]:
        position = reads[2](i)
        return _places(b, axes, i, position), b.ge(position, 0)

    apart = tuple(k for k, a in enumerate(axes) if a.window == 1)
    trailing = next((n for n, a in enumerate(reversed(axes)) if a.window != 1), len(axes))
    return Update(avals_in[1].shape, target, lambda b, i, reads, old: b.add(old, reads[1](i)), apart, trailing)


def _add_oracle(x: np.ndarray, ct: np.ndarray, position: np.ndarray, **params: Any) -> np.ndarray:
    out = x.copy()
    there = position >= 0
    places = _np_places(geometry(x.shape, **params), position)
    if out.size and position.size:
        np.add.at(out.reshape(-1), linear_places(out.shape, places, position)[there], ct[there])
    return out


def linear_places(shape: Shape, places: Sequence[np.ndarray], position: np.ndarray) -> np.ndarray:
    """Row-major positions of `places` in an array of this shape."""
    flat = np.zeros(position.shape, np.int64)
    for n, p in zip(shape, places, strict=True):
        flat = flat * n + p
    return flat


window_add = Op(
    "window_add",
    typ=lambda x, ct, position, **params: x,
    oracle=_add_oracle,
    lower=_add_lower,
    samples=lambda: (((small(shape, "float32", 2), small(at.shape, "float32", 1), at), params) for shape, at, params in _positioned()),
    batch=WINDOWED,
)
"""Of use to `window_put` only: the same for large windows that overlap much, one window after the other."""


# JAX's ops


def _gather_typ(t: ShapedArray, x: ShapedArray, *, select_prim: Op, **params: Any) -> ShapedArray:
    op = "select_and_gather_add"
    same_dtype(op, (t, x))
    if t.shape != x.shape:
        raise TypeError(f"{op}: tangents must have the operand's shape, got {t.shape} and {x.shape}")
    check_domain(op, x, FLOAT)
    check_windows(op, x, params)
    return ShapedArray(counts(geometry(x.shape, **params)), x.dtype)


def _gather_expand(t: Any, x: Any, *, select_prim: Op, **params: Any) -> Any:
    return window_take(t, window_arg(x, select_prim=select_prim, **params), **params)


def _gather_transpose(ct: Any, t: Linear, x: Any, *, base_dilation: Shape, window_dilation: Shape, **params: Any) -> list[Any]:
    if all(n == 1 for n in (*base_dilation, *window_dilation)):
        return [select_and_scatter_add(ct, x, **params), None]
    select_prim = params.pop("select_prim")
    params |= dict(base_dilation=base_dilation, window_dilation=window_dilation)
    return [window_put(ct, window_arg(x, select_prim=select_prim, **params), shape=x.shape, **params), None]


def _first_operand_jvp(name: str) -> Any:
    """Linear in the first operand; what is chosen changes nowhere but at ties."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        op = OPS[name]
        out = op(*primals, **params)
        return out, zero_of(out) if type(tangents[0]) is Zero else op(tangents[0], primals[1], **params)

    return jvp


def _gather_samples() -> Iterable[Any]:
    for shape, params in _window_samples():
        for select in (ge, le):
            yield (small(shape, "float32", 1), small(shape, "float32")), dict(params, select_prim=select)


select_and_gather_add = Op(
    "select_and_gather_add",
    typ=_gather_typ,
    oracle=lambda t, x, *, select_prim, **params: _take_oracle(t, _arg_oracle(x, select_prim=select_prim, **params), **params),
    expand=_gather_expand,
    samples=_gather_samples,
    jvp=_first_operand_jvp("select_and_gather_add"),
    transpose=_gather_transpose,
    batch=WINDOWED,
)
"""For each window of the second operand the first one's element at the chosen place."""


def _scatter_typ(source: ShapedArray, x: ShapedArray, *, select_prim: Op, **params: Any) -> ShapedArray:
    op = "select_and_scatter_add"
    same_dtype(op, (source, x))
    check_domain(op, x, NUMBER)
    check_windows(op, x, params)
    wanted = counts(geometry(x.shape, **params))
    if source.shape != wanted:
        raise TypeError(f"{op}: the source must have one element for each window, {wanted}, got shape {source.shape}")
    return ShapedArray(x.shape, x.dtype)


def _whole(x: Any, params: dict[str, Any]) -> dict[str, Any]:
    return parameters(geometry(x.shape, **params))


def _scatter_oracle(source: np.ndarray, x: np.ndarray, *, select_prim: Op, **params: Any) -> np.ndarray:
    whole = _whole(x, params)
    return _put_oracle(source, _arg_oracle(x, select_prim=select_prim, **whole), shape=x.shape, **whole)


def _scatter_expand(source: Any, x: Any, *, select_prim: Op, **params: Any) -> Any:
    whole = _whole(x, params)
    return window_put(source, window_arg(x, select_prim=select_prim, **whole), shape=x.shape, **whole)


def _scatter_transpose(ct: Any, source: Linear, x: Any, **params: Any) -> Any:
    one = (1,) * len(x.shape)
    return select_and_gather_add(ct, x, base_dilation=one, window_dilation=one, **params)


def _scatter_samples() -> Iterable[Any]:
    for shape, params in _window_samples():
        if any(n > 1 for n in (*params["base_dilation"], *params["window_dilation"])):
            continue
        shown = {k: params[k] for k in ("window_dimensions", "window_strides", "padding")}
        for select in (ge, le):
            yield (small(counts(geometry(shape, **params)), "float32", 1), small(shape, "float32")), dict(shown, select_prim=select)
    large = dict(window_dimensions=(7, 6), window_strides=(1, 1), padding=((1, 1), (1, 2)), select_prim=ge)
    yield (small(counts(geometry((9, 8), **large)), "float32", 1), small((9, 8), "float32")), large


select_and_scatter_add = Op(
    "select_and_scatter_add",
    typ=_scatter_typ,
    oracle=_scatter_oracle,
    expand=_scatter_expand,
    samples=_scatter_samples,
    jvp=_first_operand_jvp("select_and_scatter_add"),
    transpose=by_operand(_scatter_transpose, None),
    batch=WINDOWED,
)
"""An array like the second operand: the chosen element of each window is given the first operand's element (the sum of several)."""
