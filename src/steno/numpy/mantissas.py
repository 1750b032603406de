"""frexp, whose derivative is a rule of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from steno.core import dtypes
from steno.custom_derivatives import custom_jvp
from steno.lax import records as p
from steno.numpy.elementwise import const, float_layout, kind_of, power_of_two, where
from steno.numpy.operands import Array, ArrayLike, as_array, convert, strong, to_inexact, type_of, unary_operand


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """(m, e) with x = m * 2**e and 0.5 <= |m| < 1; zeros, infinities and NaN stay, with exponent 0."""
    x = unary_operand("frexp", x)
    x = strong(convert(x, to_inexact(*type_of(x))[0]))
    if kind_of(x) == "c":
        raise TypeError(f"frexp: expected a real dtype, got {dtypes.name(x.aval.dtype)}")
    return _frexp(as_array("frexp", x))


@custom_jvp
def _frexp(x: Array) -> tuple[Array, Array]:
    d = x.aval.dtype
    narrow = d if dtypes.itemsize_bits(d) < 32 else None
    if narrow is not None:
        x = convert(x, dtypes.float32)
    work = x.aval.dtype
    bits_dtype, nexp, nmant, bias = float_layout(work)
    # subnormals are scaled up first
    zero = const(0, work)
    tiny = p.lt_p(p.abs_p(x), const(float(dtypes.finfo(work).smallest_normal), work))
    scaled = where(tiny, p.mul_p(x, const(2.0 ** (nmant + 1), work)), x)
    bits = p.bitcast_convert_type_p(scaled, new_dtype=bits_dtype)
    mask = const((1 << nexp) - 1, bits_dtype)
    exponent = p.and_p(p.shift_right_logical_p(bits, const(nmant, bits_dtype)), mask)
    exponent = p.sub_p(exponent, const(bias - 1, bits_dtype))
    exponent = where(tiny, p.sub_p(exponent, const(nmant + 1, bits_dtype)), exponent)
    cleared = p.and_p(bits, const(~(((1 << nexp) - 1) << nmant), bits_dtype))
    mantissa = p.bitcast_convert_type_p(p.or_p(cleared, const((bias - 1) << nmant, bits_dtype)), new_dtype=work)
    special = p.or_p(p.eq_p(x, zero), p.not_p(p.is_finite_p(x)))
    m = where(special, x, mantissa)
    e = strong(where(special, const(0, bits_dtype), exponent))
    return (m if narrow is None else convert(m, narrow)), convert(e, dtypes.int32)


@_frexp.defjvp
def _frexp_tangent(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Any, Any]:
    """The mantissa is x / 2**e with e constant. The factor in two steps, since 2**-e may be out of range."""
    m, e = _frexp(*primals)
    half = p.shift_right_arithmetic_p(p.neg_p(e), const(1, e.aval.dtype))
    rest = p.sub_p(p.neg_p(e), half)
    wide = convert(tangents[0], dtypes.float32) if dtypes.itemsize_bits(m.aval.dtype) < 32 else tangents[0]
    for part in (half, rest):
        wide = p.mul_p(wide, power_of_two(part, wide.aval.dtype))
    return (m, e), (convert(wide, m.aval.dtype), np.zeros(e.aval.shape, dtypes.float0))
