"""pad, in all of NumPy's modes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.pytree import tree_leaves
from steno.core.sizes import UnknownSize, size_of
from steno.lax import records as p
from steno.numpy import elementwise as e, reductions as r
from steno.numpy.creation import asarray, linspace
from steno.numpy.operands import Array, ArrayLike, as_array, convert, from_host, static
from steno.numpy.statistics import median
from steno.numpy.taking import take

_KEYWORDS: dict[str, frozenset[str]] = {
    "constant": frozenset({"constant_values"}),
    "edge": frozenset(),
    "empty": frozenset(),
    "linear_ramp": frozenset({"end_values"}),
    "maximum": frozenset({"stat_length"}),
    "mean": frozenset({"stat_length"}),
    "median": frozenset({"stat_length"}),
    "minimum": frozenset({"stat_length"}),
    "reflect": frozenset({"reflect_type"}),
    "symmetric": frozenset({"reflect_type"}),
    "wrap": frozenset(),
}

Widths = list[tuple[int, int]]

SHORT_RUN = 16  # elements, on average, for which a copy of their own does not pay
LONG_ROW = 64  # elements behind an axis, among which looking up the position costs nothing


def pad(array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Array:
    """The array with elements added at both ends of each axis: `pad_width` is (before, after) for each axis, for all, or one number.

    `mode`: constant (constant_values), edge, linear_ramp (end_values), maximum, mean, median, minimum (stat_length), reflect, symmetric
    (reflect_type "even" or "odd"), wrap, empty, or a function as NumPy takes it. NotImplementedError for other modes.

    >>> jnp.pad(jnp.array([1, 2]), 1)
    Array([0, 1, 2, 0], dtype=int32)
    """
    x = as_array("pad", array)
    if callable(mode):
        return _by_function(x, _widths(x, pad_width), mode, kwargs)
    if mode not in _KEYWORDS:
        raise NotImplementedError(f"pad: there is no mode {mode!r}; there are {', '.join(_KEYWORDS)}")
    if unknown := set(kwargs) - _KEYWORDS[mode]:
        raise ValueError(f"pad: unsupported keyword arguments for mode {mode!r}: {', '.join(sorted(unknown))}")
    widths = _widths(x, pad_width)
    if all(w == (0, 0) for w in widths):
        return x
    if mode == "constant":
        return _constant(x, widths, kwargs.get("constant_values", 0))
    if mode == "empty":
        return _constant(x, widths, 0)
    if mode == "edge" and any(isinstance(v, UnknownSize) for v in (*x.shape, *(v for w in widths for v in w))):
        return _edges(x, widths)
    if mode == "edge":
        return _by_positions(x, widths, lambda n, i: np.clip(i, 0, n - 1), "edge")
    if mode == "wrap":
        return _by_positions(x, widths, lambda n, i: i % n, "wrap")
    if mode in ("reflect", "symmetric"):
        kind = kwargs.get("reflect_type", "even")
        if kind == "odd":
            return _odd_reflection(x, widths, mode)
        if kind != "even":
            raise ValueError(f"pad: reflect_type must be 'even' or 'odd', got {kind!r}")
        return _by_positions(x, widths, _reflected if mode == "reflect" else _mirrored, mode)
    if mode == "linear_ramp":
        return _ramp(x, widths, kwargs.get("end_values", 0))
    return _statistic(x, widths, mode, kwargs.get("stat_length"))


def _widths(x: Array, pad_width: Any) -> Widths:
    if any(isinstance(n, UnknownSize) for n in tree_leaves(pad_width)):
        return _unknown_widths(x, pad_width)
    w = static("pad", pad_width, "pad_width")
    if w.dtype.kind not in "iu" and w.size:
        raise TypeError(f"pad: pad_width must hold integers, got {pad_width}")
    pairs_of = _pairs(w, x.ndim, "pad_width")
    if any(a < 0 or b < 0 for a, b in pairs_of):
        raise ValueError(f"pad: pad_width must not be negative, got {pad_width}")
    return [(int(a), int(b)) for a, b in pairs_of]


def _unknown_widths(x: Array, pad_width: Any) -> Widths:
    """Widths among which are unknown sizes."""
    pairs_of = _pairs(np.asarray(pad_width, object), x.ndim, "pad_width")
    if any(n < 0 for pair in pairs_of for n in pair):
        raise ValueError(f"pad: pad_width must not be negative, got {pad_width}")
    return [(size_of(a), size_of(b)) for a, b in pairs_of]


def _pairs(v: Any, ndim: int, name: str) -> list[tuple[Any, Any]]:
    """(before, after) for each axis, of a scalar, a pair, or a pair for each axis."""
    shape = np.shape(v)
    if shape == ():
        return [(v, v)] * ndim
    if shape == (1,):
        return [(v[0], v[0])] * ndim
    if shape == (2,):
        return [(v[0], v[1])] * ndim
    if shape == (1, 2):
        return [(v[0][0], v[0][1])] * ndim
    if shape == (ndim, 1):
        return [(a[0], a[0]) for a in v]
    if shape == (ndim, 2):
        return [(a[0], a[1]) for a in v]
    raise ValueError(f"pad: {name} must be a number, a pair, or a pair for each of the {ndim} axes, got shape {shape}")


def _constant(x: Array, widths: Widths, values: Any) -> Array:
    values = values if hasattr(values, "aval") else np.asarray(values)
    d, weak = x.aval.dtype, x.aval.weak_type
    if values.ndim == 0 if hasattr(values, "ndim") else True:
        value = as_array("pad", values)
        return p.pad_p(x, convert(value, d, weak), padding_config=tuple((a, b, 0) for a, b in widths))
    both = as_array("pad", values)
    for k, ((a, b), (u, v)) in enumerate(zip(widths, _pairs_of_array(both, x.ndim), strict=True)):
        none = [(0, 0, 0)] * x.ndim
        x = p.pad_p(x, convert(u, d, weak), padding_config=tuple((a, 0, 0) if j == k else q for j, q in enumerate(none)))
        x = p.pad_p(x, convert(v, d, weak), padding_config=tuple((0, b, 0) if j == k else q for j, q in enumerate(none)))
    return x


def _pairs_of_array(v: Array, ndim: int) -> list[tuple[Array, Array]]:
    def element(*index: int) -> Array:
        out = v
        for i in index:
            out = lax.index_in_dim(out, i, 0, False)
        return out

    names = _pairs(np.arange(v.size).reshape(v.shape), ndim, "values")
    return [tuple(element(*np.unravel_index(int(k), v.shape)) for k in pair) for pair in names]  # type: ignore[misc]


def _by_positions(x: Array, widths: Widths, source: Callable[[int, np.ndarray], np.ndarray], mode: str) -> Array:
    """Each element of the result is a copy of one of x's, at `source(size, position)` along each axis."""
    for k, (a, b) in enumerate(widths):
        n = x.shape[k]
        if (a, b) == (0, 0):
            continue
        if n == 0:
            raise ValueError(f"pad: mode {mode!r} needs elements, got an axis of size 0 in shape {x.shape}")
        if any(isinstance(v, UnknownSize) for v in (n, a, b)):
            raise NotImplementedError(f"pad: mode {mode!r} needs known sizes, got widths {(a, b)} of an axis of size {n}")
        positions = source(n, np.arange(-a, n + b))
        runs = _runs(positions)
        row = math.prod(x.shape[k + 1 :])
        if row >= LONG_ROW or len(positions) * row < len(runs) * SHORT_RUN:
            x = take(x, from_host(positions.astype(np.int32)), axis=k, mode="clip")
        else:
            x = lax.concatenate([_run(x, k, *run) for run in runs], k)
    return x


def _runs(positions: np.ndarray) -> list[tuple[int, int, int]]:
    """(first, step, count): positions as runs that rise by 1, fall by 1 or stay."""
    steps = np.diff(positions)
    out = []
    at = 0
    while at < len(positions):
        step = int(steps[at]) if at < len(steps) and abs(steps[at]) <= 1 else 1
        rest = np.nonzero(steps[at:] != step)[0]
        count = int(rest[0]) + 1 if len(rest) else len(positions) - at
        out.append((int(positions[at]), step, count))
        at += count
    return out


def _run(x: Array, axis: int, first: int, step: int, count: int) -> Array:
    low = min(first, first + step * (count - 1))
    part = lax.slice_in_dim(x, low, low + (count if step else 1), axis=axis)
    if not step:
        return lax.broadcast_in_dim(part, (*x.shape[:axis], count, *x.shape[axis + 1 :]), range(x.ndim))
    return lax.rev(part, (axis,)) if step < 0 else part


def _edges(x: Array, widths: Widths) -> Array:
    """The first and last elements repeated."""
    for k, (a, b) in enumerate(widths):
        if (a, b) != (0, 0):
            first, last = lax.slice_in_dim(x, 0, 1, axis=k), lax.slice_in_dim(x, x.shape[k] - 1, x.shape[k], axis=k)
            ends = [lax.broadcast_in_dim(v, (*x.shape[:k], m, *x.shape[k + 1 :]), range(x.ndim)) for v, m in ((first, a), (last, b))]
            x = lax.concatenate([ends[0], x, ends[1]], k)
    return x


def _reflected(n: int, i: np.ndarray) -> np.ndarray:
    """... 2 1 | 0 1 2 ... n-1 | n-2 ..."""
    if n == 1:
        return np.zeros_like(i)
    i = i % (2 * n - 2)
    return np.minimum(i, 2 * n - 2 - i)


def _mirrored(n: int, i: np.ndarray) -> np.ndarray:
    """... 1 0 | 0 1 ... n-1 | n-1 n-2 ..."""
    i = i % (2 * n)
    return np.minimum(i, 2 * n - 1 - i)


def _odd_reflection(x: Array, widths: Widths, mode: str) -> Array:
    """Reflected in position and in value about the edge, as often as the width needs."""
    skip = 1 if mode == "reflect" else 0
    for k, (a, b) in enumerate(widths):
        n = x.shape[k]
        if n == 0 and (a or b):
            raise ValueError(f"pad: mode {mode!r} needs elements, got an axis of size 0 in shape {x.shape}")
        for count, front in ((a, True), (b, False)):
            while count > 0:
                n = x.shape[k]
                step = min(count, n - skip) if n > skip else count
                edge = lax.slice_in_dim(x, 0, 1, axis=k) if front else lax.slice_in_dim(x, n - 1, n, axis=k)
                if n <= skip:
                    part = edge
                    step = 1
                elif front:
                    part = lax.slice_in_dim(x, skip, skip + step, axis=k)
                else:
                    part = lax.slice_in_dim(x, n - skip - step, n - skip, axis=k)
                flipped = lax.rev(part, (k,))
                new = e.subtract(e.multiply(2, edge), flipped)
                x = lax.concatenate([new, x] if front else [x, new], k)
                count -= step
    return x


def _ramp(x: Array, widths: Widths, end_values: Any) -> Array:
    d = x.aval.dtype
    values = _pairs_of_array(as_array("pad", asarray(end_values)), x.ndim)
    for k, ((a, b), (u, v)) in enumerate(zip(widths, values, strict=True)):
        n = x.shape[k]
        first = lax.index_in_dim(x, 0, k, False)
        last = lax.index_in_dim(x, n - 1, k, False)

        def ramp(end: Array, edge: Array, count: int, k: int = k) -> Array:
            spread = lax.broadcast_in_dim(convert(end, d), edge.shape, ())
            return linspace(spread, edge, count, endpoint=False, dtype=d, axis=k)

        pieces = [x]
        if a:
            pieces.insert(0, ramp(u, first, a))
        if b:
            pieces.append(lax.rev(ramp(v, last, b), (k,)))
        x = lax.concatenate([convert(q, d) for q in pieces], k)
    return x


def _statistic(x: Array, widths: Widths, mode: str, stat_length: Any) -> Array:
    functions: dict[str, Callable[..., Array]] = {"maximum": r.amax, "minimum": r.amin, "mean": r.mean, "median": median}
    function = functions[mode]
    d = x.aval.dtype
    lengths = [(None, None)] * x.ndim if stat_length is None else _pairs(np.asarray(stat_length), x.ndim, "stat_length")
    for k, ((a, b), (u, v)) in enumerate(zip(widths, lengths, strict=True)):
        n = x.shape[k]
        if n == 0 or u == 0 or v == 0:
            raise ValueError(f"pad: mode {mode!r} needs elements, got stat_length {stat_length} for shape {x.shape}")
        u, v = n if u is None else min(int(u), n), n if v is None else min(int(v), n)
        head = function(lax.slice_in_dim(x, 0, u, axis=k), axis=k, keepdims=True)
        tail = function(lax.slice_in_dim(x, n - v, n, axis=k), axis=k, keepdims=True)
        if dtypes.is_integer(d):
            head, tail = e.round(head), e.round(tail)

        def spread(q: Array, count: int, k: int = k) -> Array:
            shape = tuple(count if j == k else s for j, s in enumerate(q.shape))
            return lax.broadcast_in_dim(convert(q, d), shape, range(q.ndim))

        x = lax.concatenate([spread(head, a), x, spread(tail, b)], k)
    return x


def _by_function(x: Array, widths: Widths, function: Callable[..., Any], kwargs: dict[str, Any]) -> Array:
    """NumPy's protocol: `function(vector, (before, after), axis, kwargs)` for each vector along each axis; here it returns the new
    vector."""
    out = _constant(x, widths, 0)
    for k, width in enumerate(widths):
        moved = lax.transpose(out, [*(j for j in range(out.ndim) if j != k), k])
        rows = lax.reshape(moved, (moved.size // moved.shape[-1] if moved.shape[-1] else 0, moved.shape[-1]))
        new = [as_array("pad", function(lax.index_in_dim(rows, i, 0, False), width, k, kwargs)) for i in range(rows.shape[0])]
        if new:
            moved = lax.reshape(lax.stack([convert(v, x.aval.dtype) for v in new]), moved.shape)
        back = list(range(out.ndim - 1))
        back.insert(k, out.ndim - 1)
        out = lax.transpose(moved, back)
    return out
