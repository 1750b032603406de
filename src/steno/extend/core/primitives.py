"""The ops, by the names of `jax.extend.core.primitives`: `add_p` is the op `add`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import steno.ops
import steno.transforms
from steno.core.absent import REASONS
from steno.core.op import OPS, Op
from steno.extend.core import Primitive

# importing a family declares its ops
for _package in (steno.ops, steno.transforms):
    for _module in pkgutil.iter_modules(_package.__path__):
        importlib.import_module(f"{_package.__name__}.{_module.name}")
importlib.import_module("steno.lax.incomplete")

# What no program of ours holds, for libraries that ask of each equation whether it is one.
call_p, closed_call_p = Primitive("core_call"), Primitive("closed_call")

_OTHER_NAMES = {"add_jaxvals": "add_any", "remat": "remat2", "linear_solve": "custom_linear_solve", "empty2": "empty_ref"}


def __getattr__(name: str) -> Op:
    stem = name.removesuffix("_p")
    op = None
    if name.endswith("_p"):
        op = OPS.get(_OTHER_NAMES.get(stem, stem)) or OPS.get(stem.replace("_", "-"))
    if op is None:
        why = REASONS.get(f"extend.core.primitives.{name}", "there is no op of that name")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {why}")
    return op


def __dir__() -> list[Any]:
    return sorted(f"{name.replace('-', '_')}_p" for name in OPS)
