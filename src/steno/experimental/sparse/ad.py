"""Derivatives by sparse arrays: by the elements that they store. A derivative is stored at the same positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steno import gradients, numpy as jnp
from steno.core import source
from steno.experimental.sparse.bcoo import BCOO
from steno.experimental.sparse.util import JAXSparse
from steno.tree_util import tree_flatten, tree_unflatten

Array = Any


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _data(x: Any) -> Any:
    return x.data if _is_sparse(x) else x


def _with(x: Any, data: Any) -> Any:
    """x with other elements; what has more axes than its elements has got batch axes."""
    if not _is_sparse(x):
        return data
    more = data.ndim - x.data.ndim
    if not more:
        leaves, tree = tree_flatten(x)
        return tree_unflatten(tree, [data, *leaves[1:]])
    if not isinstance(x, BCOO):
        raise NotImplementedError(f"derivatives of arrays by {x!r}: only by arrays in batched coordinates")
    indices = jnp.broadcast_to(x.indices, (*data.shape[:more], *x.indices.shape))
    return BCOO((data, indices), shape=(*data.shape[:more], *x.shape), indices_sorted=x.indices_sorted, unique_indices=x.unique_indices)


def _by_elements(
    transform: Callable[..., Any], fun: Callable[..., Any], argnums: int | Sequence[int], with_value: bool, **kwargs: Any
) -> Any:
    has_aux = kwargs.get("has_aux", False)

    @source.wraps(fun)
    def derivative(*args: Any, **named: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        numbers = tuple(n % len(args) for n in numbers)
        flat = [tree_flatten(args[n], is_leaf=_is_sparse) for n in numbers]

        def of_elements(*leaves: Any) -> Any:
            rebuilt = list(args)
            for n, (own, tree), new in zip(numbers, flat, leaves, strict=True):
                rebuilt[n] = tree_unflatten(tree, [_with(x, v) for x, v in zip(own, new, strict=True)])
            return fun(*rebuilt, **named)

        out = transform(of_elements, argnums=tuple(range(len(numbers))), **kwargs)(*([_data(x) for x in own] for own, _ in flat))

        def restored(found: Any) -> Any:
            trees = [
                tree_unflatten(tree, [_with(x, v) for x, v in zip(own, new, strict=True)])
                for (own, tree), new in zip(flat, found, strict=True)
            ]
            return trees[0] if isinstance(argnums, int) else tuple(trees)

        if with_value:
            return out[0], restored(out[1])
        return (restored(out[0]), out[1]) if has_aux else restored(out)

    return derivative


def value_and_grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable[..., Any]:
    """As `steno.value_and_grad`, also by sparse arrays."""
    return _by_elements(gradients.value_and_grad, fun, argnums, True, has_aux=has_aux, **kwargs)


def grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable[..., Any]:
    """As `steno.grad`, also by sparse arrays."""
    return _by_elements(gradients.grad, fun, argnums, False, has_aux=has_aux, **kwargs)


def jacfwd(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable[..., Any]:
    """As `steno.jacfwd`, also by sparse arrays: the axes of the function's result are batch axes of the derivative."""
    return _by_elements(gradients.jacfwd, fun, argnums, False, has_aux=has_aux, **kwargs)


def jacrev(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Callable[..., Any]:
    """As `steno.jacrev`, also by sparse arrays: the axes of the function's result are batch axes of the derivative."""
    return _by_elements(gradients.jacrev, fun, argnums, False, has_aux=has_aux, **kwargs)


jacobian = jacrev
