"""Von Mises's distribution on the circle."""

from __future__ import annotations

import math
from typing import Any

from steno import lax, numpy as jnp
from steno.scipy.stats.faces import elementwise, of

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density; NaN for negative kappa."""
    # cos(x) - 1 = -2 sin(x / 2)**2
    value = -2 * kappa * jnp.square(jnp.sin(x / 2)) - jnp.log(2 * math.pi * lax.bessel_i0e(kappa))
    return jnp.where(kappa >= 0, value, jnp.nan)


pdf = of(logpdf, "pdf")


__all__ = ["logpdf", "pdf"]
