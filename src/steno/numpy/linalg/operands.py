"""The operands of numpy.linalg: promoted to float32, float64, complex64 or complex128."""

from __future__ import annotations

from typing import Any

from steno.numpy.operands import Array, promoted_inexact, strong


def operand(fun: str, x: Any) -> Array:
    """An argument as an array of floats or complex numbers."""
    (a,) = promoted_inexact(f"linalg.{fun}", x)
    return strong(a)


def square_operand(fun: str, x: Any) -> Array:
    """Square matrices. ValueError for other shapes."""
    a = operand(fun, x)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Argument to linalg.{fun} must have shape [..., n, n], got {a.shape}.")
    return a
