"""The ops, by the names of `jax.extend.core.primitives`: `add_p` is the op `add`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import steno.ops
import steno.transforms
from steno.core.op import OPS, Op

# importing a family declares its ops
for _package in (steno.ops, steno.transforms):
    for _module in pkgutil.iter_modules(_package.__path__):
        importlib.import_module(f"{_package.__name__}.{_module.name}")

_OTHER_NAMES = {"jit": "jit", "add_jaxvals": "add_any", "remat": "checkpoint"}


def __getattr__(name: str) -> Op:
    op = OPS.get(_OTHER_NAMES.get(stem := name.removesuffix("_p"), stem)) if name.endswith("_p") else None
    if op is None:
        op = OPS.get(stem.replace("_", "-", 1)) if name.startswith("scatter_") else None
    if op is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: there is no op of that name")
    return op


def __dir__() -> list[Any]:
    return sorted(f"{name.replace('-', '_')}_p" for name in OPS)
