"""Operands of the numpy functions: what counts as an array, promotion, conversion, broadcasting, axes.

`arrays(fun, *xs)` checks and converts arguments; `promoted` brings them to one dtype. Elementwise functions of two operands go through
`binary`, whose plans (which op, which conversions and broadcasts) are remembered by the operands' types, so that `x * y` or `x * 2.0` on
tracers costs a table look-up beside the op itself.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final

import numpy as np

from steno import backends
from steno._native import ArrayImpl, ShapedArray, config_token
from steno.core import dtypes
from steno.core.aval import TypedScalar, scalar_aval, scalar_value, typed_scalar, typeof
from steno.core.config import config
from steno.core.errors import ConcretizationTypeError
from steno.core.op import Op
from steno.core.pytree import tree_leaves
from steno.core.sizes import UnknownSize, size_of
from steno.core.trace import JitTracer, Tracer, bad_shape
from steno.lax.records import broadcast_in_dim_p, convert_element_type_p, real_p

Array = Any  # an ArrayImpl or a Tracer
ArrayLike = Any  # also NumPy arrays and scalars, Python numbers, objects with __jax_array__
DTypeLike = Any
Shape = tuple[int, ...]
Plan = tuple[Callable[..., Any], Callable[[Any], Any] | None, Callable[[Any], Any] | None]

PYTHON_SCALARS: Final = frozenset((bool, int, float, complex))
_PLANS_LIMIT: Final = 8192


# what is an array


def is_array(x: Any) -> bool:
    """Whether x is an array of the library, concrete or traced."""
    return type(x) is ArrayImpl or isinstance(x, Tracer)


def as_array(fun: str, x: Any, position: int = 0) -> Array:
    """An argument as an array. TypeError, naming the function and the position, for lists, strings, None and the like."""
    t = type(x)
    if t is ArrayImpl or t is JitTracer or isinstance(x, Tracer):
        return x
    if t in PYTHON_SCALARS or isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        return from_host(x)
    if t is TypedScalar:
        return ArrayImpl.from_numpy(np.asarray(x.value), x.aval)
    convert = getattr(t, "__jax_array__", None)
    if convert is not None:
        return as_array(fun, convert(x), position)
    raise not_arraylike(fun, x, position)


def not_arraylike(fun: str, x: Any, position: int) -> TypeError:
    return TypeError(f"{fun}: argument {position} must be an array or a number, got {type(x)}")


def from_host(x: Any) -> ArrayImpl:
    """A Python number, a NumPy scalar or a NumPy array as an array (a copy); Python numbers are weakly typed."""
    aval = typeof(x)
    value = x if isinstance(x, np.ndarray) else np.asarray(scalar_value(x, aval.dtype))
    return ArrayImpl.from_numpy(value if value.dtype == aval.dtype else value.astype(aval.dtype), aval)


def check_arraylike(fun: str, *xs: Any) -> None:
    """TypeError for the first argument that is no array."""
    for k, x in enumerate(xs):
        t = type(x)
        if (
            t is ArrayImpl
            or t is JitTracer
            or t in PYTHON_SCALARS
            or isinstance(x, Tracer | np.ndarray | np.generic | bool | int | float | complex)
        ):
            continue
        if t is not TypedScalar and getattr(t, "__jax_array__", None) is None:
            raise not_arraylike(fun, x, k)


def arrays(fun: str, *xs: Any) -> list[Array]:
    return [as_array(fun, x, k) for k, x in enumerate(xs)]


def concrete(x: Any) -> np.ndarray | None:
    """The value of an argument as an ndarray, or None where it is traced."""
    if isinstance(x, Tracer):
        known = x.to_concrete_value()
        return None if known is None else np.asarray(known)
    return np.asarray(x)


def static(fun: str, x: Any, what: str) -> np.ndarray:
    """The value of an argument that must be known while tracing. ConcretizationTypeError if it is not."""
    if isinstance(x, Tracer):
        known = x.to_concrete_value()
        if known is None:
            raise ConcretizationTypeError(x, f"{fun} needs to know its argument {what!r} while tracing.")
        x = known
    elif isinstance(x, list | tuple):
        traced = next((v for v in tree_leaves(x) if isinstance(v, Tracer) and v.to_concrete_value() is None), None)
        if traced is not None:
            raise ConcretizationTypeError(traced, f"{fun} needs to know its argument {what!r} while tracing.")
    return np.asarray(x)


def static_index(fun: str, x: Any, what: str) -> int:
    """An integer argument that must be known while tracing. ConcretizationTypeError, or TypeError for what is no integer."""
    return size_of(static(fun, x, what)[()] if isinstance(x, Tracer) else x)


def dtype_of(x: Any) -> Any:
    return x.aval.dtype if hasattr(x, "aval") else typeof(x).dtype


def weak_type_of(x: Any) -> bool:
    return typeof(x).weak_type


def no_out(fun: str, out: Any) -> None:
    """NotImplementedError for an `out` argument: arrays are immutable."""
    if out is not None:
        raise NotImplementedError(f"{fun}: the argument `out` must be None, since arrays are immutable")


# functions of two names


def alias(fun: Any, name: str) -> Any:
    """The same function under another name, which it says of itself."""
    out = FunctionType(fun.__code__, fun.__globals__, name, fun.__defaults__, fun.__closure__)
    out.__kwdefaults__, out.__annotations__, out.__doc__ = fun.__kwdefaults__, fun.__annotations__, fun.__doc__
    out.__qualname__, out.__module__ = name, fun.__module__
    out.__dict__.update(fun.__dict__)
    return out


# dtypes and conversion


def check_dtype(dtype: DTypeLike, fun: str) -> Any:
    """A user's dtype argument, canonicalised (with a warning if it had 64 bits and x64 is off); None stays None.

    TypeError for what is no dtype or has no arrays."""
    if dtype is None:
        return None
    d = dtypes.as_dtype(dtype)
    if isinstance(d, dtypes.KeyDType):
        return d
    if not dtypes.is_valid(d):
        raise TypeError(f"JAX only supports number, bool, and string dtypes, got dtype {dtype} in {fun}")
    return dtypes.requested(d, dtype, fun)


def convert(x: Any, dtype: Any, weak: bool = False) -> Any:
    """x with the given canonical dtype and weak type. Numbers become typed scalars. Complex to real keeps the real part."""
    t = type(x)
    if t in PYTHON_SCALARS:
        return typed_scalar(x, dtype, weak)
    aval = x.aval if hasattr(x, "aval") else typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak:
        return x
    if t is TypedScalar or isinstance(x, np.generic | bool | int | float | complex):
        return TypedScalar(scalar_value(x.value if t is TypedScalar else x, dtype), scalar_aval(dtype, weak))
    if aval.dtype == dtype and t is ArrayImpl:
        return x.with_aval(aval.update(weak_type=weak))
    if dtypes.kind(aval.dtype) == "c" and dtypes.kind(dtype) in "iuf":
        x = real_p(x)
        if x.aval.dtype == dtype and x.aval.weak_type == weak:
            return x
    return convert_element_type_p(x, new_dtype=dtype, weak_type=weak, sharding=None)


def strong(x: Any) -> Any:
    """x, no longer weakly typed."""
    return convert(x, x.aval.dtype) if x.aval.weak_type else x


def promoted(fun: str, *xs: Any) -> list[Array]:
    """The arguments as arrays of the one dtype they promote to."""
    if len(xs) == 1:
        return arrays(fun, *xs)
    check_arraylike(fun, *xs)
    dtype, weak = dtypes.promote(*map(type_of, xs))
    return [as_array(fun, convert(unwrap(x), dtype, weak)) for x in xs]


def promoted_inexact(fun: str, *xs: Any) -> list[Array]:
    """As `promoted`; integers and bools become the default float."""
    check_arraylike(fun, *xs)
    dtype, weak = to_inexact(*dtypes.promote(*map(type_of, xs)))
    return [as_array(fun, convert(unwrap(x), dtype, weak)) for x in xs]


def promoted_numeric(fun: str, *xs: Any) -> list[Array]:
    """As `promoted`; bools become the default integer."""
    check_arraylike(fun, *xs)
    dtype, weak = to_numeric(*dtypes.promote(*map(type_of, xs)))
    return [as_array(fun, convert(unwrap(x), dtype, weak)) for x in xs]


def unwrap(x: Any) -> Any:
    """What `__jax_array__` gives; x itself without it."""
    t = type(x)
    if t is ArrayImpl or t is JitTracer or t in PYTHON_SCALARS:
        return x
    method = getattr(t, "__jax_array__", None)
    return x if method is None else method(x)


def type_of(x: Any) -> tuple[Any, bool]:
    """(dtype, weak type) of an operand."""
    aval = x.aval if hasattr(x, "aval") else typeof(x)
    return aval.dtype, aval.weak_type


def to_inexact(dtype: Any, weak: bool) -> tuple[Any, bool]:
    return (dtype if isinstance(dtype, dtypes.KeyDType) else dtypes.to_inexact(dtype)), weak


def to_numeric(dtype: Any, weak: bool) -> tuple[Any, bool]:
    return (dtypes.int32, weak) if dtype == dtypes.bool_ else (dtype, weak)


def settled(out: Array, *given: Any) -> Array:
    """The result, strongly typed unless only Python numbers were given: so it is in JAX where a function is jitted as a whole."""
    return out if all(type(x) in PYTHON_SCALARS for x in given) else strong(out)


# shapes and axes


def broadcast_shapes(*shapes: Sequence[int], fun: str = "") -> Shape:
    """The shape NumPy's rules give. ValueError if they give none."""
    if not shapes:
        return ()
    first = shapes[0]
    if all(s == first for s in shapes):
        return tuple(first)
    rank = max(map(len, shapes))
    out = []
    for sizes in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            names = ", ".join(str(tuple(s)) for s in shapes)
            if fun:
                raise TypeError(f"{fun} got incompatible shapes for broadcasting: {names}.")
            raise ValueError(f"Incompatible shapes for broadcasting: {names}")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def check_rank_promotion(fun: str, *shapes: Shape) -> None:
    """What `numpy_rank_promotion` says about operands of unequal rank (scalars may always be broadcast)."""
    mode = config._state.numpy_rank_promotion
    if mode == "allow" or len({len(s) for s in shapes if s}) <= 1:
        return
    given = " ".join(map(str, shapes))
    if mode == "raise":
        raise ValueError(f"{fun}: operands with shapes {given} require rank promotion, which is off: jax_numpy_rank_promotion={mode!r}")
    warnings.warn(
        f"Following NumPy automatic rank promotion for {fun} on shapes {given}: operands with shapes of unequal rank "
        f"require rank promotion, of which jax_numpy_rank_promotion={mode!r} warns",
        stacklevel=4,
    )


def broadcast_to(x: Any, shape: Shape) -> Array:
    """x broadcast by NumPy's rules: one broadcast_in_dim, or none. The shapes are known to fit."""
    own = x.aval.shape
    if own == shape:
        return x
    return broadcast_in_dim_p(x, shape=shape, broadcast_dimensions=tuple(range(len(shape) - len(own), len(shape))), sharding=None)


def broadcast_together(fun: str, *xs: Any) -> list[Array]:
    shape = broadcast_shapes(*(x.aval.shape for x in xs))
    check_rank_promotion(fun, *(x.aval.shape for x in xs))
    return [broadcast_to(x, shape) for x in xs]


def canonical_axis(axis: Any, ndim: int) -> int:
    """`-ndim <= axis < ndim`  -->  `0 <= axis < ndim`. ValueError beyond; TypeError for what is no integer."""
    k = static_index("an axis", axis, "axis") if isinstance(axis, Tracer) else operator.index(axis)
    if not -ndim <= k < ndim:
        raise ValueError(f"axis {k} is out of bounds for an array of rank {ndim}")
    return k + ndim if k < 0 else k


def axis_tuple(fun: str, axes: Any) -> tuple[Any, ...]:
    """One axis or several as a tuple. ConcretizationTypeError for a traced one."""
    if isinstance(axes, Tracer) or not hasattr(axes, "__iter__") or getattr(axes, "ndim", None) == 0:
        return (static_index(fun, axes, "axis"),)
    return tuple(axes)


def canonical_axes(axes: Any, ndim: int, *, duplicates: str = "duplicate value in 'axis': {}") -> Shape:
    """None: all axes; an int: one. ValueError for what is out of bounds or doubled."""
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, Tracer):
        raise ConcretizationTypeError(axes, "The argument `axis` must be known while tracing.")
    if isinstance(axes, int | np.integer):
        return (canonical_axis(axes, ndim),)
    if not isinstance(axes, Sequence | np.ndarray):
        axes = (operator.index(axes),) if hasattr(axes, "__index__") else tuple(axes)
    out = tuple(canonical_axis(a, ndim) for a in axes)
    if len(set(out)) != len(out):
        raise ValueError(duplicates.format(tuple(axes)))
    return out


def check_shape(shape: Any, context: str = "") -> Shape:
    """A user's shape argument (an int or a sequence) as a tuple of ints. TypeError for other things, tracers and negative sizes."""
    if isinstance(shape, int | np.integer | UnknownSize) and not isinstance(shape, bool):
        sizes: Sequence[Any] = (shape,)
    elif isinstance(shape, np.ndarray | ArrayImpl | Tracer):
        if isinstance(shape, Tracer) or shape.ndim > 1:
            raise bad_shape(shape, context)
        sizes = shape.reshape(-1).tolist()
    elif isinstance(shape, str) or not hasattr(shape, "__iter__"):
        raise bad_shape((shape,), context)
    else:
        sizes = tuple(shape)
    try:
        out = tuple(map(size_of, sizes))
    except TypeError:
        raise bad_shape(tuple(sizes), context) from None
    if any(n < 0 for n in out):
        raise TypeError(f"a shape must not hold negative sizes, got {out}{context and ' as ' + context}")
    return out


# elementwise functions of two operands


def scalar_maker(dtype: Any, weak: bool) -> Callable[[Any], TypedScalar]:
    """Python number --> typed scalar."""
    return lambda v: typed_scalar(v, dtype, weak)


def _step(aval: ShapedArray, python: bool, dtype: Any, weak: bool, shape: Shape) -> Callable[[Any], Any] | None:
    """What must be done to an operand of this type before the op; None if nothing."""
    if python:
        return scalar_maker(dtype, weak)
    converts = aval.dtype != dtype
    # a rank 0 operand needs no broadcast: elementwise ops take it as it is
    spreads = aval.shape != shape and aval.shape != ()
    if converts and spreads:
        return lambda x: broadcast_to(convert(x, dtype, weak), shape)
    if converts:
        return lambda x: convert(x, dtype, weak)
    if spreads:
        return lambda x: broadcast_to(x, shape)
    return None


def _make_plan(fun: str, rule: Any, ax: ShapedArray, px: bool, ay: ShapedArray, py: bool) -> Plan:
    if dtypes.is_key(ax.dtype) or dtypes.is_key(ay.dtype):
        if ax.dtype is not ay.dtype:
            raise TypeError(f"{fun} does not accept dtypes {dtypes.name(ax.dtype)}, {dtypes.name(ay.dtype)}.")
    dtype, weak = dtypes.promote((ax.dtype, ax.weak_type), (ay.dtype, ay.weak_type))
    op, dtype, weak = rule(dtype, weak)
    shape = broadcast_shapes(ax.shape, ay.shape, fun=fun)
    check_rank_promotion(fun, ax.shape, ay.shape)
    if px and py:  # at least one operand must be an array, or the op would see two constants: fine for it
        return op, scalar_maker(dtype, weak), scalar_maker(dtype, weak)
    return op, _step(ax, px, dtype, weak, shape), _step(ay, py, dtype, weak, shape)


_PYTHON_AVALS: Final = {t: (lambda t=t: scalar_aval(dtypes.scalar_dtype(t), t is not bool)) for t in PYTHON_SCALARS}


def binary(fun: str, rule: Callable[[Any, bool], tuple[Any, Any, bool]], doc: str | None = None) -> Callable[[Any, Any], Array]:
    """An elementwise function of two operands. `rule(dtype, weak) -> (op, dtype, weak)`: the op to bind, and the type to convert to."""
    plans: dict[Any, Plan] = {}

    def make(x: Any, kx: Any, y: Any, ky: Any) -> Plan:
        px, py = kx in PYTHON_SCALARS, ky in PYTHON_SCALARS
        plan = _make_plan(fun, rule, _PYTHON_AVALS[kx]() if px else kx, px, _PYTHON_AVALS[ky]() if py else ky, py)
        if config._state.numpy_rank_promotion != "warn":
            if len(plans) >= _PLANS_LIMIT:
                plans.clear()
            plans[kx, ky, config_token()] = plan
        return plan

    def call(x: Any, y: Any, /) -> Array:
        kx: Any = type(x)
        if kx not in PYTHON_SCALARS:
            if kx is not ArrayImpl and kx is not JitTracer:
                x = operand(fun, x, 0)
            kx = x.aval
        ky: Any = type(y)
        if ky not in PYTHON_SCALARS:
            if ky is not ArrayImpl and ky is not JitTracer:
                y = operand(fun, y, 1)
            ky = y.aval
        op, fx, fy = plans.get((kx, ky, config_token())) or make(x, kx, y, ky)
        if fx is not None:
            x = fx(x)
        if fy is not None:
            y = fy(y)
        return op(x, y)

    def find(x: Any, y: Any) -> Any:
        """The executable of the op alone, for operands such as these, which were just called with; None if there is more to it."""
        px, py = type(x) in PYTHON_SCALARS, type(y) in PYTHON_SCALARS
        op, fx, fy = plans.get((type(x) if px else x.aval, type(y) if py else y.aval, config_token())) or (None, None, None)
        if not isinstance(op, Op) or fx is not None and not px or fy is not None and not py:
            return None
        return backends.native_op(op, (x.aval if fx is None else fx(x).aval, y.aval if fy is None else fy(y).aval))

    call.__name__ = call.__qualname__ = fun
    call.__doc__ = doc
    call.find = find
    return call


def operand(fun: str, x: Any, position: int) -> Any:
    """As `as_array`, but NumPy scalars become typed scalars, which are literals in a jaxpr."""
    if type(x) is TypedScalar:
        return x
    if isinstance(x, np.generic):
        aval = typeof(x)
        return TypedScalar(scalar_value(x, aval.dtype), aval)
    return as_array(fun, x, position)


def unary_operand(fun: str, x: Any) -> Any:
    """As `operand`; Python numbers become weakly typed scalars."""
    t = type(x)
    if t is ArrayImpl or t is JitTracer:
        return x
    if t in PYTHON_SCALARS:
        aval = typeof(x)
        return TypedScalar(scalar_value(x, aval.dtype), aval)
    return operand(fun, x, 0)
