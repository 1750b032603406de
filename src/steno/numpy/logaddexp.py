"""logaddexp and logaddexp2, with derivatives of their own."""

from __future__ import annotations

import functools
import math
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


_logaddexp_with_rule = custom_jvp(_logaddexp)


@_logaddexp_with_rule.defjvp
def _logaddexp_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """Each operand's share of the sum, exp(operand - out), which is 1 if both are infinite."""
    out = _logaddexp_with_rule(*primals)

    def finite(v: Array) -> Array:
        r = p.real_p(v) if kind_of(v) == "c" else v
        return where(p.eq_p(r, const(np.inf, r.aval.dtype)), const(0, v.aval.dtype), v)

    dx, dy = (p.mul_p(t, p.exp_p(p.sub_p(finite(v), finite(out)), accuracy=None)) for v, t in zip(primals, tangents, strict=True))
    return out, p.add_p(dx, dy)


logaddexp = declare(binary("logaddexp", floats(_logaddexp_with_rule)), identity=-np.inf)


def _logaddexp2(x: Any, y: Any) -> Array:
    d = x.aval.dtype
    if kind_of(x) == "c":
        ln2 = const(math.log(2), d)
        return p.div_p(_logaddexp(p.mul_p(x, ln2), p.mul_p(y, ln2)), ln2)
    big, apart = p.max_p(x, y), p.sub_p(x, y)
    tail = p.log1p_p(p.exp2_p(p.neg_p(p.abs_p(apart)), accuracy=None), accuracy=None)
    return where(p.ne_p(apart, apart), p.add_p(x, y), p.add_p(big, p.div_p(tail, const(math.log(2), d))))


_logaddexp2_of = binary("logaddexp2", floats(_logaddexp2))


@functools.partial(declare, identity=-np.inf)
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log2(2**x1 + 2**x2)."""
    return settled(_logaddexp2_of(x1, x2), x1, x2)
