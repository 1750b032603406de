"""The Cauchy distribution wrapped around the circle."""

from __future__ import annotations

import math
from typing import Any

from steno import numpy as jnp
from steno.scipy.stats.faces import elementwise, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density; -inf outside of [0, 2 pi], NaN for c outside of (0, 1)."""
    # 1 + c**2 - 2 c cos(x)
    spread = jnp.square(1 - c) + 4 * c * jnp.square(jnp.sin(x / 2))
    value = jnp.log1p(-c * c) - jnp.log(2 * math.pi) - jnp.log(spread)
    return jnp.where((c > 0) & (c < 1), within((x >= 0) & (x <= 2 * math.pi), value), jnp.nan)


pdf = of(logpdf, "pdf")


__all__ = ["logpdf", "pdf"]
