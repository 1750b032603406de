"""Functions that are known by a name (`composite`), and products of block-scaled operands (`scaled_dot`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from steno.api import jit
from steno.core import dtypes
from steno.derivatives import check_callable
from steno.device import put
from steno.lax.contraction import dot_general
from steno.lax.elementwise import convert_element_type, mul
from steno.lax.operands import Array, ArrayLike, DTypeLike, as_array, check_dtype, integers
from steno.lax.shape import broadcast_in_dim, reshape


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """`decomposition` as a function of a name of its own. Keyword arguments are attributes, which are known while tracing.

    Its calls are those of a jitted function of that name; derivatives and maps are those of the decomposition. ValueError for an empty
    name."""
    check_callable(decomposition)
    if not name:
        raise ValueError("composite: the name must not be empty")
    known: dict[Any, Callable[..., Any]] = {}

    def made(attributes: dict[str, Any]) -> Callable[..., Any]:
        def named(*args: Any) -> Any:
            return decomposition(*args, **attributes)

        named.__name__ = named.__qualname__ = name
        return jit(named)

    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        key = tuple(sorted(attributes.items()))
        try:
            found = known.get(key)
        except TypeError:  # an attribute that cannot be hashed
            return made(attributes)(*args)
        if found is None:
            found = known[key] = made(attributes)
        return found(*args)

    return call


def stage(x: ArrayLike, /) -> Array:
    """The value as an array; a traced one as it is. TypeError for what is no array."""
    return put(x)


def scaled_dot(
    lhs: Array,
    rhs: Array,
    *,
    lhs_scale: Array | None = None,
    rhs_scale: Array | None = None,
    dimension_numbers: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """`dot_general(lhs * lhs_scale, rhs * rhs_scale)` in `preferred_element_type` (bfloat16, if it says nothing), where each element of a
    scale belongs to a block along the contracted axes. Without `dimension_numbers` matrices, or batches (B, M, K) and (B, K, N).

    TypeError for scales that do not divide the contracted axes, or differ along others."""
    x, y = as_array("scaled_dot", lhs, 0), as_array("scaled_dot", rhs, 1)
    if dimension_numbers is None:
        batch = tuple(range(x.ndim - 2))
        dimension_numbers = (((x.ndim - 1,), (y.ndim - 2,)), (batch, batch))
    (lc, rc), (lb, rb) = ((integers("scaled_dot", "dimension numbers", d) for d in pair) for pair in dimension_numbers)
    for a, b in zip(lc, rc, strict=True):
        if x.shape[a] != y.shape[b]:
            raise TypeError(f"scaled_dot: axis {a} of lhs, of size {x.shape[a]}, does not match axis {b} of rhs, of size {y.shape[b]}")
    dtype = check_dtype(dtypes.bfloat16 if preferred_element_type is None else preferred_element_type, "scaled_dot")
    x, y = _scaled("lhs", x, lhs_scale, lc, dtype), _scaled("rhs", y, rhs_scale, rc, dtype)
    return dot_general(x, y, ((lc, rc), (lb, rb)), None, dtype)


def _scaled(what: str, x: Array, scale: Array | None, contracted: Sequence[int], dtype: Any) -> Array:
    wide = convert_element_type(x, dtype)
    if scale is None:
        return wide
    s = convert_element_type(as_array("scaled_dot", scale), dtype)
    if s.ndim != x.ndim:
        raise TypeError(f"scaled_dot: {what}_scale must have the rank of {what}, {x.ndim}, got {s.ndim}")
    for d, (n, m) in enumerate(zip(x.shape, s.shape, strict=True)):
        if (n % max(m, 1) if d in contracted else n != m) or (m == 0 < n):
            wanted = "must be divisible by" if d in contracted else "must be"
            raise TypeError(f"scaled_dot: axis {d} of {what}, of size {n}, {wanted} the size {m} of its scale")
    if s.shape == x.shape:
        return mul(wide, s)
    split = [size for n, m in zip(x.shape, s.shape, strict=True) for size in (m, n // max(m, 1))]
    spread = broadcast_in_dim(s, split, tuple(range(0, 2 * s.ndim, 2)))
    return mul(wide, reshape(spread, x.shape))
