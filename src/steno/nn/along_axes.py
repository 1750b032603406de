"""Functions along axes: softmax and its relatives, standardize, glu, one_hot. Each is one compiled program."""

from __future__ import annotations

import functools
import math
import operator
import warnings
from typing import Any

import numpy as np

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.core.config import config
from steno.core.errors import ConcretizationTypeError
from steno.core.sizes import size_of, surely
from steno.core.trace import Tracer
from steno.custom_derivatives import custom_jvp
from steno.nn.activations import sigmoid
from steno.numpy.operands import as_array, canonical_axes, canonical_axis, check_arraylike, check_dtype, promoted_inexact, strong

Array = Any
ArrayLike = Any
Axis = Any  # None (all axes), an int, or a sequence of ints


def _static_axes(axis: Axis) -> Any:
    """A hashable form of a user's `axis`."""
    if isinstance(axis, Tracer):
        raise ConcretizationTypeError(axis, "The argument `axis` must be known while tracing.")
    return axis if axis is None else operator.index(axis) if hasattr(axis, "__index__") else tuple(map(operator.index, axis))


def _masked(x: Array, where: ArrayLike | None) -> Array:
    """x, and -inf where `where` is false."""
    if where is None:
        return x
    check_mask(where)
    return jnp.where(where, x, -np.inf)


def check_mask(where: Any) -> None:
    """ValueError for a mask that is not boolean."""
    d = as_array("softmax", where).dtype
    if d != dtypes.bool_:
        raise ValueError(f"where must be None or a boolean array; got where.dtype={d!r}")


def _shifted(x: Array, axis: Axis) -> Array:
    """x less its maximum along the axes: exp of it does not overflow."""
    return x - lax.stop_gradient(jnp.max(x, axis, keepdims=True, initial=None if x.size else -np.inf))


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x), divided by its sum over `axis`: what `where` masks is 0 and does not count. TypeError for bools.

    >>> nn.softmax(jnp.zeros(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    rule = _softmax_by_result if config._state.softmax_custom_jvp else _softmax
    return rule(x, where, _static_axes(axis))


@functools.partial(jit, static_argnums=2)
def _softmax(x: ArrayLike, where: ArrayLike | None, axis: Axis) -> Array:
    x = _masked(as_array("softmax", x), where)
    e = jnp.exp(_shifted(x, axis))
    out = strong(e / jnp.sum(e, axis, keepdims=True))
    return out if where is None else jnp.where(where, out, 0)


_softmax_by_result = custom_jvp(_softmax, nondiff_argnums=(2,))


@_softmax_by_result.defjvp
def _softmax_jvp(axis: Axis, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The derivative in terms of the result, which is all that reverse mode keeps."""
    out = _softmax_by_result(*primals, axis)
    return out, out * (tangents[0] - jnp.sum(out * tangents[0], axis, keepdims=True))


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)): what `where` masks is -inf and does not count. TypeError for bools.

    >>> nn.log_softmax(jnp.array([0.0]))
    Array([0.], dtype=float32)
    """
    return _log_softmax(x, where, axis=_static_axes(axis))


@functools.partial(jit, static_argnames="axis")
def _log_softmax(x: ArrayLike, where: ArrayLike | None, *, axis: Axis) -> Array:
    x = _shifted(_masked(as_array("log_softmax", x), where), axis)
    return _masked(strong(x - jnp.log(jnp.sum(jnp.exp(x), axis, keepdims=True))), where)


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """log(sum(b * exp(a))) over `axis`, without overflow on the way; -inf of nothing.

    A negative sum gives NaN. With `return_sign` comes the pair (logarithm of the magnitude, sign); a complex sign has magnitude 1.

    >>> nn.logsumexp(jnp.array([0.0]))
    Array(0., dtype=float32)
    """
    return _logsumexp(a, b, where, axis=_static_axes(axis), keepdims=bool(keepdims), return_sign=bool(return_sign))


@functools.partial(jit, static_argnames=("axis", "keepdims", "return_sign"))
def _logsumexp(a: ArrayLike, b: ArrayLike | None, where: ArrayLike | None, *, axis: Axis, keepdims: bool, return_sign: bool) -> Any:
    if b is None:
        (a,) = promoted_inexact("logsumexp", a)
    else:
        a, b = promoted_inexact("logsumexp", a, b)
        a = jnp.where(b != 0, a, -np.inf)  # 0 * exp(inf) counts as 0
    a = _masked(a, where)
    top = jnp.max(jnp.real(a), axis, keepdims=True, initial=-np.inf)
    top = lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0))
    terms = jnp.exp(a - top.astype(a.dtype))
    if b is not None:
        terms = terms * b
        terms = terms if where is None else jnp.where(where, terms, 0)
    total = jnp.sum(terms, axis, keepdims=keepdims)
    top = jnp.reshape(top, total.shape)
    if not return_sign:
        return strong(jnp.log(total) + top.astype(total.dtype))
    return strong(jnp.log(jnp.abs(total)) + top), strong(jnp.sign(total))


def logmeanexp(x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """log(mean(exp(x))) over `axis`, without overflow on the way; NaN of nothing."""
    total = logsumexp(x, axis, where=where, keepdims=keepdims)
    shape = jnp.shape(x)
    if where is not None:
        return total - jnp.log(jnp.sum(jnp.broadcast_to(where, shape), axis, dtype=total.real.dtype, keepdims=keepdims))
    n = math.prod(shape[k] for k in canonical_axes(_static_axes(axis), len(shape)))
    return total - (math.log(n) if n else -math.inf)


@functools.partial(jit, static_argnames=("axis", "algorithm"))
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), with mean and variance over `axis` unless they are given.

    `algorithm`: "fast" takes the variance as mean(x^2) - mean(x)^2, "stable" as mean((x - mean)^2), which is accurate for means far from 0.
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"standardize: algorithm must be 'fast' or 'stable', got {algorithm!r}")
    check_arraylike("standardize", x)
    x = as_array("standardize", x)
    if axis is not None and x.ndim == 0:
        raise IndexError("standardize: x is a scalar, and has no axis to standardize along")
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "stable":
            variance = jnp.mean(jnp.square(x - mean), axis, keepdims=True, where=where)
        else:
            # rounding may leave a negative number
            variance = jnp.clip(jnp.mean(jnp.square(x), axis, keepdims=True, where=where) - jnp.square(mean), 0)
    return jnp.subtract(x, mean) * lax.rsqrt(jnp.add(variance, epsilon))


@functools.partial(jit, static_argnames="axis")
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half of x along `axis` times the sigmoid of the second half. AssertionError if the axis cannot be halved."""
    check_arraylike("glu", x)
    x = as_array("glu", x)
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"glu: axis {axis} is out of range for shape {x.shape}")
    if x.shape[axis] % 2:
        raise AssertionError(f"glu: the size of the axis must be divisible by 2, got shape {x.shape} and axis {axis}")
    x, gate = jnp.split(x, 2, axis)
    return x * sigmoid(gate)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1, out_sharding: Any = None) -> Array:
    """An array with a new axis of size `num_classes`: 1 where the position along it is x, 0 elsewhere (so all 0 for x out of range).

    `dtype`: by default the default float. ConcretizationTypeError if num_classes is traced.

    >>> nn.one_hot(jnp.array([1, 0]), 3)
    Array([[0., 1., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    if out_sharding is not None:
        raise NotImplementedError("one_hot: out_sharding is not supported: there is one device")
    if isinstance(num_classes, Tracer):
        raise ConcretizationTypeError(num_classes, "The error arose in jax.nn.one_hot argument `num_classes`.")
    if isinstance(axis, str):
        raise NameError(f"unbound axis name: {axis}")
    x = jnp.asarray(x)
    if dtypes.kind(x.dtype) not in "biu":
        warnings.warn(f"one_hot: x should hold integers, got dtype {dtypes.name(x.dtype)}", DeprecationWarning, stacklevel=2)
    n = size_of(num_classes)
    d = dtypes.default_float() if dtype is None else check_dtype(dtype, "one_hot")
    return _one_hot(x, num_classes=n, dtype=d, axis=canonical_axis(axis, x.ndim + 1))


@functools.partial(jit, static_argnames=("num_classes", "dtype", "axis"))
def _one_hot(x: Array, *, num_classes: int, dtype: Any, axis: int) -> Array:
    if dtypes.is_integer(x.dtype) and surely(lambda: num_classes - 1 > dtypes.iinfo(x.dtype).max):
        x = x.astype(dtypes.int32)  # positions must not wrap
    shape = tuple(num_classes if k == axis else 1 for k in range(x.ndim + 1))
    return lax.convert_element_type(jnp.expand_dims(x, axis) == lax.broadcasted_iota(x.dtype, shape, axis), dtype)
