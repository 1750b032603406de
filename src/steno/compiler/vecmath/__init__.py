"""Elementary and special functions as scalar expressions: importing this package fills `steno.ir.expr.FUNCTIONS`. Bounds: docs/vecmath.md.

Not here, as they need loops: igamma, igammac, their derivatives, betainc, random_gamma_grad.
"""

from __future__ import annotations

from steno.compiler.vecmath import bessel, complex, error, exponential, gamma, inverse, logarithm, power, trigonometric
from steno.ir.expr import FUNCTIONS

__all__ = ["FUNCTIONS", "bessel", "complex", "error", "exponential", "gamma", "inverse", "logarithm", "power", "trigonometric"]
