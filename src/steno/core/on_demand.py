"""Names of a package that are imported when they are first used, so that the package itself is imported quickly."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def on_demand(
    package: str, members: Mapping[str, Iterable[str]], submodules: Iterable[str] = (), later: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, to be set at the end of its `__init__`; `__all__` becomes all its public names.

    members: the names to be found in each submodule (`"derivatives": ("grad", "jvp")`) or module (`"steno.mesh": ("P",)`);
    submodules: those that are names themselves; later: names that are announced, but not there yet: the AttributeError says so."""
    namespace = sys.modules[package].__dict__
    where = {name: module for module, names in members.items() for name in names}
    submodules, later = frozenset(submodules), frozenset(later)
    public = sorted({n for n in namespace if not n.startswith("_") and n != "annotations"} | {*where} | submodules)
    namespace["__all__"] = public

    def get(name: str) -> Any:
        if name in where:
            module = where[name]
            value = getattr(importlib.import_module(module if module.startswith("steno.") else f"{package}.{module}"), name)
        elif name in submodules:
            value = importlib.import_module(f"{package}.{name}")
        elif name in later:
            raise AttributeError(f"{package}.{name} is not implemented yet")
        else:
            why = None if name.startswith("_") else importlib.import_module("steno.core.absent").reason(package, name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}" + ("" if why is None else f": {why}"))
        namespace[name] = value
        return value

    def names() -> list[str]:
        return sorted({*namespace, *public})

    return get, names
