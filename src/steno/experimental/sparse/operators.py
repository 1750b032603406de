"""Operators and methods of sparse arrays: they are those of dense arrays, made sparse."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from steno import numpy as jnp
from steno.experimental.sparse.bcoo import BCOO
from steno.experimental.sparse.bcsr import BCSR
from steno.experimental.sparse.products import matmul
from steno.experimental.sparse.structure import bcoo_reshape, bcoo_rev, bcoo_slice, bcoo_squeeze
from steno.experimental.sparse.transform import as_bcoo, sparsify
from steno.experimental.sparse.util import JAXSparse

Array = Any


def _alike(out: Any, mat: JAXSparse) -> Any:
    """What has been computed in batched coordinates, in the format it came in."""
    return BCSR.from_bcoo(out) if isinstance(mat, BCSR) and isinstance(out, BCOO) and out.n_sparse == 2 else out


def _method(f: Callable[..., Any]) -> Callable[..., Any]:
    sparse = sparsify(f)

    def method(self: Any, *args: Any) -> Any:
        return _alike(sparse(self, *args), self)

    return method


def _reflected(f: Callable[..., Any]) -> Callable[..., Any]:
    return _method(lambda x, y: f(y, x))


def _power(self: Any, n: Any) -> Any:
    if isinstance(n, int):
        return _alike(sparsify(lambda x: x**n)(self), self)
    return NotImplemented


def _matmul(self: Any, other: Any) -> Any:
    return matmul(as_bcoo(self), as_bcoo(other))


def _rmatmul(self: Any, other: Any) -> Any:
    return matmul(as_bcoo(other), as_bcoo(self))


def _sum(self: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over axes: sparse, as far as axes are left."""
    return sparsify(lambda x: jnp.sum(x, axis=axis, dtype=dtype, keepdims=keepdims))(self)


def _reshape(self: Any, *args: Any) -> Any:
    """Of another shape, of which one size may be -1."""
    shape = list(args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
    if -1 in shape:
        rest = 1
        for n in shape:
            rest *= 1 if n == -1 else n
        shape[shape.index(-1)] = self.size // max(rest, 1)
    return bcoo_reshape(self, new_sizes=shape)


def _getitem(self: BCOO, index: Any) -> BCOO:
    """A part, given by integers, slices, None and Ellipsis."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(not (i is None or i is Ellipsis or isinstance(i, slice) or (hasattr(i, "__index__") and jnp.ndim(i) == 0)) for i in items):
        raise NotImplementedError(f"BCOO: indices may be integers, slices, None and Ellipsis, got {index!r}")
    used = sum(i is not None and i is not Ellipsis for i in items)
    if used > self.ndim or items.count(Ellipsis) > 1:
        raise IndexError(f"BCOO: {index!r} has too many indices for {self!r}")
    if Ellipsis not in items:
        items.append(Ellipsis)
    where = items.index(Ellipsis)
    items[where : where + 1] = [slice(None)] * (self.ndim - used)
    starts, limits, strides, reverse, squeezed, new = [], [], [], [], [], []
    axis = 0
    for i in items:
        if i is None:
            new.append(axis + len(new) - len(squeezed))
            continue
        n = self.shape[axis]
        if isinstance(i, slice):
            start, stop, step = i.indices(n)
            if step < 0:
                count = len(range(start, stop, step))
                start, stop, step = (start + (count - 1) * step, start + 1, -step) if count else (0, 0, 1)
                reverse.append(axis)
            stop = max(start, stop)
        else:
            k = operator.index(i)
            if not -n <= k < n:
                raise IndexError(f"BCOO: index {k} is out of bounds for axis {axis} of size {n}")
            start, stop, step = k % n, k % n + 1, 1
            squeezed.append(axis)
        for out, value in ((starts, start), (limits, stop), (strides, step)):
            out.append(value)
        axis += 1
    out = bcoo_slice(self, start_indices=starts, limit_indices=limits, strides=strides)
    out = bcoo_rev(out, reverse) if reverse else out
    out = bcoo_squeeze(out, dimensions=squeezed) if squeezed else out
    return sparsify(lambda x: jnp.expand_dims(x, tuple(new)))(out) if new else out


def _iter(self: Any) -> Any:
    return iter([self[k] for k in range(len(self))])


_OPERATORS: dict[str, Callable[..., Any]] = {
    "__neg__": _method(operator.neg),
    "__pos__": _method(operator.pos),
    "__abs__": _method(operator.abs),
    "__add__": _method(operator.add),
    "__radd__": _reflected(operator.add),
    "__sub__": _method(operator.sub),
    "__rsub__": _reflected(operator.sub),
    "__mul__": _method(operator.mul),
    "__rmul__": _reflected(operator.mul),
    "__truediv__": _method(operator.truediv),
    "__pow__": _power,
    "__matmul__": _matmul,
    "__rmatmul__": _rmatmul,
    "sum": _sum,
}

for _name, _f in _OPERATORS.items():
    setattr(JAXSparse, _name, _f)
for _name, _f in {"__getitem__": _getitem, "__iter__": _iter, "reshape": _reshape}.items():
    setattr(BCOO, _name, _f)
