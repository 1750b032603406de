"""Collectives: functions of all elements of an axis that `vmap(..., axis_name=...)` has named."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from steno._native import ArrayImpl
from steno.core import dtypes
from steno.core.aval import typed_scalar, typeof
from steno.core.op import Op
from steno.core.trace import Tracer
from steno.lax.operands import as_array
from steno.ops import collective as ops
from steno.ops.arithmetic import add, div, mul
from steno.ops.compare import select_n
from steno.ops.convert import convert_element_type
from steno.ops.reduce import reduce_max, reduce_min, reduce_sum
from steno.transforms.axes import axis_size_of, find_axis
from steno.transforms.rules import insert_axis, zeros
from steno.tree_util import tree_flatten, tree_map, tree_unflatten


def _names(axis_name: Any) -> tuple[Hashable, ...]:
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def _check(fun: str, axis_name: Any, groups: Any = None) -> tuple[Hashable, ...]:
    """The names, bound ones. NameError if one is not, NotImplementedError for groups."""
    if groups is not None:
        raise NotImplementedError(f"{fun}: axis_index_groups are not supported for axes that vmap has named")
    names = _names(axis_name)
    for n in names:
        find_axis(n)
    return names


def _one(fun: str, names: Sequence[Hashable]) -> Hashable:
    if len(names) != 1:
        raise NotImplementedError(f"{fun} over several axes at once, got {tuple(names)}")
    return names[0]


def _reduced(fun: str, op: Op, positional: Op, x: Any, axis_name: Any, groups: Any) -> Any:
    """Reduces each leaf over axes of the value itself (ints), then over mapped axes."""
    names = _names(axis_name)
    own = [n for n in names if isinstance(n, int) and not isinstance(n, bool)]
    names = _check(fun, [n for n in names if n not in own], groups)
    leaves, tree = tree_flatten(x)
    arrays = [as_array(fun, y) for y in leaves]
    if op is ops.psum:
        arrays = [_counted(y) for y in arrays]
    if own:
        arrays = [positional(y, axes=tuple(_axis(y, a) for a in own), out_sharding=None) for y in arrays]
    if names and arrays:
        arrays = op(*arrays, axes=names, axis_index_groups=None)
    return tree_unflatten(tree, arrays)


def _counted(x: Any) -> Any:
    """Bools as integers."""
    return convert_element_type(x, new_dtype=dtypes.default_int(), weak_type=False, sharding=None) if x.dtype == dtypes.bool_ else x


def _is_constant(x: Any) -> bool:
    return not isinstance(x, ArrayImpl | Tracer) and not hasattr(type(x), "__jax_array__")


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum of each leaf of `x` over the elements of one or several mapped axes (ints: axes of the value itself).

    Python numbers and NumPy arrays are multiplied at once: `psum(1, axis_name)` is the axis size, an int."""
    leaves, tree = tree_flatten(x)
    names = _names(axis_name)
    if leaves and all(map(_is_constant, leaves)) and not any(isinstance(n, int) for n in names):
        size = axis_size_of(_check("psum", axis_name, axis_index_groups))
        return tree_unflatten(tree, [size * y for y in leaves])
    return _reduced("psum", ops.psum, reduce_sum, x, axis_name, axis_index_groups)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean of each leaf over the elements of one or several mapped axes; of integers as floats."""
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    names = _names(axis_name)
    shapes = [typeof(y).shape for y in tree_flatten(x)[0][:1]]
    own = [shapes[0][n] for n in names if isinstance(n, int)] if shapes else []
    size = axis_size_of([n for n in names if not isinstance(n, int)]) * math.prod(own)

    def mean(y: Any) -> Any:
        if _is_constant(y):
            return y / size
        if not dtypes.is_inexact(y.dtype):
            y = convert_element_type(y, new_dtype=dtypes.default_float(), weak_type=y.weak_type, sharding=None)
        return div(y, typed_scalar(size, y.dtype))

    return tree_map(mean, total)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The greatest of each leaf over the elements of one or several mapped axes."""
    return _reduced("pmax", ops.pmax, reduce_max, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The least of each leaf over the elements of one or several mapped axes."""
    return _reduced("pmin", ops.pmin, reduce_min, x, axis_name, axis_index_groups)


def _each(fun: str, x: Any, f: Callable[[Any], Any]) -> Any:
    return tree_map(lambda y: f(as_array(fun, y)), x)


def _bind(op: Op, x: Any, **params: Any) -> Any:
    """`op(x, **params)`, after a look at the types, which mapping would do without."""
    op.types((x.aval,), params)
    return op(x, **params)


def ppermute(x: Any, axis_name: Any, perm: Any) -> Any:
    """Each leaf moved along a mapped axis: `perm` holds pairs (source, destination). Elements that are no destination get zeros.

    ValueError if a source or a destination occurs twice or is out of bounds."""
    name = _one("ppermute", _check("ppermute", axis_name))
    pairs = tuple((int(a), int(b)) for a, b in perm)
    size = find_axis(name).size
    sources, destinations = [a for a, _ in pairs], [b for _, b in pairs]
    if len(set(sources)) != len(pairs) or len(set(destinations)) != len(pairs):
        raise ValueError(f"ppermute sources and destinations must be unique, got {perm}.")
    if any(not 0 <= k < size for k in sources + destinations):
        raise ValueError(f"ppermute: perm must hold positions along the axis {name} of size {size}, got {perm}")
    return _each("ppermute", x, lambda y: ops.ppermute(y, axis_name=(name,), perm=pairs))


def pshuffle(x: Any, axis_name: Any, perm: Any) -> Any:
    """`ppermute` with the sources in the order of their destinations. ValueError if `perm` is no permutation."""
    if set(perm) != set(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False, to: str = "varying") -> Any:
    """Each leaf of all elements of a mapped axis, along a new axis `axis`, or with `tiled` one after the other along the axis it has."""
    names = _check("all_gather", axis_name, axis_index_groups)

    def gathered(y: Any) -> Any:
        d = axis % (y.ndim + (not tiled)) if -y.ndim - (not tiled) <= axis < y.ndim + (not tiled) else axis
        if not tiled and len(names) > 1:
            y = insert_axis(y, d)
        several = tiled or len(names) > 1
        for n in reversed(names):
            y = _bind(
                ops.all_gather,
                y,
                all_gather_dimension=d,
                axis_index_groups=None,
                axis_name=(n,),
                axis_size=find_axis(n).size,
                tiled=several,
            )
        return y

    return _each("all_gather", x, gathered)


def psum_scatter(x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False) -> Any:
    """The sum over a mapped axis, of which each element gets its own part along `scatter_dimension`."""
    name = _one("psum_scatter", _check("psum_scatter", axis_name, axis_index_groups))
    size = find_axis(name).size
    return _each(
        "psum_scatter",
        x,
        lambda y: _bind(
            ops.reduce_scatter,
            y,
            axis_index_groups=None,
            axis_name=(name,),
            axis_size=size,
            scatter_dimension=_axis(y, scatter_dimension),
            tiled=tiled,
        ),
    )


def _axis(y: Any, axis: int) -> int:
    return axis % y.ndim if -y.ndim <= axis < y.ndim else axis


def all_to_all(x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None, tiled: bool = False) -> Any:
    """Each element sends the parts of its leaf along `split_axis` to the elements of the mapped axis, and gets its parts from all, along
    `concat_axis`. Without `tiled` the axis has the mapped axis' size, and the parts have no such axis."""
    name = _one("all_to_all", _check("all_to_all", axis_name, axis_index_groups))
    size = find_axis(name).size
    return _each(
        "all_to_all",
        x,
        lambda y: _bind(
            ops.all_to_all,
            y,
            axis_index_groups=None,
            axis_name=name,
            axis_size=size,
            concat_axis=_axis(y, concat_axis),
            split_axis=_axis(y, split_axis),
            tiled=tiled,
        ),
    )


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """The mapped axis and axis `axis` of each leaf exchanged."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Element `source`'s value for all elements of the mapped axis."""
    size = axis_size_of(_check("pbroadcast", axis_name))
    if not 0 <= source < size:
        raise ValueError(f"pbroadcast: source {source} is out of bounds for the axis {axis_name} of size {size}")

    def chosen(y: Any) -> Any:
        here = axis_index(axis_name) == source
        return psum(select_n(here, zeros(y.aval), y), axis_name)

    return _each("pbroadcast", x, chosen)


def axis_index(axis_name: Any) -> Any:
    """The element's position along a mapped axis, an int32; along several in the order of their names, the last one fastest."""
    out: Any = None
    for n in _check("axis_index", axis_name):
        position = ops.axis_index(axis_name=n)
        out = position if out is None else add(mul(out, typed_scalar(find_axis(n).size, dtypes.int32)), position)
    return out


def axis_size(axis_name: Any) -> int:
    """The number of elements along a mapped axis, or along several together."""
    return axis_size_of(_check("axis_size", axis_name))


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Values of axes that vmap has named always vary: the value itself for `to="varying"`."""
    _check("pcast", axis_name)
    if to != "varying":
        raise ValueError(f"pcast: an axis that vmap has named is always varying, got to={to!r}")
    return x


__all__ = [
    "all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pcast", "pmax", "pmean", "pmin", "ppermute", "pshuffle",
    "psum", "psum_scatter", "pswapaxes",
]  # fmt: skip
