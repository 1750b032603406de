"""Folds over sliding windows, and how windows are padded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from steno._native import ShapedArray
from steno.core import dtypes
from steno.core.aval import scalar_value
from steno.core.interpret import to_ndarray
from steno.core.jaxpr import ClosedJaxpr
from steno.core.pytree import tree_flatten, tree_unflatten
from steno.core.trace import Tracer, trace_to_jaxpr
from steno.lax.operands import Array, Shape, as_operand, convert, integers
from steno.ops.oracle import highest, lowest
from steno.ops.reduce_window import (
    reduce_window as reduce_window_p,
    reduce_window_max as reduce_window_max_p,
    reduce_window_min as reduce_window_min_p,
    reduce_window_sum as reduce_window_sum_p,
)
from steno.ops.sliding import dilated, padtype_to_pads, slid
from steno.ops.window_select import select_and_gather_add as select_and_gather_add_p, select_and_scatter_add as select_and_scatter_add_p

Padding = str | Sequence[tuple[int, int]]

_MONOIDS: Final[dict[str, tuple[Any, Callable[[Any], Any]]]] = {
    "add": (reduce_window_sum_p, lambda dtype: 0),
    "max": (reduce_window_max_p, lowest),
    "min": (reduce_window_min_p, highest),
}


def explicit_padding(
    fun: str, padding: Any, sizes: Sequence[int], windows: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """A padding argument as (low, high) of each axis. `windows` are dilated. ValueError for another number of pairs."""
    if isinstance(padding, str) or hasattr(padding, "name"):
        return tuple(padtype_to_pads(sizes, windows, strides, padding))
    try:
        pairs = [integers(fun, "padding", tuple(p)) for p in padding]
    except TypeError:
        raise TypeError(f"{fun}: padding must be a string or a sequence of pairs of integers, got {padding!r}") from None
    if len(pairs) != len(sizes) or any(len(p) != 2 for p in pairs):
        raise ValueError(f"{fun}: padding must have one (low, high) for each of {len(sizes)} axes, got {padding}")
    return tuple((low, high) for low, high in pairs)


def _per_axis(name: str, given: Sequence[int] | None, rank: int) -> Shape:
    return (1,) * rank if given is None else integers("reduce_window", name, given)


def _window_parameters(shape: Shape, window: Sequence[int], strides: Any, padding: Any, base: Any, dilation: Any) -> dict[str, Any]:
    """TypeError for numbers of entries that do not fit, or entries that are not positive."""
    rank = len(shape)
    out = {
        "window_dimensions": integers("reduce_window", "window_dimensions", window),
        "window_strides": _per_axis("window_strides", strides, rank),
        "base_dilation": _per_axis("base_dilation", base, rank),
        "window_dilation": _per_axis("window_dilation", dilation, rank),
    }
    for name, given in out.items():
        if len(given) != rank:
            raise TypeError(f"reduce_window: {name} must have one entry for each axis of the operand, of shape {shape}, got {given}")
        if any(n < 1 for n in given):
            raise TypeError(f"reduce_window: {name} must have every element be strictly positive, got {given}")
    windows = [dilated(n, d) for n, d in zip(out["window_dimensions"], out["window_dilation"], strict=True)]
    out["padding"] = explicit_padding("reduce_window", padding, shape, windows, out["window_strides"])
    return out


def _by_op(x: Array, start: Any, program: ClosedJaxpr) -> Any:
    """The op that folds windows as the computation does from its neutral element; None if there is none."""
    jaxpr = program.jaxpr
    if len(jaxpr.eqns) != 1 or jaxpr.eqns[0].outvars != jaxpr.outvars:
        return None
    (eqn,) = jaxpr.eqns
    found, dtype = _MONOIDS.get(eqn.op.name), x.aval.dtype
    if found is None or eqn.params or set(eqn.invars) != set(jaxpr.invars) or isinstance(start, Tracer):
        return None
    op, neutral = found
    if dtype == dtypes.bool_ and op is reduce_window_sum_p:
        return None
    return op if to_ndarray(start) == scalar_value(neutral(dtype), dtype) else None


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Folds the windows of (trees of) arrays by a computation on scalars, from the initial value on, which must be neutral where padding is
    to make no difference.

    padding: "VALID", "SAME", "SAME_LOWER" (of the operand as if it were not dilated) or (low, high) of each axis; base_dilation,
    window_dilation: distances of neighbours in the operand and in the window. Sums, maxima and minima from their neutral elements have
    derivatives as fast as themselves, other folds those of a loop."""
    xs, tree = tree_flatten(operand)
    starts, start_tree = tree_flatten(init_value)
    if tree != start_tree:
        raise ValueError(f"reduce_window: operands and initial values must have one tree structure, got {tree} and {start_tree}")
    if not xs:
        raise ValueError("reduce_window must have at least one operand.")
    xs = [as_operand("reduce_window", x, k) for k, x in enumerate(xs)]
    starts = [as_operand("reduce_window", x, k) for k, x in enumerate(starts)]
    if any(x.aval.shape for x in starts):
        raise TypeError(f"reduce_window expected init_values to be scalars but init_values have shapes {[x.aval.shape for x in starts]}.")
    if any(x.aval.shape != xs[0].aval.shape for x in xs):
        raise ValueError(f"reduce_window: operands must have one shape, got {', '.join(str(x.aval.shape) for x in xs)}")
    for x, start in zip(xs, starts, strict=True):
        if x.aval.dtype != start.aval.dtype:
            raise TypeError(
                f"reduce_window: initial values must have the dtypes of the operands, got {start.aval.str_short()} for {x.aval.str_short()}"
            )
    params = _window_parameters(xs[0].aval.shape, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    scalars = [ShapedArray((), x.aval.dtype) for x in xs]

    def flat(*args: Any) -> list[Any]:
        left, right = tree_unflatten(tree, args[: len(xs)]), tree_unflatten(tree, args[len(xs) :])
        out, out_tree = tree_flatten(computation(left, right))
        if out_tree != tree:
            raise ValueError(f"reduce_window output must have the same tree structure as the operands, {tree}, got {out_tree}")
        return [as_operand("reduce_window", y) for y in out]

    program = trace_to_jaxpr(flat, scalars + scalars)
    if len(xs) == 1:
        op = _by_op(xs[0], starts[0], program)
        if op is not None:
            return tree_unflatten(tree, [op(xs[0], **params)])
    jaxpr = program if program.consts else program.jaxpr
    out = reduce_window_p(*xs, *starts, jaxpr=jaxpr, consts=(), **params)
    return tree_unflatten(tree, [convert(y, y.aval.dtype) for y in out])


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Shape:
    """The shape of `reduce_window`'s result for explicit padding."""
    one = (1,) * len(operand_shape)
    axes = zip(
        operand_shape, window_dimensions, window_strides, padding, base_dilation or one, window_dilation or one, strict=True
    )  # fmt: skip
    return tuple(slid(n, k, s, (p[0], p[1]), b, d) for n, k, s, p, b, d in axes)


__all__ = [
    "explicit_padding", "padtype_to_pads", "reduce_window", "reduce_window_max_p", "reduce_window_min_p", "reduce_window_p",
    "reduce_window_shape_tuple", "reduce_window_sum_p", "select_and_gather_add_p", "select_and_scatter_add_p",
]  # fmt: skip
