"""Flat functions and names of arguments, by the names of `jax.api_util`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, final

from steno.core import source
from steno.core.aval import typeof
from steno.core.jaxpr import DebugInfo
from steno.core.on_demand import on_demand
from steno.core.pytree import broadcast_prefix, check_prefix
from steno.extend.linear_util import Store, WrappedFun, transformation2, transformation_with_aux2
from steno.tracing import argument_names
from steno.tree_util import PyTreeDef, tree_flatten, tree_map, tree_structure, tree_unflatten


@transformation_with_aux2
def flatten_fun(fun: Callable[..., Any], store: Store, in_tree: PyTreeDef, *leaves: Any) -> list[Any]:
    """A function of (args, kwargs), of the structure `in_tree`, as one of its leaves that returns leaves; the auxiliary result is their
    structure."""
    args, kwargs = tree_unflatten(in_tree, leaves)
    out, out_tree = tree_flatten(fun(*args, **kwargs))
    store.store(out_tree)
    return out


@transformation_with_aux2
def flatten_fun_nokwargs(fun: Callable[..., Any], store: Store, in_tree: PyTreeDef, *leaves: Any) -> list[Any]:
    """`flatten_fun` where `in_tree` is the structure of the positional arguments alone."""
    out, out_tree = tree_flatten(fun(*tree_unflatten(in_tree, leaves)))
    store.store(out_tree)
    return out


@transformation2
def _with_fixed(fun: Callable[..., Any], positions: tuple[int, ...], fixed: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
    dynamic, rest = iter(args), iter(fixed)
    n = len(args) + len(fixed)
    return fun(*(next(dynamic if k in positions else rest) for k in range(n)), **kwargs)


def argnums_partial(
    f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any], require_static_args_hashable: bool = True
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """The function of the arguments at `dyn_argnums` alone, the others being what they are, and those arguments. ValueError for a fixed
    argument that cannot be hashed, if it has to be."""
    chosen = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    positions = tuple(sorted(k % len(args) for k in chosen))
    fixed = tuple(x for k, x in enumerate(args) if k not in positions)
    if require_static_args_hashable:
        for x in fixed:
            try:
                hash(x)
            except TypeError as err:
                raise ValueError(f"argnums_partial: the static argument {x!r} of type {type(x)} cannot be hashed: {err}") from None
    return _with_fixed(f, positions, fixed), tuple(args[k] for k in positions)


def flatten_axes(name: str, treedef: PyTreeDef, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False) -> list[Any]:
    """One entry of `axis_tree`, a prefix in which None is an entry, for each leaf of the structure. ValueError, named `name`, for no
    prefix."""
    full = tree_unflatten(treedef, [0] * treedef.num_leaves)
    entries = tree_map(_Entry, axis_tree, is_leaf=lambda a: a is None)  # None would be no leaf
    check_prefix(name, entries, full)
    return [e.axis for e in broadcast_prefix(entries, full)]


@final
class _Entry:
    def __init__(self, axis: Any) -> None:
        self.axis = axis


def donation_vector(
    donate_argnums: Collection[int], donate_argnames: Collection[str] | None, in_tree: PyTreeDef, kws: bool = True
) -> tuple[bool, ...]:
    """For each leaf of (args, kwargs), or of args if not `kws`, whether it is donated."""
    whole = tree_unflatten(in_tree, range(in_tree.num_leaves))
    args, kwargs = whole if kws else (whole, {})
    donated = [x for k, x in enumerate(args) if k in donate_argnums]
    donated += [v for k, v in kwargs.items() if k in (donate_argnames or ())]
    chosen = set(tree_flatten(donated)[0])
    return tuple(k in chosen for k in range(in_tree.num_leaves))


def rebase_donate_argnums(donate_argnums: Sequence[int], static_argnums: Sequence[int]) -> tuple[int, ...]:
    """Positions of donated arguments among those that are not static. ValueError for one that is both."""
    if both := set(donate_argnums) & set(static_argnums):
        raise ValueError(f"arguments {sorted(both)} are both static and donated")
    return tuple(sorted(d - sum(s < d for s in static_argnums) for d in donate_argnums))


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    **ignored: Any,
) -> DebugInfo:
    """What a program is traced from: the function's place, and the names of its flat arguments without the static ones."""
    positions = [k for k in range(len(args)) if k not in static_argnums]
    tree = tree_structure(([args[k] for k in positions], {k: v for k, v in kwargs.items() if k not in static_argnames}))
    return DebugInfo(traced_for, source.function_info(fun), lambda: argument_names(fun, tree, positions))


def shaped_abstractify(x: Any) -> Any:
    """The type of an array or a number."""
    return typeof(x)


def safe_map(f: Callable[..., Any], *args: Sequence[Any]) -> list[Any]:
    """`map` as a list. ValueError if the sequences differ in length."""
    return [f(*xs) for xs in zip(*args, strict=True)]


__getattr__, __dir__ = on_demand(__name__, {})
