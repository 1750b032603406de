"""Dtypes: promotion against a table made with JAX, canonicalisation, limits, the hierarchy, scalar constants."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from steno.core import dtypes
from steno.core.aval import ShapedArray, TypedScalar, scalar_value, typed_scalar, typeof
from steno.core.config import config, enable_x64, numpy_dtype_promotion
from steno.core.errors import TypePromotionError

DATA = Path(__file__).parent / "data"
WEAK = {"i*": 1, "f*": 1.0, "c*": 1j}


def full(short: str) -> str:
    for a, b in (("u", "uint"), ("i", "int"), ("f", "float"), ("c", "complex")):
        if short[0] == a:
            return b + short[1:]
    return {"b": "bool", "bf16": "bfloat16"}.get(short, short)


def dtype_of(short: str) -> np.dtype:
    return dtypes.as_dtype(full(short) if not short.startswith("bf") else "bfloat16")


def shown(dtype: np.dtype, weak: bool) -> str:
    name = dtype.name.replace("float", "f").replace("uint", "u").replace("int", "i").replace("complex", "c").replace("bool", "b")
    return name + ("*" if weak else "")


def rows(file: str) -> list[list[str]]:
    return [line.split() for line in (DATA / file).read_text().splitlines() if not line.startswith("#")]


def outcome(f, *args) -> str:
    try:
        return shown(*f(*args))
    except TypePromotionError:
        return "-"


class Typed:
    def __init__(self, dtype, weak):
        self.dtype, self.weak_type = dtype, weak


def test_promotion_of_every_pair_is_jaxs():
    table = rows("promotion.txt")
    order = [r[2][:-1] for r in table[: len(table) // 4]]
    value = {n: WEAK[n] if n in WEAK else Typed(dtype_of(n), False) for n in order}
    for mode, x64, left, *want in table:
        with enable_x64(x64 == "True"), numpy_dtype_promotion(mode):
            a = value[left[:-1]]
            got = [outcome(lambda x, y: dtypes.result_type(x, y, return_weak_type_flag=True), a, value[n]) for n in order]
        assert got == want, (mode, x64, left)


def test_promotion_of_weak_arrays_is_jaxs():
    for mode, x64, left, *pairs in rows("promotion_weak.txt"):
        with enable_x64(x64 == "True"), numpy_dtype_promotion(mode):
            a = dtype_of(left[:-1])
            for pair in pairs:
                right, results = pair.split("=")
                promoted, result = results.split("/")
                b = (dtype_of(right.rstrip("*")), right.endswith("*"))
                assert outcome(dtypes.promote, (a, True), b) == promoted, (mode, x64, left, pair)
                if result != "?":
                    got = outcome(lambda x, y: dtypes.result_type(x, y, return_weak_type_flag=True), Typed(a, True), Typed(*b))
                    assert got == result, (mode, x64, left, pair)


def test_promotion_errors_name_the_types():
    with pytest.raises(TypePromotionError, match=r"Input dtypes \('float32', 'float8_e5m2'\) have no available implicit"):
        dtypes.promote_types("float32", "float8_e5m2")
    with numpy_dtype_promotion("strict"), pytest.raises(TypePromotionError, match="when jax_numpy_dtype_promotion=strict"):
        dtypes.promote_types("float32", "int32")
    with pytest.raises(ValueError, match="at least one array or dtype is required"):
        dtypes.result_type()
    with pytest.raises(ValueError, match="key<fry> is not a valid dtype"):
        dtypes.result_type(dtypes.key_fry, 1)
    assert dtypes.result_type(dtypes.key_fry, dtypes.key_fry) is dtypes.key_fry


def test_canonical_types():
    assert dtypes.canonicalize_dtype(float) == np.float32 and dtypes.canonicalize_dtype("int64") == np.int32
    with enable_x64():
        assert dtypes.canonicalize_dtype(float) == np.float64
    assert dtypes.canonicalize_dtype("int2") == dtypes.int2
    with pytest.raises(ValueError, match="extended dtype"):
        dtypes.canonicalize_dtype(dtypes.key_fry)
    assert dtypes.canonicalize_dtype(dtypes.key_fry, allow_extended_dtype=True) is dtypes.key_fry
    assert pickle.loads(pickle.dumps(dtypes.key_fry)) is dtypes.key_fry
    with pytest.raises(TypeError, match="got dtype S3 in zeros"):
        dtypes.check_valid("S3", "zeros")


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ("bfloat16", np.floating, True), ("bfloat16", np.inexact, True), ("int4", np.integer, True), ("int4", np.signedinteger, True),
        ("uint2", np.unsignedinteger, True), ("uint2", np.signedinteger, False), ("float8_e5m2", np.floating, True),
        ("float8_e5m2", np.integer, False), (dtypes.key_fry, dtypes.prng_key, True), (dtypes.key_fry, dtypes.extended, True),
        (dtypes.key_fry, np.generic, True), (dtypes.key_fry, np.floating, False), (np.float32, float, False), (np.float64, float, True),
        (np.int32, int, False), (bool, np.number, False), (np.float32, "float32", True), (ml_dtypes.bfloat16, ml_dtypes.bfloat16, True),
        (dtypes.prng_key, np.generic, True), (np.int32, dtypes.prng_key, False), (np.complex64, np.inexact, True),
    ],
)  # fmt: skip
def test_issubdtype(a, b, want):
    assert dtypes.issubdtype(a, b) is want


def test_limits():
    assert dtypes.finfo("bfloat16").bits == 16 and dtypes.finfo(np.float32).eps == np.finfo(np.float32).eps
    assert dtypes.finfo(complex).dtype == np.float64
    assert dtypes.iinfo("int4").max == 7 and dtypes.iinfo(int).max == 2**63 - 1
    for wrong in (int, bool):
        with pytest.raises(ValueError, match="finfo"):
            dtypes.finfo(wrong)
    with pytest.raises(ValueError, match="Invalid integer data type"):
        dtypes.iinfo(float)
    assert [dtypes.itemsize_bits(d) for d in ("int2", "uint4", "float32", "bool")] == [2, 4, 32, 8]


def test_short_names():
    names = [dtypes.short_name(d) for d in dtypes.ALL]
    assert len(set(names)) == len(names)
    assert [dtypes.short_name(dtypes.as_dtype(n)) for n in ("bool", "int4", "bfloat16", "float8_e4m3fn", "complex64")] == [
        "bool", "i4", "bf16", "f8_e4m3fn", "c64",
    ]  # fmt: skip
    assert all(dtypes.FROM_SHORT[n] == d for n, d in zip(names, dtypes.ALL, strict=True))


def test_typeof():
    cases = [
        (True, "bool[]", False), (1, "int32[]", True), (1.0, "float32[]", True), (1j, "complex64[]", True),
        (np.float64(1), "float32[]", False), (np.ones(3), "float32[3]", False), (np.zeros((0, 2), np.int64), "int32[0,2]", False),
        (np.bool_(1), "bool[]", False),
        (np.ones(2, ml_dtypes.bfloat16), "bfloat16[2]", False), (typed_scalar(1, dtypes.int8), "int8[]", False),
    ]  # fmt: skip
    for value, text, weak in cases:
        aval = typeof(value)
        assert (aval.str_short(), aval.weak_type) == (text, weak)
        assert str(aval) == ("~" if weak else "") + text
        assert aval is ShapedArray(aval.shape, aval.dtype, weak)
    for wrong in ([1, 2], None, "a", np.array(["a"]), np.array([None]), object(), np.datetime64("2020")):
        with pytest.raises(TypeError, match="is not a valid JAX"):
            typeof(wrong)
    with pytest.raises(TypeError, match="JAX scalar type"):
        typeof(np.float32)
    with pytest.raises(OverflowError, match="Python int 3000000000 too large to convert to int32"):
        typeof(3000000000)
    with enable_x64():
        assert typeof(3000000000).str_short() == "int64[]"

    class Wrapped:
        def __jax_array__(self):
            return np.ones(2, np.float32)

    assert typeof(Wrapped()).str_short() == "float32[2]"


def test_tangent_types():
    assert ShapedArray((2,), dtypes.int32).to_tangent_aval() is ShapedArray((2,), dtypes.float0)
    assert ShapedArray((2,), dtypes.float32).to_tangent_aval() is ShapedArray((2,), dtypes.float32)


def test_scalar_values_have_their_dtype():
    for value in (0, 1, -1, 127, 128, 300, -129, 2**31 - 1, -(2**31), 0.0, -0.0, 1.5, 1e300, math.inf, math.nan, 1e-300, True, 1 + 2j):
        for d in dtypes.ALL:
            got = scalar_value(value, d)
            assert isinstance(got, np.generic) and got.dtype == d
    assert scalar_value(300, dtypes.int8) == 44 and scalar_value(-1, dtypes.uint4) == 15 and scalar_value(7, dtypes.int2) == -1
    assert math.isinf(scalar_value(1e300, dtypes.float32)) and math.copysign(1, scalar_value(-0.0, dtypes.float32)) == -1
    t = pickle.loads(pickle.dumps(typed_scalar(2, dtypes.float32, True)))
    assert isinstance(t, TypedScalar) and t.value == 2 and t.weak_type and np.asarray(t).dtype == np.float32


def test_config_is_left_alone():
    assert not config.jax_enable_x64
