"""JAX's `image`: resampling of images, one axis after another, each by a product with a matrix of weights."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.numpy.operands import Array, ArrayLike, as_array, canonical_axis, check_shape, convert

_NAMES: Final = {
    "nearest": "NEAREST",
    "linear": "LINEAR", "bilinear": "LINEAR", "trilinear": "LINEAR", "triangle": "LINEAR",
    "lanczos3": "LANCZOS3", "lanczos5": "LANCZOS5",
    "cubic": "CUBIC", "bicubic": "CUBIC", "tricubic": "CUBIC",
    "cubic-pytorch": "CUBIC_PYTORCH", "bicubic-pytorch": "CUBIC_PYTORCH",
    "area": "AREA",
}  # fmt: skip


class ResizeMethod(enum.Enum):
    """How images are resampled: by the nearest pixel; by triangles; by Lanczos' kernels of radius 3 and 5; by Keys' cubic kernel, also as
    PyTorch has it; by the mean of the area that a pixel covers."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name: "nearest", "linear" ("bilinear", "trilinear", "triangle"), "lanczos3", "lanczos5", "cubic" ("bicubic",
        "tricubic"), "cubic-pytorch" ("bicubic-pytorch") or "area". ValueError for others."""
        if s not in _NAMES:
            raise ValueError(f"Unknown resize method {s!r}: it must be one of {', '.join(map(repr, _NAMES))}")
        return ResizeMethod[_NAMES[s]]


def _method(method: str | ResizeMethod) -> ResizeMethod:
    return method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)


# kernels, of distances >= 0 in pixels


def _triangle(x: Array) -> Array:
    return jnp.maximum(0, 1 - x)


def _keys(a: float, x: Array) -> Array:
    """R. Keys, Cubic convolution interpolation for digital image processing, IEEE Trans. ASSP 29, 1981."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return jnp.where(x < 1, near, jnp.where(x < 2, far, 0))


def _lanczos(radius: int, x: Array) -> Array:
    """C. Duchon, Lanczos filtering in one and two dimensions, J. Appl. Meteorology 18, 1979."""
    return jnp.where(x < radius, jnp.sinc(x) * jnp.sinc(x / radius), 0)


_KERNELS: Final[dict[ResizeMethod, Callable[[Array], Array]]] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: functools.partial(_lanczos, 3),
    ResizeMethod.LANCZOS5: functools.partial(_lanczos, 5),
    ResizeMethod.CUBIC: functools.partial(_keys, -0.5),
    ResizeMethod.CUBIC_PYTORCH: functools.partial(_keys, -0.75),
}


def _weights(n: int, m: int, scale: Any, translation: Any, method: ResizeMethod, antialias: bool, dtype: Any) -> Array:
    """The matrix (n, m) that makes m pixels out of n: pixel i of the result lies at (i + 1/2 - translation) / scale - 1/2. What lies
    outside of the image does not count, or, for PyTorch's kernel, counts as the edge; the weights of a pixel have the sum 1, but are 0 if
    its centre lies outside."""
    step = 1 / scale
    at = (jnp.arange(m, dtype=dtype) + 0.5) * step - translation * step - 0.5
    pixels = jnp.arange(n, dtype=dtype)
    inside = (at >= -0.5) & (at <= n - 0.5)
    if method is ResizeMethod.AREA:
        first, last = at - step / 2, at + step / 2
        overlap = jnp.minimum(last[None, :], pixels[:, None] + 0.5) - jnp.maximum(first[None, :], pixels[:, None] - 0.5)
        w = jnp.maximum(overlap, 0)
    elif method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        below = jnp.floor(at)
        w = jnp.zeros((n, m), dtype)
        for k in (-1, 0, 1, 2):
            tap = below + k
            own = jnp.clip(tap, 0, n - 1)[None, :] == pixels[:, None]
            w = w + jnp.where(own, _KERNELS[method](jnp.abs(at - tap))[None, :], 0)
    else:
        kernel = _KERNELS[ResizeMethod.CUBIC if method is ResizeMethod.CUBIC_PYTORCH else method]
        distances = jnp.abs(at[None, :] - pixels[:, None])
        w = kernel(distances / jnp.maximum(step, 1) if antialias else distances)
    total = jnp.sum(w, axis=0, keepdims=True)
    positive = jnp.abs(total) > 1000 * float(np.finfo(np.float32).eps)
    return jnp.where(positive & inside[None, :], w / jnp.where(positive, total, 1), 0)


@functools.partial(jit, static_argnames=("shape", "axes", "method", "antialias", "precision"))
def _resampled(
    x: Array, scales: list[Any], translations: list[Any], shape: tuple[int, ...], axes: tuple[int, ...], method: ResizeMethod,
    antialias: bool, precision: Any,
) -> Array:  # fmt: skip
    dtype = x.dtype
    work = dtypes.finfo(dtype).dtype  # that of a complex number's parts
    work = work if dtypes.itemsize_bits(work) >= 32 else dtypes.float32
    out = convert(x, work) if not dtypes.is_complex(dtype) else x
    for axis, scale, translation in zip(axes, scales, translations, strict=True):
        w = _weights(out.shape[axis], shape[axis], scale, translation, method, antialias, work)
        w = convert(w, out.dtype)
        order = [d for d in range(out.ndim) if d != axis]
        product = lax.dot_general(out, w, (((axis,), (0,)), ((), ())), precision=precision)
        order.insert(axis, out.ndim - 1)
        out = jnp.transpose(product, [order[d] if d == axis else order[d] - (order[d] > axis) for d in range(out.ndim)])
    return convert(out, dtype)


@functools.partial(jit, static_argnames=("shape",))
def _nearest(x: Array, shape: tuple[int, ...]) -> Array:
    for axis, (n, m) in enumerate(zip(x.shape, shape, strict=True)):
        if n != m:
            x = jnp.take(x, (2 * np.arange(m) + 1) * n // (2 * m), axis=axis)
    return x


def _operands(fun: str, image: ArrayLike, shape: Any) -> tuple[Array, tuple[int, ...]]:
    x = as_array(fun, image)
    sizes = check_shape(shape)
    if len(sizes) != x.ndim:
        raise ValueError(f"{fun}: shape must have as many sizes as the image has axes, got {sizes} for an image of shape {x.shape}")
    return x, sizes


def _inexact(x: Array) -> Array:
    return convert(x, dtypes.to_inexact(x.dtype))


def resize(
    image: ArrayLike, shape: Any, method: str | ResizeMethod, antialias: bool = True, precision: Any = lax.Precision.HIGHEST
) -> Array:  # fmt: skip
    """The image of another shape, of as many axes: pixels are cells of equal size whose values are given at their centres.

    method: a ResizeMethod or its name; antialias: whether kernels become wider where an axis becomes shorter; precision: of the products.
    Integers become floats, but for the method "nearest". ValueError for a shape of another rank and unknown methods, TypeError for sizes
    that are no integers."""
    x, sizes = _operands("resize", image, shape)
    chosen = _method(method)
    if 0 in x.shape and 0 not in sizes:
        raise ValueError(f"resize: an image of shape {x.shape} has no pixels to make {sizes} of")
    if chosen is ResizeMethod.NEAREST:
        return _nearest(x, sizes)
    x = _inexact(x)
    axes = tuple(d for d in range(x.ndim) if x.shape[d] != sizes[d])
    if not axes or 0 in sizes:
        return x if not axes else jnp.zeros(sizes, x.dtype)
    scales = [_ratio(sizes[d], x.shape[d], dtypes.itemsize_bits(x.dtype) < 64) for d in axes]
    return _resampled(x, scales, [0.0] * len(axes), sizes, axes, chosen, antialias, precision)


def _ratio(m: Any, n: Any, narrow: bool) -> Any:
    scale = m / n
    return np.float32(scale) if narrow and isinstance(scale, float) else scale


def scale_and_translate(
    image: ArrayLike,
    shape: Any,
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """The image in a frame of another shape, scaled and then moved: a point x of the image comes to x scale + translation, where pixel i is
    the interval [i, i + 1]. Pixels whose centre lies outside of the image are 0.

    spatial_dims: the axes that are resampled; scale, translation: vectors of a number for each of them, with derivatives; the others as in
    `resize`. The other axes keep their size, whatever `shape` says. ValueError for the method "nearest"."""
    x, sizes = _operands("scale_and_translate", image, shape)
    chosen = _method(method)
    if chosen is ResizeMethod.NEAREST:
        raise ValueError("scale_and_translate: the method 'nearest' is not supported")
    axes = tuple(canonical_axis(d, x.ndim) for d in spatial_dims)
    s, t = (_inexact(as_array("scale_and_translate", v)) for v in (scale, translation))
    if s.shape != (len(axes),) or t.shape != (len(axes),):
        raise ValueError(f"scale_and_translate: scale and translation must have shape ({len(axes)},), got {s.shape} and {t.shape}")
    parts = range(len(axes))
    return _resampled(_inexact(x), [s[k] for k in parts], [t[k] for k in parts], sizes, axes, chosen, antialias, precision)


__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
