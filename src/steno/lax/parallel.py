"""Collectives: functions of all elements of an axis that `vmap(..., axis_name=...)` has named."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import numpy as np

from steno._native import ArrayImpl
from steno.core import dtypes
from steno.core.aval import typed_scalar, typeof
from steno.core.op import Op
from steno.core.trace import Tracer
from steno.lax.indexing import dynamic_index_in_dim, gather
from steno.lax.operands import as_array, canonical_axis, convert
from steno.lax.shape import broadcast_in_dim, iota, stack
from steno.ops import collective as ops
from steno.ops.arithmetic import add, clamp, div, max_, mul, sub
from steno.ops.bitwise import and_ as bitwise_and
from steno.ops.compare import ge, lt, select_n
from steno.ops.convert import convert_element_type
from steno.ops.gather import GatherDimensionNumbers, GatherScatterMode
from steno.ops.reduce import reduce_max, reduce_min, reduce_sum
from steno.transforms.axes import axis_size_of, find_axis
from steno.transforms.rules import insert_axis, move_axis, reshape, zeros
from steno.tree_util import tree_flatten, tree_map, tree_unflatten


def _names(axis_name: Any) -> tuple[Hashable, ...]:
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def _check(axis_name: Any) -> tuple[Hashable, ...]:
    """The names, bound ones. NameError if one is not."""
    names = _names(axis_name)
    for n in names:
        find_axis(n)
    return names


@final
class _Groups:
    """The elements of one or several mapped axes, numbered with the last axis fastest, in groups: all of them in one, if the user names
    none. Collectives of groups gather all values, which vmap has side by side anyway, and take what is theirs.

    ValueError unless the groups hold each number once; `equal`: and unless they are of one size."""

    __slots__ = ("group_of", "members", "names", "rank_of")

    def __init__(self, fun: str, names: tuple[Hashable, ...], groups: Any, equal: bool = True) -> None:
        size = axis_size_of(names)
        self.names = names
        self.members = [list(range(size))] if groups is None else [[int(k) for k in g] for g in groups]
        if sorted(k for g in self.members for k in g) != list(range(size)):
            raise ValueError(
                f"{fun}: axis_index_groups must hold each of the positions 0 ... {size - 1} along {', '.join(map(repr, names))} once, got "
                f"{groups}"
            )
        if equal and not self.are_equal():
            raise ValueError(f"{fun}: axis_index_groups must all be of one size, got {groups}")
        self.group_of, self.rank_of = [0] * size, [0] * size
        for k, g in enumerate(self.members):
            for rank, position in enumerate(g):
                self.group_of[position], self.rank_of[position] = k, rank

    def are_equal(self) -> bool:
        return len(set(map(len, self.members))) == 1

    def size(self) -> int:
        return len(self.members[0])

    def own_size(self) -> Any:
        """The number of elements of this element's group."""
        return _at_position(self.names, [len(self.members[k]) for k in self.group_of])

    def _group(self) -> Any:
        return _at_position(self.names, self.group_of)

    def _all(self, y: Any) -> Any:
        """The values of all elements along a new axis in front."""
        return _gathered(y, self.names, 0, False)

    def reduced(self, op: Op, y: Any) -> Any:
        """The group's values reduced by a positional reduction."""
        every = self._all(y)
        rows = [op(_rows(every, g), axes=(0,), out_sharding=None) for g in self.members]
        return dynamic_index_in_dim(stack(rows), self._group(), keepdims=False)

    def gathered(self, y: Any) -> Any:
        """The values of the group's elements along a new axis in front."""
        every = _rows(self._all(y), [k for g in self.members for k in g])
        every = reshape(every, (len(self.members), self.size(), *y.shape))
        return dynamic_index_in_dim(every, self._group(), keepdims=False)

    def part(self, y: Any, axis: int) -> Any:
        """This element's part of an axis of the group's size."""
        return dynamic_index_in_dim(y, _at_position(self.names, self.rank_of), axis, keepdims=False)

    def cut(self, fun: str, y: Any, axis: int, tiled: bool) -> Any:
        """`axis` as an axis of the group's size and one of the rest (`tiled`). ValueError if that is impossible."""
        n = y.shape[axis]
        if not tiled and n != self.size():
            raise ValueError(f"{fun}: the size of axis {axis}, {n}, must be the number of elements, {self.size()} (unless tiled)")
        if tiled and n % self.size():
            raise ValueError(f"{fun}: the size of axis {axis}, {n}, must be divisible by the number of elements, {self.size()}")
        return reshape(y, (*y.shape[:axis], self.size(), n // self.size(), *y.shape[axis + 1 :])) if tiled else y


def _at_position(names: tuple[Hashable, ...], table: Sequence[int]) -> Any:
    """Of a table by position this element's entry."""
    return dynamic_index_in_dim(np.array(table, np.int32), axis_index(names), keepdims=False)


def _rows(x: Any, rows: Sequence[int]) -> Any:
    """Rows of x by number."""
    if list(rows) == list(range(x.shape[0])):
        return x
    numbers = GatherDimensionNumbers(tuple(range(1, x.ndim)), (0,), (0,))
    return gather(
        x, np.array(rows, np.int32)[:, None], numbers, (1, *x.shape[1:]), unique_indices=True, mode=GatherScatterMode.PROMISE_IN_BOUNDS
    )


def _reduced(fun: str, op: Op, positional: Op, x: Any, axis_name: Any, groups: Any) -> Any:
    """Reduces each leaf over axes of the value itself (ints), then over mapped axes."""
    names = _names(axis_name)
    own = [n for n in names if isinstance(n, int) and not isinstance(n, bool)]
    names = _check([n for n in names if n not in own])
    leaves, tree = tree_flatten(x)
    arrays = [as_array(fun, y) for y in leaves]
    if op is ops.psum:
        arrays = [_counted(y) for y in arrays]
    if own:
        arrays = [positional(y, axes=tuple(_axis(y, a) for a in own), out_sharding=None) for y in arrays]
    if names and arrays and groups is not None:
        sets = _Groups(fun, names, groups, equal=False)
        arrays = [sets.reduced(positional, y) for y in arrays]
    elif names and arrays:
        arrays = op(*arrays, axes=names, axis_index_groups=None)
    return tree_unflatten(tree, arrays)


def _counted(x: Any) -> Any:
    """Bools as integers."""
    return convert_element_type(x, new_dtype=dtypes.default_int(), weak_type=False, sharding=None) if x.dtype == dtypes.bool_ else x


def _is_constant(x: Any) -> bool:
    return not isinstance(x, ArrayImpl | Tracer) and not hasattr(type(x), "__jax_array__")


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum of each leaf of `x` over the elements of one or several mapped axes (ints: axes of the value itself).

    Python numbers and NumPy arrays are multiplied at once: `psum(1, axis_name)` is the axis size, an int.

    >>> steno.vmap(lambda x: lax.psum(x, 'i'), axis_name='i')(jnp.arange(3))
    Array([3, 3, 3], dtype=int32)
    """
    leaves, tree = tree_flatten(x)
    names = _names(axis_name)
    if leaves and all(map(_is_constant, leaves)) and not any(isinstance(n, int) for n in names):
        names = _check(axis_name)
        if axis_index_groups is None:
            size = axis_size_of(names)
        else:
            sets = _Groups("psum", names, axis_index_groups, equal=False)
            size = sets.size() if sets.are_equal() else sets.own_size()
        return tree_unflatten(tree, [size * y for y in leaves])
    return _reduced("psum", ops.psum, reduce_sum, x, axis_name, axis_index_groups)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean of each leaf over the elements of one or several mapped axes; of integers as floats.

    >>> steno.vmap(lambda x: lax.pmean(x, 'i'), axis_name='i')(jnp.array([1.0, 3.0]))
    Array([2., 2.], dtype=float32)
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    names = _names(axis_name)
    shapes = [typeof(y).shape for y in tree_flatten(x)[0][:1]]
    own = [shapes[0][n] for n in names if isinstance(n, int)] if shapes else []
    size = psum(1, tuple(n for n in names if not isinstance(n, int)), axis_index_groups=axis_index_groups) * math.prod(own)

    def mean(y: Any) -> Any:
        if _is_constant(y):
            return y / size
        if not dtypes.is_inexact(y.dtype):
            y = convert_element_type(y, new_dtype=dtypes.default_float(), weak_type=y.weak_type, sharding=None)
        return div(y, typed_scalar(size, y.dtype) if isinstance(size, int) else convert(size, y.dtype))

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
    names = _check(axis_name)
    pairs = tuple((int(a), int(b)) for a, b in perm)
    size = axis_size_of(names)
    sources, destinations = [a for a, _ in pairs], [b for _, b in pairs]
    if len(set(sources)) != len(pairs) or len(set(destinations)) != len(pairs):
        raise ValueError(f"ppermute sources and destinations must be unique, got {perm}.")
    if any(not 0 <= k < size for k in sources + destinations):
        raise ValueError(f"ppermute: perm must hold positions along the axis {axis_name} of size {size}, got {perm}")
    if len(names) == 1:
        return _each("ppermute", x, lambda y: ops.ppermute(y, axis_name=names, perm=pairs))
    source = [-1] * size
    for a, b in pairs:
        source[b] = a

    def moved(y: Any) -> Any:
        every = _gathered(y, names, 0, False)
        mine = _at_position(names, source)
        out = dynamic_index_in_dim(every, max_(mine, typed_scalar(0, dtypes.int32)), keepdims=False)
        return out if -1 not in source else select_n(lt(mine, typed_scalar(0, dtypes.int32)), out, zeros(y.aval))

    return _each("ppermute", x, moved)


def pshuffle(x: Any, axis_name: Any, perm: Any) -> Any:
    """`ppermute` with the sources in the order of their destinations. ValueError if `perm` is no permutation."""
    if set(perm) != set(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False, to: str = "varying") -> Any:
    """Each leaf of all elements of a mapped axis, along a new axis `axis`, or with `tiled` one after the other along the axis it has."""
    names = _check(axis_name)
    groups = None if axis_index_groups is None else _Groups("all_gather", names, axis_index_groups)

    def gathered(y: Any) -> Any:
        d = axis % (y.ndim + (not tiled)) if -y.ndim - (not tiled) <= axis < y.ndim + (not tiled) else axis
        if groups is None:
            return _gathered(y, names, d, tiled)
        if not 0 <= d < y.ndim + (not tiled):
            raise ValueError(f"all_gather: axis {d} is out of bounds for an operand of shape {y.shape}")
        out = move_axis(groups.gathered(y), 0, d)
        return reshape(out, (*out.shape[:d], out.shape[d] * out.shape[d + 1], *out.shape[d + 2 :])) if tiled else out

    return _each("all_gather", x, gathered)


def _gathered(y: Any, names: tuple[Hashable, ...], d: int, tiled: bool) -> Any:
    """The values of all elements, axis after axis."""
    if not tiled and len(names) > 1:
        y = insert_axis(y, d)
    several = tiled or len(names) > 1
    for n in reversed(names):
        params = {"all_gather_dimension": d, "axis_index_groups": None, "axis_name": (n,), "axis_size": find_axis(n).size, "tiled": several}
        y = _bind(ops.all_gather, y, **params)
    return y


def psum_scatter(x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False) -> Any:
    """The sum over a mapped axis, of which each element gets its own part along `scatter_dimension`."""
    names = _check(axis_name)
    if len(names) > 1 or axis_index_groups is not None:
        groups = _Groups("psum_scatter", names, axis_index_groups)

        def scattered(y: Any) -> Any:
            d = canonical_axis(scatter_dimension, y.ndim)
            y = groups.cut("psum_scatter", y, d, tiled)
            total = ops.psum(y, axes=names, axis_index_groups=None)[0] if axis_index_groups is None else groups.reduced(reduce_sum, y)
            return groups.part(total, d)

        return _each("psum_scatter", x, scattered)
    size = find_axis(names[0]).size
    return _each(
        "psum_scatter",
        x,
        lambda y: _bind(
            ops.reduce_scatter,
            y,
            axis_index_groups=None,
            axis_name=names,
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
    names = _check(axis_name)
    if len(names) > 1 or axis_index_groups is not None:
        groups = _Groups("all_to_all", names, axis_index_groups)

        def exchanged(y: Any) -> Any:
            split, concat = canonical_axis(split_axis, y.ndim), canonical_axis(concat_axis, y.ndim)
            received = groups.part(groups.gathered(groups.cut("all_to_all", y, split, tiled)), split + 1)
            out = move_axis(received, 0, concat)
            if not tiled:
                return out
            return reshape(out, (*out.shape[:concat], out.shape[concat] * out.shape[concat + 1], *out.shape[concat + 2 :]))

        return _each("all_to_all", x, exchanged)
    size = find_axis(names[0]).size
    return _each(
        "all_to_all",
        x,
        lambda y: _bind(
            ops.all_to_all,
            y,
            axis_index_groups=None,
            axis_name=names[0],
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
    size = axis_size_of(_check(axis_name))
    if not 0 <= source < size:
        raise ValueError(f"pbroadcast: source {source} is out of bounds for the axis {axis_name} of size {size}")

    def chosen(y: Any) -> Any:
        here = axis_index(axis_name) == source
        return psum(select_n(here, zeros(y.aval), y), axis_name)

    return _each("pbroadcast", x, chosen)


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Any = None,
) -> Any:
    """Each element sends parts of different sizes of its operand along the first axis to the elements of a mapped axis.

    operand                     its rows `input_offsets[j]` ... `+ send_sizes[j]` go to element j
    output                      where rows come to; the others stay
    output_offsets              [j]: the row of j's output at which this element's rows begin there
    recv_sizes                  how many rows come from each: the others' `send_sizes`, which decide
    ValueError for arrays that are not of one dtype, rank and row shape; NotImplementedError for groups."""
    if axis_index_groups is not None:
        raise NotImplementedError("ragged_all_to_all: axis_index_groups are not supported")
    names = _check(axis_name)
    size = axis_size_of(names)
    x, out = as_array("ragged_all_to_all", operand, 0), as_array("ragged_all_to_all", output, 1)
    if x.dtype != out.dtype or x.shape[1:] != out.shape[1:] or not x.ndim or not out.ndim:
        raise ValueError(f"ragged_all_to_all: the operand and the output must agree but for their rows, got {x.aval} and {out.aval}")
    tables = [as_array("ragged_all_to_all", t, 2 + k) for k, t in enumerate((input_offsets, send_sizes, output_offsets, recv_sizes))]
    for t, what in zip(tables, ("input_offsets", "send_sizes", "output_offsets", "recv_sizes"), strict=True):
        if t.shape != (size,) or not dtypes.is_integer(t.dtype):
            raise ValueError(f"ragged_all_to_all: {what} must hold {size} integers, one for each element, got {t.aval}")
    every = _gathered(x, names, 0, False)
    here = axis_index(names)
    starts, sizes, places = (
        dynamic_index_in_dim(_gathered(convert(t, dtypes.int32), names, 0, False), here, 1, keepdims=False) for t in tables[:3]
    )
    rows = iota(np.int32, out.shape[0])
    for k in range(size):
        start, count, place = (dynamic_index_in_dim(t, k, keepdims=False) for t in (starts, sizes, places))
        offset = sub(rows, place)
        mine = bitwise_and(ge(offset, typed_scalar(0, dtypes.int32)), lt(offset, count))
        source = clamp(typed_scalar(0, dtypes.int32), add(offset, start), typed_scalar(max(x.shape[0] - 1, 0), dtypes.int32))
        numbers = GatherDimensionNumbers(tuple(range(1, x.ndim)), (0,), (0,))
        taken = gather(
            dynamic_index_in_dim(every, k, keepdims=False),
            reshape(source, (out.shape[0], 1)),
            numbers,
            (1, *x.shape[1:]),
            mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        )
        out = select_n(broadcast_in_dim(mine, out.shape, (0,)), out, taken)
    return out


def axis_index(axis_name: Any) -> Any:
    """The element's position along a mapped axis, an int32; along several in the order of their names, the last one fastest."""
    out: Any = None
    for n in _check(axis_name):
        position = ops.axis_index(axis_name=n)
        out = position if out is None else add(mul(out, typed_scalar(find_axis(n).size, dtypes.int32)), position)
    return out


def axis_size(axis_name: Any) -> int:
    """The number of elements along a mapped axis, or along several together."""
    return axis_size_of(_check(axis_name))


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Values of axes that vmap has named always vary: the value itself for `to="varying"`."""
    _check(axis_name)
    if to != "varying":
        raise ValueError(f"pcast: an axis that vmap has named is always varying, got to={to!r}")
    return x


all_gather_p, all_to_all_p, axis_index_p, ppermute_p = ops.all_gather, ops.all_to_all, ops.axis_index, ops.ppermute
pmax_p, pmin_p, psum_p = ops.pmax, ops.pmin, ops.psum

__all__ = [
    "all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pcast", "pmax", "pmean", "pmin", "ppermute", "pshuffle",
    "psum", "psum_scatter", "pswapaxes", "ragged_all_to_all",
]  # fmt: skip
