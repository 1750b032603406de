"""Initializers: functions `(key, shape, dtype=None, out_sharding=None) -> array`, and functions that make them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final, Protocol, runtime_checkable

from steno import lax, numpy as jnp, random
from steno.api import jit
from steno.core import dtypes

Array = Any
ArrayLike = Any
DTypeLike = Any
Axes = int | Sequence[int]

TRUNCATED_STDDEV: Final = 0.87962566103423978
"""The standard deviation of a standard normal number truncated to [-2, 2]."""
TRUNCATED_COMPLEX_STDDEV: Final = 0.95311164380491208
"""What JAX takes for the standard deviation of a complex standard normal number truncated to magnitudes up to 2."""


@runtime_checkable
class Initializer(Protocol):
    """What all initializers are."""

    def __call__(self, key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array: ...


def _dtype(given: DTypeLike | None, own: DTypeLike | None) -> Any:
    """The dtype of an initializer's call: the call's, the initializer's own, or the default float."""
    chosen = given if given is not None else own
    return dtypes.default_float() if chosen is None else dtypes.canonicalize_dtype(chosen)


def zeros(key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array:
    """Zeros; the key is not used."""
    return jnp.zeros(shape, _dtype(dtype, None), out_sharding=out_sharding)


def ones(key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array:
    """Ones; the key is not used."""
    return jnp.ones(shape, _dtype(dtype, None), out_sharding=out_sharding)


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """`value`, broadcast to the shape."""
    own = dtype

    def init(key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array:
        return jnp.full(shape, value, _dtype(dtype, own), out_sharding=out_sharding)

    return init


def uniform(scale: Any = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Uniform on [0, scale)."""
    own = dtype

    def init(key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array:
        d = _dtype(dtype, own)
        return random.uniform(key, shape, d, out_sharding=out_sharding) * jnp.array(scale, d)

    return init


def normal(stddev: Any = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Normal with mean 0; complex numbers have standard deviation `stddev` as a whole."""
    own = dtype

    def init(key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array:
        d = _dtype(dtype, own)
        return random.normal(key, shape, d, out_sharding=out_sharding) * jnp.array(stddev, d)

    return init


def truncated_normal(stddev: Any = 1e-2, dtype: DTypeLike | None = None, lower: Any = -2.0, upper: Any = 2.0) -> Initializer:
    """A normal number between `lower` and `upper`, times `stddev`: so its standard deviation is less than that."""
    own = dtype

    def init(key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array:
        d = _dtype(dtype, own)
        return random.truncated_normal(key, lower, upper, shape, d, out_sharding=out_sharding) * jnp.array(stddev, d)

    return init


def _fans(shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """(inputs, outputs) of a weights tensor: the sizes along these axes, times the sizes of all axes that are in no list.

    ValueError for fewer than two axes with the default `in_axis`; IndexError for axes that do not exist."""
    if len(shape) <= 1 and in_axis == -2:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor with default in_axis. "
            "Must be at least 2D or specify in_axis explicitly."
        )

    def size(name: str, axes: Axes) -> int:
        axes = (axes,) if isinstance(axes, int) else tuple(axes)
        for a in axes:
            if not -len(shape) <= a < len(shape):
                raise IndexError(f"variance_scaling: {name} {a} is out of range for shape {tuple(shape)}")
        return math.prod(shape[a] for a in axes)

    inputs, outputs = size("in_axis", in_axis), size("out_axis", out_axis)
    window = math.prod(shape) / (inputs * outputs * size("batch_axis", batch_axis))
    return inputs * window, outputs * window


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Numbers of mean 0 and variance scale / n, where n is the number of inputs, outputs, or a mean of both.

    mode: "fan_in", "fan_out", "fan_avg" (arithmetic mean), "fan_geo_avg" (geometric). distribution: "truncated_normal" (at two standard
    deviations), "normal", "uniform". An error of either is a ValueError when numbers are drawn.
    """
    own = dtype

    def init(key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array:
        d = _dtype(dtype, own)
        sizes = (int(shape),) if hasattr(shape, "__index__") else tuple(map(int, shape))
        if 0 in sizes:
            return jnp.zeros(sizes, d)
        inputs, outputs = _fans(sizes, in_axis, out_axis, batch_axis)
        fans = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2, "fan_geo_avg": math.sqrt(inputs * outputs)}
        if mode not in fans:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}; it must be one of {', '.join(fans)}")
        draw = _DISTRIBUTIONS.get(distribution)
        if draw is None:
            raise ValueError(
                f"invalid distribution for variance scaling initializer: {distribution}; it must be one of {', '.join(_DISTRIBUTIONS)}"
            )
        return draw(key, sizes, d, jnp.array(scale / fans[mode], d), out_sharding)

    return init


def _scaled_normal(key: Array, shape: tuple[int, ...], dtype: Any, variance: Array, out_sharding: Any) -> Array:
    return random.normal(key, shape, dtype, out_sharding=out_sharding) * jnp.sqrt(variance)


def _scaled_uniform(key: Array, shape: tuple[int, ...], dtype: Any, variance: Array, out_sharding: Any) -> Array:
    if dtypes.is_complex(dtype):
        return _in_disc(key, jnp.sqrt(variance), shape=shape, truncated=False)
    return random.uniform(key, shape, dtype, -1, out_sharding=out_sharding) * jnp.sqrt(3 * variance)


def _scaled_truncated_normal(key: Array, shape: tuple[int, ...], dtype: Any, variance: Array, out_sharding: Any) -> Array:
    if dtypes.is_complex(dtype):
        return _in_disc(key, jnp.sqrt(variance) / TRUNCATED_COMPLEX_STDDEV, shape=shape, truncated=True)
    return random.truncated_normal(key, -2, 2, shape, dtype, out_sharding=out_sharding) * (jnp.sqrt(variance) / TRUNCATED_STDDEV)


_DISTRIBUTIONS: Final = {"truncated_normal": _scaled_truncated_normal, "normal": _scaled_normal, "uniform": _scaled_uniform}


@functools.partial(jit, static_argnames=("shape", "truncated"))
def _in_disc(key: Array, scale: Array, *, shape: tuple[int, ...], truncated: bool) -> Array:
    """Complex numbers of random phase: normal ones of magnitude up to 2 (by inverting the distribution of the squared magnitude, which is
    exponential), or uniform in the disc of radius sqrt(2), where the variance is 1; times `scale`."""
    real = dtypes.float32 if scale.dtype == dtypes.complex64 else dtypes.float64
    radius, phase = random.split(key)
    u = random.uniform(radius, shape, real)
    squared = -jnp.log(1 - (1 - math.exp(-4.0)) * u) if truncated else 2 * u
    angle = 2 * math.pi * random.uniform(phase, shape, real)
    return jnp.sqrt(squared).astype(scale.dtype) * jnp.exp(lax.complex(jnp.zeros_like(angle), angle)) * scale


def _scaling(name: str, scale: float, mode: str, distribution: str, doc: str) -> Any:
    def factory(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike | None = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    return factory


glorot_uniform = _scaling("glorot_uniform", 1.0, "fan_avg", "uniform", "Uniform, variance 2 / (inputs + outputs): Glorot and Bengio, 2010.")
glorot_normal = _scaling(
    "glorot_normal", 1.0, "fan_avg", "truncated_normal", "Truncated normal, variance 2 / (inputs + outputs): Glorot and Bengio, 2010."
)
lecun_uniform = _scaling("lecun_uniform", 1.0, "fan_in", "uniform", "Uniform, variance 1 / inputs: LeCun, Bottou, Orr and Müller, 1998.")
lecun_normal = _scaling(
    "lecun_normal", 1.0, "fan_in", "truncated_normal", "Truncated normal, variance 1 / inputs: LeCun, Bottou, Orr and Müller, 1998."
)
he_uniform = _scaling("he_uniform", 2.0, "fan_in", "uniform", "Uniform, variance 2 / inputs: He, Zhang, Ren and Sun, 2015.")
he_normal = _scaling("he_normal", 2.0, "fan_in", "truncated_normal", "Truncated normal, variance 2 / inputs: He, Zhang, Ren and Sun, 2015.")
xavier_uniform = glorot_uniform
xavier_normal = glorot_normal
kaiming_uniform = he_uniform
kaiming_normal = he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """`scale` times matrices with orthonormal columns or rows, whichever are fewer: Saxe, McClelland and Ganguli, 2013. The axis
    `column_axis` counts the columns, the other ones together the rows."""
    own = dtype

    def init(key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array:
        d, shape = _dtype(dtype, own), tuple(shape)
        if len(shape) < 2:
            raise ValueError(f"orthogonal: the shape must have 2 or more axes, got {shape}")
        columns = shape[column_axis]
        rest = [n for k, n in enumerate(shape) if k != column_axis % len(shape)]
        q = random.orthogonal(key, math.prod(rest), (), d, columns)
        return jnp.asarray(scale, d) * jnp.moveaxis(q.reshape(*rest, columns), -1, column_axis)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None) -> Initializer:
    """Kernels of convolutions that are zero but for their centre, an orthogonal matrix: Xiao and others, 2018. The last two axes are
    inputs and outputs, of which there must be at least as many."""
    own = dtype

    def init(key: Array, shape: Any, dtype: DTypeLike | None = None, out_sharding: Any = None) -> Array:
        d, shape = _dtype(dtype, own), tuple(shape)
        if not 3 <= len(shape) <= 5:
            raise ValueError(f"delta_orthogonal: the shape must have 3 to 5 axes, got {shape}")
        if shape[-1] < shape[-2]:
            raise ValueError(f"delta_orthogonal: there must be at least as many outputs as inputs, got the shape {shape}")
        q = orthogonal(scale, column_axis, d)(key, shape[-2:])
        centre = tuple((n - 1) // 2 for n in shape[:-2])
        return jnp.zeros(shape, d).at[centre].set(q)

    return init
