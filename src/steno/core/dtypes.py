"""Element types: JAX's set of dtypes, canonicalisation (64-bit types are off by default) and the promotion lattice with weak types.

Every dtype is an `np.dtype` (the narrow ones from ml_dtypes), but for PRNG keys, which have a `KeyDType`.
"""

from __future__ import annotations

import warnings
from typing import Any, Final, final

import ml_dtypes
import numpy as np

from steno.core.config import config
from steno.core.errors import TypePromotionError
from steno.core.sizes import UnknownSize

bool_: Final = np.dtype(bool)
int2: Final = np.dtype(ml_dtypes.int2)
int4: Final = np.dtype(ml_dtypes.int4)
int8: Final = np.dtype(np.int8)
int16: Final = np.dtype(np.int16)
int32: Final = np.dtype(np.int32)
int64: Final = np.dtype(np.int64)
uint2: Final = np.dtype(ml_dtypes.uint2)
uint4: Final = np.dtype(ml_dtypes.uint4)
uint8: Final = np.dtype(np.uint8)
uint16: Final = np.dtype(np.uint16)
uint32: Final = np.dtype(np.uint32)
uint64: Final = np.dtype(np.uint64)
float4_e2m1fn: Final = np.dtype(ml_dtypes.float4_e2m1fn)
float8_e3m4: Final = np.dtype(ml_dtypes.float8_e3m4)
float8_e4m3: Final = np.dtype(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz: Final = np.dtype(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn: Final = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz: Final = np.dtype(ml_dtypes.float8_e4m3fnuz)
float8_e5m2: Final = np.dtype(ml_dtypes.float8_e5m2)
float8_e5m2fnuz: Final = np.dtype(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu: Final = np.dtype(ml_dtypes.float8_e8m0fnu)
bfloat16: Final = np.dtype(ml_dtypes.bfloat16)
float16: Final = np.dtype(np.float16)
float32: Final = np.dtype(np.float32)
float64: Final = np.dtype(np.float64)
complex64: Final = np.dtype(np.complex64)
complex128: Final = np.dtype(np.complex128)
float0: Final = np.dtype([("float0", np.void)])  # the type of tangents of integers

SIGNED: Final = (int2, int4, int8, int16, int32, int64)
UNSIGNED: Final = (uint2, uint4, uint8, uint16, uint32, uint64)
NARROW_FLOATS: Final = (
    float4_e2m1fn, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz,
    float8_e8m0fnu,
)  # fmt: skip
FLOATS: Final = (*NARROW_FLOATS, bfloat16, float16, float32, float64)
COMPLEX: Final = (complex64, complex128)
INTEGERS: Final = SIGNED + UNSIGNED
ALL: Final = (bool_, *INTEGERS, *FLOATS, *COMPLEX)

# dtypes that there are no arrays of: they have limits, kinds and promotions. Older versions of ml_dtypes lack integers of one bit.
ONE_BIT: Final = tuple(np.dtype(getattr(ml_dtypes, name)) for name in ("int1", "uint1") if hasattr(ml_dtypes, name))
SIX_BITS: Final = (np.dtype(ml_dtypes.float6_e2m3fn), np.dtype(ml_dtypes.float6_e3m2fn))

_VALID: Final = frozenset((*ALL, float0))
_BITS: Final = {int2: 2, uint2: 2, int4: 4, uint4: 4, float4_e2m1fn: 4, **dict.fromkeys(ONE_BIT, 1), **dict.fromkeys(SIX_BITS, 6)}


class extended(np.generic):
    """The abstract scalar type of dtypes that NumPy does not have."""


class prng_key(extended):
    """The abstract scalar type of PRNG key dtypes."""


@final
class KeyDType:
    """The dtype of typed PRNG keys; one object for each implementation, compared by identity.

    `tag` is the short name in `key<tag>`, `impl` the implementation's name as `steno.random.key(impl=...)` takes it, `words` the number of
    uint32 of one key (1, 2 or 4), `host` the dtype of keys in the ndarrays that oracles see: uint64 for the default implementation, one or
    two integers as fields named by the tag for the others; `key_shape` the shape of one key's words, `made` the functions of an
    implementation that a user defined, else None."""

    __slots__ = ("__weakref__", "host", "impl", "itemsize", "key_shape", "made", "name", "tag", "words")
    type = prng_key
    kind = "V"
    _all: dict[str, KeyDType] = {}

    def __init__(self, tag: str, impl: str, words: int, key_shape: tuple[int, ...] | None = None, made: Any = None) -> None:
        self.tag, self.impl, self.words, self.made = tag, impl, words, made
        self.key_shape = (words,) if key_shape is None else key_shape
        self.name = f"key<{tag}>"
        self.itemsize = 4 * words
        columns = [(f"{tag}{k}", np.uint64 if words > 1 else np.uint32) for k in range(max(words // 2, 1))]
        self.host = np.dtype(np.uint64 if tag == "fry" else columns)
        if made is None:
            self._all[tag] = self

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        if self.made is not None:
            raise TypeError(f"{self.name} cannot be pickled: it is the dtype of a PRNG implementation that a program defined")
        return _key_dtype, (self.tag,)


def _key_dtype(tag: str) -> KeyDType:
    return KeyDType._all[tag]


key_fry: Final = KeyDType("fry", "threefry2x32", 2)
key_rbg: Final = KeyDType("rbg", "rbg", 4)
key_urbg: Final = KeyDType("urbg", "unsafe_rbg", 4)
key_fry4: Final = KeyDType("fry4", "threefry4x32", 4)
key_phx2: Final = KeyDType("phx2", "philox2x32", 1)
key_phx4: Final = KeyDType("phx4", "philox4x32", 2)
KEYS: Final = (key_fry, key_rbg, key_urbg, key_fry4, key_phx2, key_phx4)

_SHORT: Final = {
    np.dtype(k): v
    for k, v in {
        "bool": "bool",
        **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
        **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
        **{f"float{n}": f"f{n}" for n in (16, 32, 64)},
        **{f"complex{n}": f"c{n}" for n in (64, 128)},
    }.items()
}
_SHORT.update({int2: "i2", int4: "i4", uint2: "u2", uint4: "u4", bfloat16: "bf16", float0: "float0"})
_SHORT.update({d: d.name.replace("float", "f") for d in NARROW_FLOATS})
FROM_SHORT: Final[dict[str, Any]] = {short: d for d, short in _SHORT.items()}
FROM_SHORT.update({d.name: d for d in KEYS})
_NARROW_OF: Final = {int64: int32, uint64: uint32, float64: float32, complex128: complex64}


def short_name(dtype: Any) -> str:
    """`float32` --> `f32`, as jaxprs print it."""
    return dtype.name if isinstance(dtype, KeyDType) else _SHORT[dtype]


def name(dtype: Any) -> str:
    """`float32`, `key<fry>`, `float0`."""
    if isinstance(dtype, KeyDType):
        return dtype.name
    found = _NAMES.get(dtype)
    if found is None:  # NumPy makes it anew each time
        found = _NAMES[dtype] = "float0" if dtype == float0 else dtype.name
    return found


_NAMES: Final[dict[np.dtype, str]] = {}


def host_dtype(dtype: Any) -> np.dtype:
    """The dtype of the ndarrays that oracles see."""
    return dtype.host if isinstance(dtype, KeyDType) else dtype


def is_key(dtype: Any) -> bool:
    return isinstance(dtype, KeyDType)


def as_dtype(dtype: Any) -> Any:
    """What a user may write for a dtype (`float`, `"f4"`, `np.float32`, `steno.numpy.bfloat16`, a dtype) --> a dtype, not canonicalised.

    Python's `int`, `float` and `complex` are the 64-bit types. TypeError for what is no dtype."""
    if isinstance(dtype, KeyDType):
        return dtype
    if dtype is None:
        raise TypeError("None is not a dtype; leave the argument out for the default")
    if hasattr(dtype, "weak_type"):
        raise ValueError(f"an array is no dtype; write x.dtype for the dtype of x. Got {dtype!r}")
    if isinstance(dtype, str) and dtype not in np.sctypeDict:
        narrow = getattr(ml_dtypes, dtype, None)
        if narrow is not None:
            return np.dtype(narrow)
    return np.dtype(dtype)


def canonical(dtype: Any) -> Any:
    """A 64-bit dtype --> its 32-bit relative unless x64 is enabled. Takes dtypes only: the fast path of `canonicalize_dtype`."""
    if config._state.enable_x64:
        return dtype
    return _NARROW_OF.get(dtype, dtype)


def requested(d: Any, given: Any, fun: str) -> Any:
    """The dtype `d` that a user asked `fun` for, as `given`. A 64-bit one by name while x64 is off: the knob `explicit_x64_dtypes` decides
    between its 32-bit relative with a warning, a ValueError, and itself."""
    c = canonical(d)
    if c is d or c == d or any(given is t for t in (int, float, complex)):
        return c
    mode = config._state.explicit_x64_dtypes
    if mode == "allow":
        return d
    text = f"Explicitly requested dtype {name(d)} is not available in {fun}: 64-bit types are off."
    if mode == "error":
        raise ValueError(f"{text} jax_explicit_x64_dtypes is 'error'.")
    warnings.warn(
        f"{text} The result is of dtype {name(c)}. They are switched on by jax_enable_x64 (config.update, or JAX_ENABLE_X64 in the "
        "environment).",
        UserWarning,
        stacklevel=5,
    )
    return c


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The dtype arrays of `dtype` really get: 64-bit types become 32-bit ones unless x64 is enabled."""
    if isinstance(dtype, KeyDType):
        if not allow_extended_dtype:
            raise ValueError(f"canonicalize_dtype: {dtype} is an extended dtype, and allow_extended_dtype=False")
        return dtype
    return canonical(as_dtype(dtype))


def is_valid(dtype: Any) -> bool:
    """Whether arrays of this dtype exist (no strings, dates, objects, records)."""
    return dtype in _VALID or isinstance(dtype, KeyDType)


def check_valid(dtype: Any, fun: str) -> Any:
    """The dtype a user passed to `fun`, canonicalised; TypeError if there are no arrays of it."""
    d = as_dtype(dtype)
    if not is_valid(d):
        raise TypeError(f"JAX only supports number, bool, and string dtypes, got dtype {dtype} in {fun}")
    return canonical(d)


def itemsize_bits(dtype: Any) -> int:
    """Bits of one element as a number (int4 has 4, though it takes a byte in memory)."""
    if dtype is None or isinstance(dtype, KeyDType):
        raise ValueError(f"itemsize_bits: {dtype} is no numeric dtype; dtype cannot be None")
    d = np.dtype(dtype)
    return _BITS.get(d, d.itemsize * 8)


# Scalar type hierarchy


def _scalar_type(x: Any) -> Any:
    if isinstance(x, KeyDType):
        return prng_key
    if isinstance(x, type) and issubclass(x, np.generic):
        return x
    return as_dtype(x).type


def issubdtype(a: Any, b: Any) -> bool:
    """NumPy's `issubdtype`, for the ml_dtypes and key types too (which NumPy's own hierarchy does not know)."""
    ta = _scalar_type(a)
    if isinstance(b, type) and issubclass(b, np.generic):
        tb = b
    elif isinstance(b, KeyDType):
        return a is b
    else:
        tb = _scalar_type(b)
    if ta is tb or tb is np.generic:
        return True
    d: Any = None if issubclass(ta, extended) or ta in (np.number, np.generic) else _maybe_dtype(ta)
    if d in _KIND:  # the types of ml_dtypes have no place in NumPy's hierarchy
        return issubclass({"i": np.signedinteger, "u": np.unsignedinteger, "f": np.floating}[kind(d)], tb)
    return issubclass(ta, tb)


def _maybe_dtype(scalar_type: Any) -> Any:
    try:
        return np.dtype(scalar_type) if scalar_type.__module__ == "ml_dtypes" else None
    except TypeError:
        return None


def _dtype_or_of(x: Any) -> Any:
    """The dtype of an array, or what `as_dtype` says."""
    own = getattr(x, "dtype", None)
    return own if isinstance(own, np.dtype | KeyDType) else as_dtype(x)


_finfo_cache: dict[Any, Any] = {}


def finfo(dtype: Any) -> Any:
    """Limits of a floating-point or complex dtype. Python's `float` counts as float64."""
    d = _dtype_or_of(dtype)
    if d in _KIND and kind(d) in "fc":
        info = _finfo_cache.get(d)
        if info is None:
            info = _finfo_cache[d] = ml_dtypes.finfo(d)
        return info
    raise ValueError(f"data type {d!r} not compatible with finfo")


def iinfo(dtype: Any) -> Any:
    """Limits of an integer dtype. Python's `int` counts as int64."""
    d = _dtype_or_of(dtype)
    if d not in _KIND or kind(d) not in "iu":
        raise ValueError(f"Invalid integer data type {d.kind!r}.")
    return ml_dtypes.iinfo(d)


def kind(dtype: Any) -> str:
    """'b' bool, 'i' signed, 'u' unsigned, 'f' float, 'c' complex, 'k' key, '0' float0."""
    return _KIND[dtype] if not isinstance(dtype, KeyDType) else "k"


_KIND: Final = {
    bool_: "b", float0: "0", **dict.fromkeys(SIGNED, "i"), **dict.fromkeys(UNSIGNED, "u"), **dict.fromkeys(FLOATS, "f"),
    **dict.fromkeys(COMPLEX, "c"), **dict.fromkeys(SIX_BITS, "f"), **{d: d.name[0] for d in ONE_BIT},
}  # fmt: skip


def is_float(dtype: Any) -> bool:
    return kind(dtype) == "f"


def is_integer(dtype: Any) -> bool:
    return kind(dtype) in "iu"


def is_complex(dtype: Any) -> bool:
    return kind(dtype) == "c"


def is_inexact(dtype: Any) -> bool:
    return kind(dtype) in "fc"


def to_inexact(dtype: Any) -> Any:
    """64-bit integers --> float64, other integers and bools --> float32; floats and complex stay."""
    if is_inexact(dtype):
        return dtype
    return float64 if dtype == int64 or dtype == uint64 else float32


def default_float() -> Any:
    return float64 if config._state.enable_x64 else float32


def default_int() -> Any:
    return int64 if config._state.enable_x64 else int32


_SCALAR_DTYPE: Final = {
    False: {bool: bool_, int: int32, float: float32, complex: complex64},
    True: {bool: bool_, int: int64, float: float64, complex: complex128},
}


def scalar_dtype(x: Any) -> Any:
    """The dtype of a Python scalar (or of the types bool, int, float, complex), canonicalised."""
    t = x if isinstance(x, type) else type(x)
    table = _SCALAR_DTYPE[config._state.enable_x64]
    found = table.get(t)
    if found is None:
        found = next((d for base, d in table.items() if issubclass(t, base)), None)
        if found is None:
            raise TypeError(f"{x!r} is no Python scalar")
    return found


def scalar_type_of(x: Any) -> type:
    """The Python scalar type of the same kind as `x`: bool, int, float or complex."""
    d = x.dtype if isinstance(getattr(x, "dtype", None), np.dtype) else scalar_dtype(x)
    return {"b": bool, "i": int, "u": int, "f": float, "c": complex}[kind(d)]


# Promotion. The lattice is drawn in JAX's documentation, https://docs.jax.dev/en/latest/jep/9407-type-promotion.html. A weak type is a
# node named by a Python type; an edge goes from a type to those it is implicitly converted to, and the promotion of several types is their
# least upper bound.

Node = Any  # a dtype, or int, float, complex for the weak types

_STANDARD: Final[dict[Node, tuple[Node, ...]]] = {
    bool_: (int,),
    int: (uint8, int8, uint2, uint4, int2, int4, *ONE_BIT),
    uint8: (int16, uint16), uint16: (int32, uint32), uint32: (int64, uint64), uint64: (float,),
    int8: (int16,), int16: (int32,), int32: (int64,), int64: (float,),
    float: (*NARROW_FLOATS, *SIX_BITS, bfloat16, float16, complex),
    bfloat16: (float32,), float16: (float32,), float32: (float64, complex64), float64: (complex128,),
    complex: (complex64,), complex64: (complex128,),
}  # fmt: skip
_STRICT: Final[dict[Node, tuple[Node, ...]]] = {
    int: (*INTEGERS, *ONE_BIT, float),
    float: (*FLOATS, *SIX_BITS, complex),
    complex: COMPLEX,
}


def _upper_bounds(edges: dict[Node, tuple[Node, ...]]) -> dict[Node, frozenset[Node]]:
    bounds: dict[Node, frozenset[Node]] = {}

    def visit(n: Node) -> frozenset[Node]:
        if n not in bounds:
            bounds[n] = frozenset((n,)).union(*(visit(m) for m in edges.get(n, ())))
        return bounds[n]

    for n in (*ALL, *ONE_BIT, *SIX_BITS, int, float, complex):
        visit(n)
    return bounds


_BOUNDS: Final = {"standard": _upper_bounds(_STANDARD), "strict": _upper_bounds(_STRICT)}
_join_cache: dict[Any, Any] = {}


def _join(mode: str, nodes: frozenset[Node]) -> Node:
    """The least upper bound of the nodes. TypePromotionError if there is none."""
    key = (mode, nodes)
    found = _join_cache.get(key)
    if found is None:
        bounds = _BOUNDS[mode]
        common = frozenset.intersection(*(bounds[n] for n in nodes))
        least = [n for n in common if bounds[n] == common]
        if not least:
            raise _no_path(mode, nodes)
        found = _join_cache[key] = least[0]
    return found


def _no_path(mode: str, nodes: frozenset[Node]) -> TypePromotionError:
    names = tuple(sorted(canonical(_WEAK[n]).name if n in _WEAK else n.name for n in nodes))
    message = f"Input dtypes {names} have no available implicit dtype promotion path"
    if mode == "strict":
        return TypePromotionError(
            f"{message} when jax_numpy_dtype_promotion=strict. Convert the inputs to one type with x.astype(...), "
            "or set jax_numpy_dtype_promotion=standard."
        )
    small = next((n for n in nodes if n in _SMALL), None)
    reason = (
        ""
        if small is None
        else f" {itemsize_bits(small)}-bit {'floats' if is_float(small) else 'integers'} do not support implicit promotion."
    )
    return TypePromotionError(f"{message}.{reason} Convert explicitly, for example with x.astype('float32')")


_SMALL: Final = frozenset((*NARROW_FLOATS, *SIX_BITS, *ONE_BIT, int2, int4, uint2, uint4))
_DEFAULT: Final = {"i": int64, "u": uint64, "f": float64, "c": complex128}
_WEAK: Final = {int: int64, float: float64, complex: complex128}
_PYTHON_NODE: Final[dict[type, Node]] = {bool: bool_, int: int, float: float, complex: complex}


def _node(dtype: Any, weak: bool) -> Node:
    if not weak or dtype == bool_:
        return dtype
    return {"i": int, "u": int, "f": float, "c": complex}[kind(dtype)]


_promote_cache: dict[Any, tuple[Any, bool]] = {}


def promote(*types: tuple[Any, bool]) -> tuple[Any, bool]:
    """(dtype, weak) pairs --> the canonical dtype and weak type of their combination. Keys combine with themselves only."""
    state = config._state
    key = (types, state.enable_x64, state.numpy_dtype_promotion, state.explicit_x64_dtypes)
    out = _promote_cache.get(key)
    if out is None:
        given = tuple((d if not w else canonical(d), w) for d, w in types) if state.explicit_x64_dtypes == "allow" else None
        out = _promote(given or tuple((canonical(d), w) for d, w in types), state.numpy_dtype_promotion)
        _promote_cache[key] = out
    return out


def _promote(types: tuple[tuple[Any, bool], ...], mode: str) -> tuple[Any, bool]:
    dtypes = {d for d, _ in types}
    weak = all(w for _, w in types)
    if len(dtypes) == 1:
        # one dtype stays itself, weak only if all are: promotion would make a weak int32 the default int
        only = next(iter(dtypes))
        if not (weak and mode == "strict" and len(types) > 1) or only == bool_ or isinstance(only, KeyDType):
            return only, weak and only != bool_
    if float0 in dtypes:
        raise TypeError("float0s do not support any operations by design: the derivative of what is not differentiable holds no values")
    if bad := next((d for d in dtypes if isinstance(d, KeyDType) or d == float0), None):
        raise ValueError(f"dtype={bad} is not a valid dtype for JAX type promotion.")
    if weak and mode == "standard":
        # weak types among themselves stay in what they are: a weak int16 and a weak float32 make a weak float32
        out = _join(mode, frozenset(dtypes))
        return canonical(_WEAK[out] if out in _WEAK else out), True
    out = _join(mode, frozenset(_node(d, w) for d, w in types))
    if out in _WEAK:
        return canonical(_WEAK[out]), True
    return out if out in dtypes else canonical(out), False


def type_of_operand(x: Any) -> tuple[Any, bool]:
    """(dtype, weak) of an array, tracer, aval, dtype, Python scalar or scalar type."""
    if isinstance(x, KeyDType | np.dtype):
        return x, False
    if isinstance(x, type):
        if x in _PYTHON_NODE:
            return (scalar_dtype(x), x is not bool)
        return as_dtype(x), False
    if type(x) in _PYTHON_NODE:
        return scalar_dtype(x), type(x) is not bool
    dtype = getattr(x, "dtype", None)
    if dtype is not None:
        return dtype, bool(getattr(x, "weak_type", False))
    if isinstance(x, bool | int | float | complex):
        return scalar_dtype(x), not isinstance(x, bool)
    if isinstance(x, UnknownSize):
        return default_int(), True
    return as_dtype(x), False


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype the arguments (arrays, scalars, dtypes) promote to; with the flag, (dtype, weak_type). A weak result is the default
    dtype of its kind, where `promote` keeps the operands' width."""
    if not args:
        raise ValueError("at least one array or dtype is required")
    dtype, weak = promote(*((default_float(), False) if a is None else type_of_operand(a) for a in args))
    if weak:
        dtype = canonical(_DEFAULT[kind(dtype)])
    return (dtype, weak) if return_weak_type_flag else dtype


def promote_types(a: Any, b: Any) -> Any:
    """The dtype two dtypes promote to; Python's int, float and complex count as weak types.

    A 64-bit dtype that was given stays one, whether or not arrays have it."""
    nodes = [t if isinstance(t, type) and t in _WIDEST else as_dtype(t) for t in (a, b)]
    if nodes[0] == nodes[1]:
        out = nodes[0]
    elif any(isinstance(n, KeyDType) or n == float0 for n in nodes):
        return result_type(*nodes)
    else:
        out = _join(config._state.numpy_dtype_promotion, frozenset(nodes))
    if out in _WIDEST:
        return _WIDEST[out]
    return out if out in nodes or kind(out) not in "iu" else canonical(out)


_WIDEST: Final[dict[Any, Any]] = {int: int64, float: float64, complex: complex128}
