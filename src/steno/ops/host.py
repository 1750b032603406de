"""Calls of Python functions from programs: debug prints and callbacks, pure and effectful ones.

A `callback` parameter is a hashable function of flat arrays that returns a flat sequence of arrays. An exception it raises ends the
program and reaches the caller as JaxRuntimeError, with the exception as its cause. `partitioned`, `sharding` and `vmap_method` are
recorded as given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from steno._native import ArrayImpl, current_trace
from steno.core import dtypes, monitoring
from steno.core.aval import ShapedArray, typeof
from steno.core.errors import JaxRuntimeError
from steno.core.interpret import to_array, to_ndarray
from steno.core.jaxpr import ClosedJaxpr
from steno.core.op import Op
from steno.core.record import record
from steno.ir.kinds import Host
from steno.transforms.rules import Axis, ForOp, insert_axis, to_front, zeros


@final
class Effect:
    """A side effect, by identity: effects of one object keep their order among each other if it is `ordered`. `refusal`: why no program
    with this effect can be compiled, if it cannot."""

    __slots__ = ("__weakref__", "name", "ordered", "refusal")

    def __init__(self, name: str, ordered: bool, refusal: str | None = None) -> None:
        self.name, self.ordered, self.refusal = name, ordered, refusal

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


def refuse_effects(program: ClosedJaxpr) -> None:
    """ValueError if the program has an effect that no compiled program of several ops can have."""
    for e in program.effects:
        if getattr(e, "refusal", None) is not None:
            raise ValueError(e.refusal)


# What runs on the host


def guarded(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """`run`, its exceptions made JaxRuntimeErrors that show where the callback failed. They are logged: the error of a program that runs
    behind the caller's back may be met much later, or never."""

    def call(*arrays: Any) -> Any:
        try:
            return run(*arrays)
        except JaxRuntimeError:
            raise
        except Exception as err:
            import traceback  # noqa: PLC0415 - a millisecond of each first program, for what is rare

            where = "".join(traceback.format_exception(err)).rstrip()
            monitoring.log(monitoring.ERROR, "jax.%s failed: %s: %s\n%s", name, type(err).__name__, err, where)
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
    return guarded(name, lambda *arrays: check_results(name, callback(*arrays), result_avals))


def ignoring(callback: Callable[..., Any], name: str = "debug.callback") -> Callable[..., list[np.ndarray]]:
    """The callback as a Host function without results."""

    def run(*arrays: Any) -> list[np.ndarray]:
        callback(*arrays)
        return []

    return guarded(name, run)


def _arrays(args: Sequence[np.ndarray]) -> list[Any]:
    """Operands of an oracle as the arrays that callbacks get."""
    return [to_array(x, ShapedArray(np.shape(x), np.asarray(x).dtype)) for x in args]


# Batches


@final
@record(frozen=True)
class ForEach:
    """A callback called for each element of a batch, in order. `dims`: the batch axes of its arguments (None: the same for all).
    `result_avals` are those of one call, whose other results are ignored; those of all calls are stacked along a new first axis."""

    name: str
    callback: Callable[..., Any]
    size: int
    dims: tuple[int | None, ...]
    result_avals: tuple[ShapedArray, ...] = ()

    def __call__(self, *arrays: Any) -> list[ArrayImpl]:
        columns = [[x] * self.size if d is None else _elements(x, d) for x, d in zip(arrays, self.dims, strict=True)]
        results = []
        for k in range(self.size):
            out = self.callback(*(column[k] for column in columns))
            if self.result_avals:
                results.append(check_results(self.name, out, self.result_avals))
        return [_stacked([r[k] for r in results], a, self.size) for k, a in enumerate(self.result_avals)]


def _for_each(name: str, callback: Callable[..., Any], size: int, dims: tuple[int | None, ...]) -> ForEach:
    """The callback, which has no results, for each element of a further batch: the last index to vary is that of the map that was
    innermost, as where each map calls the one inside of it."""
    if not isinstance(callback, ForEach):
        return ForEach(name, callback, size, dims)
    # an axis behind another one moves when that is taken away
    first = tuple(d if d is None or n is None else d + (n <= d) for d, n in zip(callback.dims, dims, strict=True))
    rest = tuple(n if d is None or n is None else n - (d < n) for d, n in zip(first, dims, strict=True))
    return ForEach(name, _for_each(name, callback.callback, size, rest), callback.size, first)


def _elements(x: ArrayImpl, dim: int) -> list[ArrayImpl]:
    """The elements of a batch."""
    values = np.moveaxis(to_ndarray(x), dim, 0)
    aval = x.aval.update(shape=values.shape[1:])
    return [to_array(v, aval) for v in values]


def _stacked(column: Sequence[np.ndarray], aval: ShapedArray, size: int) -> ArrayImpl:
    (batched,) = batched_avals([aval], size)
    return ArrayImpl.from_numpy(np.stack(column), batched) if size else zeros(batched)


def _bind(op: Op, args: Sequence[Any], params: dict[str, Any], result_avals: Sequence[ShapedArray] = ()) -> list[Any]:
    """The op on these operands. Where nothing is traced the function is called at once: no program is compiled, and kept, for it."""
    if current_trace() is not None:
        return op(*args, **params)
    arrays = [x if isinstance(x, ArrayImpl) else to_array(to_ndarray(x), typeof(x)) for x in args]
    lower: Any = op.lower
    out = lower([x.aval for x in arrays], result_avals, **params).callback(*arrays)
    return [ArrayImpl.from_numpy(x._value if isinstance(x, ArrayImpl) else x, a) for x, a in zip(out, result_avals, strict=True)]


def batched_avals(avals: Sequence[ShapedArray], size: int) -> tuple[ShapedArray, ...]:
    return tuple(a.update(shape=(size, *a.shape)) for a in avals)


# debug_callback, debug_print


def _debug_effect(params: dict[str, Any]) -> set[Effect]:
    return {ordered_debug_effect if params["ordered"] else debug_effect}


def _debug_jvp(op: Op) -> Callable[..., tuple[list[Any], list[Any]]]:
    """Shows the values; tangents are not looked at."""
    return lambda primals, tangents, **params: (_bind(op, primals, params), [])


def _debug_callback_batch(
    axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, callback: Callable[..., Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    callback = _for_each("debug_callback", callback, axis.size, tuple(dims))
    return _bind(debug_callback, args, {"callback": callback, **params}), []


debug_callback = Op(
    "debug_callback",
    typ=lambda *avals, **params: [],
    oracle=lambda *args, callback, **params: ignoring(callback)(*_arrays(args)),
    lower=lambda avals_in, avals_out, *, callback, effect, **params: Host(ignoring(callback), effect.ordered),
    effects=lambda *avals, effect, **params: {effect},
    multiple_results=True,
    jvp=ForOp(_debug_jvp),
    batch=_debug_callback_batch,
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
        import string  # noqa: PLC0415 - as above

        text = string.Formatter().format(fmt, *args, **kwargs) if has_placeholders else fmt
    if logging_record is None:
        print(text)
    else:
        logging_record(text)


@final
@record(frozen=True)
class Printer:
    """`print_formatted` with these parameters, as a callback."""

    params: tuple[tuple[str, Any], ...]

    def __call__(self, *arrays: Any) -> None:
        print_formatted(arrays, **dict(self.params))


def _print_host(params: dict[str, Any]) -> Callable[..., list[np.ndarray]]:
    return ignoring(Printer(tuple(params.items())), "debug.print")


def _debug_print_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list[Any], list[Any]]:
    """A callback that prints each element."""
    (effect,) = _debug_effect(params)
    callback = ForEach("debug_print", Printer(tuple(params.items())), axis.size, tuple(dims))
    return _bind(debug_callback, args, {"callback": callback, "effect": effect, "partitioned": params["partitioned"]}), []


debug_print = Op(
    "debug_print",
    typ=lambda *avals, **params: [],
    oracle=lambda *args, **params: _print_host(params)(*_arrays(args)),
    lower=lambda avals_in, avals_out, **params: Host(_print_host(params), params["ordered"]),
    effects=lambda *avals, **params: _debug_effect(params),
    multiple_results=True,
    jvp=ForOp(_debug_jvp),
    batch=_debug_print_batch,
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


def _pure_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    raise ValueError(
        "Pure callbacks do not support JVP. pure_callback calls Python, which has no derivative: give the function that calls it one with "
        "custom_jvp"
    )


def _no_transpose(what: str) -> Callable[..., Any]:
    def transpose(cts: Sequence[Any], *args: Any, **params: Any) -> Any:
        raise ValueError(f"{what} callbacks do not support transpose: Python functions are linear in nothing that is known")

    return transpose


def _pure_batch(
    axis: Axis,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    callback: Callable[..., Any],
    result_avals: tuple[ShapedArray, ...],
    vmap_method: str | None,
    **params: Any,
) -> tuple[list[Any], list[int]]:
    size = axis.size
    if vmap_method in ("sequential", "sequential_unrolled") or (vmap_method is None and axis.devices):
        callback = ForEach("pure_callback", callback, size, tuple(dims), result_avals)
    elif vmap_method == "broadcast_all":
        args = [to_front(x, d, size) for x, d in zip(args, dims, strict=True)]
    elif vmap_method == "expand_dims":
        args = [insert_axis(x, 0) if d is None else to_front(x, d, size) for x, d in zip(args, dims, strict=True)]
    elif vmap_method == "legacy_vectorized":
        args = [x if d is None else to_front(x, d, size) for x, d in zip(args, dims, strict=True)]
    else:
        raise NotImplementedError(
            "vmap is only supported for a pure_callback that says how: vmap_method='sequential', 'sequential_unrolled', 'expand_dims', "
            f"'broadcast_all' or 'legacy_vectorized', got {vmap_method!r}"
        )
    avals = batched_avals(result_avals, size)
    out = _bind(pure_callback, args, {"callback": callback, "result_avals": avals, "vmap_method": vmap_method, **params}, avals)
    return out, [0] * len(out)


pure_callback = Op(
    "pure_callback",
    typ=_callback_typ,
    oracle=_callback_oracle("pure_callback"),
    lower=_callback_lower("pure_callback"),
    multiple_results=True,
    samples=_callback_samples(vmap_method=None),
    jvp=_pure_jvp,
    transpose=_no_transpose("Pure"),
    batch=_pure_batch,
)
"""callback, result_avals, sharding, vmap_method. Without effects: may run any number of times, also none."""


def _io_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    raise ValueError(
        "IO callbacks do not support JVP. io_callback calls Python, which has no derivative: stop_gradient of the arguments gives it "
        "values alone"
    )


def _io_batch(
    axis: Axis,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    callback: Callable[..., Any],
    result_avals: tuple[ShapedArray, ...],
    ordered: bool,
    **params: Any,
) -> tuple[list[Any], list[int]]:
    if ordered and not axis.devices:
        raise ValueError("Cannot `vmap` ordered IO callback: there is no order among the elements of a batch")
    mapped = ForEach("io_callback", callback, axis.size, tuple(dims), result_avals)
    avals = batched_avals(result_avals, axis.size)
    out = _bind(io_callback, args, {"callback": mapped, "result_avals": avals, "ordered": ordered, **params}, avals)
    return out, [0] * len(out)


io_callback = Op(
    "io_callback",
    typ=_callback_typ,
    oracle=_callback_oracle("io_callback"),
    lower=_callback_lower("io_callback"),
    effects=lambda *avals, ordered, **params: {ordered_io_effect if ordered else io_effect},
    multiple_results=True,
    samples=_callback_samples(ordered=False),
    jvp=_io_jvp,
    transpose=_no_transpose("IO"),
    batch=_io_batch,
)
"""callback, result_avals, sharding, ordered. Runs once for each evaluation, in program order among ordered ones."""
