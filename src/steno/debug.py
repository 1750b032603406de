"""Looking into traced programs while they run: `print`, `log` and `callback`."""

from __future__ import annotations

import builtins
import importlib
import logging
import string
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np

from steno._native import current_trace, wait_for_effects
from steno.callback import FlatCallback, as_arrays, pure_callback, split_static
from steno.ops import host
from steno.ops.host import print_formatted
from steno.places import CPU, SingleDeviceSharding
from steno.stages import ShapeDtypeStruct
from steno.transforms.rules import as_array
from steno.tree_util import tree_flatten, tree_map

_logger = logging.getLogger("steno.debug")


class _Anything:
    """Stands for an argument while a format is checked: has every attribute and item, takes every format."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, key: Any) -> _Anything:
        return self

    def __format__(self, spec: str) -> str:
        return ""


class _Checker(string.Formatter):
    """Formatting that insists on every argument being used."""

    def __init__(self, function: str) -> None:
        self.function = function

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Any) -> None:
        positional = [k for k in range(len(args)) if k not in used_args]
        named = [k for k in kwargs if k not in used_args]
        if positional or named:
            kinds = [f"Unused {kind} arguments to `jax.{self.function}`: {list(unused)}" for kind, unused in
                     (("positional", positional), ("keyword", named)) if unused]  # fmt: skip
            raise ValueError(
                f'{"; ".join(kinds)}. The format must have a place for each argument, as in {self.function}("x = {{x}}", x=x). '
                "You may be passing an f-string, which is filled in before the program runs."
            )


def _check_format(function: str, fmt: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """TypeError for a format that is no string, ValueError for unused arguments, IndexError and KeyError for missing ones."""
    _Checker(function).vformat(fmt, [_Anything() for _ in args], {k: _Anything() for k in kwargs})


def _fields(fmt: str) -> bool:
    return any(name is not None for _, name, _, _ in string.Formatter().parse(fmt))


def _emit(
    function: str, fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any], ordered: bool, partitioned: bool, check: bool, record: Any
) -> None:
    if not isinstance(fmt, str):
        raise TypeError(f"{function}: the format must be a string, got {fmt!r} of type {type(fmt)}")
    if check:
        _check_format(function, fmt, args, kwargs)
    leaves, in_tree = tree_flatten((args, kwargs))
    arrays, static = split_static(leaves)
    params = dict(
        fmt=fmt, ordered=bool(ordered), partitioned=partitioned, in_tree=in_tree, static_args=static,
        np_printoptions=tuple(np.get_printoptions().items()),
        has_placeholders=_fields(fmt), logging_record=record,
    )  # fmt: skip
    if current_trace() is None:
        wait_for_effects()
        print_formatted(as_arrays(arrays), **params)
    else:
        host.debug_print(*arrays, **params)


def _check_options_only(function: str, wanted: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """TypeError for arguments of a call that gives options alone, and a function that takes the rest."""
    if args or kwargs:
        given = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())])
        raise TypeError(
            f"{function.replace('.', '_')} received unexpected arguments in the two-call form: without {wanted}, the first call takes "
            f"options alone, and gives a function of {wanted} and its arguments; got {given}"
        )


def print(  # noqa: A001
    fmt: str | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False, **kwargs: Any
) -> Callable[..., None] | None:
    """Prints `fmt.format(*args, **kwargs)` with the values that the arguments have when the program runs.

    `fmt` is a format string like `"x = {x}, y = {}"`; every argument must have a place in it. Leaves of the arguments that are no arrays
    are printed as they are. `ordered`: prints of one program come in program order among ordered ones. Without `fmt`, a function with
    these options.

    >>> steno.jit(lambda x: steno.debug.print('x = {}', x))(1.0)
    x = 1.0
    >>> steno.effects_barrier()
    """
    if fmt is None:
        _check_options_only("debug.print", "a format", args, kwargs)
        return lambda fmt, *args, **kwargs: _emit("debug.print", fmt, args, kwargs, ordered, partitioned, not skip_format_check, None)
    _emit("debug.print", fmt, args, kwargs, ordered, partitioned, not skip_format_check, None)
    return None


def log(
    fmt: str | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False, **kwargs: Any
) -> Callable[..., None] | None:
    """As `print`, to the logger `steno.debug` at level INFO."""
    record = _logger.info
    if fmt is None:
        _check_options_only("debug.log", "a format", args, kwargs)
        return lambda fmt, *args, **kwargs: _emit("debug.log", fmt, args, kwargs, ordered, partitioned, not skip_format_check, record)
    _emit("debug.log", fmt, args, kwargs, ordered, partitioned, not skip_format_check, record)
    return None


def callback(
    callback: Callable[..., None] | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, **kwargs: Any
) -> Callable[..., None] | None:
    """Calls `callback(*args, **kwargs)` when the program runs, with arrays for values and other leaves as they are; what it returns is
    ignored. `ordered`: in program order among ordered ones. Without `callback`, a function with these options."""
    if callback is None:
        _check_options_only("debug.callback", "a callback", args, kwargs)
        return lambda callback, *args, **kwargs: _call(callback, args, kwargs, ordered, partitioned)
    _call(callback, args, kwargs, ordered, partitioned)
    return None


def _call(function: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any], ordered: bool, partitioned: bool) -> None:
    if not callable(function):
        raise TypeError(f"debug.callback: the callback must be callable, got {function!r} of type {type(function)}")
    leaves, in_tree = tree_flatten((args, kwargs))
    arrays, static = split_static(leaves)
    flat = FlatCallback(function, in_tree, static)
    if current_trace() is None:
        wait_for_effects()
        flat(*as_arrays(arrays))
    else:
        effect = host.ordered_debug_effect if ordered else host.debug_effect
        host.debug_callback(*arrays, callback=flat, effect=effect, partitioned=partitioned)


def breakpoint(  # noqa: A001
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    stdin: IO[str] | None = None,
    stdout: IO[str] | None = None,
) -> Any:
    """A prompt, when the program comes here: `p x` prints the value of a variable, `l` lists the source, `u` and `d` go to the calling and
    the called function, `c` goes on, `q` ends the process; `help` tells more.

    filter_frames    leaves out functions of steno's own
    num_frames       how many functions up variables are kept of; None: all
    ordered          in program order among ordered ones
    token            arrays, or a tree of them, that are returned as they are: the prompt comes when they are computed, if what is
                     returned is used, and not at all if it is not
    stdin, stdout    where commands come from and answers go
    backend          "cli" is the only one. ValueError for another"""
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint: there is one backend, 'cli', got {backend!r}")
    debugger = importlib.import_module("steno.debugger")
    captured = debugger.captured_from(1, filter_frames, num_frames)
    run = debugger.Breakpoint(captured, stdin, stdout)
    if token is None:
        return _call(run, (captured.arrays,), {}, ordered, False)

    def after(token: Any, arrays: Sequence[Any]) -> Any:
        run(arrays)
        return token

    types = tree_map(ShapeDtypeStruct.like, token)
    return pure_callback(after, types, token, captured.arrays, vmap_method="sequential")


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    """Calls `callback` with the sharding of an array; with that of the one device, for an array that is traced."""
    callback(getattr(as_array(value), "sharding", SingleDeviceSharding(CPU)))


def visualize_sharding(shape: Sequence[int], sharding: Any, **options: Any) -> None:
    """Prints which part of an array of this shape is on which devices, as a table. ValueError for other than one or two axes."""
    if len(shape) not in (1, 2):
        raise ValueError(f"visualize_sharding: arrays of one or two axes can be shown, got the shape {tuple(shape)}")
    holders: dict[tuple[int, ...], list[int]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        holders.setdefault(tuple(i.indices(n)[0] for i, n in zip(index, shape, strict=True)), []).append(device.id)
    labels = {start: f"CPU {','.join(map(str, sorted(ids)))}" for start, ids in holders.items()}
    columns = sorted({start[-1] for start in labels})
    rows = sorted({start[:-1] for start in labels})
    line = "─" * (max(map(len, labels.values())) + 4)
    body = ["│".join(["", *(f"{labels[*row, c]:^{len(line)}}" for c in columns), ""]) for row in rows]
    edges = [left + joint.join([line] * len(columns)) + right for left, joint, right in ("┌┬┐", "├┼┤", "└┴┘")]
    builtins.print("\n".join([edges[0], f"\n{edges[1]}\n".join(body), edges[2]]))


def visualize_array_sharding(array: Any, **options: Any) -> None:
    """`visualize_sharding` of an array's shape and sharding."""
    visualize_sharding(array.shape, array.sharding, **options)
