"""Scalar expressions: folding and algebra against the interpreter, narrow formats against ml_dtypes, the exact fused multiply-add."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from steno.ir import primitives
from steno.ir.expr import BOOL, C64, F16, F32, F64, I8, I32, I64, U8, U16, U32, U64, Builder, Expr, Narrow, Pair, registers, show, storage
from steno.ir.index import LoopVar, Value, row_major, var
from steno.ir.interp import evaluate, evaluate_index, evaluate_locals
from steno.ir.narrow import FORMATS, FloatFormat, IntFormat
from steno.ir.primitives import apply, bits_of

FLOATS = [f for f in FORMATS.values() if isinstance(f, FloatFormat)]
INTEGERS = [f for f in FORMATS.values() if isinstance(f, IntFormat)]
EDGES32 = np.array(
    [
        0.0,
        -0.0,
        1,
        -1,
        1.5,
        2,
        0.1,
        3e-45,
        -1e-40,
        1.1754944e-38,
        3.4e38,
        -3.4e38,
        np.inf,
        -np.inf,
        np.nan,
        65504,
        65519.99,
        65520,
        448,
        464,
        480,
    ]
    + [0.3, 7, 7.5, 16777217, 240, 57344, 61440, 1e-8, 2.0**-127, 2.0**-126, 1.7e38, 6e-8, 2.98e-8, 0.001953125, 0.0009765625, 0.00146],
    np.float32,
)


def samples32(n: int = 20000) -> np.ndarray:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, n, dtype=np.uint32).view(np.float32)
    small = (rng.standard_normal(n) * np.exp2(rng.integers(-20, 20, n))).astype(np.float32)
    return np.concatenate([EDGES32, -EDGES32, bits, small])


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit, all NaNs alike."""
    if a.dtype.kind == "f":
        nan = np.isnan(a) & np.isnan(b)
        return a.dtype == b.dtype and bool(np.all((bits_of(np.ascontiguousarray(a)) == bits_of(np.ascontiguousarray(b))) | nan))
    return a.dtype == b.dtype and bool(np.all(a == b))


def run(b: Builder, root: Expr, **arrays: np.ndarray) -> np.ndarray:
    return evaluate_locals([root], arrays)[0]


# ---- interning, folding, algebra ----


def test_equal_nodes_are_one():
    b = Builder()
    x, y = b.local("x", F32), b.local("y", F32)
    assert b.add(x, y) is b.add(y, x) and b.add(x, y) is not b.sub(x, y)
    assert b.const(1, F32) is b.const(1.0, np.float32)
    assert b.const(0.0, F32) is not b.const(-0.0, F32)
    assert b.const(np.nan, F32) is b.const(np.nan, F32)
    assert b.const(1, I32) is not b.const(True, BOOL)


def test_integer_constants_wrap_and_float_ones_round():
    b = Builder()
    assert b.const(0x80000000, I32).attr == -(2**31) and b.const(-1, U8).attr == 255
    assert b.const(0.1, F32).attr == float(np.float32(0.1)) and b.const(1e40, F32).attr == np.inf


def test_algebra_keeps_signed_zeros():
    b = Builder()
    x, i = b.local("x", F32), b.local("i", I32)
    assert b.add(x, -0.0) is x and b.add(x, 0.0) is not x and b.sub(x, 0.0) is x and b.mul(x, 1) is x
    assert b.mul(x, 0.0).op == "mul" and b.mul(i, 0).op == "const" and b.sub(i, i).attr == 0 and b.sub(x, x).op == "sub"
    assert b.div(x, 4.0) is b.mul(x, 0.25) and b.div(x, 3.0).op == "div"
    assert b.neg(b.neg(x)) is x and b.abs(b.neg(x)) is b.abs(x) and b.sub(x, b.neg(x)) is b.add(x, x)
    assert b.eq(i, i).attr is True and b.eq(x, x).op == "eq" and b.not_(b.lt(i, 3)) is b.ge(i, 3) and b.not_(b.lt(x, 3)).op == "not"
    assert b.select(b.not_(b.lt(x, 3)), x, 0.0) is b.select(b.lt(x, 3), 0.0, x)
    assert b.and_(b.and_(i, 12), 6) is b.and_(i, 4) and b.xor(i, -1) is b.not_(i)
    assert b.convert(b.convert(b.local("h", I8), I32), I8) is b.local("h", I8)
    assert b.convert(b.convert(i, I8), I32).op == "convert"
    assert b.rare(b.const(False, BOOL), x, b.sqrt(x)) is x


SMALL_INTS = [0, 1, 2, -1, 3, 7, 8, -128, 127, -127, 100, 31, 5]


@pytest.mark.parametrize("op", sorted(set(primitives.TABLE) - {"convert", "bitcast", "select", "rare", "not", "fma", "scale"}))
@pytest.mark.parametrize("dtype", [F32, F64, I8, U8, I32, U64])
def test_folding_is_the_interpreter(op: str, dtype: np.dtype):
    floats = op in ("sqrt", "floor", "ceil", "round_even", "trunc", "copysign")
    integers = op in ("and", "or", "xor", "shl", "lshr", "ashr", "clz", "popcnt", "mulhi")
    if floats and dtype.kind != "f" or integers and dtype.kind == "f" or op == "mulhi" and dtype not in (U32, U64):
        pytest.skip("no such op")
    b = Builder()
    method = {"and": b.and_, "or": b.or_, "xor": b.xor}.get(op) or getattr(b, op)
    unary = op in ("neg", "abs", "sqrt", "floor", "ceil", "round_even", "trunc", "clz", "popcnt")
    values = EDGES32[:16].astype(dtype) if dtype.kind == "f" else np.array(SMALL_INTS).astype(dtype)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    names = ["x"] if unary else ["x", "y"]
    out = run(b, method(*(b.local(n, dtype) for n in names)), x=x, y=y)
    folded = np.array([method(*(b.const(v.item(), dtype) for v in vs)).attr for vs in (zip(x) if unary else zip(x, y))], out.dtype)  # noqa: B905
    assert same(out, folded)
    for c in values:  # one constant: the algebra
        for root, arrays in (
            (
                (method(b.local("x", dtype), c.item()), (x, np.full_like(x, c))),
                (method(c.item(), b.local("x", dtype)), (np.full_like(x, c), x)),
            )
            if not unary
            else ()
        ):
            assert same(run(b, root, x=x), apply(op, root.dtype, arrays)), (op, c)


def test_integer_division_corner_cases():
    x, y = np.array([7, -7, 7, -128, 5, -5], np.int8), np.array([2, 2, -2, -1, 0, 0], np.int8)
    assert apply("div", I8, [x, y]).tolist() == [3, -3, -3, -128, -1, -1]
    assert apply("rem", I8, [x, y]).tolist() == [1, -1, 1, 0, 5, -5]
    assert apply("div", U8, [np.uint8([5]), np.uint8([0])]).tolist() == [255]


def test_minimum_and_maximum_order_zeros():
    x, y = np.float32([0.0, -0.0, np.nan, 1]), np.float32([-0.0, 0.0, 1, np.nan])
    assert np.signbit(apply("min", F32, [x, y])[:2]).all() and not np.signbit(apply("max", F32, [x, y])[:2]).any()
    assert np.isnan(apply("max", F32, [x, y])[2:]).all()


def test_float_to_integer_saturates():
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, -1.5, 2.5, 300, -200, 2147483520.0, 1e19, 1.8e19], np.float32)
    for dtype in (I8, U8, I32, U32, I64, U64, U16):
        info = np.iinfo(dtype)
        want = [0 if np.isnan(v) else min(max(int(v) if np.isfinite(v) else int(np.sign(v)) * 2**70, info.min), info.max) for v in x]
        assert apply("convert", dtype, [x]).tolist() == want


def exact_fma(a: float, b: float, c: float, dtype: type) -> float:
    value = Fraction(a) * Fraction(b) + Fraction(c)
    if not value:
        return float(dtype(a) * dtype(b) + dtype(c))
    if dtype is np.float64:
        try:
            return value.numerator / value.denominator
        except OverflowError:
            return np.inf if value > 0 else -np.inf
    # float32: the candidate by float64, then its neighbours
    with np.errstate(all="ignore"):
        y = np.float32(value.numerator / value.denominator)
        options = [y, np.nextafter(y, np.float32(np.inf)), np.nextafter(y, np.float32(-np.inf))]
    best = min((abs(Fraction(float(o)) - value), int(np.abs(o).view(np.uint32)) & 1, float(o)) for o in options if np.isfinite(o))
    return best[2] if np.isfinite(y) else float(y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype: type):
    rng = np.random.default_rng(1)
    width = np.uint32 if dtype is np.float32 else np.uint64
    lanes = 3000
    a, b, c = (rng.integers(0, np.iinfo(width).max, lanes, dtype=width).view(dtype) for _ in range(3))
    # near cancellation, ties, subnormal outcomes
    p, q = (rng.standard_normal(lanes).astype(dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        r = -(p * q) * dtype(1 + np.finfo(dtype).eps * 1) ** rng.integers(0, 3, lanes).astype(dtype)
        tiny = (p * np.sqrt(np.finfo(dtype).tiny)).astype(dtype)
        a = np.concatenate([a, p, tiny, p, (1 + np.arange(50) * np.finfo(dtype).eps).astype(dtype)])
        b = np.concatenate([b, q, (q * np.sqrt(np.finfo(dtype).tiny)).astype(dtype), q, np.full(50, 1 + np.finfo(dtype).eps, dtype)])
        s = (rng.standard_normal(lanes) * np.finfo(dtype).tiny).astype(dtype)
        far = (rng.standard_normal(lanes) * np.exp2(rng.integers(-100, 100, lanes))).astype(dtype)
        c = np.concatenate([c, r.astype(dtype), s, far, np.full(50, 2.0 ** (np.finfo(dtype).nmant + 1), dtype)])
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    a, b, c = a[finite], b[finite], c[finite]
    got = apply("fma", np.dtype(dtype), [a, b, c])
    want = np.array([exact_fma(float(i), float(j), float(k), dtype) for i, j, k in zip(a, b, c, strict=True)]).astype(dtype)
    assert same(got, want)


def test_fma_specials():
    z = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 5e-324]
    for dtype in (np.float32, np.float64):
        a, b, c = (v.ravel() for v in np.meshgrid(*[np.array(z, dtype)] * 3))
        with np.errstate(all="ignore"):
            plain = np.where(np.isfinite(a) & np.isfinite(b), np.where((a * b == 0) & (a != 0) & (b != 0), c, a * b + c), a * b + c)
        got = apply("fma", np.dtype(dtype), [a, b, c])
        zero = (plain == 0) & (c == 0) & (a != 0) & (b != 0)
        assert same(got[~zero], plain[~zero])


# ---- narrow formats ----


def of_type(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return values.astype(dtype)


def every_code(f: FloatFormat | IntFormat) -> np.ndarray:
    if f.storage.itemsize == 2:
        return np.arange(1 << 16, dtype=np.uint16)
    bits = f.bits if isinstance(f, IntFormat) else f.exponent + f.mantissa + (f.special != "scale")
    return np.arange(1 << bits, dtype=np.uint8)


@pytest.mark.parametrize("f", FORMATS.values(), ids=lambda f: f.dtype.name)
def test_decode_and_encode_are_those_of_ml_dtypes(f):
    codes = every_code(f)
    b = Builder()
    raw = b.local("raw", f.storage)
    x = b.from_storage(f.dtype, (raw,))
    assert b.to_storage(x) == (raw,), "moving an element must not touch its bits"
    value = run(b, x.value, raw=codes.view(f.storage))
    assert same(value, codes.view(f.dtype).astype(f.value))
    fresh = Builder()
    bits = run(fresh, fresh.to_storage(Narrow(f.dtype, fresh.local("v", f.value)))[0], v=value)
    assert same(run(b, x.value, raw=np.ascontiguousarray(bits)), value)


@pytest.mark.parametrize("f", FLOATS, ids=lambda f: f.dtype.name)
def test_rounding_is_that_of_ml_dtypes(f):
    x = samples32()
    b = Builder()
    y = b.convert(b.local("x", F32), f.dtype)
    got = np.ascontiguousarray(run(b, b.to_storage(y)[0], x=x)).view(f.dtype)
    with np.errstate(all="ignore"):
        want = x.astype(f.dtype)
    keep = ~np.isnan(x) if f.special == "finite" else np.ones(len(x), bool)
    assert same(got.astype(np.float32)[keep], want.astype(np.float32)[keep])


def test_float64_to_float16_rounds_once():
    rng = np.random.default_rng(3)
    h = rng.integers(0, 0x7C00, 2000, dtype=np.uint16).view(np.float16).astype(np.float64)
    nudge = np.float64([0, 2.0**-11, -(2.0**-11), 2.0**-11 + 2.0**-40, 2.0**-11 - 2.0**-40])
    x = np.concatenate(
        [(h[:, None] * (1 + nudge)).ravel(), [65519.999999999, 65520, 1e300, -1e300, np.nan, np.inf, 1e-8, 2.98e-8, 5e-324, -0.0]]
    )
    b = Builder()
    got = run(b, b.to_storage(b.convert(b.local("x", F64), F16))[0], x=x)
    with np.errstate(all="ignore"):
        assert same(got, x.astype(np.float16))


@pytest.mark.parametrize("f", INTEGERS, ids=lambda f: f.dtype.name)
def test_narrow_integers_wrap(f):
    values = every_code(f).view(f.dtype).astype(np.int64)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    b = Builder()
    sx, sy = (Narrow(f.dtype, b.local(n, f.value)) for n in "xy")
    arrays = {"x": x.astype(f.value), "y": y.astype(f.value)}
    signed = f.value == I8

    def wrapped(v: np.ndarray) -> np.ndarray:
        v = v & ((1 << f.bits) - 1)
        return np.where(v >> (f.bits - 1) & signed, v - (1 << f.bits), v).astype(f.value)

    mask = (1 << f.bits) - 1
    with np.errstate(all="ignore"):
        low, amount = x & mask, y & mask
        cases = {
            "add": x + y, "sub": x - y, "mul": x * y, "and_": x & y, "or_": x | y, "xor": x ^ y, "neg": -x, "not_": ~x,
            "shl": np.where(amount >= f.bits, 0, low << amount), "lshr": np.where(amount >= f.bits, 0, low >> amount),
            "popcnt": np.bitwise_count(low.astype(np.uint8)).astype(np.int64), "clz": np.array([f.bits - int(v).bit_length() for v in low]),
        }  # fmt: skip
    for name, want in cases.items():
        args = (sx,) if name in ("neg", "not_", "popcnt", "clz") else (sx, sy)
        out = getattr(b, name)(*args)
        assert same(run(b, out.value, **arrays), wrapped(want)), name
    assert same(run(b, b.lt(sx, sy), **arrays), x < y)


@pytest.mark.parametrize("f", INTEGERS, ids=lambda f: f.dtype.name)
def test_conversion_to_narrow_integers(f):
    b = Builder()
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -1.5, 2.5, 300, -200, -0.0, 0.3], np.float32)
    info = ml_dtypes.iinfo(f.dtype)
    want = [0 if np.isnan(v) else min(max(int(v) if np.isfinite(v) else int(np.sign(v)) * 999, info.min), info.max) for v in x]
    assert run(b, b.convert(b.local("x", F32), f.dtype).value, x=x).tolist() == want
    i = np.arange(-300, 300, dtype=np.int32)
    got = run(b, b.convert(b.local("i", I32), f.dtype).value, i=i)
    low = i & ((1 << f.bits) - 1)
    assert np.all(got == np.where((low >> (f.bits - 1)) & (f.value == I8), low - (1 << f.bits), low))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "min", "max", "neg", "abs", "sqrt", "floor", "copysign"])
def test_narrow_arithmetic_rounds_after_each_op(dtype, op):
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 1 << 8 * dtype.itemsize, (2, 4000)).astype(FORMATS[dtype].storage if dtype.itemsize == 1 else np.uint16)
    x, y = codes.view(dtype)
    b = Builder()
    args = [b.from_storage(dtype, (b.local(n, FORMATS[dtype].storage),)) for n in "xy"][: 1 if op in ("neg", "abs", "sqrt", "floor") else 2]
    out = getattr(b, op)(*args)
    assert out.dtype == dtype
    raw = run(b, b.to_storage(out)[0], x=codes[0].view(FORMATS[dtype].storage), y=codes[1].view(FORMATS[dtype].storage))
    wide = [v.astype(np.float32) for v in (x, y)][: len(args)]
    with np.errstate(all="ignore"):
        want = apply(op, F32, wide).astype(dtype)
    assert same(np.ascontiguousarray(raw).view(dtype).astype(np.float32), want.astype(np.float32))


# ---- complex, keys, flat forms ----


def test_complex_arithmetic_by_components():
    rng = np.random.default_rng(2)
    p, q, r, s = rng.standard_normal((4, 500)).astype(np.float32)
    b = Builder()
    x, y = (b.pair(C64, b.local(m, F32), b.local(n, F32)) for m, n in ("pq", "rs"))
    z, w = p + 1j * q, r + 1j * s
    for out, want in ((b.add(x, y), z + w), (b.sub(x, y), z - w), (b.mul(x, y), z * w), (b.neg(x), -z), (b.conj(x), z.conj())):
        got = evaluate_locals([out.first, out.second], {"p": p, "q": q, "r": r, "s": s})
        np.testing.assert_allclose(got[0] + 1j * got[1], want, rtol=2e-6, atol=1e-6)
    assert b.convert(x, F32) is x.first and b.convert(x.first, C64).second.attr == 0 and b.eq(x, x).op == "and"
    with pytest.raises(TypeError, match="no order"):
        b.lt(x, y)


def test_flat_forms():
    bf16 = np.dtype(ml_dtypes.bfloat16)
    assert storage(bf16) == (U16, 1) and registers(bf16) == (F32,) and storage(C64) == (F32, 2) and storage(F16) == (F16, 1)
    assert storage(BOOL) == (BOOL, 1) and registers(np.dtype(ml_dtypes.int4)) == (I8,)
    b = Builder()
    x = b.const(1.5, bf16)
    assert b.from_registers(bf16, b.to_registers(x)) == x and b.to_storage(x)[0].attr == 0x3FC0
    assert b.bitcast(x, np.int16).attr == 0x3FC0 and b.bitcast(b.const(0x3FC0, U16), bf16) == x
    with pytest.raises(TypeError, match="width"):
        b.bitcast(x, F32)
    with pytest.raises(TypeError, match="all must be equal"):
        b.add(b.const(1, F32), b.const(1, F64))
    with pytest.raises(TypeError, match="primitive dtype"):
        b.acc(0, bf16)


def test_selected_elements_keep_their_bits():
    dtype = np.dtype(ml_dtypes.float8_e5m2)
    codes = np.arange(256, dtype=np.uint8)
    b = Builder()
    x, y = (b.from_storage(dtype, (b.local(n, U8),)) for n in "xy")
    out = b.select(b.lt(b.local("i", I32), 128), x, y)
    i = np.arange(256, dtype=np.int32)
    assert same(run(b, b.to_storage(out)[0], x=codes, y=codes[::-1].copy(), i=i), np.where(i < 128, codes, codes[::-1]))


def test_sign_and_predicates():
    b = Builder()
    x = b.local("x", F32)
    v = np.float32([-3, 0.0, -0.0, 2, np.nan, np.inf, -np.inf])
    assert same(run(b, b.sign(x), x=v), np.float32([-1, 0.0, -0.0, 1, np.nan, 1, -1]))
    assert run(b, b.is_finite(x), x=v).tolist() == [True] * 4 + [False] * 3
    assert run(b, b.is_inf(x), x=v).tolist() == [False] * 5 + [True] * 2
    assert run(b, b.sign_bit(x), x=v).tolist()[:4] == [True, False, True, False]
    assert run(b, b.sign(b.local("i", I32)), i=np.int32([-5, 0, 9])).tolist() == [-1, 0, 1]


class FakeBuffer:
    name = "a"

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype


def test_loads_and_indices():
    b = Builder()
    i = LoopVar("i", 4)
    a = FakeBuffer(F32)
    z = b.load(a, var(i), dtype=C64)
    assert isinstance(z, Pair) and z.first.attr[1] == var(i) * 2 and z.second.attr[1] == var(i) * 2 + 1
    assert b.load(a, var(i)) is b.load(a, var(i)) and b.load(a, var(i), b.const(True, BOOL)) is b.load(a, var(i))
    with pytest.raises(TypeError, match="holds float32"):
        b.load(a, var(i), dtype=F64)
    k = b.convert(b.local("k", I32), I64)
    at = var(i) * row_major((4, 3))[0]
    from_value = b.load(a, at + _value(k), b.lt(k, 3))
    lanes = {i: np.arange(4)}
    data = np.arange(12, dtype=np.float32)

    def leaf(e, value):
        if e.op == "load":
            return data[np.clip(evaluate_index(e.attr[1], lanes, value), 0, 11)]
        return np.int32([0, 1, 2, 1])

    assert evaluate([from_value], 4, leaf)[0].tolist() == [0, 4, 8, 10]
    text = show([from_value])
    assert "a[3*i + [%" in text and text.splitlines()[-1].startswith("give %")


def _value(k: Expr):
    from_zero = Value(k, 0, 2)
    return type(row_index(0))(0, ((from_zero, 1),))


def row_index(c: int):
    return var(LoopVar("unit", 1)) + c


@pytest.mark.parametrize("dtype", [I8, U8, I32, U32, I64], ids=lambda d: d.name)
def test_bounds_of_indices_decide_exactly(dtype: np.dtype):
    """Comparisons, min and max of affine expressions of loop variables against NumPy, near the points where the answer changes, and
    where the arithmetic wraps."""
    rng = np.random.default_rng(0)
    decided = 0
    for _ in range(400):
        b = Builder()
        n = int(rng.choice([1, 2, 7, 100]))
        i = LoopVar("i", n)
        scale, shift = int(rng.integers(-3, 4)), int(rng.choice([0, 0, -1, 1, 5, 100, 120, -128]))
        lanes = {i: np.arange(n)}
        e, want = b.convert(b.index(var(i)), dtype), np.arange(n).astype(dtype)
        with np.errstate(over="ignore"):
            e, want = b.mul(e, b.const(scale, dtype)), want * np.asarray(scale).astype(dtype)
            e, want = b.add(e, b.const(shift, dtype)), want + np.asarray(shift).astype(dtype)
        c = np.asarray(int(want[0 if rng.random() < 0.5 else -1]) + int(rng.integers(-1, 2))).astype(dtype)
        op, function = [("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal), ("eq", np.equal),
                        ("ne", np.not_equal), ("min", np.minimum), ("max", np.maximum)][rng.integers(8)]  # fmt: skip
        root = getattr(b, op)(e, b.const(int(c), dtype))
        (got,) = evaluate([root], n, lambda x, value, lanes=lanes: evaluate_index(x.attr, lanes, value))
        assert got.tolist() == function(want, c).tolist(), (op, dtype, n, scale, shift, c)
        decided += root.op == "const" or root is e
    assert decided > 100
