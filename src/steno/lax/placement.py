"""What JAX has for laying out arrays on devices and for ordering effects, on one device with effects in the order of the program."""

from __future__ import annotations

from typing import Any, final

from steno.core.aval import typeof
from steno.device import reshard
from steno.tree_util import register_pytree_node, tree_leaves


@final
class Token:
    """Something to hand from effect to effect. It holds nothing: effects happen in the order of the program."""

    def block_until_ready(self) -> Token:
        """Nothing has to be waited for."""
        return self


register_pytree_node(Token, lambda token: ((), None), lambda aux, children: Token())


def create_token(_: Any = None) -> Token:
    """A token."""
    return Token()


def after_all(*operands: Any) -> Token:
    """A token that comes after others. TypeError for what is none."""
    for k, x in enumerate(operands):
        if not isinstance(x, Token):
            raise TypeError(f"after_all: operand {k} must be a token, got {type(x)}")
    return Token()


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Says that values are wanted although nothing reads them. What they are computed by may be dropped all the same, having no effect,
    whatever `prevent_mlir_dce` says. TypeError for what is no array."""
    for x in tree_leaves(val):
        typeof(x)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The tree of arrays, laid out so: Shardings, or PartitionSpecs of the mesh that is set. ValueError for what does not fit."""
    return reshard(x, shardings)
