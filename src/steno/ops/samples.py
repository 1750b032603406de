"""Arguments for `Op.samples`: small arrays with every kind of value their dtype has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")
WIDE = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip


def dtype_of(name: Any) -> np.dtype:
    """`"bfloat16"`, `"int4"` and so on as well."""
    return np.dtype(getattr(ml_dtypes, name)) if name in NARROW else np.dtype(name)


def kind_of(name: str) -> str:
    """'b', 'i', 'u', 'f' or 'c'."""
    if name in NARROW:
        return {"int4": "i", "uint4": "u"}.get(name, "f")
    return np.dtype(name).kind


def sample_dtypes(kinds: str = "biufc") -> Iterable[str]:
    """Names of the dtypes of these kinds: all of NumPy's and one narrow format of each class."""
    return [n for n in WIDE + NARROW if kind_of(n) in kinds]


def filled(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Values of either sign, with extremes, zeros of both signs, infinities and NaN (as far as the dtype has them) sprinkled in."""
    rng = np.random.default_rng([seed, *shape])
    d = dtype_of(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    kind = kind_of(d.name)
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        info = ml_dtypes.iinfo(d)
        low, high = int(info.min), int(info.max)
        flat = rng.integers(max(low, -100), min(high, 100), shape, endpoint=True).astype(np.int64)
        extreme = rng.random(shape) < 0.2
        return np.where(extreme, rng.choice(np.array([low, high], object), shape), flat).astype(d)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40])

    def real() -> np.ndarray:
        return np.where(rng.random(shape) < 0.2, rng.choice(special, shape), rng.standard_normal(shape) * 3)

    with np.errstate(all="ignore"):
        return (real() + 1j * real() if kind == "c" else real()).astype(d)


def small(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Values whose sums and products are exact or nearly so: small integers, or halves for floats."""
    rng = np.random.default_rng([seed, *shape, 1])
    d = dtype_of(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    kind = kind_of(d.name)
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    flat = rng.integers(0 if kind == "u" else -3, 3, shape, endpoint=True)
    if kind == "c":
        return (flat + 1j * rng.integers(-3, 3, shape, endpoint=True)).astype(d)
    return (flat * 0.5).astype(d) if kind == "f" else flat.astype(d)
