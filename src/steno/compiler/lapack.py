"""LAPACK for compiled code: the library of the package `scipy-openblas32`, loaded when the first program that needs it is linked."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Mapping
from contextlib import suppress

from steno import _native

PACKAGE = "scipy_openblas32"
_LOADED: list[ctypes.CDLL] = []  # for as long as the process lives


class LibraryMissing(RuntimeError):
    """The package with LAPACK is not installed, or is not what it was built to be."""


def _library_path() -> str:
    spec = importlib.util.find_spec(PACKAGE)  # without importing it: all that is wanted is the file
    folders = spec.submodule_search_locations if spec is not None else None
    found = []
    for folder in folders or ():
        with suppress(OSError):
            inside = os.path.join(folder, "lib")
            found += [os.path.join(inside, f) for f in sorted(os.listdir(inside)) if f.startswith("libscipy_openblas")]
    if not found:
        raise LibraryMissing("linear algebra needs the package scipy-openblas32, which is not installed")
    return found[0]


@functools.cache
def symbols() -> Mapping[str, int]:
    """Names and addresses of the runtime's functions that call LAPACK. LibraryMissing without the library.

    OpenBLAS works on one thread: its results depend on the number of threads, and where processors are busy its threads wait for each
    other (a QR decomposition of size 100 took 100 ms instead of 0.2)."""
    path = _library_path()
    library = ctypes.CDLL(path)
    addresses = []
    for name in _native.lapack_names():
        try:
            function = getattr(library, f"scipy_{name}_")
        except AttributeError:
            raise LibraryMissing(f"{path} has no function scipy_{name}_") from None
        addresses.append(ctypes.cast(function, ctypes.c_void_p).value)
    library.scipy_openblas_set_num_threads(ctypes.c_int(1))
    _native.set_lapack(addresses)
    _LOADED.append(library)
    return _native.lapack_symbols()


__all__ = ["LibraryMissing", "symbols"]
