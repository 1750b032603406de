"""Makes `import jax`, in this process, mean steno: `steno.asjax.install()`, or `steno run program.py`.

`jax` and `jax.x.y` become steno's modules of the same names. Nothing on disk is touched, and an installed JAX stays what it is for other
processes."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, final

import steno
from steno.core.absent import REASONS

JAX_VERSION = "0.12.0"
"""The version of JAX whose interface steno has: what `jax.__version__` says."""


@final
class _Jax(ModuleType):
    """The module `jax`: steno, but for its version."""

    def __init__(self) -> None:
        super().__init__("jax", "steno, under JAX's name.")
        self.__path__: list[str] = []
        self.__version__ = JAX_VERSION
        self.__version_info__ = tuple(map(int, JAX_VERSION.split(".")))

    def __getattr__(self, name: str) -> Any:
        try:
            value = importlib.import_module("steno._src") if name == "_src" else getattr(steno, name)
        except AttributeError:
            raise AttributeError(f"module 'jax' (steno {steno.__version__}) has no attribute {name!r}") from None
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(steno)})


@final
class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `jax` and its submodules as steno's."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in ("jax", "jaxlib"):
            return ModuleSpec(fullname, self, is_package=True)
        if not fullname.startswith("jax."):
            return None
        own = "steno" + fullname[3:]
        try:
            found = importlib.util.find_spec(own)
        except ModuleNotFoundError:
            found = None
        if found is None:
            why = REASONS.get(fullname.removeprefix("jax."))
            text = f"No module named {fullname!r}: steno has no module {own!r}"
            raise ModuleNotFoundError(text if why is None else f"{text}: {why}", name=fullname)
        return ModuleSpec(fullname, self, is_package=found.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return _Jax() if spec.name == "jax" else None

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """`importlib.metadata.version("jax")`, by which libraries decide what they may use."""
        name = getattr(context, "name", None)
        if name in ("jax", "jaxlib"):
            yield _metadata(name)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name == "jaxlib":
            module.__dict__.update(__version__=JAX_VERSION, __doc__="What is here of it: a version. steno has no XLA.")
        elif name != "jax":
            sys.modules[name] = importlib.import_module("steno" + name[3:])


def _metadata(name: str) -> Any:
    from importlib.metadata import Distribution  # noqa: PLC0415 - slow to import, and seldom wanted

    class Metadata(Distribution):
        def read_text(self, filename: str) -> str | None:
            return f"Metadata-Version: 2.1\nName: {name}\nVersion: {JAX_VERSION}\n" if filename == "METADATA" else None

        def locate_file(self, path: Any) -> Any:
            raise FileNotFoundError(path)

    return Metadata()


_finder = _Finder()


def install() -> None:
    """From now on `import jax` gives steno. RuntimeError if the real JAX is imported already."""
    real = sys.modules.get("jax")
    if real is not None and not isinstance(real, _Jax):
        raise RuntimeError(
            f"steno.asjax.install(): the real jax is already imported (from {getattr(real, '__file__', 'an unknown place')}); "
            "call install() before anything imports jax, or run the program with `steno run`"
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Undoes `install()`: a later `import jax` finds what is installed. Modules that imported steno under JAX's name keep it."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [n for n in sys.modules if n.split(".")[0] in ("jax", "jaxlib")]:
        del sys.modules[name]
