"""Calls of Python functions from programs: debug prints and callbacks, pure and effectful ones.

A `callback` parameter is a hashable function of flat arrays that returns a flat sequence of arrays. An exception it raises ends the
program and reaches the caller as JaxRuntimeError, with the exception as its cause. `partitioned`, `sharding` and `vmap_method` are
recorded as given."""

from __future__ import annotations

import string
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.errors import JaxRuntimeError
from steno.core.interpret import to_array
from steno.core.op import Op
from steno.ir.kinds import Host


@final
class Effect:
    """A side effect, by identity: effects of one object keep their order among each other if it is `ordered`."""

    __slots__ = ("__weakref__", "name", "ordered")

    def __init__(self, name: str, ordered: bool) -> None:
        self.name, self.ordered = name, ordered

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return _effect, (self.name,)


debug_effect = Effect("Debug", False)
ordered_debug_effect = Effect("OrderedDebug", True)
io_effect = Effect("IO", False)
ordered_io_effect = Effect("OrderedIO", True)


def _effect(name: str) -> Effect:
    return next(e for e in (debug_effect, ordered_debug_effect, io_effect, ordered_io_effect) if e.name == name)


# What runs on the host


def guarded(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run`, its exceptions made JaxRuntimeErrors that show where the callback failed."""

    def call(*arrays: Any) -> Any:
        try:
            return run(*arrays)
        except JaxRuntimeError:
            raise
        except Exception as err:
            where = "".join(traceback.format_exception(err)).rstrip()
            raise JaxRuntimeError(f"INTERNAL: a host callback failed: {type(err).__name__}: {err}\n{where}") from err

    return call


def check_results(name: str, results: Sequence[Any], avals: Sequence[ShapedArray]) -> list[np.ndarray]:
    """What a callback returned as ndarrays of the promised types (keys as their words). 64-bit values are taken for 32-bit types while x64
    is off. ValueError for another number of results or another shape, TypeError for another dtype."""
    if len(results) != len(avals):
        raise ValueError(f"{name}: the callback returned {len(results)} results, its result_shape_dtypes has {len(avals)}")
    out = []
    for k, (x, aval) in enumerate(zip(results, avals, strict=True)):
        if isinstance(aval.dtype, dtypes.KeyDType):
            if getattr(x, "aval", None) is not aval:
                raise TypeError(f"{name}: result {k} of the callback must be an array of type {aval.str_short()}, got {x!r}")
            out.append(x._value)
            continue
        value = np.asarray(x)
        if value.shape != aval.shape:
            raise ValueError(f"{name}: result {k} of the callback must have shape {aval.shape}, got {value.shape}")
        if value.dtype != aval.dtype and dtypes.canonical(value.dtype) != aval.dtype:
            raise TypeError(f"{name}: result {k} of the callback must have dtype {dtypes.name(aval.dtype)}, got {value.dtype}")
        out.append(value.astype(aval.dtype, copy=False))
    return out


def returning(name: str, callback: Callable[..., Sequence[Any]], result_avals: Sequence[ShapedArray]) -> Callable[..., list[np.ndarray]]:
    """The callback as a Host function: guarded, its results checked."""
    return guarded(lambda *arrays: check_results(name, callback(*arrays), result_avals))


def ignoring(callback: Callable[..., Any]) -> Callable[..., list[np.ndarray]]:
    """The callback as a Host function without results."""

    def run(*arrays: Any) -> list[np.ndarray]:
        callback(*arrays)
        return []

    return guarded(run)


def _arrays(args: Sequence[np.ndarray]) -> list[Any]:
    """Operands of an oracle as the arrays that callbacks get."""
    return [to_array(x, ShapedArray(np.shape(x), np.asarray(x).dtype)) for x in args]


# debug_callback, debug_print


def _debug_effect(params: dict[str, Any]) -> set[Effect]:
    return {ordered_debug_effect if params["ordered"] else debug_effect}


debug_callback = Op(
    "debug_callback",
    typ=lambda *avals, **params: [],
    oracle=lambda *args, callback, **params: ignoring(callback)(*_arrays(args)),
    lower=lambda avals_in, avals_out, *, callback, effect, **params: Host(ignoring(callback), effect.ordered),
    effects=lambda *avals, effect, **params: {effect},
    multiple_results=True,
)
"""callback, effect (`debug_effect` or `ordered_debug_effect`), partitioned."""


def print_formatted(
    arrays: Sequence[Any], *, fmt: str, in_tree: Any, static_args: tuple[tuple[int, Any], ...],
    np_printoptions: tuple[tuple[str, Any], ...],
    has_placeholders: bool, logging_record: Callable[[str], None] | None, **_: Any,
) -> None:  # fmt: skip
    """Prints `fmt` filled with the arguments whose tree is `in_tree`: `arrays` in order, but for the `static_args`, (position, value)."""
    leaves = list(arrays)
    for position, value in static_args:
        leaves.insert(position, value)
    args, kwargs = in_tree.unflatten(leaves)
    with np.printoptions(**dict(np_printoptions)):
        text = string.Formatter().format(fmt, *args, **kwargs) if has_placeholders else fmt
    if logging_record is None:
        print(text)
    else:
        logging_record(text)


def _print_host(params: dict[str, Any]) -> Callable[..., list[np.ndarray]]:
    return ignoring(lambda *arrays: print_formatted(arrays, **params))


debug_print = Op(
    "debug_print",
    typ=lambda *avals, **params: [],
    oracle=lambda *args, **params: _print_host(params)(*_arrays(args)),
    lower=lambda avals_in, avals_out, **params: Host(_print_host(params), params["ordered"]),
    effects=lambda *avals, **params: _debug_effect(params),
    multiple_results=True,
)
"""fmt, in_tree (a PyTreeDef of (args, kwargs)), static_args, np_printoptions (items), has_placeholders (else fmt is printed as it is),
ordered, logging_record (what logs the text; None prints it), partitioned."""


# pure_callback, io_callback


def _callback_typ(*avals: ShapedArray, result_avals: tuple[ShapedArray, ...], **params: Any) -> list[ShapedArray]:
    return list(result_avals)


def _callback_oracle(name: str) -> Callable[..., list[np.ndarray]]:
    def oracle(*args: np.ndarray, callback: Any, result_avals: tuple[ShapedArray, ...], **params: Any) -> list[np.ndarray]:
        return returning(name, callback, result_avals)(*_arrays(args))

    return oracle


def _callback_lower(name: str) -> Callable[..., Host]:
    def lower(
        avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, callback: Any, ordered: bool = False, **params: Any
    ) -> Host:
        return Host(returning(name, callback, avals_out), ordered, pure=name == "pure_callback")

    return lower


class _Sum:
    """For samples: a function of arrays that can be a parameter."""

    def __call__(self, *arrays: Any) -> list[np.ndarray]:
        return [np.asarray(sum(np.asarray(a).sum() for a in arrays), np.float32)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sum)

    def __hash__(self) -> int:
        return hash(_Sum)


def _callback_samples(**params: Any) -> Callable[[], Iterable[Any]]:
    def samples() -> Iterable[Any]:
        avals = (ShapedArray((), np.dtype("float32")),)
        yield (np.arange(3, dtype=np.float32), np.float32(2)), dict(callback=_Sum(), result_avals=avals, sharding=None, **params)
        yield (), dict(callback=_Sum(), result_avals=avals, sharding=None, **params)

    return samples


pure_callback = Op(
    "pure_callback",
    typ=_callback_typ,
    oracle=_callback_oracle("pure_callback"),
    lower=_callback_lower("pure_callback"),
    multiple_results=True,
    samples=_callback_samples(vmap_method=None),
)
"""callback, result_avals, sharding, vmap_method. Without effects: may run any number of times, also none."""

io_callback = Op(
    "io_callback",
    typ=_callback_typ,
    oracle=_callback_oracle("io_callback"),
    lower=_callback_lower("io_callback"),
    effects=lambda *avals, ordered, **params: {ordered_io_effect if ordered else io_effect},
    multiple_results=True,
    samples=_callback_samples(ordered=False),
)
"""callback, result_avals, sharding, ordered. Runs once for each evaluation, in program order among ordered ones."""
