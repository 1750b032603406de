"""What the function that `vjp` returns keeps of the arguments of the differentiated function: `saveable_args` and `args_res`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from steno.core.aval import ShapedArray
from steno.core.record import record
from steno.transforms.rules import as_array
from steno.tree_util import PyTreeDef, register_pytree_node, tree_flatten, tree_unflatten


@final
@record(frozen=True)
class NotNeeded:
    """The backward pass does not read this argument."""


@final
@record(frozen=True)
class NotSaveable:
    """The backward pass reads this argument, but was told not to keep it: it has to be put here before the pass."""


for _cls in (NotNeeded, NotSaveable):
    register_pytree_node(_cls, lambda _: ((), None), lambda _, __, cls=_cls: cls())


def _is_sentinel(x: Any) -> bool:
    return x is None or isinstance(x, NotNeeded | NotSaveable)


def saveable_flags(wanted: Any, tree: PyTreeDef) -> list[bool]:
    """For each leaf of the arguments whether it may be kept: `wanted` is a bool, or a tree of bools that goes with `tree` from the top,
    where containers need only have equally many children. ValueError if it does not."""
    leaves, prefix = tree_flatten(wanted)
    for x in leaves:
        if not isinstance(x, bool):
            raise ValueError(
                "the saveable_args argument to jax.vjp must be a tree of bools, like a tuple-tree (made of bools and tuples only), but "
                f"saveable_args is {wanted} of type {type(wanted)}"
            )
    return list(_spread(iter(leaves), prefix, tree))


def _spread(flags: Iterator[bool], prefix: PyTreeDef, tree: PyTreeDef) -> Iterator[bool]:
    if prefix.num_nodes == 1 and prefix.num_leaves == 1:
        yield from [next(flags)] * tree.num_leaves
        return
    ones, others = prefix.children(), tree.children()
    if len(ones) != len(others):
        raise ValueError(
            "the saveable_args argument to jax.vjp must form a tree prefix of the arguments (up to container types: containers need only "
            f"match in their number of children), but saveable_args has {len(ones)} children where the arguments have {len(others)}"
        )
    for one, other in zip(ones, others, strict=True):
        yield from _spread(flags, one, other)


def verbatim(residuals: Sequence[Any], xs: Sequence[Any]) -> tuple[int | None, ...]:
    """For each residual which argument it is; None for those that are computed."""
    positions = {id(x): k for k, x in reversed([*enumerate(xs)])}
    return tuple(positions.get(id(r)) for r in residuals)


def kept_arguments(residuals: Sequence[Any], which: Sequence[int | None], tree: PyTreeDef) -> list[Any]:
    """The arguments, as far as they are residuals."""
    leaves: list[Any] = [NotNeeded()] * tree.num_leaves
    for r, k in zip(residuals, which, strict=True):
        if k is not None:
            leaves[k] = r
    return list(tree_unflatten(tree, leaves))


def restored(
    residuals: Sequence[Any], which: Sequence[int | None], arguments: Any, tree: PyTreeDef, avals: Sequence[ShapedArray]
) -> list[Any]:
    """The residuals, those that are arguments taken from these. ValueError for arguments of another structure or other types."""
    leaves, got = tree_flatten(tuple(arguments), is_leaf=lambda x: x is not None and _is_sentinel(x))
    if got != tree:
        leaves, got = tree_flatten(tuple(arguments), is_leaf=_is_sentinel)
    if got != tree:
        raise ValueError(f"args_res must be a list of the arguments, of the structure {tree}, got {got}")
    return [r if k is None else _as_argument(leaves[k], k, avals[k]) for r, k in zip(residuals, which, strict=True)]


def _as_argument(x: Any, position: int, aval: ShapedArray) -> Any:
    if _is_sentinel(x):
        return x
    x = as_array(x)
    if (x.shape, x.dtype) != (aval.shape, aval.dtype):
        raise ValueError(f"args_res: argument number {position} was of type {aval.str_short()}, got {x.aval.str_short()}")
    return x


def check_restored(residuals: Sequence[Any], fun: str) -> None:
    """ValueError if arguments that were not kept have not been put back."""
    if any(map(_is_sentinel, residuals)):
        raise ValueError(
            f"the VJP function of {fun} was applied before its arguments were restored: because of `saveable_args` some of them were not "
            "kept for the backward pass. Put their values where `args_res` of the VJP function has NotSaveable()"
        )
