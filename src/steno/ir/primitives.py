"""What each primitive op of `ir/expr.py` means, on NumPy lanes: used to fold constants and by the reference interpreters.

`apply(op, dtype, args)` takes and gives arrays of primitive dtypes (bool, int8..uint64, float16, float32, float64), any common shape.
The fused multiply-add is exact: float32 by a float64 sum rounded to odd, float64 by error-free transformations
(S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE TC 57(4), 2008).
The sign and payload of a NaN made by arithmetic are unspecified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

BOOL, I64, F16, F32, F64 = (np.dtype(n) for n in ("bool", "int64", "float16", "float32", "float64"))
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def apply(op: str, dtype: np.dtype, args: Sequence[np.ndarray]) -> np.ndarray:
    """The value of primitive `op` with result `dtype`; `args` are arrays of the operands' primitive dtypes."""
    with np.errstate(all="ignore"):
        out = TABLE[op](dtype, *args)
    return np.asarray(out, dtype)


def bits_of(x: np.ndarray) -> np.ndarray:
    """The unsigned integers with the bits of `x`."""
    return x.view(np.dtype(f"uint{8 * x.dtype.itemsize}"))


def unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _round_to_odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b in float64 rounded to odd: the neighbour with odd mantissa when the sum is not exact. Finite sums only."""
    s = np.asarray(a + b)
    bb = s - a
    err = (a - (s - bb)) + (b - bb)
    bits = s.view(np.int64).copy()
    fix = (err != 0) & ((bits & 1) == 0) & np.isfinite(s)
    toward_zero = (err > 0) != (s > 0)
    bits = np.where(fix, bits + np.where(toward_zero, -1, 1), bits)
    return np.asarray(bits, np.int64).view(np.float64)


def _fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    product = np.asarray(a.astype(F64) * b.astype(F64))  # exact: 48 bits
    return _round_to_odd_sum(product, np.broadcast_to(c.astype(F64), product.shape)).astype(F32)


def _split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    t = x * 134217729.0
    hi = t - (t - x)
    return hi, x - hi


def _fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Mantissas are brought near 1 first, so that no partial result over- or underflows; an addend out of reach acts as a sticky bit."""
    a, b, c = (np.asarray(v, F64) for v in np.broadcast_arrays(a, b, c))
    plain = np.asarray(a * b + c)
    regular = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0) & (c != 0)
    if not regular.any():
        return np.where((a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c), plain, _product(a, b, plain))
    ma, ea = np.frexp(np.where(regular, a, 1.0))
    mb, eb = np.frexp(np.where(regular, b, 1.0))
    mc, ec = np.frexp(np.where(regular, c, 1.0))
    ep = ea + eb
    gap = ec - ep
    # the product lies in [1/4, 1), c in [1/2, 1) * 2**gap; 150 binary places apart only the sign of the smaller one matters
    tiny = 2.0**-150
    small, large = gap < -150, gap > 150
    cc = np.where(small, np.copysign(tiny, mc), np.ldexp(mc, np.where(small | large, 0, gap)))
    ma = np.where(large, np.copysign(tiny, ma) * 1.0, ma)
    uh = ma * mb
    (ah, al), (bh, bl) = _split(ma), _split(mb)
    ul = ((ah * bh - uh) + ah * bl + al * bh) + al * bl
    th, tl = _two_sum(cc, ul)
    vh, vl = _two_sum(uh, th)
    total = vh + _round_to_odd_sum(tl, vl)
    exponent = np.where(large, ec, ep)
    out = np.ldexp(total, exponent)
    # a subnormal outcome would be rounded twice
    again = regular & (np.abs(out) < 2.0**-1021) & ~((total == 0) & (out == 0))
    out = np.where(regular, out, np.where((a != 0) & (b != 0) & (c == 0) & np.isfinite(a) & np.isfinite(b), _product(a, b, plain), plain))
    if again.any():
        flat = np.asarray(out, F64).reshape(-1).copy()
        la, lb, lc = a.reshape(-1), b.reshape(-1), c.reshape(-1)
        for k in np.flatnonzero(again):
            (na, da), (nb, db), (nc, dc) = (float(v[k]).as_integer_ratio() for v in (la, lb, lc))
            exact = na * nb * dc + nc * da * db
            flat[k] = exact / (da * db * dc)  # Python rounds quotients of integers once
            if flat[k] == 0 and exact < 0:
                flat[k] = -0.0
        out = flat.reshape(out.shape)
    return out


def _product(a: np.ndarray, b: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """a*b + 0 --> a*b  unless the product is a true zero (then IEEE's rule for the sign of 0 + c, which `plain` holds)."""
    p = np.asarray(a * b)
    return np.where(p == 0, np.where((a != 0) & (b != 0), p, plain), p)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


def _fma(dtype: np.dtype, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    a, b, c = np.broadcast_arrays(a, b, c)
    return _fma32(a, b, c) if dtype == F32 else _fma64(a, b, c)


def _scale(dtype: np.dtype, x: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.ldexp(x, np.where(np.isfinite(n), np.clip(n, -9999, 9999), 0).astype(np.int32))


def _div(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if dtype.kind == "f":
        return x / y
    lowest = np.iinfo(dtype).min
    overflow = (x == lowest) & (y == -1) if dtype.kind == "i" else np.zeros(np.shape(x), bool)
    d = np.where((y == 0) | overflow, np.ones((), dtype), y)
    q = (x // d).astype(dtype)
    if dtype.kind == "i":
        q = np.where((q * d != x) & ((x < 0) != (d < 0)), q + np.ones((), dtype), q)
    all_ones = np.asarray(-1 if dtype.kind == "i" else np.iinfo(dtype).max, dtype)
    return np.where(y == 0, all_ones, np.where(overflow, x, q))


def _rem(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if dtype.kind == "f":
        return np.fmod(x, y)
    d = np.where((y == 0) | (y == np.asarray(-1).astype(dtype)) & (dtype.kind == "i"), np.ones((), dtype), y)
    return np.where(y == 0, x, np.fmod(x, d))


def _extremum(dtype: np.dtype, x: np.ndarray, y: np.ndarray, pick_y: np.ndarray, other_zero_sign: bool) -> np.ndarray:
    out = np.where(pick_y, y, x)
    if dtype.kind != "f":
        return out
    ties = (x == 0) & (y == 0)
    out = np.where(ties & (np.signbit(y) == other_zero_sign), y, out)
    return np.where(np.isnan(x), x, np.where(np.isnan(y), y, out))


def _min(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _extremum(dtype, x, y, y < x, True)


def _max(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _extremum(dtype, x, y, y > x, False)


def _shift(name: str) -> Callable[..., np.ndarray]:
    def shift(dtype: np.dtype, x: np.ndarray, n: np.ndarray) -> np.ndarray:
        width = 8 * dtype.itemsize
        amount = n.astype(unsigned(dtype))
        beyond = amount >= width
        amount = np.where(beyond, 0, amount).astype(unsigned(dtype))
        if name == "ashr":
            signed = x.astype(dtype).view(np.dtype(f"int{width}"))
            return np.where(beyond, signed >> (width - 1), signed >> amount.astype(signed.dtype)).astype(signed.dtype).view(dtype)
        raw = np.asarray(x).view(unsigned(dtype))
        out = raw << amount if name == "shl" else raw >> amount
        return np.where(beyond, 0, out).astype(unsigned(dtype)).view(dtype)

    return shift


def _convert(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    source = x.dtype
    if dtype == BOOL:
        return x != 0
    if source.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        t = np.trunc(x.astype(F64) if source == F16 else x)
        low, beyond = t <= float(info.min), t >= float(info.max) + (dtype.itemsize < 8)
        out = np.where(low | beyond | np.isnan(t), 0, t).astype(dtype)
        return np.where(low, info.min, np.where(beyond, info.max, out)).astype(dtype)
    return x.astype(dtype)


def _popcnt(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    return np.bitwise_count(bits_of(x)).astype(dtype)


def _clz(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    width = 8 * dtype.itemsize
    v = bits_of(x)
    shift = 1
    while shift < width:  # smear the highest bit downwards
        v = v | (v >> np.asarray(shift, v.dtype))
        shift *= 2
    return (width - np.bitwise_count(v).astype(np.int64)).astype(dtype)


def _mulhi(dtype: np.dtype, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if dtype.itemsize == 4:
        return ((x.astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(32)).astype(dtype)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    xl, xh, yl, yh = x & mask, x >> half, y & mask, y >> half
    low, m1, m2 = xl * yl, xh * yl, xl * yh
    carry = ((low >> half) + (m1 & mask) + (m2 & mask)) >> half
    return xh * yh + (m1 >> half) + (m2 >> half) + carry


def _abs(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    return np.abs(x)  # INT_MIN stays INT_MIN


def _neg(dtype: np.dtype, x: np.ndarray) -> np.ndarray:
    return (bits_of(x) ^ np.asarray(1 << (8 * dtype.itemsize - 1), unsigned(dtype))).view(dtype) if dtype.kind == "f" else np.negative(x)


def _where(dtype: np.dtype, c: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(c, x, y)


TABLE: dict[str, Callable[..., np.ndarray]] = {
    "add": lambda dtype, x, y: x + y,
    "sub": lambda dtype, x, y: x - y,
    "mul": lambda dtype, x, y: x * y,
    "div": _div,
    "rem": _rem,
    "fma": _fma,
    "scale": _scale,
    "neg": _neg,
    "abs": _abs,
    "sqrt": lambda dtype, x: np.sqrt(x),
    "floor": lambda dtype, x: np.floor(x),
    "ceil": lambda dtype, x: np.ceil(x),
    "round_even": lambda dtype, x: np.rint(x),
    "trunc": lambda dtype, x: np.trunc(x),
    "copysign": lambda dtype, x, y: np.copysign(x, y),
    "min": _min,
    "max": _max,
    "and": lambda dtype, x, y: x & y,
    "or": lambda dtype, x, y: x | y,
    "xor": lambda dtype, x, y: x ^ y,
    "not": lambda dtype, x: ~x,
    "shl": _shift("shl"),
    "lshr": _shift("lshr"),
    "ashr": _shift("ashr"),
    "eq": lambda dtype, x, y: x == y,
    "ne": lambda dtype, x, y: x != y,
    "lt": lambda dtype, x, y: x < y,
    "le": lambda dtype, x, y: x <= y,
    "gt": lambda dtype, x, y: x > y,
    "ge": lambda dtype, x, y: x >= y,
    "select": _where,
    "rare": lambda dtype, c, x, y: np.where(c, y, x),
    "convert": _convert,
    "bitcast": lambda dtype, x: np.asarray(x).view(dtype),
    "clz": _clz,
    "popcnt": _popcnt,
    "mulhi": _mulhi,
}
