"""Functions over devices: `pmap`, `shard_map` and `smap`.

Arrays lie whole in one memory, so a function of the parts of its arguments on N devices is the function mapped over N parts side by side:
each axis of the mesh is a batch axis, and a collective is an op along it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from steno.api import jit
from steno.api_util import flatten_axes
from steno.core import source
from steno.core.aval import typeof
from steno.core.boundary import boundary
from steno.core.pytree import broadcast_prefix, check_prefix
from steno.derivatives import check_callable
from steno.device import all_devices, reshard
from steno.mesh import AnyMesh, Mesh, NamedSharding, PartitionSpec, are, array_of_devices, get_abstract_mesh, get_mesh
from steno.stages import ShapeDtypeStruct
from steno.transforms.batching import batch_flat
from steno.transforms.rules import Axis, as_array, insert_axis, move_axis, permute, reshape
from steno.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten


class _Out(NamedTuple):
    """A result: along leading axes the values on the devices that differ by the mesh axes `names`."""

    value: Any
    names: tuple[Hashable, ...]


def _over_axes(
    fun: Callable[..., Any], axes: Sequence[Axis], leaves: Sequence[Any], tree: Any, used: Sequence[Sequence[Hashable]]
) -> tuple[list[_Out], Any]:
    """`fun` of the tree of leaves, under the axes from the outermost on. Leaf k has a leading axis for each name in `used[k]`, in the order
    of `axes`. The results and their tree."""
    out_tree: Any = None
    varying: list[list[Hashable]] = []

    def level(k: int, *xs: Any) -> list[Any]:
        nonlocal out_tree, varying
        if k == len(axes):
            args, kwargs = tree_unflatten(tree, xs)
            outs, out_tree = tree_flatten(fun(*args, **kwargs))
            varying = [[] for _ in outs]
            return [as_array(y) for y in outs]
        axis = axes[k]
        outs, dims = batch_flat(functools.partial(level, k + 1), axis, xs, [0 if axis.name in names else None for names in used])
        for j, d in enumerate(dims):
            if d is None:
                outs[j] = as_array(outs[j])
            elif axis.size == 1:
                outs[j] = reshape(outs[j], (*outs[j].shape[:d], *outs[j].shape[d + 1 :]))
            else:
                outs[j] = move_axis(outs[j], d, 0)
                varying[j].insert(0, axis.name)
        return outs

    outs = level(0, *map(as_array, leaves))
    return [_Out(y, tuple(names)) for y, names in zip(outs, varying, strict=True)], out_tree


# pmap


def pmap(
    fun: Callable[..., Any],
    axis_name: Hashable = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Any = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Callable[..., Any]:
    """`fun` mapped over an axis of its arguments, each element on a device of its own. Compiled as `jit` does it.

    static_broadcasted_argnums    arguments that are Python values, the same for all elements
    donate_argnums                arguments whose memory the results may take over
    devices                       those that results say they lie on: the first ones, if it says nothing
    the others                    as for `vmap`; `backend` is accepted
    ValueError if the axis has more elements than there are devices.

    >>> steno.pmap(lambda x: x + 1)(jnp.ones((1, 2)))
    Array([[2., 2.]], dtype=float32)
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    for d in tree_leaves(in_axes):
        if isinstance(d, bool) or not hasattr(type(d), "__index__"):
            raise TypeError(f"pmap: each entry of in_axes must be an int or None, got {d!r} of type {type(d)}")
    statics = _positions(static_broadcasted_argnums)
    name = _ANONYMOUS if axis_name is None else axis_name

    def described(args: Sequence[Any], kwargs: Any) -> tuple[list[Any], Any, list[int | None], int]:
        """The leaves of what is mapped, their tree, which axis of each is mapped, and its size."""
        if statics and max(statics) >= len(args):
            raise ValueError(f"pmap: static_broadcasted_argnums={statics}, but {fun} was called with {len(args)} positional arguments")
        dynamic = [k for k in range(len(args)) if k not in statics]
        axes = tuple(in_axes[k] for k in dynamic) if isinstance(in_axes, tuple) and len(in_axes) == len(args) else in_axes
        given = tuple(args[k] for k in dynamic)
        dims = flatten_axes("pmap in_axes", tree_structure(given), axes)
        leaves, tree = tree_flatten((given, kwargs))
        dims += [0] * (len(leaves) - len(dims))  # arguments passed by keyword are mapped over axis 0
        if axis_size is None and all(d is None for d in dims):
            raise ValueError(
                f"pmap requires at least one argument with a mapped axis, or axis_size; got in_axes={in_axes} for {len(args)} arguments"
            )
        sizes = set() if axis_size is None else {int(axis_size)}
        for x, d in zip(leaves, dims, strict=True):
            shape = typeof(x).shape
            if d is not None and not -len(shape) <= d < len(shape):
                raise ValueError(
                    f"pmap: in_axes maps axis {d} of an argument, which has rank {len(shape)} (its type is {typeof(x).str_short()})"
                )
            if d is not None:
                sizes.add(shape[d])
        if len(sizes) > 1:
            raise ValueError(f"pmap: the mapped axes must all have the same size, got the sizes {sorted(sizes)}")
        (size,) = sizes
        there = len(all_devices() if devices is None else devices)
        if size > there:
            raise ValueError(f"pmap: the mapped axis has {size} elements, which needs {size} devices, there {are(there)}; vmap needs none")
        return leaves, tree, dims, size

    @source.wraps(fun)
    @boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree, dims, size = described(args, kwargs)
        dynamic = [k for k in range(len(args)) if k not in statics]

        def element(*xs: Any, **keywords: Any) -> Any:
            full = list(args)
            for k, x in zip(dynamic, xs, strict=True):
                full[k] = x
            return fun(*full, **keywords)

        parts, used = [], []
        for x, d in zip(map(as_array, leaves), dims, strict=True):
            if d is not None and size == 1:
                x = reshape(x, [n for k, n in enumerate(x.shape) if k != d % x.ndim])
            elif d is not None:
                x = move_axis(x, d % x.ndim, 0)
            parts.append(x)
            used.append([name] if d is not None and size > 1 else [])
        outs, out_tree = _over_axes(element, [Axis(name, size, devices=True)], parts, tree, used)
        places = flatten_axes("pmap out_axes", out_tree, out_axes)
        return tree_unflatten(out_tree, [_stacked(y, d, size) for y, d in zip(outs, places, strict=True)])

    compiled = jit(mapped, static_argnums=statics, donate_argnums=_positions(donate_argnums))

    def placed(out: Any, size: int) -> Any:
        """The results, which say on which devices they are."""
        given = all_devices() if devices is None else list(devices)
        mesh = Mesh(array_of_devices(given[:size], (size,)), (name,))
        leaves, tree = tree_flatten(out)
        places = flatten_axes("pmap out_axes", tree, out_axes)
        specs = [PartitionSpec() if d is None else PartitionSpec(*[None] * (d % y.ndim), name) for y, d in zip(leaves, places, strict=True)]
        return tree_unflatten(tree, [reshard(y, NamedSharding(mesh, s)) for y, s in zip(leaves, specs, strict=True)])

    @source.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(all_devices()) == 1:
            return compiled(*args, **kwargs)
        size = described(args, kwargs)[3]
        return placed(compiled(*args, **kwargs), size)

    for method in ("lower", "trace", "eval_shape", "clear_cache"):
        setattr(call, method, getattr(compiled, method))
    return call


_ANONYMOUS = "_the axis of a pmap without a name"


def _positions(argnums: int | Iterable[int]) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def _stacked(out: _Out, d: int | None, size: int) -> Any:
    """The elements' results along a new axis, or that of the first element."""
    y = out.value
    if d is None:
        return y[0] if out.names else y
    if not out.names:
        return insert_axis(y, d % (y.ndim + 1), size)
    return move_axis(y, 0, d % y.ndim)


# shard_map


class _Spec:
    def __init__(self, spec: Any) -> None:
        self.spec = spec


def _specs(what: str, specs: Any, values: Any, mesh: AnyMesh) -> list[PartitionSpec]:
    """The PartitionSpec of each leaf. ValueError, with the path, if the tree of specs is no prefix of the tree of values, or one does not
    fit its value."""
    marked = tree_map(_Spec, specs, is_leaf=lambda s: s is None or isinstance(s, PartitionSpec))
    check_prefix(f"shard_map {what}", marked, values)
    out = []
    for entry, x in zip(broadcast_prefix(marked, values), tree_flatten(values)[0], strict=True):
        spec = PartitionSpec() if entry.spec is None else entry.spec
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"shard_map {what}: expected PartitionSpecs, got {spec!r} of type {type(spec)}")
        if unknown := set(spec.names()) - set(mesh.axis_names):
            raise ValueError(f"shard_map {what}: {spec!r} names the axes {sorted(unknown)}, which are not in the mesh {mesh}")
        if len(spec) > (rank := len(typeof(x).shape)):
            raise ValueError(f"shard_map {what}: {spec!r} lays out {len(spec)} axes, but the value has rank {rank}")
        out.append(spec)
    return out


def _names_of_axes(spec: PartitionSpec, ndim: int) -> list[tuple[Hashable, ...]]:
    entries = [p if isinstance(p, tuple) else () if p is None else (p,) for p in spec.partitions]
    return entries + [()] * (ndim - len(entries))


def _mesh_of(mesh: Any, fun: str) -> AnyMesh:
    if mesh is None:
        mesh = get_mesh() if not get_mesh().empty else get_abstract_mesh()
    if not isinstance(mesh, AnyMesh):
        raise TypeError(f"{fun}: the mesh must be a Mesh or AbstractMesh, got {mesh!r} of type {type(mesh)}")
    if mesh.empty:
        raise ValueError(f"{fun}: there is no mesh: give `mesh`, or put it under `set_mesh(mesh)`")
    return mesh


def _split(x: Any, spec: PartitionSpec, axes: Sequence[Axis], k: int) -> tuple[Any, list[Hashable]]:
    """An argument with a leading axis for each axis of the mesh it is cut along, in their order; the names of these. ValueError if it
    cannot be cut."""
    sizes = {a.name: a.size for a in axes}
    shape: list[int] = []
    leading: dict[Hashable, int] = {}
    rest: list[int] = []
    for d, (n, names) in enumerate(zip(x.shape, _names_of_axes(spec, x.ndim), strict=True)):
        parts = math.prod(sizes[m] for m in names)
        if n % parts:
            raise ValueError(
                f"shard_map: axis {d} of argument {k}, of shape {x.shape}, is not evenly divisible by {parts}, the size of {names} in "
                f"the mesh"
            )
        for m in names:
            if sizes[m] > 1:
                leading[m] = len(shape)
                shape.append(sizes[m])
        rest.append(len(shape))
        shape.append(n // parts)
    if not leading:
        return x, []
    used = [a.name for a in axes if a.name in leading]
    return permute(reshape(x, shape), [*(leading[m] for m in used), *rest]), used


def _joined(out: _Out, spec: PartitionSpec, axes: Sequence[Axis], check: bool, fun: str) -> Any:
    """A result's parts, laid out by its spec. ValueError if the parts differ along an axis that the spec does not name (`check`)."""
    sizes = {a.name: a.size for a in axes}
    y, names = out.value, list(out.names)
    wanted = spec.names()
    for m in [m for m in names if m not in wanted]:
        if check:
            raise ValueError(
                f"{fun}: out_specs has {spec!r} for a result that may differ along the axis {m!r} of the mesh, which it does not name: it "
                f"can't be inferred that all devices have the same; name the axis, reduce over it (lax.psum), or give check_vma=False"
            )
        y = move_axis(y, names.index(m), 0)[0]
        names.remove(m)
    for m in wanted:
        if m not in names and sizes[m] > 1:
            y, names = insert_axis(y, 0, sizes[m]), [m, *names]
    if not names:
        return y
    local = y.shape[len(names) :]
    order: list[int] = []
    shape = []
    for d, (n, of_axis) in enumerate(zip(local, _names_of_axes(spec, len(local)), strict=True)):
        order += [names.index(m) for m in of_axis if m in names] + [len(names) + d]
        shape.append(n * math.prod(sizes[m] for m in of_axis))
    return reshape(permute(y, order), shape)


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = None,
    mesh: Any = None,
    axis_names: Iterable[Hashable] = frozenset(),
    check_vma: bool = True,
) -> Callable[..., Any]:
    """`f` on the parts of its arguments that each device of a mesh has. Collectives in `f` may refer to the axes of the mesh.

    in_specs, out_specs    PartitionSpecs: trees of them, each a prefix of the arguments' or the result's tree; in_specs None: as the
                           arguments say they lie on the mesh
    axis_names             the axes that `f` refers to, and specs (all of them, if there are none); arrays are whole along the others
    check_vma              ValueError if a result may differ along an axis that its spec does not name; else the first one's counts
    Without `f` a decorator. ValueError for specs that do not fit.

    >>> double = steno.shard_map(lambda x: 2 * x, mesh=steno.make_mesh((1,), ('x',)), in_specs=steno.P('x'), out_specs=steno.P('x'))
    >>> double(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if f is None:
        return functools.partial(
            shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names, check_vma=check_vma
        )  # fmt: skip
    check_callable(f)
    fun: Callable[..., Any] = f
    chosen = frozenset(axis_names)

    @source.wraps(fun)
    @boundary
    def mapped(*args: Any) -> Any:
        found = _mesh_of(mesh, "shard_map")
        leaves, tree = tree_flatten((args, {}))
        if in_specs is None:
            specs = [_spec_of(x, found) for x in leaves]
        else:  # one spec for all, or one for each
            specs = [s for x in ([args] if isinstance(in_specs, tuple) else args) for s in _specs("in_specs", in_specs, x, found)]
        return _sharded(fun, found, chosen, leaves, tree, specs, lambda outs: _specs("out_specs", out_specs, outs, found), check_vma)

    return mapped


def _spec_of(x: Any, mesh: AnyMesh) -> PartitionSpec:
    """How an array says that it lies on the mesh."""
    place = getattr(x, "sharding", None) if getattr(x, "committed", False) is True else None
    return place.spec if isinstance(place, NamedSharding) and place.mesh.abstract_mesh == mesh.abstract_mesh else PartitionSpec()


def _sharded(
    fun: Callable[..., Any],
    mesh: AnyMesh,
    chosen: frozenset[Hashable],
    leaves: Sequence[Any],
    tree: Any,
    specs: Sequence[PartitionSpec],
    out_specs: Callable[[Any], list[PartitionSpec]],
    check: bool,
) -> Any:
    """`fun` of the parts of the leaves; `out_specs(outs)`: the spec of each leaf of its result."""
    if unknown := chosen - set(mesh.axis_names):
        raise ValueError(f"shard_map: axis_names has {sorted(map(str, unknown))}, which are not in the mesh {mesh}")
    axes = [Axis(n, s, devices=True) for n, s in mesh.shape.items() if not chosen or n in chosen]
    for spec in specs:
        if whole := [n for n in spec.names() if n not in {a.name for a in axes}]:
            raise ValueError(f"shard_map: the spec {spec!r} names the axes {whole}, which are not in axis_names, {set(chosen)}")
    parts, used = [], []
    for k, (x, spec) in enumerate(zip(map(as_array, leaves), specs, strict=True)):
        part, names = _split(x, spec, axes, k)
        parts.append(part)
        used.append(names)
    outs, out_tree = _over_axes(fun, axes, parts, tree, used)
    local = tree_unflatten(out_tree, [ShapeDtypeStruct(y.value.shape[len(y.names) :], y.value.dtype) for y in outs])
    places = out_specs(local)
    joined = [_joined(y, s, axes, check, "shard_map") for y, s in zip(outs, places, strict=True)]
    if isinstance(mesh, Mesh) and mesh.size > 1:
        joined = [reshard(y, NamedSharding(mesh, s)) for y, s in zip(joined, places, strict=True)]
    return tree_unflatten(out_tree, joined)


def smap(f: Callable[..., Any] | None = None, /, *, in_axes: Any = None, out_axes: Any = 0, axis_name: Hashable) -> Callable[..., Any]:
    """`shard_map` over one axis of the mesh that is set: `in_axes` and `out_axes` say which axes of arrays are cut up along it; None: none
    is. Without `f` a decorator."""
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    check_callable(f)
    fun: Callable[..., Any] = f

    def spec(d: int | None, ndim: int) -> PartitionSpec:
        return PartitionSpec() if d is None else PartitionSpec(*[None] * (d % max(ndim, 1)), axis_name)

    @source.wraps(fun)
    @boundary
    def mapped(*args: Any) -> Any:
        found = _mesh_of(None, "smap")
        if axis_name not in found.axis_names:
            raise ValueError(f"smap: the axis {axis_name!r} is not in the mesh {found}")
        leaves, tree = tree_flatten((args, {}))
        dims = flatten_axes("smap in_axes", tree_structure(args), in_axes)
        specs = [spec(d, len(typeof(x).shape)) for x, d in zip(leaves, dims, strict=True)]

        def places(outs: Any) -> list[PartitionSpec]:
            shapes, out_tree = tree_flatten(outs)
            return [spec(d, len(y.shape)) for y, d in zip(shapes, flatten_axes("smap out_axes", out_tree, out_axes), strict=True)]

        return _sharded(fun, found, frozenset({axis_name}), leaves, tree, specs, places, True)

    return mapped
