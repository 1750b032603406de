"""Choosing elements by conditions: where, select, nonzero and their relations.

What depends on how many elements are true has a static size: `size=`, or the count itself where the values are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno import lax
from steno._native import config_token
from steno.core import dtypes
from steno.core.errors import ConcretizationTypeError
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy.operands import (
    PYTHON_SCALARS,
    Array,
    ArrayLike,
    as_array,
    broadcast_shapes,
    broadcast_to,
    canonical_axis,
    check_arraylike,
    concrete,
    convert,
    from_host,
    no_out,
    operand,
    promoted,
    static_index,
    strong,
    type_of,
)


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of the elements that are not 0, one vector for each axis.

    With `size`, so many: surplus ones are left out, missing ones are `fill_value` (0 by default; a tuple: one for each axis).

    >>> jnp.nonzero(jnp.array([0, 3, 4]))
    (Array([1, 2], dtype=int32),)
    """
    x = as_array("nonzero", a)
    if x.ndim == 0:
        raise ValueError("nonzero: a scalar has no axes; use jnp.atleast_1d(x).nonzero()")
    mask = e.as_bool(x)
    index = dtypes.default_int()
    if size is None:
        host = concrete(mask)
        if host is None:
            raise ConcretizationTypeError(
                mask, "nonzero: without `size` the number of results depends on the values, which must be known while tracing."
            )
        return tuple(from_host(v.astype(index)) for v in np.nonzero(host))
    n = static_index("nonzero", size, "size")
    fills = (fill_value,) * x.ndim if not isinstance(fill_value, tuple) else fill_value
    if len(fills) != x.ndim:
        raise ValueError(f"nonzero: fill_value must be a scalar or have one entry for each of the {x.ndim} axes, got {len(fills)}")
    if x.size == 0 or n == 0:
        return tuple(lax.full((n,), 0 if f is None else f, index) for f in fills)
    # the position of the k-th true element is the number of positions whose count of true ones so far is at most k
    flat = lax.reshape(mask, (x.size,))
    counts = p.cumsum_p(convert(flat, index), axis=0, reverse=False)
    bins = lax.scatter_add(
        lax.full((n,), 0, index),
        lax.reshape(counts, (x.size, 1)),
        lax.full((x.size,), 1, index),
        lax.ScatterDimensionNumbers((), (0,), (0,)),
    )
    positions = p.cumsum_p(bins, axis=0, reverse=False)
    missing = p.ge_p(lax.iota(index, n), lax.slice_in_dim(counts, x.size - 1, x.size))
    out = []
    stride = x.size
    for extent, f in zip(x.shape, fills, strict=True):
        stride //= extent
        v = e.remainder(e.floor_divide(positions, stride), extent)
        fill = strong(convert(as_array("nonzero", 0 if f is None else f), index))
        out.append(e.where(missing, fill, v))
    return tuple(out)


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The positions in the flattened array of the elements that are not 0; `size` and `fill_value` as of `nonzero`."""
    x = as_array("flatnonzero", a)
    return nonzero(lax.reshape(x, (x.size,)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of the elements that are not 0, as rows; `size` and `fill_value` as of `nonzero`."""
    x = as_array("argwhere", a)
    if x.ndim == 0:
        host = concrete(x)
        n = size if host is None or size is not None else int(bool(host))
        return lax.full((0 if n is None else n, 0), 0, dtypes.default_int())
    return lax.stack(nonzero(x, size=size, fill_value=fill_value), 1)


_plans: dict[Any, Any] = {}
_PLANS_LIMIT = 4096


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """x where the condition holds (is not 0), else y, broadcast together. With the condition alone, its `nonzero`.

    >>> jnp.where(jnp.array([True, False]), 1, 2)
    Array([1, 2], dtype=int32, weak_type=True)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise ValueError("where: size and fill_value go with the condition alone, not with x and y")
    c = operand("where", condition, 0) if type(condition) not in PYTHON_SCALARS else as_array("where", condition)
    key: Any = [c.aval]
    operands = [x, y]
    for k in (0, 1):
        v = operands[k]
        if type(v) in PYTHON_SCALARS:
            key.append(type(v))
        else:
            operands[k] = v = operand("where", v, k + 1)
            key.append(v.aval)
    key = (*key, config_token())
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= _PLANS_LIMIT:
            _plans.clear()
        plan = _plans[key] = _plan(c, *operands)
    spread, on_true, on_false = plan
    c = e.as_bool(c)
    if spread is not None:
        c = broadcast_to(c, spread)
    return p.select_n_p(c, on_false(operands[1]), on_true(operands[0]))


def _plan(c: Any, x: Any, y: Any) -> Any:
    """(what the condition is broadcast to, what is done to x, what is done to y)."""
    dtype, weak = dtypes.promote(type_of(x), type_of(y))
    weak = weak and dtype != dtypes.bool_
    shapes = [() if type(v) in PYTHON_SCALARS else v.aval.shape for v in (x, y)]
    shape = broadcast_shapes(c.aval.shape, *shapes)

    def step(v: Any, own: tuple[int, ...]) -> Callable[[Any], Any]:
        if type(v) not in PYTHON_SCALARS and own == shape and v.aval.dtype == dtype and (not v.aval.weak_type or weak):
            return lambda v: v
        return lambda v: broadcast_to(convert(v, dtype, weak), shape)

    return (shape if c.aval.shape and c.aval.shape != shape else None), step(x, shapes[0]), step(y, shapes[1])


def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Array:
    """The choice of the first condition that holds, else the default."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"select: there must be as many choices as conditions, got {len(choicelist)} and {len(condlist)}")
    if not len(condlist):
        raise ValueError("select: there are no conditions")
    check_arraylike("select", *condlist, *choicelist, default)
    *choices, out = promoted("select", *choicelist, default)
    conditions = [e.as_bool(as_array("select", c)) for c in condlist]
    shape = broadcast_shapes(*(c.shape for c in conditions), *(c.shape for c in choices), out.shape)
    out = broadcast_to(out, shape)
    for c, x in zip(reversed(conditions), reversed(choices), strict=True):
        out = p.select_n_p(broadcast_to(c, shape), out, broadcast_to(x, shape))
    return out


def extract(condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0) -> Array:
    """The elements where the condition holds, as a vector; `size` and `fill_value` as of `compress`."""
    c, x = as_array("extract", condition, 0), as_array("extract", arr, 1)
    return compress(lax.reshape(c, (c.size,)), lax.reshape(x, (x.size,)), size=size, fill_value=fill_value)


def compress(
    condition: ArrayLike, a: ArrayLike, axis: int | None = None, *, size: int | None = None, fill_value: ArrayLike = 0, out: None = None
) -> Array:
    """The slices along an axis (elements, by default) where a vector of conditions holds. With `size` so many, missing ones being
    `fill_value`."""
    no_out("compress", out)
    c, x = as_array("compress", condition, 0), as_array("compress", a, 1)
    check_arraylike("compress", condition, a, fill_value)
    if c.ndim != 1:
        raise ValueError(f"compress: condition must be a vector, got shape {c.shape}")
    if axis is None:
        axis, x = 0, lax.reshape(x, (x.size,))
    k = canonical_axis(axis, x.ndim)
    n = x.shape[k]
    mask = e.as_bool(c)
    if size is None and concrete(mask) is None:
        raise ConcretizationTypeError(mask, "The size argument of jnp.compress must be specified: the number of results depends on values.")
    if c.shape[0] > n:
        extra = concrete(lax.slice_in_dim(mask, n, c.shape[0]))
        if extra is not None and extra.any():
            raise ValueError(f"compress: a condition beyond the axis's size, {n}, holds")
        mask = lax.slice_in_dim(mask, 0, n)
    elif c.shape[0] < n:
        x = lax.slice_in_dim(x, 0, c.shape[0], axis=k)
        n = c.shape[0]
    (positions,) = nonzero(mask, size=size, fill_value=n)
    sizes = tuple(1 if j == k else m for j, m in enumerate(x.shape))
    numbers = lax.GatherDimensionNumbers(tuple(j for j in range(x.ndim) if j != k), (k,), (k,))
    if n == 0:
        return lax.full((*x.shape[:k], positions.shape[0], *x.shape[k + 1 :]), fill_value, x.aval.dtype)
    taken = lax.gather(x, lax.reshape(positions, (*positions.shape, 1)), numbers, sizes, mode="clip")
    if size is None:
        return taken
    there = p.lt_p(positions, e.const(n, positions.aval.dtype))
    mask = lax.broadcast_in_dim(there, taken.shape, (k,))
    fill = strong(convert(as_array("compress", fill_value), x.aval.dtype))
    return e.where(mask, taken, broadcast_to(fill, taken.shape))


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """`choices[a]`, element by element. Positions out of bounds: "wrap", "clip", or ValueError ("raise", which needs known positions)."""
    no_out("choose", out)
    check_arraylike("choose", a, *(choices if isinstance(choices, Sequence) else [choices]))
    x = as_array("choose", a)
    if e.kind_of(x) not in "iu":
        raise ValueError(f"choose: a must hold integers, got dtype {dtypes.name(x.aval.dtype)}")
    cases = list(choices) if isinstance(choices, Sequence) else list(p.unstack_p(as_array("choose", choices), axis=0))
    n = len(cases)
    if mode == "raise":
        host = concrete(x)
        if host is None:
            raise ConcretizationTypeError(
                x, "choose: mode='raise' must look at the values, which jit does not know; 'wrap' and 'clip' need not."
            )
        if np.any((host < 0) | (host >= n)):
            raise ValueError(f"invalid entry in choice array: positions must lie in [0, {n}), got {host}")
    elif mode == "wrap":
        x = e.remainder(x, n)
    elif mode == "clip":
        x = e.clip(x, 0, n - 1)
    else:
        raise ValueError(f"choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}")
    cases = promoted("choose", *cases)
    shape = broadcast_shapes(x.shape, *(c.shape for c in cases))
    if n == 1:
        return broadcast_to(cases[0], shape)
    return (
        p.select_n_p(broadcast_to(convert(x, dtypes.int32), shape), *(broadcast_to(c, shape) for c in cases))
        if n > 2
        else e.where(e.as_bool(broadcast_to(x, shape)), broadcast_to(cases[1], shape), broadcast_to(cases[0], shape))
    )


def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """For each element the value (a number, or a function of x) of the last condition that holds; 0, or a further value, where none
    does."""
    v = as_array("piecewise", x)
    conditions = [condlist] if isinstance(condlist, bool | np.bool_) else list(condlist)
    n, m = len(conditions), len(funclist)
    if m not in (n, n + 1):
        raise ValueError(f"piecewise: {n} conditions need {n} or {n + 1} functions, got {m}")
    values = list(funclist)
    default: Any = values.pop() if m == n + 1 else 0

    def evaluate(f: Any, mine: Any) -> Array:
        """`mine`: the elements that get f's value; no derivative flows to the others, where it may be NaN."""
        if not callable(f):
            out = f
        elif e.kind_of(v) in "fc" and conditions:
            out = f(as_array("piecewise", e.where(mine, v, p.stop_gradient_p(v))), *args, **kw)
        else:
            out = f(v, *args, **kw)
        out = convert(as_array("piecewise", out), v.aval.dtype)
        return broadcast_to(out, broadcast_shapes(out.shape, v.shape))

    masks = [broadcast_to(e.as_bool(as_array("piecewise", c)), v.shape) for c in conditions]
    later: Any = None  # elements that a later condition takes
    mine = []
    for mask in reversed(masks):
        mine.append(mask if later is None else p.and_p(mask, p.not_p(later)))
        later = mask if later is None else p.or_p(later, mask)
    out = evaluate(default, None if later is None else p.not_p(later))
    for mask, f, own in zip(masks, values, reversed(mine), strict=True):
        out = e.where(mask, evaluate(f, own), out)
    return strong(out)


Chooser = Callable[..., Array]
