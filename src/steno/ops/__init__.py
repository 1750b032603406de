"""The ops, one record each, by file. JAX's functions of the name `ops`, `segment_sum` and its kind, are reached here too."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from steno.indexed_folds import (
        segment_max as segment_max,
        segment_min as segment_min,
        segment_prod as segment_prod,
        segment_sum as segment_sum,
    )

_ON_DEMAND = frozenset(("segment_max", "segment_min", "segment_prod", "segment_sum"))
"""Functions built on the faces, which are built on the ops: imported when they are first used."""


def __getattr__(name: str) -> object:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'steno.ops' has no attribute {name!r}")
    value = globals()[name] = getattr(_importlib.import_module("steno.indexed_folds"), name)
    return value
