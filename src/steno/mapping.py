"""vmap: a function of single elements as a function of arrays of elements."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from steno.core import source
from steno.core.aval import typeof
from steno.core.boundary import boundary
from steno.core.names import VMAP, named
from steno.core.pytree import broadcast_prefix, check_prefix
from steno.core.sizes import size_of
from steno.derivatives import check_callable
from steno.tracing import argument_names, check_references
from steno.transforms.batching import batch_flat
from steno.transforms.rules import Axis, as_array, insert_axis, move_axis, sum_over
from steno.tree_util import PyTreeDef, keystr, tree_flatten, tree_flatten_with_path, tree_leaves, tree_map, tree_unflatten


def _is_none(x: Any) -> bool:
    return x is None


def _check_axes_types(name: str, axes: Any) -> None:
    for leaf in tree_leaves(axes, is_leaf=_is_none):
        if leaf is not None and not _is_position(leaf):
            raise TypeError(f"vmap {name} must be an int, None, or (nested) container with those types as leaves, but got {axes}.")


def _is_position(x: Any) -> bool:
    try:
        operator.index(x)
    except TypeError:
        return False
    return not isinstance(x, bool)


def _flat_axes(name: str, axes: Any, tree: Any) -> list[int | None]:
    """One axis for each leaf of `tree`. ValueError, with the path, if `axes` is no prefix of it."""
    # None is a leaf of `axes`, but none of `tree`
    axes = tree_map(lambda a: _UNMAPPED if a is None else a, axes, is_leaf=_is_none)
    check_prefix(f"vmap {name}", axes, tree)
    return [None if a == _UNMAPPED else int(a) for a in broadcast_prefix(axes, tree)]


_UNMAPPED: Final = -(1 << 62)


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Callable[..., Any]:
    """`fun` mapped over an axis of its arguments, op by op: one call computes all elements.

    in_axes     which axis of each positional argument: an int, None (the same value for all elements), or a tuple of one entry for each
                argument, each a prefix of the argument's tree. Arguments passed by keyword are mapped over axis 0
    out_axes    where the axis is in the results: a prefix of the result's tree; None for a result that is the same for all
    axis_name   what collectives (`lax.psum`, ...) call the axis
    axis_size   the size of the axis, if no argument tells it
    spmd_axis_name    accepted; there is one device
    sum_match   a result whose out_axes is None although it differs between elements is summed over them (else an error)

    ValueError if sizes differ, axes do not exist, or the trees do not fit.

    >>> steno.vmap(jnp.dot, in_axes=(0, None))(jnp.eye(2), jnp.array([1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or type(in_axes) is tuple or hasattr(type(in_axes), "__index__")):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to the function, "
            f"but got {in_axes}."
        )
    _check_axes_types("in_axes", in_axes)
    _check_axes_types("out_axes", out_axes)

    @source.wraps(fun)
    @boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to the "
                f"function, but got len(in_axes)={len(in_axes)}, len(args)={len(args)}.{_note_of(kwargs)}"
            )
        leaves, tree = tree_flatten((args, kwargs))
        check_references(fun, leaves, lambda: argument_names(fun, tree), "vmap")
        dims = [*_flat_axes("in_axes", in_axes, args), *(0 for _ in tree_leaves(kwargs))]
        values = [x if d is None else _argument(x) for x, d in zip(leaves, dims, strict=True)]  # what all share is passed as it is
        dims = [_normalized(d, x) for d, x in zip(dims, values, strict=True)]
        size = _mapped_size(fun, tree, values, dims, axis_size, args, kwargs)
        out_tree: PyTreeDef | None = None

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree
            a, k = tree_unflatten(tree, xs)
            outs, out_tree = tree_flatten(fun(*a, **k))
            return [_result(y) for y in outs]

        axis = Axis(axis_name, size, spmd_axis_name)
        with named(VMAP):
            outs, out_dims = batch_flat(flat, axis, values, dims)
        assert out_tree is not None
        wanted = _flat_axes("out_axes", out_axes, tree_unflatten(out_tree, outs))
        return tree_unflatten(
            out_tree, [as_array(_placed(y, d, w, axis, sum_match)) for y, d, w in zip(outs, out_dims, wanted, strict=True)]
        )

    if fun.__doc__:
        mapped.__doc__ = (
            f"Vectorized version of {getattr(fun, '__name__', 'a function')}: of arrays of elements, with in_axes={in_axes}, "
            f"out_axes={out_axes}.\n\nOriginal documentation:\n\n{fun.__doc__}"
        )
    return mapped


def _note_of(kwargs: dict[str, Any]) -> str:
    if not kwargs:
        return ""
    return f" Note that the function was called with keyword arguments {sorted(kwargs)}: these are mapped along axis 0, not by in_axes."


def _argument(x: Any) -> Any:
    try:
        return as_array(x)
    except TypeError:
        raise TypeError(f"Argument '{x}' of type {type(x)} is not a valid JAX type") from None


def _result(y: Any) -> Any:
    try:
        return as_array(y)
    except TypeError:
        raise TypeError(f"Output from batched function {y!r} with type {type(y)} is not a valid JAX type") from None


def _normalized(dim: int | None, x: Any) -> int | None:
    """`-ndim <= dim < ndim` --> `0 <= dim < ndim`. ValueError out of that range."""
    if dim is None:
        return None
    ndim = len(x.shape)
    if not -ndim <= dim < ndim:
        raise ValueError(
            f"vmap was requested to map its argument along axis {dim}, which implies that its rank should be at least "
            f"{dim + 1 if dim >= 0 else -dim}, but is only {ndim} (its shape is {x.shape})"
        )
    return dim % ndim


def _mapped_size(
    fun: Callable[..., Any],
    tree: PyTreeDef,
    values: Sequence[Any],
    dims: Sequence[int | None],
    given: int | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> int:
    """The size of the mapped axis. ValueError, listing each argument's path and size, if they differ, or if nothing tells it."""
    sizes = [x.shape[d] for x, d in zip(values, dims, strict=True) if d is not None]
    if given is not None and all(n == given for n in sizes):
        return size_of(given)
    if given is None and sizes and all(n == sizes[0] for n in sizes):
        return sizes[0]
    if not values:
        raise ValueError(
            "vmap wrapped function must be passed at least one argument containing an array or axis_size must be specified, got empty "
            f"*args={args} and **kwargs={kwargs}"
        )
    if not sizes:
        raise ValueError("vmap must have at least one non-None value in in_axes or axis_size must be specified")
    names = [*map("argument {}".format, argument_names(fun, tree)[: len(tree_leaves(args))])]
    names += ["kwargs" + keystr(path) for path, _ in tree_flatten_with_path(kwargs)[0]]
    lines = ["vmap got inconsistent sizes for array axes to be mapped:"]
    if given is not None:
        lines.append(f"  * the `axis_size` argument was {given};")
    described = [
        (x.shape[d], f"axis {d} of {name} of type {typeof(x).str_short()}")
        for x, d, name in zip(values, dims, names, strict=True)
        if d is not None
    ]
    counts = Counter(n for n, _ in described)
    ranked = counts.most_common()
    for k, (n, count) in enumerate(ranked):
        of_size = [text for m, text in described if m == n]
        if count == 1:
            lines.append(f"  * one axis had size {n}: {of_size[0]};")
        elif k == 0 and (len(ranked) == 1 or ranked[1][1] < count):
            lines.append(f"  * most axes ({count} of them) had size {n}, e.g. {of_size[0]};")
        else:
            lines.append(f"  * some axes ({count} of them) had size {n}, e.g. {of_size[0]};")
    raise ValueError("\n".join(lines)[:-1])


def _placed(y: Any, dim: int | None, wanted: int | None, axis: Axis, sum_match: bool) -> Any:
    """A result with its batch axis where `out_axes` wants it, or summed along it. ValueError if that is impossible."""
    if wanted is None:
        if dim is not None and sum_match:
            return sum_over(y, (dim,))
        if dim is not None:
            raise ValueError(
                f"at vmap out_axes: vmap has mapped output, a result with elements along axis {dim} (axis_name={axis.name}), but out_axes "
                "is None, which stands for a result that is the same for all"
            )
        return y
    ndim = len(y.shape) + (dim is None)
    if not -ndim <= wanted < ndim:
        raise ValueError(f"axis {wanted} is out of bounds for array of dimension {ndim}")
    return insert_axis(y, wanted % ndim, axis.size) if dim is None else move_axis(y, dim, wanted % ndim)
