"""scipy.optimize: minimization of smooth functions of several variables."""

from steno.scipy.optimize.minimize import OptimizeResults as OptimizeResults, minimize as minimize

__all__ = ["OptimizeResults", "minimize"]
