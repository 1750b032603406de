"""`mgrid`, `ogrid`, `r_`, `c_`, `s_`, `index_exp`, `ix_`: objects that are indexed to build arrays or indices."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.config import numpy_dtype_promotion
from steno.numpy.creation import arange, array, linspace, meshgrid
from steno.numpy.manipulation import concatenate, transpose
from steno.numpy.operands import Array, arrays, promoted, static

index_exp = np.index_exp
s_ = np.s_


def _range(s: slice, name: str) -> Array:
    """start:stop:step, or with an imaginary step so many points from start to stop. `name`: of what is indexed by it."""

    def known(x: Any, what: str) -> Any:
        return static(name, x, f"slice {what} of {name}")[()]

    start = 0 if s.start is None else known(s.start, "start")
    stop = known(s.stop, "stop") if s.stop is not None else None
    if stop is None:  # as NumPy has it
        start, stop = 0, start
    step = 1 if s.step is None else s.step
    if isinstance(step, complex):
        return linspace(_number(start), _number(stop), int(abs(step)))
    return arange(_number(start), _number(stop), _number(known(step, "step")))


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


@final
class _Grid:
    """`mgrid[0:2, 0:3]`: the index grids as one array; `ogrid`: as a list of arrays, each of size 1 along other axes."""

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        name = "jnp.ogrid" if self.sparse else "jnp.mgrid"
        if isinstance(key, slice):
            return _range(key, name)
        if not all(isinstance(k, slice) for k in key):
            raise TypeError(f"a grid is indexed by slices, got {key}")
        with numpy_dtype_promotion("standard"):  # ranges of whole and of other numbers are one grid
            xs = promoted("mgrid", *(_range(k, name) for k in key)) if key else []
        grids = list(meshgrid(*xs, sparse=self.sparse, indexing="ij"))
        return grids if self.sparse else (lax.stack(grids) if grids else lax.full((0,), 0, dtypes.default_int()))


mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)


@final
class _Concatenator:
    """`r_[...]`, `c_[...]`: arrays, numbers and ranges put together along an axis; a first string gives "axis,ndmin,trans1d", or "r" or
    "c"."""

    def __init__(self, axis: int, ndmin: int, trans1d: int) -> None:
        self.axis, self.ndmin, self.trans1d = axis, ndmin, trans1d

    def __getitem__(self, key: Any) -> Array:
        name = "jnp.r_" if self.axis == 0 else "jnp.c_"
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self.axis, self.ndmin, self.trans1d
        matrix = None
        if items and isinstance(items[0], str):
            directive = items.pop(0)
            if directive in ("r", "c"):
                matrix = directive
            else:
                numbers = directive.split(",")
                try:
                    values = [int(n) for n in numbers]
                except ValueError:
                    raise ValueError(f"{name}: could not understand directive {directive!r}") from None
                if len(values) > 3:
                    raise ValueError(f"{name}: could not understand directive {directive!r}")
                axis = values[0]
                ndmin = values[1] if len(values) > 1 else ndmin
                trans1d = values[2] if len(values) > 2 else trans1d
        parts = []
        for item in items:
            if isinstance(item, slice):
                x = _range(item, name)
            elif isinstance(item, str):
                raise ValueError(f"{name}: a directive must come first, got {item!r} later")
            else:
                x = array(item)
            own = x.ndim
            x = lax.reshape(x, (1,)) if x.ndim == 0 else x
            if x.ndim < ndmin:
                x = lax.broadcast_to_rank(x, ndmin)
                if own and trans1d >= 0 or own == 1 and trans1d != -1:
                    x = _shifted(x, max(own, 1), trans1d)
            parts.append(x)
        out = concatenate(parts, axis)
        if matrix is None:
            return out
        if out.ndim > 1:
            return out
        return lax.reshape(out, (1, out.size) if matrix == "r" else (out.size, 1))


def _shifted(x: Array, own: int, first: int) -> Array:
    """The last `own` axes moved so that they begin at position `first`."""
    rank = x.ndim
    start = first if first >= 0 else first + rank - own + 1
    order = list(range(rank - own))
    order[start:start] = range(rank - own, rank)
    return transpose(x, order)


r_ = _Concatenator(0, 1, -1)
c_ = _Concatenator(-1, 2, 0)


def ix_(*args: Any) -> tuple[Array, ...]:
    """Vectors of positions (or masks) as an open grid, to index with."""
    n = len(args)
    out = []
    for k, x in enumerate(arrays("ix_", *args)):
        if x.ndim != 1:
            raise ValueError(f"ix_: expected vectors, got shape {x.shape}")
        if x.aval.dtype == dtypes.bool_:
            raise NotImplementedError("ix_: masks are not implemented; use jnp.nonzero(mask)[0]")
        out.append(lax.broadcast_in_dim(x, tuple(x.shape[0] if j == k else 1 for j in range(n)), (k,)))
    return tuple(out)
