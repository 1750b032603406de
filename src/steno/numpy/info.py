"""What the array API standard asks a namespace about itself."""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np

from steno.core import dtypes
from steno.device import devices
from steno.numpy.scalar_types import isdtype

_DTYPES: Final = tuple(
    np.dtype(n)
    for n in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128",
    )
)  # fmt: skip


@final
class ArrayNamespaceInfo:
    """The answers, those that depend on it for jax_enable_x64 as it is now."""

    def capabilities(self) -> dict[str, Any]:
        """What not every library can do: boolean masks and results whose shape depends on values are for known values only, and so not
        promised."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """None: where an array goes that nobody gave a device depends on jax_default_device."""
        return None

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of Python numbers, and of indices."""
        return {
            "real floating": dtypes.default_float(),
            "complex floating": dtypes.canonical(dtypes.complex128),
            "integral": dtypes.default_int(),
            "indexing": dtypes.default_int(),
        }

    def devices(self) -> tuple[Any, ...]:
        """The devices, and None for "no particular one"."""
        return (None, *devices())

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """The standard's dtypes by name, all or those of a kind (as of `isdtype`). ValueError for an unknown kind."""
        return {d.name: d for d in _DTYPES if dtypes.canonical(d) == d and (kind is None or isdtype(d, kind))}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """The namespace's answers to the array API standard's questions."""
    return ArrayNamespaceInfo()
