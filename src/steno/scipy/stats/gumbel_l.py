"""The Gumbel distribution of least values: that of greatest values, mirrored."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.stats import gumbel_r
from steno.scipy.stats.faces import elementwise, mirrored

Array = Any
ArrayLike = Any

logpdf = mirrored(gumbel_r.logpdf, "logpdf", __name__)
pdf = mirrored(gumbel_r.pdf, "pdf", __name__)
cdf = mirrored(gumbel_r.sf, "cdf", __name__)
sf = mirrored(gumbel_r.cdf, "sf", __name__)
logcdf = mirrored(gumbel_r.logsf, "logcdf", __name__)
logsf = mirrored(gumbel_r.logcdf, "logsf", __name__)


@elementwise
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf."""
    return jnp.where(scale > 0, loc + scale * jnp.log(-jnp.log1p(-p)), jnp.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
