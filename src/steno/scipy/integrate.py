"""scipy.integrate: integrals of sampled functions."""

from steno.numpy.statistics import trapezoid as trapezoid

__all__ = ["trapezoid"]
