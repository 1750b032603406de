"""What the code of a program depends on besides the program: the files of this package, Python, and the libraries it is made with.

Files are known by name, size and time, so that an edit of any of them makes another version."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Final

import numpy as np

from steno.compiler.object_cache import digest

COMPILING: Final = ("core", "ir", "ops", "transforms", "compiler", "runtime", "backends")
"""Folders of what makes code of a program. They import nothing of the others, whose part ends when the program is recorded."""

_ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _files(folders: Iterable[str]) -> list[tuple[str, int, int]]:
    found = []
    folders = list(folders)
    while folders:
        with os.scandir(folders.pop()) as entries:
            for e in entries:
                if e.name.endswith((".py", ".so")):
                    status = e.stat()
                    found.append((e.path[len(_ROOT) :], status.st_size, status.st_mtime_ns))
                elif e.name != "__pycache__" and e.is_dir():
                    folders.append(e.path)
    return sorted(found)


@cache
def compiler_version() -> str:
    """Of what makes code of a program."""
    with os.scandir(_ROOT) as entries:  # the native core stands in the package's own folder
        native = [(e.name, (status := e.stat()).st_size, status.st_mtime_ns) for e in entries if e.name.endswith(".so")]
    spec = importlib.util.find_spec("llvmlite")  # without importing it
    if spec is not None and spec.origin:
        with suppress(OSError):
            status = os.stat(os.path.join(os.path.dirname(spec.origin), "_version.py"))
            native.append(("llvmlite", status.st_size, status.st_mtime_ns))
    return f"{sys.version} {np.__version__} {sorted(native)} {_files(os.path.join(_ROOT, f) for f in COMPILING)}"


@cache
def package_version() -> str:
    """Of all the package's files, short."""
    return digest(str(_files([_ROOT]))).hex()


__all__ = ["COMPILING", "compiler_version", "package_version"]
