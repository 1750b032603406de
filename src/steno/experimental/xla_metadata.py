"""Hints for XLA, which steno does not use: they are accepted, and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from steno.api import jit
from steno.derivatives import check_callable
from steno.lax.operands import as_array
from steno.tree_util import tree_map


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """The tree of arrays `x`; without it a context manager. TypeError for a leaf that is no array."""
    if x is None:
        return contextlib.nullcontext()
    return tree_map(lambda leaf: as_array("set_xla_metadata", leaf), x)


def xla_metadata_call(f: Callable[..., Any] | None = None, /, **meta: Any) -> Any:
    """`f` as a jitted function; without it a decorator. TypeError for metadata other than strings and numbers."""
    for key, value in meta.items():
        if not isinstance(value, str | bool | int | float):
            raise TypeError(f"xla_metadata_call: metadata must be strings, bools, ints or floats, got {value!r} for {key!r}")
    if f is None:
        return xla_metadata_call
    check_callable(f)
    return jit(f)


def fuse_limit() -> contextlib.AbstractContextManager[None]:
    """A context manager around operations that XLA would not fuse with others."""
    return contextlib.nullcontext()


def must_fuse_call(identifier: str) -> Callable[..., Any]:
    """A decorator of functions whose operations XLA would fuse."""
    return xla_metadata_call


__all__ = ["fuse_limit", "must_fuse_call", "set_xla_metadata", "xla_metadata_call"]
