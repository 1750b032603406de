"""Elementary functions as scalar expressions: importing this package fills `steno.ir.expr.FUNCTIONS`. Bounds: docs/vecmath.md."""

from __future__ import annotations

from steno.compiler.vecmath import complex, error, exponential, inverse, logarithm, power, trigonometric
from steno.ir.expr import FUNCTIONS

__all__ = ["FUNCTIONS", "complex", "error", "exponential", "inverse", "logarithm", "power", "trigonometric"]
