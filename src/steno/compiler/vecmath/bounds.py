"""How far a function may be from the exact value, in units in the last place. tools/vecmath_table.py measures, the tests check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Bound:
    """Largest errors. `floor`: for results below it, units in the last place of it instead (where a function crosses zero)."""

    single: float
    double: float
    floor: float = 0.0


BOUNDS = {
    "exp": Bound(1, 1),
    "exp2": Bound(1, 1),
    "expm1": Bound(1, 1),
    "log": Bound(1, 1),
    "log1p": Bound(1, 1),
    "log2": Bound(1, 1),
    "logistic": Bound(1, 1),
    "sin": Bound(1, 1),
    "cos": Bound(1, 1),
    "tan": Bound(1, 1),
    "asin": Bound(1, 1),
    "acos": Bound(1, 1),
    "atan": Bound(1, 1),
    "atan2": Bound(1, 1),
    "sinh": Bound(1, 1),
    "cosh": Bound(1, 1),
    "tanh": Bound(1, 1),
    "asinh": Bound(1, 1),
    "acosh": Bound(1, 1),
    "atanh": Bound(1, 1),
    "pow": Bound(1, 1),
    "cbrt": Bound(1, 1),
    "rsqrt": Bound(1, 1),
    "hypot": Bound(1, 1),
    "erf": Bound(1, 1),
    "erfc": Bound(1, 3),
    "erf_inv": Bound(2, 2),
    "erfc_inv": Bound(1, 3),
    "ndtr": Bound(1, 4),
    "log_ndtr": Bound(1, 4),
    "ndtri": Bound(1, 4),
    "lgamma": Bound(1, 4, floor=1.0),
    "digamma": Bound(1, 16, floor=1.0),
    "bessel_i0": Bound(1, 5),
    "bessel_i1": Bound(1, 5),
    "bessel_i0e": Bound(3, 3),
    "bessel_i1e": Bound(3, 3),
}
