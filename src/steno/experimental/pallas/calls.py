"""Kernels over a grid of programs: `pallas_call`, and what kernels call.

The programs run one after the other, in the order of the grid, as the iterations of a loop of the compiled program. A program's block is a
reference that is made for it, and written back when it ends."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from steno import debug, lax
from steno.api import jit
from steno.core import dtypes, source
from steno.core.aval import typeof
from steno.core.boundary import boundary
from steno.core.config import config
from steno.core.pytree import broadcast_prefix, check_prefix
from steno.core.trace import Tracer
from steno.derivatives import check_callable
from steno.experimental.checkify import check
from steno.experimental.pallas.blocks import BlockSpec, Cut, GridSpec, no_block_spec
from steno.ref import freeze, new_ref
from steno.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten


class _Programs(threading.local):
    """The grids and positions of the programs that are traced, innermost last."""

    def __init__(self) -> None:
        self.stack: list[tuple[tuple[int, ...], Sequence[Any]]] = []


_programs = _Programs()


def program_id(axis: int) -> Any:
    """The program's position along an axis of the grid. ValueError outside of kernels, IndexError for an axis there is not."""
    if not _programs.stack:
        raise ValueError("program_id: it is called by kernels, and there is none")
    return _programs.stack[-1][1][axis]


def num_programs(axis: int) -> int:
    """The size of an axis of the grid. ValueError outside of kernels."""
    if not _programs.stack:
        raise ValueError("num_programs: it is called by kernels, and there is none")
    return _programs.stack[-1][0][axis]


def undefined(shape: Sequence[int], dtype: Any) -> Any:
    """Memory that nobody has written: NaN, or the least integer."""
    dtype = dtypes.canonicalize_dtype(dtype)
    if dtypes.is_inexact(dtype):
        return lax.full(shape, np.nan, dtype)
    return lax.full(shape, dtypes.iinfo(dtype).min if dtypes.is_integer(dtype) else False, dtype)


def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] = {},  # noqa: B006  never changed
    debug: bool = False,
    interpret: Any = False,
    name: str | None = None,
    compiler_params: Any = None,
    cost_estimate: Any = None,
    backend: Any = None,
    metadata: Any = None,
) -> Callable[..., Any]:
    """A function of arrays that runs `kernel` once for each position in the grid.

    kernel                  `kernel(*references of operands, *references of results, *references of scratch memory)`, each to a block
    out_shape               a tree of ShapeDtypeStructs: the results. What no program writes is NaN, or the least integer
    grid_spec, or grid, in_specs, out_specs, scratch_shapes    see GridSpec; the specs are trees, or prefixes, of BlockSpecs
    input_output_aliases    {number of an operand: number of the result that begins as a copy of it}
    the others              accepted: kernels are compiled as other programs are
    TypeError and ValueError for specs that do not fit, NotImplementedError for a grid that is traced."""
    check_callable(kernel)
    if grid_spec is not None and (grid != () or in_specs is not no_block_spec or out_specs is not no_block_spec or scratch_shapes != ()):
        raise ValueError("pallas_call: give grid_spec, or grid, in_specs, out_specs and scratch_shapes, not both")
    spec = grid_spec if grid_spec is not None else GridSpec(grid, in_specs, out_specs, scratch_shapes)
    if any(isinstance(n, Tracer) for n in spec.grid):
        raise NotImplementedError("pallas_call: a grid whose sizes are traced")
    sizes = tuple(int(n) for n in spec.grid)
    out_types, out_tree = tree_flatten(out_shape)

    def run(*args: Any) -> Any:
        leaves, tree = tree_flatten(args)
        types = [typeof(x) for x in leaves]
        cuts = [
            Cut(f"operand {k}", s, t.shape) for k, (s, t) in enumerate(zip(_specs("in_specs", spec.in_specs, args), types, strict=True))
        ]
        out_cuts = [
            Cut(f"result {k}", s, t.shape)
            for k, (s, t) in enumerate(zip(_specs("out_specs", spec.out_specs, out_shape), out_types, strict=True))
        ]
        padded = [_padded(x, c) for x, c in zip(leaves, cuts, strict=True)]
        aliased = {result: operand for operand, result in input_output_aliases.items()}
        results = [
            padded[aliased[k]] if k in aliased else _padded(undefined(t.shape, t.dtype), c)
            for k, (t, c) in enumerate(zip(out_types, out_cuts, strict=True))
        ]
        memory = [undefined(m.shape, m.dtype) for m in tree_leaves(spec.scratch_shapes)]

        def program(ids: Sequence[Any], state: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
            results, memory = state
            _programs.stack.append((sizes, ids))
            try:
                starts = [c.starts(ids) for c in out_cuts]
                ins = [new_ref(_block(x, c, c.starts(ids))) for x, c in zip(padded, cuts, strict=True)]
                outs = [new_ref(_block(x, c, s)) for x, c, s in zip(results, out_cuts, starts, strict=True)]
                scratch = [new_ref(x) for x in memory]
                given = tree_unflatten(tree_structure(spec.scratch_shapes), scratch)
                positional, named = ((), given) if isinstance(given, dict) else (given, {})
                outcome = tree_unflatten(out_tree, outs)
                written = outcome if isinstance(outcome, tuple | list) else (outcome,)
                if kernel(*tree_unflatten(tree, ins), *written, *positional, **named) is not None:
                    raise ValueError("pallas_call: the kernel must return None; it writes its results into references")
                return (
                    [_written(x, c, s, freeze(r)) for x, c, s, r in zip(results, out_cuts, starts, outs, strict=True)],
                    [freeze(r) for r in scratch],
                )
            finally:
                _programs.stack.pop()

        state = (results, memory)
        if not sizes:
            state = program((), state)
        elif math.prod(sizes):
            state = lax.fori_loop(0, math.prod(sizes), lambda k, state: program(_position(k, sizes), state), state)
        return tree_unflatten(out_tree, [_cropped(x, c) for x, c in zip(state[0], out_cuts, strict=True)])

    run.__name__ = run.__qualname__ = name or getattr(kernel, "__name__", "pallas_call")
    compiled = jit(run)

    @source.wraps(kernel)
    @boundary
    def call(*args: Any) -> Any:
        return compiled(*args)

    return call


def _specs(what: str, specs: Any, values: Any) -> list[Any]:
    """The spec of each leaf. ValueError if the tree of specs is no prefix of the tree of values."""
    leaves = tree_leaves(values)
    if specs is no_block_spec:
        return [no_block_spec] * len(leaves)
    if isinstance(specs, list):
        specs = tuple(specs) if isinstance(values, tuple) else specs
    marked = tree_map(_Marked, specs, is_leaf=lambda s: s is None or s is no_block_spec or isinstance(s, BlockSpec))
    check_prefix(f"pallas_call {what}", marked, values)
    return [m.spec for m in broadcast_prefix(marked, values)]


class _Marked:
    def __init__(self, spec: Any) -> None:
        self.spec = spec


def _position(k: Any, sizes: Sequence[int]) -> list[Any]:
    """The position in a grid of the program number k."""
    out = []
    for n in reversed(sizes):
        out.append(k % n)
        k = k // n
    return out[::-1]


def _padded(x: Any, cut: Cut) -> Any:
    return lax.pad(x, undefined((), typeof(x).dtype), cut.padding) if any(p != (0, 0, 0) for p in cut.padding) else x


def _cropped(x: Any, cut: Cut) -> Any:
    starts = [p[0] for p in cut.padding]
    return x if x.shape == cut.shape else lax.slice(x, starts, [a + n for a, n in zip(starts, cut.shape, strict=True)])


def _block(x: Any, cut: Cut, starts: Sequence[Any]) -> Any:
    return x if cut.sizes == x.shape == cut.block else lax.reshape(lax.dynamic_slice(x, starts, cut.sizes), cut.block)


def _written(x: Any, cut: Cut, starts: Sequence[Any], block: Any) -> Any:
    return block if cut.sizes == x.shape == cut.block else lax.dynamic_update_slice(x, lax.reshape(block, cut.sizes), starts)


# What kernels call


def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """`@when(condition)` runs a function without arguments if the condition holds."""

    def run(f: Callable[[], None]) -> None:
        if isinstance(condition, Tracer):
            lax.cond(condition, lambda: (f(), None)[1], lambda: None)
        elif condition:
            f()

    return run


def loop(lower: Any, upper: Any, *, init_carry: Any = None, step: Any = 1, unroll: int | bool | None = None) -> Callable[..., Any]:
    """`@loop(lower, upper)` runs a function of the index for each; with `init_carry` of the index and a carry, and gives the last carry."""

    def run(body: Callable[..., Any]) -> Any:
        def iteration(k: Any, carry: Any) -> Any:
            index = lower + k * step
            return body(index) if init_carry is None else body(index, carry)

        count = (upper - lower + step - 1) // step if not isinstance(step, int) or step != 1 else upper - lower
        return lax.fori_loop(0, count, iteration, init_carry, unroll=unroll)

    return run


def run_scoped(f: Callable[..., Any], *types: Any, collective_axes: Any = (), **kw_types: Any) -> Any:
    """`f` of references to memory of these types (MemoryRefs, or trees of them), which ends with the call. Gives what `f` does."""

    def made(t: Any) -> Any:
        return tree_map(lambda m: new_ref(undefined(m.shape, m.dtype)), t)

    return f(*map(made, types), **{n: made(t) for n, t in kw_types.items()})


def with_scoped(*types: Any, collective_axes: Any = (), **kw_types: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: a function that is called with references to memory of these types behind its own arguments, as by `run_scoped`."""

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        @source.wraps(f)
        def call(*args: Any) -> Any:
            return run_scoped(functools.partial(f, *args), *types, collective_axes=collective_axes, **kw_types)

        return call

    return decorate


def run_state(f: Callable[..., None]) -> Callable[..., Any]:
    """A function of arrays: `f` of references to them, and what they hold in the end."""
    check_callable(f)

    @source.wraps(f)
    def run(init: Any) -> Any:
        refs = tree_map(new_ref, init)
        f(refs)
        return tree_map(freeze, refs)

    return run


def debug_print(fmt: str, *args: Any) -> None:
    """Prints, as `steno.debug.print` does."""
    debug.print(fmt, *args)


def debug_check(condition: Any, message: str) -> None:
    """If `enable_debug_checks` is set, a check of `checkify`: the message is the error if the condition does not hold."""
    if config.jax_pallas_enable_debug_checks:
        check(condition, message)


def delay(nanos: Any) -> None:
    """Waits, on accelerators; here for nothing."""


def cdiv(a: Any, b: Any) -> Any:
    """The quotient, rounded up."""
    return -(-a // b) if isinstance(a, int) and isinstance(b, int) else (a + b - 1) // b


def align_to(a: Any, alignment: Any) -> Any:
    """The least multiple of `alignment` that is not less than `a`."""
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """The least power of two that is not less than `x`. ValueError for a negative number."""
    if x < 0:
        raise ValueError(f"next_power_of_2: the number must not be negative, got {x}")
    return 1 if x == 0 else 1 << (x - 1).bit_length()


def strides_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """How many elements lie between neighbours along each axis, in the order of C."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def multiple_of(x: Any, values: Any) -> Any:
    """The value; that it is a multiple of `values` is nothing that helps here."""
    return x


def broadcast_to(a: Any, shape: Sequence[int]) -> Any:
    """The array, repeated to a shape."""
    return lax.broadcast_in_dim(a, shape, tuple(range(len(shape) - len(typeof(a).shape), len(shape))))


def empty(shape: Sequence[int], dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array that nobody has written."""
    return undefined(shape, dtype)


def empty_like(x: Any) -> Any:
    """A tree of arrays that nobody has written, of the shapes and dtypes of another."""
    return tree_map(lambda v: undefined(v.shape, v.dtype), x)


def empty_ref_like(x: Any) -> Any:
    """A tree of references to such arrays."""
    return tree_map(lambda v: new_ref(undefined(v.shape, v.dtype)), x)
