"""Functions over devices: `pmap`, `shard_map` and `smap`. There is one device, so that every mapped axis of theirs has one element."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from steno.api import jit
from steno.api_util import flatten_axes
from steno.core.aval import typeof
from steno.core.boundary import boundary
from steno.core.pytree import broadcast_prefix, prefix_errors
from steno.derivatives import check_callable
from steno.mesh import AnyMesh, PartitionSpec, get_abstract_mesh
from steno.transforms.batching import batch_flat
from steno.transforms.rules import Axis, as_array, insert_axis, reshape
from steno.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten


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
    """`fun` mapped over an axis of its arguments, each element on a device of its own: on one device the axis has one element. Compiled as
    `jit` does it.

    static_broadcasted_argnums    arguments that are Python values, the same for all elements
    donate_argnums                arguments whose memory the results may take over
    the others                    as for `vmap`; `devices` and `backend` are accepted
    ValueError if the axis has more elements than there are devices: one."""
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    for d in tree_leaves(in_axes):
        if isinstance(d, bool) or not hasattr(type(d), "__index__"):
            raise TypeError(f"pmap: each entry of in_axes must be an int or None, got {d!r} of type {type(d)}")
    statics = _positions(static_broadcasted_argnums)
    names = () if axis_name is None else (axis_name,)

    @functools.wraps(fun)
    @boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if statics and max(statics) >= len(args):
            raise ValueError(f"pmap: static_broadcasted_argnums={statics}, but {fun} was called with {len(args)} positional arguments")
        dynamic = [k for k in range(len(args)) if k not in statics]
        axes = tuple(in_axes[k] for k in dynamic) if isinstance(in_axes, tuple) and len(in_axes) == len(args) else in_axes
        given = tuple(args[k] for k in dynamic)
        dims = flatten_axes("pmap in_axes", tree_structure(given), axes)
        leaves, tree = tree_flatten((given, kwargs))
        dims += [0] * (len(leaves) - len(dims))  # arguments passed by keyword are mapped over axis 0
        if axis_size is None and all(d is None for d in dims):
            raise ValueError(f"pmap: one of the arguments must be mapped, or axis_size given; in_axes={in_axes} for {len(args)} arguments")
        sizes = {1 if axis_size is None else int(axis_size)}
        elements = []
        for x, d in zip(map(as_array, leaves), dims, strict=True):
            if d is None:
                elements.append(x)
                continue
            if not -x.ndim <= d < x.ndim:
                raise ValueError(
                    f"pmap: in_axes maps axis {d} of an argument, which has rank {x.ndim} (its type is {typeof(x).str_short()})"
                )
            sizes.add(x.shape[d])
            elements.append(reshape(x, [n for k, n in enumerate(x.shape) if k != d % x.ndim]) if x.shape[d] == 1 else x)
        if sizes != {1}:
            n = max(sizes)
            raise ValueError(f"pmap: the mapped axis has {n} elements, which needs {n} devices, and there is one; vmap needs none")

        def element(*xs: Any, **keywords: Any) -> Any:
            full = list(args)
            for k, x in zip(dynamic, xs, strict=True):
                full[k] = x
            return fun(*full, **keywords)

        some, keywords = tree_unflatten(tree, elements)
        out = _over_axes(element, names, some, keywords)
        outs, out_tree = tree_flatten(out)
        places = flatten_axes("pmap out_axes", out_tree, out_axes)
        return tree_unflatten(
            out_tree, [y if d is None else insert_axis(y, d % (len(y.shape) + 1)) for y, d in zip(outs, places, strict=True)]
        )

    return jit(mapped, static_argnums=statics, donate_argnums=_positions(donate_argnums))


def _positions(argnums: int | Iterable[int]) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def _over_axes(fun: Callable[..., Any], names: Sequence[Hashable], args: Any, kwargs: Any) -> Any:
    """`fun` with each name bound to a mapped axis of one element, along which nothing varies."""
    leaves, tree = tree_flatten((args, kwargs))
    out_tree: Any = None

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_tree
        a, k = tree_unflatten(tree, xs)
        outs, out_tree = tree_flatten(fun(*a, **k))
        return [as_array(y) for y in outs]

    for name in names:
        flat = functools.partial(_over_axis, flat, Axis(name, 1))
    outs = flat(*map(as_array, leaves))
    return tree_unflatten(out_tree, outs)


def _over_axis(flat: Callable[..., Sequence[Any]], axis: Axis, *xs: Any) -> list[Any]:
    outs, dims = batch_flat(flat, axis, xs, [None] * len(xs))
    return [as_array(y) if d is None else reshape(y, (*y.shape[:d], *y.shape[d + 1 :])) for y, d in zip(outs, dims, strict=True)]


def _check_specs(what: str, specs: Any, values: Any, mesh: AnyMesh) -> None:
    """ValueError, with the path, if the tree of PartitionSpecs is no prefix of the tree of values, or does not fit one of them."""
    marked = tree_map(_Spec, specs, is_leaf=lambda s: s is None or isinstance(s, PartitionSpec))
    for error in prefix_errors(marked, values):
        raise error(f"shard_map {what}")
    for entry, x in zip(broadcast_prefix(marked, values), tree_flatten(values)[0], strict=True):
        spec = PartitionSpec() if entry.spec is None else entry.spec
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"shard_map {what}: expected PartitionSpecs, got {spec!r} of type {type(spec)}")
        if unknown := set(spec.names()) - set(mesh.axis_names):
            raise ValueError(f"shard_map {what}: {spec!r} names the axes {sorted(unknown)}, which are not in the mesh {mesh}")
        rank = len(typeof(x).shape)
        if len(spec) > rank:
            raise ValueError(f"shard_map {what}: {spec!r} lays out {len(spec)} axes, but the value has rank {rank}")


class _Spec:
    def __init__(self, spec: Any) -> None:
        self.spec = spec


def _one_device(mesh: Any, fun: str) -> AnyMesh:
    mesh = get_abstract_mesh() if mesh is None else mesh
    if not isinstance(mesh, AnyMesh):
        raise TypeError(f"{fun}: the mesh must be a Mesh or AbstractMesh, got {mesh!r} of type {type(mesh)}")
    if mesh.empty:
        raise ValueError(f"{fun}: there is no mesh: give `mesh`, or put it under `set_mesh(mesh)`")
    if mesh.size != 1:
        raise NotImplementedError(f"{fun}: the mesh {mesh} needs {mesh.size} devices, there is one")
    return mesh


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
    """`f` on the parts of its arguments that each device of a mesh has: on one device, on all of them. Collectives in `f` may refer to the
    axes of the mesh.

    in_specs, out_specs    PartitionSpecs: trees of them, each a prefix of the arguments' or the result's tree; in_specs None: not checked
    axis_names             the axes that `f` refers to (all of them, if there are none)
    Without `f` a decorator. ValueError for specs that do not fit, NotImplementedError for a mesh of several devices."""
    if f is None:
        return functools.partial(
            shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names, check_vma=check_vma
        )  # fmt: skip
    check_callable(f)
    fun: Callable[..., Any] = f

    @functools.wraps(fun)
    @boundary
    def mapped(*args: Any) -> Any:
        found = _one_device(mesh, "shard_map")
        if in_specs is not None:
            for x in [args] if isinstance(in_specs, tuple) else args:  # one spec for all, or one for each
                _check_specs("in_specs", in_specs, x, found)
        out = _over_axes(fun, [n for n in found.axis_names if not axis_names or n in set(axis_names)], args, {})
        _check_specs("out_specs", out_specs, out, found)
        return out

    return mapped


def smap(f: Callable[..., Any] | None = None, /, *, in_axes: Any = None, out_axes: Any = 0, axis_name: Hashable) -> Callable[..., Any]:
    """`shard_map` over one axis of the mesh that is set: `in_axes` and `out_axes` say which axes of arrays are cut up along it; on one
    device none is. Without `f` a decorator."""
    if f is None:
        return functools.partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    check_callable(f)
    fun: Callable[..., Any] = f

    @functools.wraps(fun)
    @boundary
    def mapped(*args: Any) -> Any:
        found = _one_device(None, "smap")
        if axis_name not in found.axis_names:
            raise ValueError(f"smap: the axis {axis_name!r} is not in the mesh {found}")
        return _over_axes(fun, (axis_name,), args, {})

    return mapped
