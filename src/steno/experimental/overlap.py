"""Hints about the order in which accelerators do things, by the name of `jax.experimental.overlap`: a CPU does them one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from steno.derivatives import check_callable

__all__ = ["program_order"]


def program_order(
    f: Callable[..., Any] | None = None, *, enforce: bool, strict_in_out: Any = False, exclude_argnames: Any = None
) -> Callable[..., Any]:
    """`f` itself; without it a decorator. What `f` does happens in an order that its results do not depend on."""
    if f is None:
        return functools.partial(program_order, enforce=enforce, strict_in_out=strict_in_out, exclude_argnames=exclude_argnames)
    check_callable(f)
    return f
