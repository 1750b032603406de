"""Folds over sliding windows: sums and extrema, folds by a computation, and the windows themselves as an array.

Sums and extrema fold one axis after the other, the last one first, each in ascending order of window elements (of more than `ALONG` of
them in the canonical order of reductions); window elements that lie outside the operand, or between its dilated elements, are the neutral
element. Narrow floats are folded in float32 and rounded once. Folds by a computation begin with the initial value, go through the window in
row-major order, and leave out what lies outside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray, typed_scalar
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr, open_jaxpr
from steno.core.op import OPS, Op
from steno.core.trace import trace_to_jaxpr
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Map, Read
from steno.ops.arithmetic import add, maximum, minimum, mul
from steno.ops.families import ANY, NUMBER, Domain, check_domain, converted, ordered
from steno.ops.inline import lanes_function, scalar_function
from steno.ops.oracle import Oracle, as_dtype, earlier, fold, highest, later, lowest, widen
from steno.ops.reduce import accumulator, reduce_, reduce_max, reduce_min, reduce_sum
from steno.ops.samples import filled, small
from steno.ops.sliding import Shape, Sliding, axes_of, both, counts, parameters, taps_at_most
from steno.transforms import rules
from steno.transforms.batching import batch_flat
from steno.transforms.forward import jvp_flat
from steno.transforms.linearize import linearize_flat
from steno.transforms.rules import LINEAR, Axis, ForOp, Linear, Zero, align, by_operand, zero_of

UNROLLED = 32
"""Windows of so many taps are folded by straight-line code, which fuses with what is around it."""
ALONG = 128
"""So are windows along one axis of so many."""

_PARAMETERS = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")


def geometry(
    shape: Shape,
    *,
    window_dimensions: Shape,
    window_strides: Shape,
    padding: Sequence[tuple[int, int]],
    base_dilation: Shape | None = None,
    window_dilation: Shape | None = None,
    **_: Any,
) -> tuple[Sliding, ...]:
    one = (1,) * len(shape)
    return axes_of(shape, window_dimensions, window_strides, padding, base_dilation or one, window_dilation or one)


def check_windows(op: str, x: ShapedArray, params: dict[str, Any]) -> None:
    """TypeError for parameters that do not fit the operand."""
    for name in _PARAMETERS:
        given = params.get(name)
        if given is None:
            continue
        if len(given) != x.ndim:
            raise TypeError(f"{op}: {name} must have one entry for each axis, got {given} for an operand of shape {x.shape}")
        if name != "padding" and any(n < 1 for n in given):
            raise TypeError(f"{op}: {name} must have every element be strictly positive, got {given}")


def with_axis(params: dict[str, Any], dim: int) -> dict[str, Any]:
    """The parameters with one more axis, along which each element is a window of its own."""
    out = dict(params)
    for name in _PARAMETERS:
        if params.get(name) is not None:
            given = params[name]
            out[name] = (*given[:dim], (0, 0) if name == "padding" else 1, *given[dim:])
    return out


def _batch_windows(op: Op) -> Callable[..., Any]:
    def batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], /, **params: Any) -> tuple[Any, int]:
        args, dim = align(axis, args, dims)
        return op(*args, **with_axis(params, dim)), dim

    return batch


WINDOWED = ForOp(_batch_windows)
"""batch of an op with window parameters for each axis of its operands."""


# the windows as an array


def _patches_typ(x: ShapedArray, *, fill: str, **params: Any) -> ShapedArray:
    check_windows("window_patches", x, params)
    axes = geometry(x.shape, **params)
    return x.update(shape=(*(a.window for a in axes), *counts(axes)))


def _fill(fill: str, dtype: Any) -> Any:
    return {"zero": lambda d: 0, "lowest": lowest, "highest": highest}[fill](dtype)


def _patches_oracle(x: np.ndarray, *, fill: str, **params: Any) -> np.ndarray:
    axes = geometry(x.shape, **params)
    n = len(axes)
    shape = (*(a.window for a in axes), *counts(axes))
    if not math.prod(shape) or not x.size:
        return np.full(shape, _fill(fill, x.dtype)).astype(x.dtype)
    at, present = [], np.ones((1,) * (2 * n), bool)
    for k, a in enumerate(axes):
        spread = [1] * (2 * n)
        spread[k], spread[n + k] = a.window, a.count
        index, inside = a.positions()
        at.append(index.reshape(spread))
        present = present & inside.reshape(spread)
    return np.where(present, x[tuple(at)], np.asarray(_fill(fill, x.dtype)).astype(x.dtype))


def _patches_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, fill: str, **params: Any) -> Map:
    dtype = avals_in[0].dtype
    axes = geometry(avals_in[0].shape, **params)

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        at: list[Index] = []
        guard: Expr | None = None
        outside = b.const(_fill(fill, dtype), dtype)
        for a, j, o in zip(axes, indices[: len(axes)], indices[len(axes) :], strict=True):
            position = o * a.stride + j * a.dilation - a.low
            if not a.size or position.hi < 0 or position.lo > (a.size - 1) * a.base:
                return outside
            if a.base > 1:
                guard = both(b, guard, b.eq(b.index(position % a.base), 0))
            if position.lo < 0:
                guard = both(b, guard, b.ge(b.index(position), 0))
            if position.hi > (a.size - 1) * a.base:
                guard = both(b, guard, b.le(b.index(position), (a.size - 1) * a.base))
            at.append(position // a.base)
        value = reads[0](at, guard)
        return value if guard is None else b.select(guard, value, outside)

    return Map(body, view=all(a.window == 1 for a in axes))


def _patches_transpose(ct: Any, x: Linear, *, fill: str, **params: Any) -> Any:
    return window_unpatch(ct, shape=x.shape, **params)


def _patches_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, fill: str, **params: Any) -> tuple[Any, Any]:
    return window_patches(*primals, fill=fill, **params), window_patches(*tangents, fill="zero", **params)


def _patches_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int], **params: Any) -> tuple[Any, int]:
    (x,), (d,) = args, dims
    out = window_patches(x, **with_axis(params, d))
    rank = x.ndim
    return rules.reshape(out, (*out.shape[:d], *out.shape[d + 1 :])), rank - 1 + d


def _window_samples(shapes: Sequence[Shape] = ((3, 4), (2, 5, 3), (7,))) -> Iterable[tuple[Shape, dict[str, Any]]]:
    """Shapes with window parameters of all kinds."""
    for shape in shapes:
        n = len(shape)
        for k, s, p, bd, wd in [
            (2, 1, 0, 1, 1), (2, 2, 0, 1, 1), (3, 2, 1, 1, 1), (3, 1, 2, 2, 1), (2, 3, 1, 2, 2), (3, 2, 1, 2, 1), (2, 1, 1, 3, 2),
            (3, 4, 2, 2, 3),
        ]:  # fmt: skip
            window = tuple(min(k, m + 2 * p) if a != 0 or n == 1 else 1 for a, m in enumerate(shape))
            yield shape, dict(
                window_dimensions=window, window_strides=(s,) * n, padding=tuple((p, p + (a % 2)) for a in range(n)),
                base_dilation=(bd,) * n, window_dilation=(wd,) * n,
            )  # fmt: skip
    one = dict(window_strides=(1,), base_dilation=(1,), window_dilation=(1,))
    yield (4,), dict(one, window_dimensions=(2,), padding=((-1, -1),))
    yield (4,), dict(one, window_dimensions=(6,), padding=((0, 0),))
    yield (0,), dict(one, window_dimensions=(2,), padding=((1, 1),))
    yield (3,), dict(one, window_dimensions=(2,), padding=((4, 5),))
    yield (), dict(window_dimensions=(), window_strides=(), padding=(), base_dilation=(), window_dilation=())


def _patches_samples() -> Iterable[Any]:
    for k, (shape, params) in enumerate(_window_samples()):
        yield (filled(shape, "float32"),), dict(params, fill=("zero", "lowest", "highest")[k % 3])


window_patches = Op(
    "window_patches",
    typ=_patches_typ,
    oracle=_patches_oracle,
    lower=_patches_lower,
    samples=_patches_samples,
    jvp=_patches_jvp,
    transpose=by_operand(_patches_transpose),
    batch=_patches_batch,
)
"""All windows: axes of window elements, then axes of windows. `fill` ("zero", "lowest", "highest"): what lies outside."""


def _unpatch_oracle(ct: np.ndarray, *, shape: Shape, **params: Any) -> np.ndarray:
    axes = geometry(shape, **params)
    n = len(axes)
    out = widen(ct)
    for k, a in reversed(list(enumerate(axes))):
        index, inside = a.turned().positions()  # rows: window elements from the last one down
        moved = np.moveaxis(np.moveaxis(out, n + k, 0), k + 1, 0)[::-1]  # the axes behind are gone from the windows, not yet from here
        acc = np.zeros((a.size, *moved.shape[2:]), out.dtype)
        for j in range(a.window):
            taken = moved[j][index[j]] if a.count else np.zeros_like(acc)
            acc = acc + np.where(inside[j].reshape(-1, *(1,) * (moved.ndim - 2)), taken, 0).astype(acc.dtype)
        out = np.expand_dims(np.moveaxis(acc, 0, n + k - 1), k)
    return as_dtype(out.reshape(shape), ct.dtype)


def _unpatch_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, shape: Shape, **params: Any) -> Map:
    axes = geometry(shape, **params)
    dtype = avals_out[0].dtype
    acc = accumulator(dtype)

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        def element(at: Sequence[Index], elements: Sequence[Index], guard: Expr | None) -> Scalar:
            return b.convert(reads[0]([*(-j + (a.window - 1) for a, j in zip(axes, elements, strict=True)), *at], guard), acc)

        turned = [a.turned() for a in axes]
        return b.convert(folded(b, turned, indices, element, b.const(0, acc), lambda p, q: b.add(p, q)), dtype)

    return Map(body)


def _unpatch_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int], *, shape: Shape, **params: Any) -> tuple[Any, int]:
    (x,), (d,) = args, dims
    n = len(shape)
    front = rules.move_axis(x, d, n)
    return window_unpatch(rules.insert_axis(front, 0), shape=(axis.size, *shape), **with_axis(params, 0)), 0


window_unpatch = Op(
    "window_unpatch",
    typ=lambda ct, *, shape, **params: ct.update(shape=shape),
    oracle=_unpatch_oracle,
    lower=_unpatch_lower,
    samples=lambda: (
        ((small((*(a.window for a in g), *counts(g)), "float32"),), dict(params, shape=shape))
        for shape, params in _window_samples()
        for g in [geometry(shape, **params)]
    ),
    jvp=LINEAR,
    transpose=by_operand(lambda ct, x, *, shape, **params: window_patches(ct, fill="zero", **params)),
    batch=_unpatch_batch,
)
"""The transpose of `window_patches`: sums each operand element's places in the windows, into an array of `shape`."""


# straight-line folds


def folded(
    b: Builder,
    axes: Sequence[Sliding],
    indices: Sequence[Index],
    element: Callable[[Sequence[Index], Sequence[Index], Expr | None], Scalar],
    identity: Scalar,
    combine: Callable[[Scalar, Scalar], Scalar],
) -> Scalar:
    """The nested folds over the windows of the result at `indices`. `element(at, window elements, guard)`."""

    def along(k: int, at: tuple[Index, ...], elements: tuple[Index, ...], guard: Expr | None) -> Scalar | None:
        if k == len(axes):
            value = element(at, elements, guard)
            return value if guard is None else b.select(guard, value, identity)
        acc = None
        for tap in axes[k].taps(b, indices[k]):
            value = along(k + 1, (*at, tap.at), (*elements, tap.element), both(b, guard, tap.guard))
            acc = value if acc is None else acc if value is None else combine(acc, value)
        return acc

    out = along(0, (), (), None)
    return identity if out is None else combine(identity, out)


# sums and extrema


def _typ(name: str, domain: Domain) -> Callable[..., ShapedArray]:
    def typ(x: ShapedArray, **params: Any) -> ShapedArray:
        check_domain(name, x, domain)
        check_windows(name, x, params)
        return ShapedArray(counts(geometry(x.shape, **params)), x.dtype, x.weak_type)

    return typ


def window_reduction(
    name: str,
    domain: Domain,
    whole: Op,
    *,
    identity: Callable[[Any], Any],
    fill: str,
    combine: Callable[[Builder, Scalar, Scalar], Scalar],
    oracle: Callable[[np.ndarray, np.ndarray], np.ndarray],
    jvp: Any,
    transpose: Any = None,
) -> Op:
    """A fold of the windows. `whole`: the op that reduces axes in the same way; `fill`: the neutral element, as of `window_patches`."""

    def specification(x: np.ndarray, **params: Any) -> np.ndarray:
        out = widen(x)
        start = np.asarray(identity(x.dtype)).astype(out.dtype)
        for k, a in reversed(list(enumerate(geometry(x.shape, **params)))):
            if a.plain and a.count == a.size:
                continue
            index, inside = a.positions()
            moved = np.moveaxis(out, k, 0)
            kept = moved.shape[1:]
            rows = moved[index] if a.size else np.full((a.window, a.count, *kept), start)
            rows = np.where(inside.reshape(*inside.shape, *(1,) * len(kept)), rows, start)
            if a.taps_at_most > ALONG:
                (acc,) = fold((rows,), (0,), (start,), lambda p, q: (oracle(p[0], q[0]),))
            else:
                acc = np.full(rows.shape[1:], start)
                for row in rows:
                    acc = oracle(acc, row).astype(out.dtype)
            out = np.moveaxis(acc, 0, k)
        out = out if out.ndim and any(not a.plain for a in geometry(x.shape, **params)) else oracle(np.full_like(out, start), out)
        return as_dtype(out, x.dtype)

    def lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> Map | None:
        axes = geometry(avals_in[0].shape, **params)
        several = sum(a.taps_at_most > 1 for a in axes) > 1
        if taps_at_most(axes) > (UNROLLED if several else ALONG):
            return None
        dtype = avals_in[0].dtype
        acc = accumulator(dtype)

        def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
            def element(at: Sequence[Index], elements: Sequence[Index], guard: Expr | None) -> Scalar:
                return b.convert(reads[0](at, guard), acc)

            out = folded(b, axes, indices, element, b.const(identity(dtype), acc), lambda p, q: combine(b, p, q))
            return b.convert(out, dtype)

        return Map(body)

    def expand(x: Any, **params: Any) -> Any:
        """One axis after the other."""
        out = converted(x, accumulator(x.dtype))
        for k, a in reversed(list(enumerate(geometry(x.shape, **params)))):
            if a.plain and a.count == a.size:
                continue
            one = tuple(a if d == k else Sliding(n, 1, 1, 0, 1, 1, n) for d, n in enumerate(out.shape))
            if a.taps_at_most <= ALONG:
                out = record(out, **parameters(one))
            else:
                patches = window_patches(out, fill=fill, **parameters(one))
                rows = rules.move_axis(rules.reshape(patches, (a.window, *counts(one))), 0, 0)
                shown = {"out_sharding": None}
                out = whole(rows, axes=(0,), **shown)
        return converted(out, x.dtype)

    def samples() -> Iterable[Any]:
        for shape, params in _window_samples():
            yield (filled(shape, "float32" if dtypes.float32 in domain else "int32"),), params
        same = dict(window_dimensions=(2, 2), window_strides=(1, 2), padding=((0, 1), (1, 0)), base_dilation=(1, 1), window_dilation=(1, 1))
        for d in ordered(domain):
            yield (filled((4, 5), d),), same
        for shape, window in [
            ((170, 3), (140, 1)),
            ((3, 170), (1, 140)),
            ((70, 3), (40, 1)),
            ((3, 70), (1, 40)),
            ((9, 8), (7, 7)),
            ((1, 250, 2), (1, 200, 1)),
            ((6, 70), (2, 50)),
        ]:
            n = len(shape)
            for d in ("float32", "bfloat16"):
                yield (
                    (small(shape, d),),
                    dict(
                        window_dimensions=window,
                        window_strides=(1,) * n,
                        padding=((2, 1),) * n,
                        base_dilation=(1,) * n,
                        window_dilation=(1,) * n,
                    ),
                )

    record = Op(
        name,
        typ=_typ(name, domain),
        oracle=Oracle(specification),
        lower=lower,
        expand=expand,
        samples=samples,
        jvp=jvp,
        transpose=transpose,
        batch=WINDOWED,
    )
    return record


def _sum_transpose(ct: Any, x: Linear, **params: Any) -> Any:
    """Each element gets the cotangents of the windows it is in: windows over these, with strides and base dilation exchanged."""
    return reduce_window_sum(ct, **parameters([a.turned() for a in geometry(x.shape, **params)]))


reduce_window_sum = window_reduction(
    "reduce_window_sum",
    NUMBER,
    reduce_sum,
    identity=lambda dtype: 0,
    fill="zero",
    combine=lambda b, p, q: b.add(p, q),
    oracle=np.add,
    jvp=LINEAR,
    transpose=by_operand(_sum_transpose),
)


def _extremum_jvp(select: str) -> Callable[..., tuple[Any, Any]]:
    """The tangent of the first extreme element of each window."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        op = OPS[{"ge": "reduce_window_max", "le": "reduce_window_min"}[select]]
        out = op(x, **params)
        if not rules.is_differentiable(out.aval):
            return out, zero_of(out)
        return out, OPS["select_and_gather_add"](t, x, select_prim=OPS[select], **params)

    return jvp


reduce_window_max = window_reduction(
    "reduce_window_max", ANY, reduce_max, identity=lowest, fill="lowest", combine=maximum, oracle=later, jvp=_extremum_jvp("ge")
)
"""NaN where there is one; the least value of the dtype where there is nothing."""
reduce_window_min = window_reduction(
    "reduce_window_min", ANY, reduce_min, identity=highest, fill="highest", combine=minimum, oracle=earlier, jvp=_extremum_jvp("le")
)


# folds by a computation


def _generic_typ(*avals: ShapedArray, jaxpr: Jaxpr | ClosedJaxpr, consts: tuple[Any, ...], **params: Any) -> list[ShapedArray]:
    n = len(avals) // 2
    operands, inits = avals[:n], avals[n:]
    if not operands or len(operands) != len(inits):
        raise TypeError(f"reduce_window takes operands and as many initial values, got {len(avals)} in all")
    if any(x.shape != operands[0].shape for x in operands):
        raise ValueError(f"reduce_window: operands must have one shape, got {', '.join(str(x.shape) for x in operands)}")
    if any(i.shape for i in inits):
        raise TypeError(f"reduce_window: initial values must be scalars, got shapes {[i.shape for i in inits]}")
    for x, i, y in zip(operands, inits, open_jaxpr(jaxpr).outvars, strict=True):
        if i.dtype != x.dtype or y.aval.dtype != x.dtype or y.aval.shape:
            raise TypeError(
                f"reduce_window: initial values and the computation's results must be scalars of the operands' dtypes, got "
                f"{i.str_short()} and {y.aval.str_short()} for {dtypes.name(x.dtype)}"
            )
    check_windows("reduce_window", operands[0], params)
    shape = counts(geometry(operands[0].shape, **params))
    return [ShapedArray(shape, x.dtype, x.weak_type and i.weak_type) for x, i in zip(operands, inits, strict=True)]


def _generic_oracle(*args: np.ndarray, jaxpr: Any, consts: tuple[Any, ...], **params: Any) -> list[np.ndarray]:
    n = len(args) // 2
    run = lanes_function(jaxpr)
    patches = [_patches_oracle(x, fill="zero", **params) for x in args[:n]]
    present = _patches_oracle(np.ones(args[0].shape, bool), fill="zero", **params)
    rank = args[0].ndim
    out = [np.full(p.shape[rank:], i) for p, i in zip(patches, args[n:], strict=True)]
    for place in np.ndindex(*present.shape[:rank]):
        new = run(*out, *(p[place] for p in patches))
        out = [np.where(present[place], y, o) for y, o in zip(new, out, strict=True)]
    return out


def _generic_lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, jaxpr: Any, consts: tuple[Any, ...], **params: Any
) -> Map | None:
    n = len(avals_out)
    axes = geometry(avals_in[0].shape, **params)
    if taps_at_most(axes) > 2 * UNROLLED:
        return None
    run = scalar_function(jaxpr)

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Any:
        acc = [r(()) for r in reads[n:]]
        for taps in itertools.product(*(a.taps(b, o) for a, o in zip(axes, indices, strict=True))):
            guard: Expr | None = None
            for t in taps:
                guard = both(b, guard, t.guard)
            new = run(b, *acc, *(r([t.at for t in taps], guard) for r in reads[:n]))
            acc = new if guard is None else [b.select(guard, y, o) for y, o in zip(new, acc, strict=True)]
        return acc

    return Map(body)


def _generic_expand(*args: Any, jaxpr: Any, consts: tuple[Any, ...], **params: Any) -> list[Any]:
    """The fold (`reduce`) of the windows as an array, along with whether their elements are there."""
    n = len(args) // 2
    operands, inits = args[:n], args[n:]
    closed = jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())
    ones = rules.full(operands[0].shape, True, dtypes.bool_)
    axes = tuple(range(len(operands[0].shape)))

    def step(*scalars: Any) -> list[Any]:
        acc, (present, *elements) = scalars[1 : n + 1], scalars[n + 1 :]
        out = eval_jaxpr(closed.jaxpr, closed.consts, *acc, *elements)
        return [scalars[0], *(OPS["select_n"](present, o, y) for o, y in zip(acc, out, strict=True))]

    scalars = [ShapedArray((), dtypes.bool_), *(ShapedArray((), x.dtype) for x in operands)]
    program = trace_to_jaxpr(step, scalars + scalars)
    patches = [window_patches(x, fill="zero", **params) for x in (ones, *operands)]
    return reduce_(*patches, typed_scalar(True, dtypes.bool_), *inits, computation=None, jaxpr=program, dimensions=axes)[1:]


def _generic_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    out, out_tangents, _ = jvp_flat(lambda *xs: (_generic_expand(*xs, **params), ()), primals, tangents)
    return out, out_tangents


def _generic_linearize(nonzero: Sequence[bool], *primals: Any, **params: Any) -> tuple[list[Any], Callable[..., list[Any]]]:
    out, varying, program, _ = linearize_flat(lambda *xs: (_generic_expand(*xs, **params), ()), primals, nonzero)

    def lin(*tangents: Any) -> list[Any]:
        moved = iter(eval_jaxpr(program.jaxpr, program.consts, *(t for t in tangents if type(t) is not Zero)))
        return [next(moved) if v else zero_of(y) for y, v in zip(out, varying, strict=True)]

    return out, lin


def _generic_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list[Any], list[Any]]:
    n = len(args) // 2
    if any(d is not None for d in dims[n:]):
        return batch_flat(lambda *xs: _generic_expand(*xs, **params), axis, args, dims)
    operands, dim = align(axis, args[:n], dims[:n])
    return reduce_window(*operands, *args[n:], **with_axis(params, dim)), [dim] * n


def _generic_samples() -> Iterable[Any]:
    def program(f: Callable[..., Any], *ds: Any) -> Any:
        return trace_to_jaxpr(f, [ShapedArray((), d) for d in ds + ds])

    f, i = dtypes.float32, dtypes.int32
    product = program(lambda p, x: [mul(p, x)], f)
    squares = program(lambda p, x: [add(p, mul(x, x))], f)
    union = program(lambda p, x: [OPS["or"](p, x)], dtypes.bool_)
    two = program(lambda p, k, x, j: [add(p, x), mul(k, j)], f, i)
    for k, (shape, params) in enumerate(_window_samples()):
        params = dict(params, jaxpr=(product, squares)[k % 2], consts=())
        yield (small(shape, f), np.float32(0.5)), params
    same = dict(
        window_dimensions=(2, 2), window_strides=(1, 2), padding=((0, 1), (1, 0)), base_dilation=(1, 1), window_dilation=(1, 1), consts=()
    )
    yield (small((4, 5), "bool"), np.bool_(False)), dict(same, jaxpr=union)
    yield (small((4, 5), f), small((4, 5), i), np.float32(1), np.int32(1)), dict(same, jaxpr=two)
    yield (small((12, 11), f), np.float32(0.5)), dict(same, jaxpr=squares, window_dimensions=(9, 8), window_strides=(1, 1))


reduce_window = Op(
    "reduce_window",
    typ=_generic_typ,
    oracle=_generic_oracle,
    lower=_generic_lower,
    expand=_generic_expand,
    multiple_results=True,
    samples=_generic_samples,
    jvp=_generic_jvp,
    linearize=_generic_linearize,
    batch=_generic_batch,
)
"""Operands, then their initial values. `jaxpr` takes accumulators, then elements, and gives accumulators; `consts` is empty."""
