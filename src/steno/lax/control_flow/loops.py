"""scan, while_loop, fori_loop, map."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno._native import ShapedArray
from steno.core import dtypes
from steno.core.aval import TypedScalar, typed_scalar
from steno.core.boundary import boundary
from steno.core.errors import ConcretizationTypeError
from steno.core.jaxpr import ClosedJaxpr
from steno.core.pytree import treedef_tuple
from steno.core.refs import is_ref
from steno.core.sizes import UnknownSize, is_size, max_size
from steno.core.trace import Tracer
from steno.lax.control_flow.bodies import (
    Body,
    arrays_of,
    body_of,
    check_body_references,
    check_callable,
    check_carry,
    component_names,
    concrete_value,
    operands_of,
    promoted,
    without_jit,
)
from steno.lax.elementwise import add, lt
from steno.lax.operands import as_array, convert
from steno.lax.shape import concatenate, reshape, slice as slice_, stack
from steno.mapping import vmap
from steno.ops.control import chosen, others, reordered, spread
from steno.ops.scan import scan as scan_p
from steno.ops.while_loop import while_ as while_p
from steno.transforms.programs import Flags, remembered
from steno.tree_util import PyTreeDef, tree_map, tree_structure, tree_unflatten

# scan


@boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = f(carry, x)` for each x along the leading axis of `xs`, starting with the carry `init`: the last carry, and the ys
    stacked along a new leading axis. `f` is traced once, and the loop is compiled.

    init       a pytree; the carry keeps its structure, shapes and dtypes (Python numbers take the dtype the body gives them)
    xs         a pytree of arrays with leading axes of one size, or None
    length     the number of iterations; needed if `xs` has no arrays
    reverse    from the last x to the first; ys stand where their xs stood
    unroll     accepted and recorded: a compiled loop is unrolled as it suits it

    TypeError for a body that changes the carry's type, ValueError for sizes that differ.

    >>> lax.scan(lambda total, x: (total + x, total), 0, jnp.arange(4))
    (Array(6, dtype=int32), Array([0, 0, 1, 3], dtype=int32, weak_type=True))
    """
    check_callable("scan", "f argument", f)
    carries, carry_tree = operands_of("scan", init)
    arrays, xs_tree = operands_of("scan", xs)
    both = treedef_tuple([carry_tree, xs_tree])
    check_body_references(f, both, [*carries, *arrays], "scan")
    n = _scan_length(arrays, length)
    unroll = _unroll(unroll, n)
    if n:
        done, out = without_jit(lambda: _scan_in_python(f, tree_unflatten(carry_tree, arrays_of(carries)), arrays, xs_tree, n, reverse))
        if done:
            return out
    rows = [x.aval.update(shape=x.aval.shape[1:]) for x in arrays]
    body, carries, ys_tree = _scan_body(f, carry_tree, carries, xs_tree, rows)
    check_body_references(f, both, [*carries, *arrays], "scan", body)
    out = _run_scan(body, carries, arrays_of(arrays), n, bool(reverse), unroll)
    c = len(carries)
    return tree_unflatten(carry_tree, out[:c]), tree_unflatten(ys_tree, out[c:])


def _scan_length(arrays: Sequence[Any], length: Any) -> int:
    flat = [x for x in arrays if not x.aval.shape]
    if flat:
        raise ValueError(f"scan got value with no leading axis to scan over: {', '.join(str(_plain(x)) for x in flat)}.")
    if length is not None:
        if isinstance(length, Tracer):
            raise ConcretizationTypeError(
                length,
                "The `length` argument to `scan` expects a concrete `int` value. For scan-like iteration with a dynamic length, use "
                "`while_loop` or `fori_loop`.",
            )
        length = length if isinstance(length, UnknownSize) else int(length)
        if length < 0:
            raise ValueError(f"scan: `length` must not be negative, got {length}.")
    sizes = [x.aval.shape[0] for x in arrays]
    if length is not None:
        if any(n != length for n in sizes):
            raise ValueError(f"scan got `length` argument of {length} which disagrees with leading axis sizes {sizes}.")
        return length
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(f"scan got values with different leading axis sizes: {', '.join(map(str, sizes))}.")
    return sizes[0]


def _plain(x: Any) -> Any:
    return x.value if type(x) is TypedScalar else x


def _unroll(unroll: Any, length: int) -> int:
    """`unroll` as a number of iterations. ValueError for what is none."""
    if isinstance(unroll, bool):
        return max_size(length, 1) if unroll else 1
    if isinstance(unroll, Tracer):
        raise ConcretizationTypeError(unroll, "The `unroll` argument to `scan` expects a concrete `int` or `bool` value.")
    try:
        n = operator.index(unroll)
    except TypeError:
        n = -1
    if n < 0:
        raise ValueError(f"`unroll` must be a `bool` or a non-negative `int`, got {unroll!r}.")
    return n


def _scan_in_python(f: Callable[..., Any], init: Any, arrays: Sequence[Any], xs_tree: PyTreeDef, length: int, reverse: bool) -> Any:
    carry, ys = init, []
    arrays = [x.at if is_ref(x) else as_array("scan", x) for x in arrays]  # a row of a reference is a view
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree_unflatten(xs_tree, [x[i] for x in arrays]))
        ys.append(y)
    if reverse:
        ys.reverse()
    return tree_map(lambda x: as_array("scan", x), carry), tree_map(lambda *leaves: stack(leaves), *ys)


def _scan_body(
    f: Callable[..., Any], tree: PyTreeDef, carries: list[Any], xs_tree: PyTreeDef, rows: Sequence[ShapedArray]
) -> tuple[Body, list[Any], PyTreeDef]:
    """The body as a program, the initial carries in the types it wants, and the structure of a y."""
    args_tree = treedef_tuple([tree, xs_tree])
    while True:
        avals = [x.aval for x in carries]
        body = body_of(f, args_tree, [*avals, *rows], "scan")
        pair = body.out_tree.children()
        if len(pair) != 2 or body.out_tree.node_data()[0] not in (tuple, list):
            raise TypeError(f"scan body output must be a pair, got {tree_unflatten(body.out_tree, body.out_avals)}.")
        got, ys_tree = pair
        after = body.out_avals[: got.num_leaves]
        better = promoted(carries, after) if got == tree else None
        if better is None:
            check_carry("scan", *component_names(f, args_tree, 0, "carry"), tree, avals, got, after)
            return body, carries, ys_tree
        carries = better


@remembered
def _forwarded(closed: ClosedJaxpr, n: int, c: int) -> tuple[ClosedJaxpr, Flags, tuple[int, ...], dict[int, int]]:
    """The body without carries it never changes, which become constants, and without rows that are rows of an argument.

    Also which carries these are, which outputs stay, and for each row left out the argument it is of."""
    j = closed.jaxpr
    fixed = tuple(v is w for v, w in zip(j.invars[n : n + c], j.outvars, strict=False))
    arguments = {v: k for k, v in enumerate(j.invars[n + c :])}
    rows = {k: arguments[v] for k, v in enumerate(j.outvars[c:]) if v in arguments}
    kept = (*(k for k in range(c) if not fixed[k]), *(c + k for k in range(len(j.outvars) - c) if k not in rows))
    carries = range(n, n + c)
    order = (*range(n), *chosen(carries, fixed), *others(carries, fixed), *range(n + c, len(j.invars)))
    return reordered(closed, order, kept), fixed, kept, rows


def _run_scan(body: Body, carries: Sequence[Any], arrays: Sequence[Any], length: int, reverse: bool, unroll: int) -> list[Any]:
    c = len(carries)
    closed, fixed, kept, rows = _forwarded(body.closed, len(body.consts), c)
    constants, moving = chosen(carries, fixed), others(carries, fixed)
    out: list[Any] = []
    if kept or closed.effects:
        out = scan_p(
            *body.consts, *constants, *moving, *arrays, jaxpr=closed, length=length, reverse=reverse, unroll=unroll,
            num_consts=len(body.consts) + len(constants), num_carry=len(moving),
        )  # fmt: skip
    last = spread(fixed, arrays_of(constants), out)
    computed = iter(out[len(moving) :])
    ys = [arrays[rows[k]] if k in rows else next(computed) for k in range(len(body.out_avals) - c)]
    return [*last, *ys]


# while_loop


@boundary
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """`val = body_fun(val)` as long as `cond_fun(val)`, starting with `init_val`; the functions are traced once, and the loop is compiled.

    The carry `val` is a pytree that keeps its structure, shapes and dtypes. Forward-mode derivatives only: how many values reverse mode
    would have to keep is not known when the loop begins; see `fori_loop` and `scan`.

    TypeError for a body that changes the carry's type, or a condition that is no boolean scalar.

    >>> lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
    Array(192, dtype=int32, weak_type=True)
    """
    if not callable(cond_fun) or not callable(body_fun):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    carries, tree = operands_of("while_loop", init_val)
    done, out = without_jit(lambda: _while_in_python(cond_fun, body_fun, tree_unflatten(tree, arrays_of(carries))))
    if done:
        return out
    args_tree = treedef_tuple([tree])
    while True:
        avals = [x.aval for x in carries]
        body = body_of(body_fun, args_tree, avals, "while_loop")
        better = promoted(carries, body.out_avals) if body.out_tree == tree else None
        if better is None:
            break
        carries = better
    condition = body_of(cond_fun, args_tree, avals, "while_cond")
    if condition.out_tree.num_leaves != 1 or condition.out_tree.num_nodes != 1:
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {condition.out_tree}.")
    (test,) = condition.out_avals
    if test.shape or test.dtype != dtypes.bool_:
        raise TypeError(f"cond_fun must return a boolean scalar, but got output type(s) {[test]}.")
    check_carry("while_loop", *component_names(body_fun, args_tree, 0, "val"), tree, avals, body.out_tree, body.out_avals)
    out = while_p(
        *condition.consts, *body.consts, *carries, cond_jaxpr=condition.closed, body_jaxpr=body.closed,
        cond_nconsts=len(condition.consts), body_nconsts=len(body.consts),
    )  # fmt: skip
    return tree_unflatten(tree, out)


def _while_in_python(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], val: Any) -> Any:
    while cond_fun(val):
        val = body_fun(val)
    return tree_map(lambda x: as_array("while_loop", x), val)


# fori_loop


@boundary
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: int | bool | None = None) -> Any:
    """`val = body_fun(i, val)` for i from `lower` up to, but not including, `upper`, starting with `init_val`.

    Bounds that are known while tracing make it a scan, which has derivatives in forward and reverse mode; others a while_loop, which has
    them in forward mode.

    unroll    accepted for bounds that are known: a compiled loop is unrolled as it suits it. ValueError for others

    >>> lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    if (isinstance(lower, UnknownSize) or isinstance(upper, UnknownSize)) and is_size(lower) and is_size(upper):
        first, last, known = *operands_of("fori_loop", (lower, upper))[0], (lower, upper)
    else:
        (first,), _ = operands_of("fori_loop", lower)
        (last,), _ = operands_of("fori_loop", upper)
        first, last = _common_bounds(first, last)
        known = _known_bounds(first, last)
    if known is None:
        if unroll is not None:
            raise ValueError("Can only use `unroll` in `fori_loop` if the loop bounds are statically known.")
        return _fori_while(body_fun, first, last, init_val)
    begin, end = known
    carries, tree = operands_of("fori_loop", init_val)
    done, out = without_jit(lambda: _fori_in_python(body_fun, begin, end, tree_unflatten(tree, arrays_of(carries))))
    if done:
        return out
    (first,), _ = operands_of("fori_loop", begin)
    n = max_size(end - begin, 0)
    body, carries = _fori_body(body_fun, _counting, tree, [first, *carries])
    out = _run_scan(body, carries, [], n, False, _unroll(1 if unroll is None else unroll, n))
    return tree_unflatten(tree, out[1:])


def _common_bounds(first: Any, last: Any) -> tuple[Any, Any]:
    """Both of one dtype, where one of them is weakly typed. TypeError for others."""
    a, b = first.aval, last.aval
    if a.dtype != b.dtype:
        kinds = {dtypes.kind(a.dtype), dtypes.kind(b.dtype)}
        if not (a.weak_type or b.weak_type) or not kinds <= set("iu"):
            raise TypeError(
                f"lower and upper arguments to fori_loop must have equal types, got {dtypes.name(a.dtype)} and {dtypes.name(b.dtype)}"
            )
        dtype = a.dtype if b.weak_type else b.dtype
        return convert(first, dtype), convert(last, dtype)
    if a.weak_type != b.weak_type:
        return convert(first, a.dtype), convert(last, a.dtype)
    return first, last


def _known_bounds(first: Any, last: Any) -> tuple[int, int] | None:
    """The bounds as Python integers, if they are known now."""
    if first.aval.shape or last.aval.shape or dtypes.kind(first.aval.dtype) not in "iu":
        return None
    values = [concrete_value(x) for x in (first, last)]
    return None if any(v is None for v in values) else (int(np.asarray(values[0])), int(np.asarray(values[1])))


def _fori_in_python(body_fun: Callable[..., Any], begin: int, end: int, val: Any) -> Any:
    for i in range(begin, end):
        val = body_fun(i, val)
    return tree_map(lambda x: as_array("fori_loop", x), val)


def _after(i: Any) -> Any:
    return add(i, typed_scalar(1, i.dtype, i.weak_type))


def _counting(body_fun: Callable[..., Any], i: Any, val: Any) -> tuple[Any, Any]:
    return _after(i), body_fun(i, val)


def _counting_to(body_fun: Callable[..., Any], i: Any, upper: Any, val: Any) -> tuple[Any, Any, Any]:
    return _after(i), upper, body_fun(i, val)


def _below(i: Any, upper: Any, val: Any) -> Any:
    return lt(i, upper)


def _fori_body(body_fun: Callable[..., Any], adapted: Callable[..., Any], tree: PyTreeDef, carries: list[Any]) -> tuple[Body, list[Any]]:
    """The program of bounds (the first `carries`) and carry, and their initial values in the types it wants."""
    bounds = len(carries) - tree.num_leaves
    leaf = tree_structure(0)
    while True:
        avals = [x.aval for x in carries]
        body = body_of(body_fun, treedef_tuple([*[leaf] * bounds, tree]), avals, "fori_loop", adapted)
        got = body.out_tree.children()[-1]
        better = promoted(carries, body.out_avals) if got == tree else None
        if better is None:
            names = component_names(body_fun, treedef_tuple([leaf, tree]), 1, "val")
            check_carry("fori_loop", *names, tree, avals[bounds:], got, body.out_avals[bounds:])
            return body, carries
        carries = better


def _fori_while(body_fun: Callable[..., Any], first: Any, last: Any, init_val: Any) -> Any:
    if first.aval.shape or last.aval.shape:
        raise TypeError(f"fori_loop: the bounds must be scalars, got {first.aval.str_short()} and {last.aval.str_short()}")
    carries, tree = operands_of("fori_loop", init_val)
    body, carries = _fori_body(body_fun, _counting_to, tree, [first, last, *carries])
    leaf = tree_structure(0)
    condition = body_of(_below, treedef_tuple([leaf, leaf, tree]), [x.aval for x in carries], "fori_loop")
    out = while_p(
        *body.consts, *carries, cond_jaxpr=condition.closed, body_jaxpr=body.closed, cond_nconsts=0, body_nconsts=len(body.consts)
    )
    return tree_unflatten(tree, out[2:])


# map


def _map_body(f: Callable[..., Any], carry: None, x: Any) -> tuple[None, Any]:
    return None, f(x)


@boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` applied to each x along the leading axis of `xs`, one after the other in a compiled loop; the results, stacked.

    batch_size    so many at once, by `vmap`: between a loop and `vmap` over everything in speed and memory

    >>> lax.map(lambda x: x**2, jnp.arange(4))
    Array([0, 1, 4, 9], dtype=int32)
    """
    check_callable("map", "f argument", f)
    if batch_size is not None and batch_size < 0:
        raise ValueError(f"lax.map: batch_size must not be negative, got {batch_size}")
    arrays, tree = operands_of("map", xs)
    n = _scan_length(arrays, None)
    if not batch_size:
        return _map(f, None, arrays, tree, n)
    each = vmap(f)
    whole, rest = divmod(n, batch_size)
    arrays = [as_array("map", x) for x in arrays]
    if not whole:
        return each(tree_unflatten(tree, arrays))
    cut = whole * batch_size
    head = [reshape(_rows(x, 0, cut), (whole, batch_size, *x.shape[1:])) for x in arrays]
    ys = tree_map(lambda y: reshape(y, (cut, *y.shape[2:])), _map(f, _map_batch, head, tree, whole))
    if not rest:
        return ys
    last = each(tree_unflatten(tree, [_rows(x, cut, n) for x in arrays]))
    return tree_map(lambda a, b: concatenate([a, b], 0), ys, last)


def _rows(x: Any, begin: int, end: int) -> Any:
    n = x.shape[0]
    return x if begin == 0 and end == n else slice_(x, (begin, *[0] * (x.ndim - 1)), (end, *x.shape[1:]))


def _map_batch(f: Callable[..., Any], carry: None, x: Any) -> tuple[None, Any]:
    return None, vmap(f)(x)


def _map(f: Callable[..., Any], adapted: Any, arrays: Sequence[Any], tree: PyTreeDef, n: int) -> Any:
    adapted = adapted or _map_body
    if n:
        done, out = without_jit(lambda: _scan_in_python(lambda c, x: adapted(f, c, x), None, arrays, tree, n, False)[1])
        if done:
            return out
    args_tree = treedef_tuple([tree_structure(None), tree])
    rows = [x.aval.update(shape=x.aval.shape[1:]) for x in arrays]
    body = body_of(f, args_tree, rows, "map", adapted)
    out = _run_scan(body, [], [as_array("map", x) for x in arrays], n, False, 1)
    return tree_unflatten(body.out_tree.children()[1], out)
