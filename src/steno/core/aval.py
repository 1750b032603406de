"""Abstract values: `ShapedArray` (interned, from the native core), what values have one, and typed scalar constants."""

from __future__ import annotations

import math
from typing import Any, Final, final

import numpy as np

from steno._native import ArrayImpl, ShapedArray, set_typeof
from steno.core import dtypes
from steno.core.config import config

_NO_DTYPE: Final = object()


shape_only: Final[dict[type, Any]] = {}
"""Classes of objects that have a type and no value, and what gives the type. In a program that is not run they stand for constants."""


def _str_short(self: ShapedArray, short_dtypes: bool = False) -> str:
    d = dtypes.short_name(self.dtype) if short_dtypes else dtypes.name(self.dtype)
    return f"{d}[{','.join(map(str, self.shape))}]"


def _str(self: ShapedArray) -> str:
    return ("~" if self.weak_type else "") + _str_short(self)


def _strip_weak_type(self: ShapedArray) -> ShapedArray:
    return ShapedArray(self.shape, self.dtype) if self.weak_type else self


def _update_weak_type(self: ShapedArray, weak_type: bool) -> ShapedArray:
    return self if self.weak_type == weak_type else ShapedArray(self.shape, self.dtype, weak_type)


def _to_tangent_aval(self: ShapedArray) -> ShapedArray:
    """The type of tangents: float and complex stay, everything else has float0 tangents."""
    d = self.dtype
    if dtypes.kind(d) in "fc":
        return self
    return ShapedArray(self.shape, dtypes.float0)


_METHODS: Final = {
    "str_short": _str_short,
    "__str__": _str,
    "strip_weak_type": _strip_weak_type,
    "update_weak_type": _update_weak_type,
    "to_tangent_aval": _to_tangent_aval,
    "at_least_vspace": _to_tangent_aval,
    "to_ct_aval": _to_tangent_aval,
    "normalize": _strip_weak_type,
}
for _name, _method in _METHODS.items():
    setattr(ShapedArray, _name, _method)
ShapedArray.sharding = None  # types do not say where arrays are; `x.sharding` does


class HasShape:
    """What has a `shape`: its numbers of axes and elements."""

    __slots__ = ()

    shape: Any

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


class HasAval:
    """What stands for an array and says by its `aval` of what type."""

    __slots__ = ()

    aval: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size


@final
class TypedScalar:
    """A scalar constant of a given dtype and weak type: a Python number after promotion. `value` is an `np.generic` of the aval's dtype."""

    __slots__ = ("aval", "value")

    def __init__(self, value: np.generic, aval: ShapedArray) -> None:
        self.value, self.aval = value, aval

    shape = ()
    ndim = 0
    size = 1

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.value, dtype)

    def __repr__(self) -> str:
        return f"TypedScalar({self.value!r}, {self.aval})"

    def __reduce__(self) -> Any:
        return TypedScalar, (self.value, self.aval)


_scalar_avals: dict[Any, ShapedArray] = {}


def scalar_aval(dtype: Any, weak_type: bool = False) -> ShapedArray:
    """The rank 0 aval of a dtype (from a table: cheaper than making it)."""
    key = (dtype, weak_type)
    aval = _scalar_avals.get(key)
    if aval is None:
        aval = _scalar_avals[key] = ShapedArray((), dtype, weak_type)
    return aval


_typed_scalars: dict[Any, TypedScalar] = {}  # made from Python numbers: programs repeat the same few
_TYPED_SCALARS_LIMIT: Final = 4096


def typed_scalar(x: Any, dtype: Any, weak_type: bool = False) -> TypedScalar:
    """A Python or NumPy scalar converted to `dtype`, which is taken as it is: an array may be of 64 bits where x64 is off. OverflowError
    for an int that has no place in the default integer type."""
    t = type(x)
    if t in _EXACT and (x or t is int or t is bool):  # -0.0 and 0.0 are equal, but not the same
        key = (t, x, dtype, weak_type)
        found = _typed_scalars.get(key)
        if found is None:
            found = TypedScalar(scalar_value(x, dtype), scalar_aval(dtype, weak_type))
            if len(_typed_scalars) >= _TYPED_SCALARS_LIMIT:
                _typed_scalars.clear()
            if x == x:
                _typed_scalars[key] = found
        elif t is int:
            check_python_int(x)  # depends on the configuration
        return found
    return TypedScalar(scalar_value(x, dtype), scalar_aval(dtype, weak_type))


_EXACT: Final = frozenset((bool, int, float, complex))


def python_scalar(x: Any) -> TypedScalar:
    """A Python number with the type it has by itself: the default one of its kind, weak (a bool is not)."""
    t = type(x)
    return typed_scalar(x, dtypes.scalar_dtype(t), t is not bool)


_FLOAT_LIMIT: Final = {dtypes.float32: 3.4028234e38, dtypes.float64: math.inf, dtypes.complex64: 3.4028234e38, dtypes.complex128: math.inf}


def scalar_value(x: Any, dtype: Any) -> np.generic:
    """`x` as an `np.generic` of `dtype`. In integer types, as JAX has it, a Python int wraps around, and floats become the nearest number
    there is, NaN 0."""
    t = type(x)
    if t is float:
        limit = _FLOAT_LIMIT.get(dtype)
        if limit is not None and (-limit <= x <= limit or x != x):
            return dtype.type(x)
    elif t is int:
        check_python_int(x)
        bits = _INT_BITS.get(dtype)
        if bits is not None:
            x &= (1 << bits) - 1
            if x >> (bits - 1) and dtype in dtypes.SIGNED:
                x -= 1 << bits
            return dtype.type(x)
    elif t is complex and not dtypes.is_complex(dtype):
        x = x.real
    if isinstance(x, float | np.floating) and dtype in _INT_BITS:
        most = (1 << (_INT_BITS[dtype] - (dtype in dtypes.SIGNED))) - 1
        least = -most - 1 if dtype in dtypes.SIGNED else 0
        return dtype.type(0 if x != x else least if x <= least else most if x >= most else int(x))
    with np.errstate(all="ignore"):
        value: Any = np.array(x).astype(dtype)
        return value[()]


_INT_BITS: Final = {d: dtypes.itemsize_bits(d) for d in dtypes.INTEGERS}


def check_python_int(x: int) -> None:
    """OverflowError for an int beyond the default integer type."""
    d = dtypes.default_int()
    bits = d.itemsize * 8 - 1
    if not -(1 << bits) <= x < (1 << bits):
        raise OverflowError(f"Python int {x} too large to convert to {d.name}")


def _python_aval(dtype64: Any, dtype32: Any) -> Any:
    both = {True: scalar_aval(dtype64, True), False: scalar_aval(dtype32, True)}
    return lambda x: both[config._state.enable_x64]


def _int_aval(x: int) -> ShapedArray:
    check_python_int(x)
    return scalar_aval(dtypes.default_int(), True)


def _ndarray_aval(x: np.ndarray) -> ShapedArray:
    d = x.dtype
    if not dtypes.is_valid(d):
        raise not_an_array(x)
    return ShapedArray(x.shape, dtypes.canonical(d))


def _generic_aval(x: np.generic) -> ShapedArray:
    d = x.dtype
    if not dtypes.is_valid(d):
        raise not_an_array(x)
    return scalar_aval(dtypes.canonical(d))


pytype_aval_mappings: dict[type, Any] = {
    bool: lambda x: scalar_aval(dtypes.bool_),
    int: _int_aval,
    float: _python_aval(dtypes.float64, dtypes.float32),
    complex: _python_aval(dtypes.complex128, dtypes.complex64),
    np.ndarray: _ndarray_aval,
    **{d.type: _generic_aval for d in dtypes.ALL},  # NumPy's float64 is a Python float by inheritance, but not weakly typed
}
"""What gives the type of the instances of a class (JAX's name: libraries add classes that NumPy makes arrays of)."""


def _get_aval(x: Any) -> ShapedArray:
    return x.aval


def register_aval_type(cls: type) -> None:
    """Instances of `cls` are values: they have an `.aval`."""
    pytype_aval_mappings[cls] = _get_aval


register_aval_type(ArrayImpl)
register_aval_type(TypedScalar)


def typeof(x: Any) -> ShapedArray:
    """The aval of a value: an array, a tracer, a NumPy array or scalar, a Python number, or an object with `__jax_array__`.

    TypeError for anything else."""
    rule = pytype_aval_mappings.get(type(x))
    if rule is not None:
        return rule(x)
    return _typeof_slow(x)


def _typeof_slow(x: Any) -> ShapedArray:
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError("numpy masked arrays are not supported: fill them first, as in x.filled(0)")
    for base in type(x).__mro__[1:]:
        rule = pytype_aval_mappings.get(base)
        if rule is not None and base is not bool:
            return rule(x)
    if isinstance(x, np.generic):
        return _generic_aval(x)
    if isinstance(x, type) and issubclass(x, np.generic) or type(x).__name__ == "_ScalarMeta":
        raise TypeError(f"JAX scalar type {x} cannot be interpreted as a JAX array.")
    convert = getattr(type(x), "__jax_array__", None)
    if convert is not None:
        return typeof(convert(x))
    raise not_an_array(x)


def not_an_array(x: Any) -> TypeError:
    text = str(x)
    if len(text) > 100:
        text = text[:97] + "..."
    if isinstance(x, np.ndarray | np.generic):
        return TypeError(
            f"Value '{text}' with dtype {x.dtype} is not a valid JAX array type. Only arrays of numeric types are supported by JAX."
        )
    return TypeError(f"Argument '{text}' of type '{type(x)}' is not a valid JAX type")


set_typeof(typeof)


def is_value(x: Any) -> bool:
    """Whether `typeof` would give an aval."""
    if isinstance(x, ArrayImpl):
        return True
    try:
        typeof(x)
    except TypeError:
        return False
    except OverflowError:
        return True
    return True


_NBYTES_LIMIT: Final = 1 << 62


def check_size(shape: tuple[int, ...], dtype: Any, fun: str) -> None:
    """MemoryError for a shape whose size in bytes no machine has."""
    if math.prod(shape) * dtype.itemsize >= _NBYTES_LIMIT:
        raise MemoryError(f"{fun}: an array of shape {shape} and dtype {dtypes.name(dtype)} is too large")
