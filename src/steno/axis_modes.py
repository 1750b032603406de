"""Functions under which the axes of the mesh are of another type: `auto_axes`, `explicit_axes`. As arrays lie whole in one memory, all that
matters is where values say that they lie."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from steno.core import source
from steno.core.boundary import boundary
from steno.derivatives import check_callable
from steno.device import reshard
from steno.mesh import AbstractMesh, AxisType, get_abstract_mesh, use_abstract_mesh


def _mesh_with(axes: Any, axis_type: AxisType, fun: str) -> AbstractMesh:
    """The present mesh with these axes, or all, of that type. ValueError for names that are not there, and if no mesh is set."""
    mesh = get_abstract_mesh()
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    if mesh.empty:
        raise ValueError(f"{fun}: there is no mesh: put it under `set_mesh(mesh)`")
    if unknown := [n for n in names if n not in mesh.axis_names]:
        raise ValueError(f"{fun}: the axes {unknown} are not in the mesh {mesh}")
    return mesh.update(axis_types=tuple(axis_type if n in names else t for n, t in zip(mesh.axis_names, mesh.axis_types, strict=True)))


def _said(fun: str, what: str, keyword: str, by_call: Any, by_decorator: Any) -> Any:
    """How the arguments or results lie: as the call says, else the decorator. TypeError if neither does."""
    where = by_decorator if by_call is None else by_call
    if where is None:
        raise TypeError(f"{fun}: the call, or the decorator, must say how the {what} lie: the required keyword {keyword} is missing")
    return where


def auto_axes(f: Callable[..., Any] | None = None, /, *, axes: Any = None, out_sharding: Any = None) -> Callable[..., Any]:
    """`f`, in which the axes of the mesh (all, or those named) are Auto; its results lie as `out_sharding` says, a tree of PartitionSpecs
    or shardings that the call may give too.

    Without `f` a decorator. TypeError if nothing says how the results lie."""
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    check_callable(f)
    fun: Callable[..., Any] = f
    given = out_sharding

    @source.wraps(fun)
    @boundary
    def call(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        where = _said("auto_axes", "results", "out_sharding", out_sharding, given)
        with use_abstract_mesh(_mesh_with(axes, AxisType.Auto, "auto_axes")):
            out = fun(*args, **kwargs)
        return reshard(out, where)

    return call


def explicit_axes(f: Callable[..., Any] | None = None, /, *, axes: Any = None, in_sharding: Any = None) -> Callable[..., Any]:
    """`f`, in which the axes of the mesh (all, or those named) are Explicit; its arguments lie as `in_sharding` says, a tree of
    PartitionSpecs or shardings that the call may give too.

    Without `f` a decorator. TypeError if nothing says how the arguments lie."""
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    check_callable(f)
    fun: Callable[..., Any] = f
    given = in_sharding

    @source.wraps(fun)
    @boundary
    def call(*args: Any, in_sharding: Any = None, **kwargs: Any) -> Any:
        where = _said("explicit_axes", "arguments", "in_sharding", in_sharding, given)
        args = reshard(args, where)
        with use_abstract_mesh(_mesh_with(axes, AxisType.Explicit, "explicit_axes")):
            return fun(*args, **kwargs)

    return call
