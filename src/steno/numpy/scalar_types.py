"""`float32`, `int8`, ...: callables that make arrays and stand for dtypes; and the functions about dtypes."""

from __future__ import annotations

import functools
from typing import Any, Final

import ml_dtypes
import numpy as np

from steno.core import dtypes
from steno.core.aval import TypedScalar, typeof
from steno.numpy.creation import asarray
from steno.numpy.operands import Array, is_array, type_of


class _ScalarMeta(type):
    """The type of `float32` and its like: `float32(3)` is an array; `np.dtype(float32)` and `float32 == np.float32` hold."""

    dtype: np.dtype

    def __call__(cls, x: Any) -> Array:
        return asarray(x, dtype=cls.dtype)

    def __eq__(cls, other: Any) -> bool:
        if cls is other:
            return True
        return isinstance(other, np.dtype | type) and _same_dtype(cls.dtype, other)

    def __ne__(cls, other: Any) -> bool:
        return not cls == other

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'jax.numpy.{cls.__name__}'>"

    def __reduce__(cls) -> Any:
        return _by_name, (cls.__name__,)


def _same_dtype(dtype: np.dtype, other: Any) -> bool:
    if isinstance(other, np.dtype):
        return dtype == other
    if isinstance(other, _ScalarMeta):
        return dtype == other.dtype
    return dtype.type is other


_ALL: Final[dict[str, Any]] = {}


def _by_name(name: str) -> Any:
    return _ALL[name]


def _scalar_type(name: str, dtype: np.dtype) -> Any:
    cls = _ScalarMeta(
        name, (object,), {"dtype": dtype, "__module__": "steno.numpy", "__doc__": f"{name}(x): x as an array of dtype {dtype.name}."}
    )
    _ALL[name] = cls
    return cls


bool_ = _scalar_type("bool", dtypes.bool_)
int2 = _scalar_type("int2", dtypes.int2)
int4 = _scalar_type("int4", dtypes.int4)
int8 = _scalar_type("int8", dtypes.int8)
int16 = _scalar_type("int16", dtypes.int16)
int32 = _scalar_type("int32", dtypes.int32)
int64 = _scalar_type("int64", dtypes.int64)
uint2 = _scalar_type("uint2", dtypes.uint2)
uint4 = _scalar_type("uint4", dtypes.uint4)
uint8 = _scalar_type("uint8", dtypes.uint8)
uint16 = _scalar_type("uint16", dtypes.uint16)
uint32 = _scalar_type("uint32", dtypes.uint32)
uint64 = _scalar_type("uint64", dtypes.uint64)
float4_e2m1fn = _scalar_type("float4_e2m1fn", dtypes.float4_e2m1fn)
float8_e3m4 = _scalar_type("float8_e3m4", dtypes.float8_e3m4)
float8_e4m3 = _scalar_type("float8_e4m3", dtypes.float8_e4m3)
float8_e4m3b11fnuz = _scalar_type("float8_e4m3b11fnuz", dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = _scalar_type("float8_e4m3fn", dtypes.float8_e4m3fn)
float8_e4m3fnuz = _scalar_type("float8_e4m3fnuz", dtypes.float8_e4m3fnuz)
float8_e5m2 = _scalar_type("float8_e5m2", dtypes.float8_e5m2)
float8_e5m2fnuz = _scalar_type("float8_e5m2fnuz", dtypes.float8_e5m2fnuz)
float8_e8m0fnu = _scalar_type("float8_e8m0fnu", dtypes.float8_e8m0fnu)
bfloat16 = _scalar_type("bfloat16", dtypes.bfloat16)
float16 = _scalar_type("float16", dtypes.float16)
float32 = _scalar_type("float32", dtypes.float32)
float64 = _scalar_type("float64", dtypes.float64)
complex64 = _scalar_type("complex64", dtypes.complex64)
complex128 = _scalar_type("complex128", dtypes.complex128)

# dtypes that there are no arrays of: NumPy's `dtype` takes these names, making an array raises TypeError
float6_e2m3fn = _scalar_type("float6_e2m3fn", np.dtype(ml_dtypes.float6_e2m3fn))
float6_e3m2fn = _scalar_type("float6_e3m2fn", np.dtype(ml_dtypes.float6_e3m2fn))
int1 = _scalar_type("int1", np.dtype(getattr(ml_dtypes, "int1", ml_dtypes.int2)))
uint1 = _scalar_type("uint1", np.dtype(getattr(ml_dtypes, "uint1", ml_dtypes.uint2)))

single, double, csingle, cdouble = float32, float64, complex64, complex128
int_, uint, float_, complex_ = int64, uint64, float64, complex128


# functions about dtypes


def result_type(*args: Any) -> np.dtype:
    """The dtype that arrays, scalars and dtypes promote to by JAX's lattice; Python numbers count as weakly typed."""
    return dtypes.result_type(*(a.dtype if isinstance(a, _ScalarMeta) else a for a in args))


def promote_types(a: Any, b: Any) -> np.dtype:
    """The dtype two dtypes promote to by JAX's lattice."""
    return dtypes.promote_types(_plain(a), _plain(b))


def _plain(d: Any) -> Any:
    return d.dtype if isinstance(d, _ScalarMeta) else d


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether the first dtype stands at or below the second in the hierarchy of scalar types."""
    return dtypes.issubdtype(_plain(arg1), _plain(arg2))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, a name of the array API's kinds ("bool", "integral", "real floating", ...), or a tuple of
    these."""
    d = dtypes.as_dtype(_plain(dtype)) if not isinstance(dtype, dtypes.KeyDType) else dtype
    kinds = kind if isinstance(kind, tuple) else (kind,)
    found = False
    for k in kinds:
        if isinstance(k, str) and k in _KINDS:
            found |= not isinstance(d, dtypes.KeyDType) and dtypes.kind(d) in _KINDS[k]
        elif isinstance(k, str):
            raise ValueError(f"isdtype: unknown kind {k!r}; there are {', '.join(_KINDS)}")
        else:
            try:
                found |= d == dtypes.as_dtype(_plain(k))
            except TypeError:
                raise TypeError(f"isdtype: kind must be a dtype, a name of a kind, or a tuple of these, got {kind!r}") from None
    return bool(found)


_KINDS: Final = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "real floating": "f", "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """NumPy's `can_cast`, for dtypes and arrays."""
    source = from_.dtype if hasattr(from_, "dtype") else _plain(from_)
    return np.can_cast(dtypes.as_dtype(source), dtypes.as_dtype(_plain(to)), casting=casting)  # type: ignore[arg-type]


def finfo(dtype: Any) -> Any:
    """Limits of a floating-point or complex dtype (or array's dtype)."""
    return dtypes.finfo(_plain(dtype))


def iinfo(int_type: Any) -> Any:
    """Limits of an integer dtype (or array's dtype)."""
    return dtypes.iinfo(_plain(int_type))


dtype = np.dtype


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    if x is None:
        return False
    if isinstance(x, list | tuple):
        return any(map(iscomplexobj, x))
    try:
        return dtypes.kind(type_of(x)[0]) == "c"
    except TypeError:
        return bool(np.iscomplexobj(x))


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether it is a number: a Python or NumPy scalar, or an array of rank 0."""
    if is_array(element) or isinstance(element, np.ndarray):
        return element.ndim == 0
    if isinstance(element, TypedScalar):
        return True
    if hasattr(type(element), "__jax_array__"):
        return typeof(element).shape == ()
    return bool(np.isscalar(element))


@functools.cache
def scalar_type(dtype: np.dtype) -> Any:
    """The scalar type of a dtype."""
    return _ALL[dtype.name]
