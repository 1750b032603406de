"""Hints for XLA's scheduler, which steno does not use, by the name of `jax.experimental.scheduling_groups`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steno.api import jit
from steno.derivatives import check_callable

__all__ = ["scheduling_group"]


def scheduling_group(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of functions whose operations a scheduler would keep together: they are jitted."""

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        check_callable(f)
        return jit(f)

    return decorate
