"""Windows that slide over arrays: the geometry that pooling and convolution share.

Along an axis, window element j of result o lies at position o * stride + j * dilation - low of the operand whose neighbours are `base`
apart. A *tap* is a window element that may meet an operand's element: holes between neighbours are no taps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from steno.core.record import record
from steno.core.sizes import extent, max_size, size_of
from steno.ir.expr import Builder, Expr
from steno.ir.index import Index

Shape = tuple[int, ...]


@final
@record(frozen=True)
class Tap:
    """Operand index, window element and what must hold for the tap to be there (all in range where it does; None: always)."""

    at: Index
    element: Index
    guard: Expr | None


@final
@record(frozen=True)
class Sliding:
    """One axis. `size`: of the operand; `window`: elements of a window; `count`: results."""

    size: int
    window: int
    stride: int
    low: int
    base: int
    dilation: int
    count: int

    @property
    def plain(self) -> bool:
        """Whether each result meets the operand's element at its own index and nothing else."""
        return self.window == 1 and self.stride == self.base and self.low == 0 and self.count <= self.size

    def turned(self) -> Sliding:
        """The same pairs (result, operand element) with the roles exchanged; window element j becomes `window - 1 - j`."""
        low = (self.window - 1) * self.dilation - self.low
        return Sliding(self.count, self.window, self.base, low, self.stride, self.dilation, self.size)

    @property
    def taps_at_most(self) -> int:
        """How many taps `taps` gives."""
        if self.stride % self.base == 0:
            return sum((j * self.dilation - self.low) % self.base == 0 for j in range(self.window))
        return -(-self.window // self.base) if self.dilation == 1 else self.window

    def taps(self, b: Builder, o: Index) -> list[Tap]:
        """In ascending order of window elements."""
        s, d, base = self.stride, self.dilation, self.base
        found = []
        if s % base == 0:
            for j in range(self.window):
                if (j * d - self.low) % base == 0:
                    found.append((o * (s // base) + (j * d - self.low) // base, Index(j), None))
        elif d == 1:
            first = (Index(self.low) - o * s) % base
            at = (o * s + (base - 1 - self.low)) // base
            for t in range(-(-self.window // base)):
                j = first + t * base
                found.append((at + t, j, b.lt(b.index(j), self.window) if j.hi >= self.window else None))
        else:
            for j in range(self.window):
                position = o * s + (j * d - self.low)
                found.append((position // base, Index(j), b.eq(b.index(position % base), 0)))
        out = []
        for at, j, guard in found:
            if self.size == 0 or at.hi < 0 or at.lo >= self.size:
                continue
            if at.lo < 0:
                guard = both(b, guard, b.ge(b.index(at), 0))
            if at.hi >= self.size:
                guard = both(b, guard, b.lt(b.index(at), self.size))
            out.append(Tap(at, j, guard))
        return out

    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """For window elements (rows) and results: the operand's index, in range, and whether there is one."""
        position = np.arange(self.count) * self.stride + np.arange(self.window)[:, None] * self.dilation - self.low
        at = position // self.base
        inside = (position % self.base == 0) & (0 <= at) & (at < self.size)
        return np.where(inside, at, 0), inside


def both(b: Builder, p: Expr | None, q: Expr | None) -> Expr | None:
    if p is None or q is None:
        return q if p is None else p
    return b.and_(p, q)


def dilated(n: int, step: int) -> int:
    return extent(n, step)


def slid(n: int, window: int, stride: int, padding: tuple[int, int], base: int, dilation: int) -> int:
    """How often a window fits."""
    room = dilated(n, base) + padding[0] + padding[1] - dilated(window, dilation)
    return max_size(room // stride + 1, 0)


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: Any
) -> list[tuple[int, int]]:
    """(low, high) of each axis for "VALID", "SAME" (the middle, the odd one behind) or "SAME_LOWER" (before). RuntimeError for others."""
    kind = padding.upper() if isinstance(padding, str) else getattr(padding, "name", padding)
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}.")
    out = []
    for n, k, s in zip(in_shape, window_shape, window_strides, strict=True):
        total = max_size((-(-n // s) - 1) * s + k - n, 0) if s else 0
        less, more = total // 2, total - total // 2
        out.append((size_of(less), size_of(more)) if kind == "SAME" else (size_of(more), size_of(less)))
    return out


def axes_of(
    shape: Shape, window: Shape, strides: Shape, padding: Sequence[tuple[int, int]], base: Shape, dilation: Shape
) -> tuple[Sliding, ...]:
    return tuple(
        Sliding(n, k, s, p[0], bd, d, slid(n, k, s, p, bd, d))
        for n, k, s, p, bd, d in zip(shape, window, strides, padding, base, dilation, strict=True)
    )


def counts(axes: Sequence[Sliding]) -> Shape:
    return tuple(a.count for a in axes)


def taps_at_most(axes: Sequence[Sliding]) -> int:
    return math.prod(a.taps_at_most for a in axes)


def parameters(axes: Sequence[Sliding]) -> dict[str, Any]:
    """The parameters of a window op over these axes."""
    padding = []
    for a in axes:
        high = (a.count - 1) * a.stride + dilated(a.window, a.dilation) - dilated(a.size, a.base) - a.low
        padding.append((a.low, high))
    return dict(
        window_dimensions=tuple(a.window for a in axes), window_strides=tuple(a.stride for a in axes), padding=tuple(padding),
        base_dilation=tuple(a.base for a in axes), window_dilation=tuple(a.dilation for a in axes),
    )  # fmt: skip
