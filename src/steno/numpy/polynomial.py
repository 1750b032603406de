"""Polynomials as vectors of coefficients, the highest power first; convolution."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from steno import lax
from steno.core.sizes import UnknownSize
from steno.lax import records as p
from steno.lax.convolution import conv_general_dilated
from steno.numpy import elementwise as e, linalg
from steno.numpy.manipulation import trim_zeros
from steno.numpy.operands import (
    Array,
    ArrayLike,
    DTypeLike,
    as_array,
    broadcast_shapes,
    broadcast_to,
    promoted,
    promoted_inexact,
    strong,
)


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int | None = None) -> Array:
    """The polynomial's values at x, by Horner's rule. `unroll` makes no difference."""
    coefficients, v = promoted("polyval", p, x)
    coefficients, v = strong(coefficients), strong(v)
    if coefficients.shape[0] == 0:
        return lax.full_like(v, 0)
    if isinstance(coefficients.shape[0], UnknownSize):
        raise NotImplementedError(f"polyval: the number of coefficients must be known, got {coefficients.shape[0]}")
    shape = broadcast_shapes(coefficients.shape[1:], v.shape)
    v = broadcast_to(v, shape)
    out = lax.full_like(v, 0)
    for k in range(coefficients.shape[0]):
        c = broadcast_to(lax.index_in_dim(coefficients, k, 0, False), shape)
        out = e.add(e.multiply(out, v), c) if k else c
    return out


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum."""
    return _aligned("polyadd", a1, a2, p.add_p)


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference."""
    return _aligned("polysub", a1, a2, p.sub_p)


def _aligned(fun: str, a1: ArrayLike, a2: ArrayLike, op: Any) -> Array:
    x, y = promoted(fun, a1, a2)
    n = max(x.shape[0], y.shape[0])
    zero = e.const(0, x.aval.dtype)
    x, y = (p.pad_p(v, zero, padding_config=((n - v.shape[0], 0, 0),)) for v in (x, y))
    return op(x, y)


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product. With `trim_leading_zeros` the values must be known while tracing."""
    x, y = promoted_inexact("polymul", a1, a2)
    if trim_leading_zeros and (x.size > 1 or y.size > 1):
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    if x.size == 0:
        x = lax.full((1,), 0, x.aval.dtype)
    if y.size == 0:
        y = lax.full((1,), 0, y.aval.dtype)
    return convolve(x, y, "full")


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """(quotient, remainder)."""
    x, y = promoted_inexact("polydiv", u, v)
    m, n = x.shape[0] - 1, y.shape[0] - 1
    if m < n:
        return lax.full_like(y, 0, shape=(1,)), x
    lead = lax.index_in_dim(y, 0)
    quotient = []
    for k in range(m - n + 1):
        q = p.div_p(lax.slice_in_dim(x, k, k + 1), lead)
        quotient.append(q)
        part = p.sub_p(lax.slice_in_dim(x, k, k + n + 1), p.mul_p(lax.broadcast_in_dim(q, (n + 1,), (0,)), y))
        x = lax.concatenate([lax.slice_in_dim(x, 0, k), part, lax.slice_in_dim(x, k + n + 1, m + 1)], 0)
    if trim_leading_zeros:
        x = trim_zeros(x, "f")
    else:
        x = lax.concatenate([lax.full_like(x, 0, shape=(m - n + 1,)), lax.slice_in_dim(x, m - n + 1, m + 1)], 0)
    return lax.concatenate(quotient, 0), x


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative."""
    (x,) = promoted_inexact("polyder", p)
    m = operator.index(m)
    if m < 0:
        raise ValueError(f"polyder: m must not be negative, got {m}")
    if m == 0:
        return x
    n = x.shape[0] - m
    if n < 1:
        return lax.full_like(x, 0, shape=(0,))
    factors = np.ones(n)
    for k in range(m):
        factors = factors * (np.arange(n)[::-1] + k + 1)
    return e.multiply(lax.slice_in_dim(x, 0, n), factors.astype(x.aval.dtype))


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The m-th antiderivative, with integration constants k."""
    m = operator.index(m)
    x, constants = promoted_inexact("polyint", p, 0 if k is None else k)
    if m < 0:
        raise ValueError(f"polyint: m must not be negative, got {m}")
    constants = lax.reshape(constants, (constants.size,))
    if constants.shape[0] == 1:
        constants = lax.broadcast_in_dim(lax.reshape(constants, ()), (m,), ())
    elif constants.shape[0] != m:
        raise ValueError(f"polyint: k must be a number or {m} of them, got {constants.shape[0]}")
    if m == 0:
        return x
    n = x.shape[0]
    grown = lax.concatenate([x, constants], 0)
    # integrating raises a coefficient's power, which divides it; the i-th constant is integrated m - 1 - i times
    power = np.arange(n + m)[::-1]
    divisor = np.ones(n + m)
    for j in range(n + m):
        steps = m if j < n else n + m - 1 - j
        for i in range(steps):
            divisor[j] *= power[j] - i if power[j] - i > 0 else 1
    return e.divide(grown, divisor.astype(x.aval.dtype))


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The monic polynomial with the given zeros; of a square matrix: its characteristic polynomial, complex."""
    (z,) = promoted_inexact("poly", seq_of_zeros)
    z = strong(z)
    if z.ndim == 2:
        if z.shape[0] != z.shape[1] or not z.size:
            raise ValueError(f"poly: input must be 1d or non-empty square 2d array, got shape {z.shape}")
        z = linalg.eigvals(z)
    if z.ndim == 0:
        return lax.full((), 1, z.aval.dtype)
    if z.ndim != 1:
        raise ValueError(f"poly: expected a vector of zeros, got shape {z.shape}")
    out = lax.full((1,), 1, z.aval.dtype)
    one = lax.full((1,), 1, z.aval.dtype)
    for k in range(z.shape[0]):
        out = convolve(out, lax.concatenate([one, p.neg_p(lax.slice_in_dim(z, k, k + 1))], 0), "full")
    return out


# convolution


def convolve(
    a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None, preferred_element_type: DTypeLike | None = None
) -> Array:
    """The convolution of two vectors: "full", "same" (of the longer one's length) or "valid" (where they overlap wholly)."""
    return _convolve("convolve", a, v, mode, precision, preferred_element_type)


def correlate(
    a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None, preferred_element_type: DTypeLike | None = None
) -> Array:
    """The cross-correlation of two vectors, v conjugated; modes as of `convolve`."""
    return _convolve("correlate", a, v, mode, precision, preferred_element_type)


def _convolve(fun: str, a: ArrayLike, v: ArrayLike, mode: str, precision: Any, preferred: Any) -> Array:
    x, y = as_array(fun, a, 0), as_array(fun, v, 1)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"{fun}: expected vectors, got shapes {x.shape} and {y.shape}")
    x, y = promoted_inexact(fun, x, y) if preferred is None else promoted(fun, x, y)
    if x.shape[0] == 0 or y.shape[0] == 0:
        raise ValueError(f"{fun}: vectors must not be empty, got shapes {x.shape} and {y.shape}")
    swapped = x.shape[0] < y.shape[0]
    if fun == "correlate":
        y = e.conj(y)
    if swapped:
        x, y = y, x
    # what slides over the longer vector: as it is (correlation) or reversed (convolution)
    kernel = lax.rev(y, (0,)) if fun == "convolve" else y
    n, m = x.shape[0], y.shape[0]
    if mode == "valid":
        low, high = 0, 0
    elif mode == "same":
        low, high = (m // 2, m - m // 2 - 1) if fun == "correlate" else (m - 1 - (m - 1) // 2, (m - 1) // 2)
    elif mode == "full":
        low, high = m - 1, m - 1
    else:
        raise ValueError(f"{fun}: mode must be 'full', 'same' or 'valid', got {mode!r}")
    out = conv_general_dilated(
        lax.reshape(x, (1, 1, n)), lax.reshape(kernel, (1, 1, m)), (1,), ((low, high),), precision=precision,
        preferred_element_type=preferred,
    )  # fmt: skip
    out = lax.reshape(out, (n + low + high - m + 1,))
    return lax.rev(out, (0,)) if swapped and fun == "correlate" else out
