"""Layers of neural networks as pairs of functions.

A layer is `(init, apply)`: `init(key, input_shape) -> (output_shape, params)`, `apply(params, inputs, **kwargs) -> outputs`, where kwargs
may hold `rng`, a key, for layers that draw random numbers. Shapes contain the batch. `serial` and `parallel` make layers of layers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from steno import lax, numpy as jnp, random
from steno.api import eval_shape
from steno.nn import (
    elu as elu,
    gelu as gelu,
    leaky_relu as leaky_relu,
    log_softmax as log_softmax,
    relu as relu,
    selu as selu,
    sigmoid as sigmoid,
    softmax as softmax,
    softplus as softplus,
    standardize as standardize,
)
from steno.nn.initializers import glorot_normal as glorot_normal, normal as normal, ones as ones, zeros as zeros
from steno.stages import ShapeDtypeStruct

Array = Any
Layer = tuple[Callable[..., Any], Callable[..., Any]]

glorot = glorot_normal
randn = normal
logsoftmax = log_softmax

_GLOROT = glorot_normal()
_NORMAL = normal()
_SMALL = normal(1e-6)


def Dense(out_dim: int, W_init: Any = _GLOROT, b_init: Any = _NORMAL) -> Layer:
    """x W + b for x of shape (..., n); params: (W of shape (n, out_dim), b)."""

    def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
        k1, k2 = random.split(rng)
        return (*input_shape[:-1], out_dim), (W_init(k1, (input_shape[-1], out_dim)), b_init(k2, (out_dim,)))

    def apply(params: Any, inputs: Array, **kwargs: Any) -> Array:
        W, b = params
        return jnp.dot(inputs, W) + b

    return init, apply


def _convolution(
    convolve: Callable[..., Array], shape_of: Callable[..., Any], numbers: Any, out_chan: int, filter_shape: Sequence[int], strides: Any,
    padding: str, W_init: Any, b_init: Any,
) -> Layer:  # fmt: skip
    """A layer of `convolve`; params: (W, b), b being of shape (1, ..., out_chan, ..., 1)."""
    lhs, rhs, out = numbers
    strides = strides or (1,) * len(filter_shape)
    W_init = W_init or glorot_normal(rhs.index("I"), rhs.index("O"))

    def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
        spatial = iter(filter_shape)
        kernel = [out_chan if c == "O" else input_shape[lhs.index("C")] if c == "I" else next(spatial) for c in rhs]
        k1, k2 = random.split(rng)
        bias = tuple(out_chan if c == "C" else 1 for c in out)
        return shape_of(tuple(input_shape), kernel, strides), (W_init(k1, kernel), b_init(k2, bias))

    def apply(params: Any, inputs: Array, **kwargs: Any) -> Array:
        W, b = params
        return convolve(inputs, W, strides, padding, dimension_numbers=numbers) + b

    return init, apply


def _output_shape(convolve: Callable[..., Array], numbers: Any, padding: str, inputs: Any, kernel: Any, strides: Any) -> tuple[int, ...]:
    from_shapes = functools.partial(convolve, window_strides=strides, padding=padding, dimension_numbers=numbers)
    return eval_shape(from_shapes, ShapeDtypeStruct(inputs, jnp.float32), ShapeDtypeStruct(tuple(kernel), jnp.float32)).shape


def GeneralConv(
    dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int], strides: Any = None, padding: str = "VALID", W_init: Any = None,
    b_init: Any = _SMALL,
) -> Layer:  # fmt: skip
    """A convolution; dimension_numbers: the axes of inputs, filters and outputs, as ("NHWC", "HWIO", "NHWC")."""
    shape_of = functools.partial(_output_shape, lax.conv_general_dilated, dimension_numbers, padding)
    return _convolution(
        lax.conv_general_dilated, shape_of, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init
    )  # fmt: skip


def _transposed(inputs: Array, W: Array, window_strides: Any, padding: Any, dimension_numbers: Any) -> Array:
    return lax.conv_transpose(inputs, W, window_strides, padding, dimension_numbers=dimension_numbers)


def GeneralConvTranspose(
    dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int], strides: Any = None, padding: str = "VALID", W_init: Any = None,
    b_init: Any = _SMALL,
) -> Layer:  # fmt: skip
    """A transposed convolution (`lax.conv_transpose`)."""
    shape_of = functools.partial(_output_shape, _transposed, dimension_numbers, padding)
    return _convolution(_transposed, shape_of, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: Any = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True, beta_init: Any = zeros, gamma_init: Any = ones
) -> Layer:  # fmt: skip
    """Normalization of the batch's mean and variance over `axis`, then gamma z + beta; params: (beta, gamma), () for those that are off."""
    axis = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
        shape = tuple(n for d, n in enumerate(input_shape) if d not in axis)
        k1, k2 = random.split(rng)
        return input_shape, (beta_init(k1, shape) if center else (), gamma_init(k2, shape) if scale else ())

    def apply(params: Any, x: Array, **kwargs: Any) -> Array:
        beta, gamma = params
        kept = tuple(None if d in axis else slice(None) for d in range(jnp.ndim(x)))
        z = standardize(x, axis, epsilon=epsilon)
        if scale:
            z = gamma[kept] * z
        return z + beta[kept] if center else z

    return init, apply


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """The layer of a function of single numbers, without params."""

    def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
        return input_shape, ()

    def apply(params: Any, inputs: Array, **kwargs: Any) -> Array:
        return fun(inputs, **fun_kwargs)

    return init, apply


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


def _pooling(reduce: Callable[[Array, tuple[int, ...], tuple[int, ...], str, str], Array], what: str) -> Callable[..., Layer]:
    def layer(window_shape: Sequence[int], strides: Any = None, padding: str = "VALID", spec: str | None = None) -> Layer:
        strides = strides or (1,) * len(window_shape)
        # without `spec` the batch is the first axis and the channels are the last
        axes = "N" + "." * len(window_shape) + "C" if spec is None else spec

        def windows() -> tuple[tuple[int, ...], tuple[int, ...]]:
            sizes, steps = iter(window_shape), iter(strides)
            return tuple(1 if c in "NC" else next(sizes) for c in axes), tuple(1 if c in "NC" else next(steps) for c in axes)

        def apply(params: Any, inputs: Array, **kwargs: Any) -> Array:
            return reduce(inputs, *windows(), padding, axes)

        def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
            return eval_shape(functools.partial(apply, ()), ShapeDtypeStruct(tuple(input_shape), jnp.float32)).shape, ()

        return init, apply

    layer.__doc__ = f"A layer of the {what} of windows of this shape; `spec`: the layout of its operand."
    return layer


def _max(x: Array, window: tuple[int, ...], strides: tuple[int, ...], padding: str, axes: str) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding)


def _sum(x: Array, window: tuple[int, ...], strides: tuple[int, ...], padding: str, axes: str) -> Array:
    return lax.reduce_window(x, 0.0, lax.add, window, strides, padding)


def _mean(x: Array, window: tuple[int, ...], strides: tuple[int, ...], padding: str, axes: str) -> Array:
    """The mean over that part of each window which is not padding."""
    ones = jnp.ones([1 if c in "NC" else n for c, n in zip(axes, x.shape, strict=True)], x.dtype)
    return _sum(x, window, strides, padding, axes) / _sum(ones, window, strides, padding, axes)


MaxPool = _pooling(_max, "maxima")
SumPool = _pooling(_sum, "sums")
AvgPool = _pooling(_mean, "means")


def _flat_shape(rng: Array, input_shape: Any) -> tuple[Any, Any]:
    return (input_shape[0], math.prod(input_shape[1:])), ()


def _flat(params: Any, inputs: Array, **kwargs: Any) -> Array:
    return jnp.reshape(inputs, (inputs.shape[0], -1))


Flatten = (_flat_shape, _flat)
Identity = (lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **kwargs: inputs)


def FanOut(num: int) -> Layer:
    """Gives its input `num` times."""
    return (lambda rng, input_shape: ([input_shape] * num, ())), (lambda params, inputs, **kwargs: [inputs] * num)


FanInSum = (lambda rng, input_shape: (input_shape[0], ()), lambda params, inputs, **kwargs: sum(inputs[1:], inputs[0]))


def FanInConcat(axis: int = -1) -> Layer:
    """Joins its inputs along an axis."""

    def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
        first = list(input_shape[0])
        first[axis] = sum(shape[axis] for shape in input_shape)
        return tuple(first), ()

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Array:
        return jnp.concatenate(inputs, axis)

    return init, apply


def Dropout(rate: float, mode: str = "train") -> Layer:
    """In the mode "train" keeps numbers with probability `rate`, divided by it; others become 0. ValueError without the keyword rng."""

    def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
        return input_shape, ()

    def apply(params: Any, inputs: Array, **kwargs: Any) -> Array:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError("Dropout: apply needs a PRNG key as the keyword rng, for instance apply(params, inputs, rng=random.key(0))")
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    return init, apply


def serial(*layers: Layer) -> Layer:
    """One layer after another; params: the list of theirs."""
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
        params = []
        for f in inits:
            rng, own = random.split(rng)
            input_shape, p = f(own, input_shape)
            params.append(p)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        for f, p, rng in zip(applies, params, _keys(kwargs, len(applies)), strict=True):
            inputs = f(p, inputs, rng=rng, **kwargs)
        return inputs

    return init, apply


def _keys(kwargs: dict[str, Any], count: int) -> Any:
    """Takes the keyword `rng` out: a key for each of the layers, or None."""
    rng = kwargs.pop("rng", None)
    return (None,) * count if rng is None else random.split(rng, count)


def parallel(*layers: Layer) -> Layer:
    """Layers beside each other, on a sequence of inputs; params: the tuple of theirs."""
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
        made = [f(key, shape) for f, key, shape in zip(inits, random.split(rng, len(inits)), input_shape, strict=True)]
        return [shape for shape, _ in made], tuple(p for _, p in made)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs, len(applies))
        return [f(p, x, rng=rng, **kwargs) for f, p, x, rng in zip(applies, params, inputs, keys, strict=True)]

    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """The layer that `make_layer(input_shape)` makes."""

    def init(rng: Array, input_shape: Any) -> tuple[Any, Any]:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply(params: Any, inputs: Array, **kwargs: Any) -> Any:
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init, apply
