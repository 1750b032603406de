"""Functions with a rule of their own for vmap: custom_vmap, sequential_vmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from steno._native import current_trace
from steno.core import source
from steno.core.aval import typeof
from steno.core.boundary import boundary
from steno.core.jaxpr import DebugInfo
from steno.core.trace import trace_to_jaxpr
from steno.custom_derivatives import Decorated, as_positional
from steno.lax.control_flow.loops import map as lax_map
from steno.transforms.batching import element_aval
from steno.transforms.custom_batch import AbstractCustomVmap, call_custom_vmap
from steno.transforms.programs import Flags
from steno.transforms.rules import as_array, as_value
from steno.tree_util import PyTreeDef, tree_flatten, tree_map, tree_unflatten


@final
class custom_vmap(Decorated):
    """A function with a rule for what `vmap` makes of it.

    `f.def_vmap(rule)`: `rule(axis_size, in_batched, *args) -> (result, out_batched)`. Arguments that are batched have their batch axis in
    front; `in_batched` and `out_batched` are trees of bools of the structure of the arguments and of the result.

    Forward-mode derivatives follow from those of the function and of the rule; in reverse mode the function's own derivative is mapped.
    AttributeError if it is called before it has a rule."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        source.wraps(fun)(self)
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule; gives it back, so that it may be used as a decorator."""
        self.vmap_rule = vmap_rule
        return vmap_rule

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.vmap_rule is None:
            raise AttributeError(f"No batching rule defined for custom_vmap function {source.function_name(self.fun)} using def_vmap.")
        args = as_positional("custom_vmap", self.fun, args, kwargs)
        if current_trace() is None:
            return self.fun(*args)
        leaves, tree = tree_flatten(args)
        call = _Call(self.fun, self.vmap_rule, tree)
        outs = call_custom_vmap(call, [as_value(x) for x in leaves])
        return tree_unflatten(call.out_tree, map(as_array, outs))


@final
class _Call(AbstractCustomVmap):
    """Function and rule as functions of the leaves of the arguments."""

    __slots__ = ("fun", "in_tree", "name", "out_tree", "vmap_rule")

    out_tree: PyTreeDef

    def __init__(self, fun: Callable[..., Any], vmap_rule: Callable[..., Any], in_tree: PyTreeDef) -> None:
        self.fun, self.vmap_rule, self.in_tree = fun, vmap_rule, in_tree
        self.name = source.function_name(vmap_rule)

    def run(self, *args: Any) -> list[Any]:
        outs, self.out_tree = tree_flatten(source.call(self.fun, *tree_unflatten(self.in_tree, map(as_array, args))))
        return [as_value(y) for y in outs]

    def rule(self, size: int, batched: Flags, args: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        about = f"custom vmap rule ({self.name})"
        arrays = tree_unflatten(self.in_tree, map(as_array, args))
        pair = source.call(self.vmap_rule, size, list(tree_unflatten(self.in_tree, batched)), *arrays)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"{about} must return a pair of the result and which parts of it are batched, got {pair!r}")
        outs, out_tree = tree_flatten(pair[0])
        flags, flags_tree = tree_flatten(pair[1])
        elements = [element_aval(typeof(x), 0) if b else typeof(x) for x, b in zip(args, batched, strict=True)]
        each = trace_to_jaxpr(self.run, elements, DebugInfo("custom_vmap", source.function_info(self.fun)))
        known = self.out_tree
        if flags_tree != out_tree:
            raise ValueError(
                f"structure of output value and output batching specification returned by {about} do not match.\n"
                f"Output values: {out_tree}\nBatching spec: {flags_tree}"
            )
        if known != out_tree:
            raise ValueError(
                f"structure of output returned by {about} does not match that of original custom-vmapped function.\n"
                f"Original output: {known}\nRule output: {out_tree}"
            )
        outs = [as_value(y) for y in outs]
        if not any(batched):  # under derivatives; a rule that calls all results batched gives what an element gives
            flags = [b and len(y.shape) > a.ndim for b, y, a in zip(flags, outs, each.out_avals, strict=True)]
        for k, (y, b) in enumerate(zip(outs, flags, strict=True)):
            if not isinstance(b, bool):
                raise TypeError(f"{about}: which results are batched must be told by bools, got {b!r} for result {k}")
            if b and y.shape[:1] != (size,):
                raise ValueError(f"{about}: result {k} of shape {y.shape} is said to be batched, but has no leading axis of size {size}")
        return outs, flags


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """`f`, which `vmap` applies to one element after the other (`lax.map`) instead of rewriting its ops."""
    mapped = custom_vmap(f)

    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        leaves, tree = tree_flatten(args)
        batched, _ = tree_flatten(in_batched)
        if not any(batched):
            out = f(*args)
            return out, tree_map(lambda _: False, out)

        def one(xs: list[Any]) -> Any:
            given = iter(xs)
            return mapped(*tree_unflatten(tree, [next(given) if b else x for x, b in zip(leaves, batched, strict=True)]))

        out = lax_map(one, [x for x, b in zip(leaves, batched, strict=True) if b])
        return out, tree_map(lambda _: True, out)

    mapped.def_vmap(rule)
    return mapped


__all__ = ["custom_vmap", "sequential_vmap"]
