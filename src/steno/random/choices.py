"""Permutations and choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from steno import lax
from steno.core import dtypes
from steno.core.sizes import UnknownSize
from steno.lax.operands import as_array, canonical_axis, convert
from steno.numpy.operands import static_index
from steno.ops.gather import GatherDimensionNumbers, GatherScatterMode
from steno.random.continuous import gumbel, gumbel_mode
from steno.random.draws import draw, randint
from steno.random.keys import Array, ArrayLike, Shape, bits_of, compiled, const, full_shape, pair, placed, shape_of, the_key

_RANDINT_SHUFFLE_EXPONENT = 3


def permutation(key: ArrayLike, x: int | ArrayLike, axis: int = 0, independent: bool = False, *, out_sharding: Any = None) -> Array:
    """The elements along an axis in random order, all slices alike or each on its own (`independent`); of an integer n, of 0 ... n - 1.

    >>> random.permutation(random.key(0), 4)
    Array([0, 1, 3, 2], dtype=int32)
    """
    return placed(_permuted(the_key("permutation", key), as_array("permutation", x), axis, independent), out_sharding)


def _permuted(k: Array, x: Array, axis: int, independent: bool) -> Array:
    if not x.ndim:
        if dtypes.kind(x.dtype) not in "iu":
            raise TypeError(f"permutation: x must be an integer or at least 1-dimensional, got a scalar of dtype {dtypes.name(x.dtype)}")
        canonical_axis(axis, 1)
        return _shuffle(k, lax.iota(dtypes.default_int(), max(static_index("permutation", x, "x"), 0)), axis=0)
    axis = canonical_axis(axis, x.ndim)
    if independent or x.ndim == 1:
        return _shuffle(k, x, axis=axis)
    order = _shuffle(k, lax.iota(dtypes.default_int(), x.shape[axis]), axis=0)
    return _take(x, order, axis)


@compiled("axis")
def _shuffle(key: Array, x: Array, *, axis: int) -> Array:
    """Sorts by random 32-bit numbers; as often as it takes to make ties unlikely."""
    if isinstance(x.size, UnknownSize):
        raise NotImplementedError(
            f"permutation and shuffle take more rounds the more elements there are, which must be known, got shape {x.shape}"
        )
    rounds = math.ceil(_RANDINT_SHUFFLE_EXPONENT * math.log(max(1, x.size)) / math.log((1 << 32) - 1))
    for _ in range(rounds):
        key, now = pair(key)
        _, x = lax.sort_key_val(bits_of(now, 32, x.shape), x, axis)
    return x


def _take(x: Array, indices: Array, axis: int) -> Array:
    """`x` at the (valid) indices along an axis, which is replaced by the axes of `indices`."""
    rank, n = indices.ndim, x.ndim
    if not x.shape[axis]:
        return lax.reshape(x, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    numbers = GatherDimensionNumbers((*range(axis), *range(axis + rank, n + rank - 1)), (axis,), (axis,))
    return lax.gather(
        x,
        lax.expand_dims(indices, (rank,)),
        numbers,
        tuple(1 if d == axis else s for d, s in enumerate(x.shape)),
        mode=GatherScatterMode.CLIP,
    )


def choice(
    key: ArrayLike,
    a: int | ArrayLike,
    shape: Any = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Random elements of `a` along an axis (of 0 ... a - 1 for an integer), uniformly or with probabilities p.

    >>> random.choice(random.key(0), jnp.array([10, 20, 30]))
    Array(20, dtype=int32)
    """
    k, a = the_key("choice", key), as_array("choice", a)
    if not isinstance(shape, Sequence):
        raise TypeError(f"choice: shape must be a sequence of integers, got {shape!r}")
    shape = shape_of("choice", shape)
    draws = math.prod(shape)
    if not a.ndim:
        n, axis = static_index("choice", a, "a") if dtypes.is_integer(a.dtype) else int(a), 0
        canonical_axis(axis, 1)
    else:
        axis = canonical_axis(axis, a.ndim)
        n = a.shape[axis]
    if draws and n <= 0:
        raise ValueError("choice: a must be greater than 0 unless no samples are taken")
    if not replace and draws > n:
        raise ValueError(f"choice: cannot take a larger sample (size {draws}) than population (size {n}) when 'replace=False'")
    out_shape = shape if not a.ndim else (*a.shape[:axis], *shape, *a.shape[axis + 1 :])
    if p is None and not replace:
        mixed = permutation(k, n if not a.ndim else a, axis)
        return lax.reshape(lax.slice_in_dim(mixed, 0, draws, axis=axis), out_shape)
    if p is None:
        indices = randint(k, shape, 0, n)
    else:
        indices = lax.reshape(_weighted(k, p, n, shape, replace, mode), shape)
    return indices if not a.ndim else _take(a, indices, axis)


def _weighted(key: Array, p: ArrayLike, n: int, shape: Shape, replace: bool, mode: str | None) -> Array:
    """Indices below n with probabilities p: by the inverse of the running sums, or, all different, by the Gumbel trick."""
    weights = as_array("choice", p)
    if not dtypes.is_inexact(weights.dtype):
        weights = convert(weights, dtypes.default_float())
    if weights.shape != (n,):
        raise ValueError(
            f"choice: p must be None or a 1D vector with the same size as a.shape[axis]. p has shape {weights.shape} and a.shape[axis] "
            f"is {n}."
        )
    if replace:
        sums = lax.cumsum(weights)
        total = lax.squeeze(lax.slice_in_dim(sums, n - 1, n), (0,))
        u = draw(key, shape, sums.dtype)
        return _search(sums, lax.mul(total, lax.sub(const(1, u), u)))
    noisy = lax.add(gumbel(key, (n,), weights.dtype, gumbel_mode("choice", mode)), lax.log(weights))
    return convert(lax.top_k(noisy, math.prod(shape))[1], dtypes.default_int())


@compiled()
def _search(ascending: Array, x: Array) -> Array:
    """How many elements of `ascending` are below x: binary search, one halving after the other."""
    n = ascending.shape[0]
    flat = lax.reshape(x, (x.size,))
    low, high = (lax.full((flat.size,), v, dtypes.default_int()) for v in (0, n))
    for _ in range(n.bit_length()):
        middle = lax.add(low, lax.div(lax.sub(high, low), const(2, low)))
        below = lax.bitwise_and(lax.lt(low, high), lax.lt(_take(ascending, lax.min(middle, const(n - 1, middle)), 0), flat))
        low, high = lax.select(below, lax.add(middle, const(1, low)), low), lax.select(below, high, middle)
    return lax.reshape(low, x.shape)


def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Positions along an axis of unnormalised log-probabilities; `shape` may have more leading axes: several draws, different ones unless
    `replace`.

    >>> random.categorical(random.key(0), jnp.log(jnp.array([0.1, 0.9])))
    Array(1, dtype=int32)
    """
    k, logits = the_key("categorical", key), as_array("categorical", logits)
    mode = gumbel_mode("categorical", mode)
    if not dtypes.is_float(logits.dtype):
        raise ValueError(f"categorical: logits must be floats, got dtype {dtypes.name(logits.dtype)}")
    axis = canonical_axis(axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    shape = batch if shape is None else shape_of("categorical", shape, batch)
    prefix, inner = shape[: len(shape) - len(batch)], shape[len(shape) - len(batch) :]
    n = logits.shape[axis]
    if replace:
        drawn = (*prefix, *inner[:axis], n, *inner[axis:])
        noisy = lax.add(gumbel(k, drawn, logits.dtype, mode), full_shape(logits, drawn))
        return placed(lax.argmax(noisy, axis + len(prefix), dtypes.default_int()), out_sharding)
    count = math.prod(prefix)
    if count > n:
        raise ValueError(f"categorical: number of samples without replacement ({count}) cannot exceed number of categories ({n}).")
    noisy = lax.add(logits, gumbel(k, logits.shape, logits.dtype, mode))
    order = lax.top_k(noisy, count, axis=axis)[1]
    moved = lax.transpose(order, (axis, *(d for d in range(order.ndim) if d != axis)))
    return placed(lax.reshape(moved, shape), out_sharding)
