"""Activation functions: elementwise, but for `glu`. Dtypes promote as in the formulas; each function is one compiled program."""

from __future__ import annotations

import math
from typing import Any, Final

from steno import lax, numpy as jnp
from steno.api import jit
from steno.custom_derivatives import custom_jvp
from steno.numpy.operands import check_arraylike, promoted_inexact, strong

Array = Any
ArrayLike = Any

# The fixed point (mean 0, variance 1) of Klambauer, Unterthiner, Mayr and Hochreiter, "Self-Normalizing Neural Networks" (2017).
SELU_ALPHA: Final = 1.6732632423543772848170429916717
SELU_SCALE: Final = 1.0507009873554804934193349852946


@jit
def identity(x: ArrayLike) -> Array:
    """x, as an array."""
    check_arraylike("identity", x)
    return jnp.asarray(x)


@jit
def relu(x: ArrayLike) -> Array:
    """max(x, 0). The derivative at 0 is 0.

    >>> nn.relu(jnp.array([-1.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """
    return _relu(x)


@custom_jvp
def _relu(x: ArrayLike) -> Array:
    return jnp.maximum(x, 0)


_relu.defjvps(lambda g, _, x: jnp.where(jnp.greater(x, 0), g, jnp.zeros_like(g)))


@jit
def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6). The derivatives at 0 and 6 are 0."""
    return _relu6(x)


@custom_jvp
def _relu6(x: ArrayLike) -> Array:
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


_relu6.defjvps(lambda g, _, x: jnp.where(jnp.logical_and(jnp.greater(x, 0), jnp.less(x, 6)), g, jnp.zeros_like(g)))


@jit
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """x where it is not negative, negative_slope * x elsewhere."""
    check_arraylike("leaky_relu", x)
    return jnp.where(jnp.greater_equal(x, 0), x, jnp.multiply(negative_slope, x))


@jit
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    check_arraylike("elu", x)
    positive = jnp.greater(x, 0)
    # expm1 sees no positive numbers: its overflow would make gradients NaN
    return jnp.where(positive, x, jnp.multiply(alpha, jnp.expm1(jnp.where(positive, 0.0, x))))


@jit
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)."""
    return jnp.add(jnp.maximum(x, 0.0), jnp.multiply(alpha, jnp.expm1(jnp.divide(jnp.minimum(x, 0.0), alpha))))


@jit
def selu(x: ArrayLike) -> Array:
    """The exponential linear unit, scaled so that it keeps mean 0 and variance 1."""
    return jnp.multiply(SELU_SCALE, elu(x, SELU_ALPHA))


@jit
def gelu_by_tanh(x: ArrayLike) -> Array:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), from Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016)."""
    x = strong(*promoted_inexact("gelu", x))
    slope = math.sqrt(2 / math.pi)
    return x * (
        0.5 * (1.0 + jnp.tanh(x * (slope + 0.044715 * slope * (x * x))))
    )  # the cube of a small x is subnormal sooner than its square


@jit
def gelu_by_erfc(x: ArrayLike) -> Array:
    """0.5 x erfc(-x / sqrt(2)): x times the normal distribution's cumulative probability."""
    x = strong(*promoted_inexact("gelu", x))
    return 0.5 * x * lax.erfc(-x * math.sqrt(0.5))


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the cumulative probability of x under the normal distribution: by tanh if `approximate`, by erfc otherwise."""
    return gelu_by_tanh(x) if approximate else gelu_by_erfc(x)


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> nn.sigmoid(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(x)


tanh = jnp.tanh


@jit
def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x)."""
    return jnp.multiply(x, sigmoid(x))


swish = silu


@jit
def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x))."""
    return jnp.multiply(x, jnp.tanh(softplus(x)))


@jit
def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x))."""
    return jnp.logaddexp(x, 0)


@jit
def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), which is -softplus(-x)."""
    return -softplus(lax.neg(x))


@jit
def soft_sign(x: ArrayLike) -> Array:
    """x / (|x| + 1)."""
    return jnp.divide(x, jnp.abs(x) + 1)


@jit
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x^2 + b)) / 2."""
    check_arraylike("squareplus", x, b)
    return jnp.add(x, jnp.sqrt(jnp.square(x) + b)) / 2


@jit
def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, x from 1 on, (x + 1)^2 / 4 between."""
    check_arraylike("sparse_plus", x)
    return jnp.where(jnp.less_equal(x, -1), 0.0, jnp.where(jnp.greater_equal(x, 1), x, jnp.add(x, 1.0) ** 2 / 4))


@jit
def sparse_sigmoid(x: ArrayLike) -> Array:
    """The derivative of `sparse_plus`: 0 up to -1, 1 from 1 on, (x + 1) / 2 between."""
    return 0.5 * jnp.clip(jnp.add(x, 1), 0.0, 2.0)


@jit
def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6."""
    return relu6(jnp.add(x, 3.0)) / 6.0


@jit
def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x)."""
    return jnp.multiply(x, hard_sigmoid(x))


hard_swish = hard_silu


@jit
def hard_tanh(x: ArrayLike) -> Array:
    """x, but -1 below -1 and 1 above 1; NaN stays NaN."""
    check_arraylike("hard_tanh", x)
    return jnp.where(jnp.greater(x, 1), 1, jnp.where(jnp.less(x, -1), -1, x))


@jit
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x > 0, by whichever of two ways is accurate: M. Mächler, "Accurately computing log(1 - exp(-|a|))" (2012)."""
    return _log1mexp(x)


@custom_jvp
def _log1mexp(x: ArrayLike) -> Array:
    x = lax.neg(x)
    return jnp.where(jnp.greater(x, -math.log(2)), jnp.log(-jnp.expm1(x)), jnp.log1p(-jnp.exp(x)))


_log1mexp.defjvps(lambda g, _, x: jnp.divide(g, jnp.expm1(x)))
