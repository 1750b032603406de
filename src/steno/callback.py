"""Python functions called from traced programs: `pure_callback`, `io_callback`, `effects_barrier`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from steno._native import ArrayImpl, ShapedArray, current_trace, wait_for_effects, wait_for_runs
from steno.core import dtypes
from steno.core.aval import is_value, typeof
from steno.core.interpret import to_array, to_ndarray
from steno.core.op import check_operands
from steno.core.record import record
from steno.core.sizes import UnknownSize
from steno.ops import host
from steno.tree_util import tree_flatten, tree_leaves, tree_unflatten

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None)


@final
@record(frozen=True)
class FlatCallback:
    """A user's function as one of flat arrays: equal for equal functions and structures, so that programs calling it can be reused.
    `static_args`: (position, value) of the leaves that are no arrays."""

    callback_func: Callable[..., Any]
    in_tree: Any
    static_args: tuple[tuple[int, Any], ...] = ()

    def __call__(self, *arrays: Any) -> list[Any]:
        leaves = list(arrays)
        for position, value in self.static_args:
            leaves.insert(position, value)
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        return tree_leaves(self.callback_func(*args, **kwargs))

    def __repr__(self) -> str:
        return f"_FlatCallback(callback_func={self.callback_func}, in_tree={self.in_tree})"


def split_static(leaves: Sequence[Any]) -> tuple[list[Any], tuple[tuple[int, Any], ...]]:
    """The leaves that are arrays, and (position, value) of those that are not."""
    static = tuple((k, x) for k, x in enumerate(leaves) if not is_value(x))
    positions = {k for k, _ in static}
    return [x for k, x in enumerate(leaves) if k not in positions], static


def as_arrays(values: Sequence[Any]) -> list[ArrayImpl]:
    """Concrete values as the arrays that callbacks get."""
    return [x if isinstance(x, ArrayImpl) else to_array(to_ndarray(x), typeof(x)) for x in values]


def _check_callable(name: str, callback: Any) -> None:
    if not callable(callback):
        raise TypeError(f"{name}: the callback must be callable, got {callback!r} of type {type(callback)}")


def _result_types(name: str, result_shape_dtypes: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    """The types of the results, and their tree."""
    leaves, tree = tree_flatten(result_shape_dtypes)
    avals = []
    for k, x in enumerate(leaves):
        shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
        if shape is None or dtype is None:
            raise TypeError(
                f"{name}: result_shape_dtypes must be a tree of objects with shape and dtype, leaf {k} is {x!r} of type {type(x)}"
            )
        dtype = dtypes.as_dtype(dtype)
        if not dtypes.is_valid(dtype):
            raise TypeError(f"{name}: result_shape_dtypes: no array has the dtype {dtype} of leaf {k}")
        if dtypes.canonical(dtype) != dtype:
            raise ValueError(f"{name}: result_shape_dtypes cannot specify 64-bit types while jax_enable_x64 is off, got {dtype}")
        avals.append(ShapedArray(tuple(n if isinstance(n, UnknownSize) else int(n) for n in shape), dtype))
    return tuple(avals), tree


def _call(op: Any, callback: FlatCallback, args: Sequence[Any], avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> list[Any]:
    if current_trace() is None:
        check_operands(op.name, args)
        wait_for_effects()
        values = host.returning(op.name, callback, avals)(*as_arrays(args))
        return [ArrayImpl.from_numpy(np.asarray(v), a) for v, a in zip(values, avals, strict=True)]
    return op(*args, callback=callback, result_avals=avals, **params)


def pure_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None, vmap_method: str | None = None, **kwargs: Any
) -> Any:
    """`callback(*args, **kwargs)`, a Python function without side effects, called while the program runs.

    It gets arrays and returns a tree of arrays with the shapes and dtypes of `result_shape_dtypes`. A program may call it any number of
    times, also not at all. `vmap_method` says how vmap is to call it. An exception it raises reaches the caller as JaxRuntimeError.

    >>> steno.jit(lambda x: steno.pure_callback(np.sin, x, x))(0.0)
    Array(0., dtype=float32)
    """
    name = "pure_callback"
    _check_callable(name, callback)
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"{name}: vmap_method must be one of {', '.join(map(repr, VMAP_METHODS))}, got {vmap_method!r}")
    leaves, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = _result_types(name, result_shape_dtypes)
    flat = FlatCallback(callback, in_tree)
    return tree_unflatten(out_tree, _call(host.pure_callback, flat, leaves, avals, dict(sharding=sharding, vmap_method=vmap_method)))


def io_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None, ordered: bool = False, **kwargs: Any
) -> Any:
    """`callback(*args, **kwargs)`, a Python function with side effects, called once whenever the program runs; `ordered`: in program order
    among ordered calls. Arguments and results as for `pure_callback`."""
    name = "io_callback"
    _check_callable(name, callback)
    leaves, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = _result_types(name, result_shape_dtypes)
    flat = FlatCallback(callback, in_tree)
    return tree_unflatten(out_tree, _call(host.io_callback, flat, leaves, avals, dict(sharding=sharding, ordered=bool(ordered))))


def effects_barrier() -> None:
    """Waits until all programs that were started have ended, and so their side effects have happened. Raises what the first of them failed
    of whose failure nobody has seen yet. In a callback: does not wait for the program that calls it, nor for those behind it."""
    wait_for_runs()
