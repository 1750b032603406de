"""logaddexp and logaddexp2, with derivatives of their own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from steno.custom_derivatives import custom_jvp
from steno.lax import records as p
from steno.numpy.elementwise import const, floats, greater, isnan, kind_of, remainder, where
from steno.numpy.operands import Array, ArrayLike, binary, settled
from steno.numpy.ufunc import declare


def _logaddexp(x: Any, y: Any) -> Array:
    big, apart = p.max_p(x, y), p.sub_p(x, y)
    if kind_of(x) == "c":
        big = where(greater(p.real_p(x), p.real_p(y)), x, y)
        small = where(greater(p.real_p(x), p.real_p(y)), y, x)
        out = p.add_p(big, p.log1p_p(p.exp_p(p.sub_p(small, big), accuracy=None), accuracy=None))
        pi = math.pi
        im = p.imag_p(out)
        wrapped = remainder(p.add_p(im, const(pi, im.aval.dtype)), const(2 * pi, im.aval.dtype))
        out = p.complex_p(p.real_p(out), p.sub_p(wrapped, const(pi, im.aval.dtype)))
        return where(isnan(apart), p.add_p(x, y), out)
    tail = p.log1p_p(p.exp_p(p.neg_p(p.abs_p(apart)), accuracy=None), accuracy=None)
    return where(p.ne_p(apart, apart), p.add_p(x, y), p.add_p(big, tail))


def _logaddexp2(x: Any, y: Any) -> Array:
    d = x.aval.dtype
    if kind_of(x) == "c":
        ln2 = const(math.log(2), d)
        return p.div_p(_logaddexp(p.mul_p(x, ln2), p.mul_p(y, ln2)), ln2)
    big, apart = p.max_p(x, y), p.sub_p(x, y)
    tail = p.log1p_p(p.exp2_p(p.neg_p(p.abs_p(apart)), accuracy=None), accuracy=None)
    return where(p.ne_p(apart, apart), p.add_p(x, y), p.add_p(big, p.div_p(tail, const(math.log(2), d))))


def _with_rule(fun: Callable[[Any, Any], Array], power: Any) -> Callable[[Any, Any], Array]:
    """`fun`, the logarithm of the sum of two powers, where the derivative by an operand is its share of the sum, power(operand - result):
    1 if both are infinite."""
    out_of = custom_jvp(fun)

    def finite(v: Array) -> Array:
        r = p.real_p(v) if kind_of(v) == "c" else v
        return where(p.eq_p(r, const(np.inf, r.aval.dtype)), const(0, v.aval.dtype), v)

    @out_of.defjvp
    def rule(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
        out = out_of(*primals)
        dx, dy = (p.mul_p(t, power(p.sub_p(finite(v), finite(out)), accuracy=None)) for v, t in zip(primals, tangents, strict=True))
        return out, p.add_p(dx, dy)

    return out_of


_logaddexp_of = binary("logaddexp", floats(_with_rule(_logaddexp, p.exp_p)), doc="log(exp(x) + exp(y)), without overflow.")
logaddexp = declare(_logaddexp_of, identity=-np.inf)
_logaddexp2_of = binary("logaddexp2", floats(_with_rule(_logaddexp2, p.exp2_p)))


@functools.partial(declare, identity=-np.inf)
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log2(2**x1 + 2**x2)."""
    return settled(_logaddexp2_of(x1, x2), x1, x2)
