"""Reductions, positions of extrema, cumulative functions, sorting: along axes that are not negative."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from steno._native import ShapedArray
from steno.core import dtypes
from steno.core.aval import scalar_value
from steno.core.config import config
from steno.core.interpret import to_ndarray
from steno.core.jaxpr import ClosedJaxpr
from steno.core.pytree import tree_flatten, tree_unflatten
from steno.core.sizes import size_of, surely
from steno.core.trace import Tracer, trace_to_jaxpr
from steno.lax import elementwise as e, records as p
from steno.lax.operands import Array, ArrayLike, DTypeLike, Shape, as_array, as_operand, canonical_axis, check_dtype, convert, integers
from steno.lax.shape import broadcasted_iota, reshape
from steno.ops.oracle import highest, lowest


def _axes(fun: str, axes: Sequence[int], x: Any) -> Shape:
    out = integers(fun, "axes", tuple(axes))
    if len(set(out)) != len(out):
        raise ValueError(f"{fun}: duplicate value in 'axes' {out}")
    if any(not 0 <= a < x.aval.ndim for a in out):
        raise ValueError(
            f"{fun}: axes {out} are out of bounds for an operand of type {x.aval.str_short()}; wanted 0 <= axis < {x.aval.ndim}"
        )
    return out


def _check_precision(aval: Any, axes: Shape) -> None:
    """ValueError for a sum of more than one 16-bit float: the knob allow_f16_reductions is off."""
    if aval.dtype in (dtypes.float16, dtypes.bfloat16) and any(aval.shape[a] != 1 for a in axes):
        raise ValueError(
            f"reduce_sum of {aval.str_short()} is not allowed while jax_allow_f16_reductions is off: convert it to float32 first"
        )


def _reduction(op: Any, doc: str) -> Any:
    sharded = op.name in ("reduce_sum", "reduce_max", "reduce_min")
    shown = {"out_sharding": None} if sharded else {}  # JAX's parameter, for jaxprs to print alike

    def fun(operand: ArrayLike, axes: Sequence[int], **kwargs: Any) -> Array:
        if unknown := set(kwargs) - ({"out_sharding"} if sharded else set()):
            raise TypeError(f"{op.name}() got an unexpected keyword argument {unknown.pop()!r}")
        x = as_operand(op.name, operand)
        axes = _axes(op.name, axes, x)
        if op is p.reduce_sum_p and not config._state.allow_f16_reductions:
            _check_precision(x.aval, axes)
        return op(x, axes=axes, **shown)

    fun.__name__ = fun.__qualname__ = op.name
    fun.__doc__ = doc
    return fun


reduce_sum = _reduction(p.reduce_sum_p, "Sums over axes, of numbers.")
reduce_prod = _reduction(p.reduce_prod_p, "Products over axes, of numbers.")
reduce_max = _reduction(p.reduce_max_p, "Maxima over axes; NaN where one is NaN.")
reduce_min = _reduction(p.reduce_min_p, "Minima over axes; NaN where one is NaN.")
reduce_and = _reduction(p.reduce_and_p, "Whether all (of bools); the common bits (of integers).")
reduce_or = _reduction(p.reduce_or_p, "Whether any (of bools); the bits set in any (of integers).")
reduce_xor = _reduction(p.reduce_xor_p, "Whether an odd number (of bools); the parity of each bit (of integers).")


def _arg_reduction(op: Any, operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    x = as_operand(op.name, operand)
    k = operator.index(axis)
    if not 0 <= k < x.aval.ndim:
        raise ValueError(f"{op.name}: Invalid axis {axis} for operand of shape {x.aval.shape}; wanted 0 <= axis < {x.aval.ndim}")
    if x.aval.shape[k] < 1:
        raise ValueError(
            f"{op.name}: extrema require non-empty reduced dimensions, there are no elements along axis {k} of an operand of shape "
            f"{x.aval.shape}"
        )
    d = check_dtype(index_dtype, op.name)
    if not dtypes.is_integer(d):
        raise TypeError(f"{op.name}: index_dtype must be an integer type, got {dtypes.name(d)}")
    return op(x, axes=(k,), index_dtype=d)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The first position of the maximum along an axis; that of the first NaN, if there is one."""
    return _arg_reduction(p.argmax_p, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The first position of the minimum along an axis; that of the first NaN, if there is one."""
    return _arg_reduction(p.argmin_p, operand, axis, index_dtype)


def _cumulative(op: Any, doc: str) -> Callable[..., Array]:
    def fun(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        x = as_operand(op.name, operand)
        k = operator.index(axis)
        if k < 0:
            raise ValueError(f"{op.name}: axis must not be negative, got {axis}")
        if k >= x.aval.ndim:
            raise ValueError(f"{op.name}: axis {axis} is out of bounds for an operand of shape {x.aval.shape}")
        return op(x, axis=k, reverse=bool(reverse))

    fun.__name__ = fun.__qualname__ = op.name
    fun.__doc__ = doc
    return fun


cumsum = _cumulative(p.cumsum_p, "Running sums along an axis.")
cumprod = _cumulative(p.cumprod_p, "Running products along an axis.")
cummax = _cumulative(p.cummax_p, "Running maxima along an axis.")
cummin = _cumulative(p.cummin_p, "Running minima along an axis.")
cumlogsumexp = _cumulative(p.cumlogsumexp_p, "Running logarithms of sums of exponentials along an axis.")


# what folds by an op are, and its neutral element for a dtype
_MONOIDS: Final[dict[str, tuple[Any, Callable[[Any], Any]]]] = {
    "add": (reduce_sum, lambda dtype: 0),
    "mul": (reduce_prod, lambda dtype: 1),
    "max": (reduce_max, lowest),
    "min": (reduce_min, highest),
    "and": (reduce_and, lambda dtype: dtype == np.bool_ or -1),
    "or": (reduce_or, lambda dtype: 0),
    "xor": (reduce_xor, lambda dtype: 0),
}


def _folded_by_op(x: Array, start: Any, program: ClosedJaxpr, axes: Sequence[int]) -> Array | None:
    """A fold whose computation is one commutative op, as that op's reduction, combined with the initial value unless it is neutral; None
    for other computations."""
    jaxpr = program.jaxpr
    if len(jaxpr.eqns) != 1 or jaxpr.eqns[0].outvars != jaxpr.outvars:
        return None
    (eqn,) = jaxpr.eqns
    found = _MONOIDS.get(eqn.op.name)
    dtype = x.aval.dtype
    if found is None or eqn.params or set(eqn.invars) != set(jaxpr.invars) or dtype in dtypes.INTEGERS and dtypes.itemsize_bits(dtype) < 8:
        return None
    fold, neutral = found
    out = fold(x, axes)
    if isinstance(start, Tracer) or to_ndarray(start) != scalar_value(neutral(dtype), dtype):
        out = eqn.op(start, out)
    return out


def reduce(
    operands: Any, init_values: Any, computation: Callable[[Any, Any], Any], dimensions: Sequence[int], out_sharding: Any = None
) -> Any:
    """Folds (trees of) arrays over axes by a computation on scalars, in an order it may not depend on."""
    xs, tree = tree_flatten(operands)
    starts, start_tree = tree_flatten(init_values)
    if tree != start_tree:
        raise ValueError(f"reduce: Operands must have the same tree structure as init_values, got {tree} and {start_tree}")
    xs = [as_operand("reduce", x, k) for k, x in enumerate(xs)]
    starts = [as_operand("reduce", x, k) for k, x in enumerate(starts)]
    for x, start in zip(xs, starts, strict=True):
        if start.aval.shape:
            raise ValueError(f"reduce found non-scalar initial value of shape {start.aval.shape}")
        if start.aval.dtype != x.aval.dtype:
            raise TypeError(
                f"reduce: initial values must have the dtypes of the operands, got {start.aval.str_short()} for {x.aval.str_short()}"
            )
    scalars = [ShapedArray((), x.aval.dtype) for x in xs]

    def flat(*args: Any) -> list[Any]:
        left, right = tree_unflatten(tree, args[: len(xs)]), tree_unflatten(tree, args[len(xs) :])
        return [as_operand("reduce", y) for y in tree_flatten(computation(left, right))[0]]

    program = trace_to_jaxpr(flat, scalars + scalars)
    folded = _folded_by_op(xs[0], starts[0], program, dimensions) if len(xs) == 1 else None
    out = [folded]
    if folded is None:
        out = p.reduce_p(*xs, *starts, computation=flat, jaxpr=program, dimensions=_axes("reduce", dimensions, xs[0]))
    weak = [x.aval.weak_type and start.aval.weak_type for x, start in zip(xs, starts, strict=True)]
    return tree_unflatten(tree, [convert(y, y.aval.dtype, w) for y, w in zip(out, weak, strict=True)])


# sorting


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """One array sorted along an axis; or several of one shape, sorted together by the first `num_keys`. NaNs come last."""
    several = isinstance(operand, Sequence) and not isinstance(operand, str)
    if several and not operand:
        raise TypeError("sort: there are no operands")
    xs = [as_operand("sort", x, k) for k, x in enumerate(operand if several else (operand,))]
    if not 1 <= num_keys <= len(xs):
        raise ValueError(f"sort: num_keys must lie between 1 and the number of operands, {len(xs)}, got {num_keys}")
    if any(x.aval.shape != xs[0].aval.shape for x in xs):
        raise TypeError(f"sort: operands must have one shape, got {', '.join(str(x.aval.shape) for x in xs)}")
    axis = canonical_axis(dimension, xs[0].aval.ndim)
    out = p.sort_p(*xs, dimension=axis, is_stable=bool(is_stable), num_keys=int(num_keys))
    return tuple(out) if several else out[0]


def sort_key_val(keys: Array, values: ArrayLike, dimension: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Keys sorted along an axis, and the values moved along with them."""
    k, v = sort((keys, values), dimension=dimension, is_stable=is_stable, num_keys=1)
    return k, v


_GREATEST: Final = np.iinfo(np.int32).max


def top_k(operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True) -> list[Array]:
    """The k greatest elements along an axis, in descending order, and their positions (int32); equal ones in order of position.

    >>> lax.top_k(jnp.array([1, 5, 3]), 2)
    [Array([5, 3], dtype=int32), Array([1, 2], dtype=int32)]
    """
    x = as_array("top_k", operand)
    k = size_of(k)
    if k < 0:
        raise ValueError(f"top_k: k must not be negative, got {k}")
    if dtypes.is_complex(x.dtype):
        raise ValueError(f"top_k: complex numbers have no order, got dtype {dtypes.name(x.dtype)}")
    if not x.ndim:
        raise TypeError("top_k: a scalar has no axis")
    axis = canonical_axis(axis, x.ndim)
    if surely(lambda: x.shape[axis] > _GREATEST):
        raise ValueError(f"top_k returns int32 indices, which will overflow along an axis of size {x.shape[axis]}")
    if k > x.shape[axis]:
        raise ValueError(f"top_k: k must be no larger than the size of the axis, got k={k} for shape {x.shape} and axis {axis}")
    return list(p.top_k_p(x, k=k, axis=axis, is_stable=bool(is_stable)))


def batched_positions(x: Array, axis: int) -> Array:
    """int32 positions along an axis, in the shape of x."""
    return broadcasted_iota(np.int32, x.shape, axis)


__all__ = [
    "argmax", "argmin", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "e", "reduce_and", "reduce_max", "reduce_min", "reduce_or",
    "reduce_prod", "reduce_sum", "reduce_xor", "reshape", "sort", "sort_key_val", "top_k",
]  # fmt: skip
