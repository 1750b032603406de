"""Samples for `scipy`'s functions, and the distance from what SciPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np

SIZE = 400


def uniform(low: float, high: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 7]).uniform(low, high, SIZE)


def decades(low: float, high: float, seed: int = 0) -> np.ndarray:
    return 10 ** uniform(low, high, seed)


def whole(low: int, high: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 8]).integers(low, high, SIZE).astype(float)


def worst(got: Any, want: Any, floor: float) -> float:
    """The greatest error relative to the value, or to `floor` where that is greater; equal infinities and NaNs are right."""
    got, want = np.asarray(got), np.asarray(want)
    with np.errstate(all="ignore"):
        error = np.abs(got - want) / np.maximum(np.abs(want), floor)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return float(np.max(np.where(same, 0, np.where(np.isnan(error), np.inf, error)), initial=0))
