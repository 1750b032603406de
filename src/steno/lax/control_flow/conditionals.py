"""cond, switch, platform_dependent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from steno._native import ShapedArray
from steno.core import dtypes
from steno.core.aval import TypedScalar, typed_scalar, typeof
from steno.core.boundary import boundary
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from steno.core.pytree import keystr
from steno.lax.control_flow.bodies import (
    Body,
    arrays_of,
    body_of,
    check_body_references,
    concrete_value,
    difference,
    located,
    operands_of,
    structure_differences,
    without_jit,
)
from steno.lax.elementwise import clamp, ne
from steno.lax.operands import as_array, as_operand, convert
from steno.ops.cond import Branches, cond as cond_p
from steno.ops.control import reordered, same_type
from steno.tracing import leaf_paths
from steno.transforms.programs import remembered
from steno.tree_util import PyTreeDef, tree_map, tree_unflatten

_NOT_GIVEN: Final = object()


@boundary
def cond(*args: Any, **kwargs: Any) -> Any:
    """`true_fun(*operands)` if `pred`, else `false_fun(*operands)`. Both are traced, one is run.

    `cond(pred, true_fun, false_fun, *operands)`, or with the one `operand=`. `pred`: a boolean scalar, or a number (true unless it is 0).
    An older form, `cond(pred, true_operand, true_fun, false_operand, false_fun)`, has an operand for each function. Under `vmap` with a
    predicate that differs both functions are run, and each element gets its own.

    TypeError for another predicate, and for functions whose results have different structures or types.

    >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 5)
    Array(6, dtype=int32, weak_type=True)
    """
    old = _one_operand_each(*args, **kwargs)
    if old is not None:
        pred, true_operand, true_fun, false_operand, false_fun = old
        return _cond(pred, lambda x, _: true_fun(x), lambda _, x: false_fun(x), (true_operand, false_operand), (true_fun, false_fun))
    return _cond_of_operands(*args, **kwargs)


def _one_operand_each(*args: Any, **kwargs: Any) -> tuple[Any, ...] | None:
    """The arguments of the older form, if that is what they are."""
    names = ("pred", "true_operand", "true_fun", "false_operand", "false_fun")
    if len(args) + len(kwargs) != 5 or not set(kwargs) <= set(names[len(args) :]):
        return None
    given = (*args, *(kwargs[n] for n in names[len(args) :]))
    return None if callable(given[1]) and callable(given[2]) else given


def _cond_of_operands(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any, operand: Any = _NOT_GIVEN
) -> Any:
    if not callable(true_fun) or not callable(false_fun):
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    return _cond(pred, true_fun, false_fun, _all_operands(operands, operand), (true_fun, false_fun))


_cond_of_operands.__name__ = "cond"  # what messages about its arguments say
_cond_of_operands.__qualname__ = "cond"


def _all_operands(operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is _NOT_GIVEN:
        return operands
    if operands:
        raise TypeError(
            f"if 'operand' keyword is passed then no positional operands can be passed, got operand={operand} and positional operands "
            f"{operands}"
        )
    return (operand,)


def _cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], operands: tuple[Any, ...], users: tuple[Any, Any]) -> Any:
    pred = _predicate(pred)
    value = concrete_value(pred)
    if value is not None:
        done, out = without_jit(lambda: _as_arrays((true_fun if bool(np.asarray(value)) else false_fun)(*operands)))
        if done:
            return out
    if pred.aval.dtype != dtypes.bool_:
        pred = typed_scalar(bool(pred.value), dtypes.bool_) if type(pred) is TypedScalar else ne(pred, typed_scalar(0, pred.aval.dtype))
    index = convert(pred, dtypes.int32)
    return _branch("cond", index, (false_fun, true_fun), operands, ("false_fun", "true_fun"), (users[1], users[0]))


def _predicate(pred: Any) -> Any:
    if pred is None:
        raise TypeError("cond predicate is None")
    if not callable(pred) and np.shape(pred) != () or isinstance(pred, str | Sequence):
        what = f"type {type(pred)}" if isinstance(pred, str | Sequence) else f"shape {np.shape(pred)}"
        raise TypeError(f"Pred must be a scalar, got {pred} of {what}")
    try:
        x = as_operand("cond", pred)
    except TypeError:
        raise TypeError(f"Pred type must be either boolean or number, got {pred}.") from None
    if dtypes.kind(x.aval.dtype) not in "biuf":
        raise TypeError(f"Pred type must be either boolean or number, got {dtypes.name(x.aval.dtype)}.")
    return x


def _as_arrays(tree: Any) -> Any:
    return tree_map(lambda x: as_array("", x), tree)


# switch


@boundary
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _NOT_GIVEN) -> Any:
    """`branches[index](*operands)`, the index kept in range. All branches are traced, one is run; under `vmap` with an index that differs
    all are run, and each element gets its own.

    TypeError for an index that is no integer scalar, and for branches whose results have different structures or types.

    >>> lax.switch(1, [lambda x: x, lambda x: 10 * x], 5)
    Array(50, dtype=int32, weak_type=True)
    """
    branches = tuple(branches)
    if not all(callable(f) for f in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    operands = _all_operands(operands, operand)
    i = _index(index)
    if not branches:
        raise ValueError("Empty branch sequence")
    if len(branches) == 1:
        return branches[0](*operands)
    value, last = concrete_value(i), len(branches) - 1
    at = None if value is None else min(max(int(np.asarray(value)), 0), last)
    if at is not None:
        done, out = without_jit(lambda: _as_arrays(branches[at](*operands)))
        if done:
            return out
    if type(i) is TypedScalar:
        i = typed_scalar(at, dtypes.int32)
    else:
        i = clamp(typed_scalar(0, dtypes.int32), convert(i, dtypes.int32), typed_scalar(last, dtypes.int32))
    names = ("branch 0", *(f"branch{k}" for k in range(1, last + 1)))
    return _branch("switch", i, branches, operands, names, branches)


def _index(index: Any) -> Any:
    if not callable(index) and not isinstance(index, str) and np.shape(index) != ():
        raise TypeError(f"Branch index must be scalar, got {index} of shape {np.shape(index)}.")
    try:
        i = as_operand("switch", index)
    except TypeError:
        raise TypeError(f"Index type must be an integer, got {index}.") from None
    if dtypes.kind(i.aval.dtype) not in "iu":
        raise TypeError(f"Index type must be an integer, got {index} as {dtypes.name(i.aval.dtype)}")
    return i


# What they have in common


def _branch(
    name: str,
    index: Any,
    funs: Sequence[Callable[..., Any]],
    operands: tuple[Any, ...],
    labels: Sequence[str],
    users: Sequence[Callable[..., Any]],
) -> Any:
    """The op, for a valid int32 index. `labels` and `users`: what messages call the functions."""
    args, tree = operands_of(name, operands)
    avals = [x.aval for x in args]
    check_body_references(users[0], tree, args, name)
    bodies = [body_of(f, tree, avals, name) for f in funs]
    for f, b in zip(users, bodies, strict=True):
        check_body_references(f, tree, args, name, b)
    _check_results(name, bodies, labels, users)
    consts: list[Any] = []
    place: dict[int, int] = {}
    for b in bodies:
        for c in b.consts:
            if id(c) not in place:
                place[id(c)] = len(consts)
                consts.append(c)
    const_avals = tuple(typeof(c) for c in consts)
    joined = tuple(_with_constants(b.closed, tuple(place[id(c)] for c in b.consts), const_avals) for b in bodies)
    branches, kept, passed = _forwarded(joined[0], joined)
    given = [*consts, *args]
    out = iter(cond_p(index, *given, branches=branches) if kept or any(b.effects for b in branches) else ())
    results = [given[passed[k]] if k in passed else next(out) for k in range(len(bodies[0].out_avals))]
    return tree_unflatten(bodies[0].out_tree, arrays_of(results))


@remembered
def _with_constants(closed: ClosedJaxpr, mine: tuple[int, ...], avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """A program whose first inputs are its constants, as one that takes the constants of all branches, its own being those at `mine`."""
    j = closed.jaxpr
    n = len(mine)
    invars = [Var(a) for a in avals]
    for k, v in zip(mine, j.invars, strict=False):
        invars[k] = v
    return ClosedJaxpr(Jaxpr(j.constvars, [*invars, *j.invars[n:]], j.outvars, j.eqns, j.effects, j.debug_info), closed.consts)


@remembered
def _forwarded(first: ClosedJaxpr, branches: Branches) -> tuple[Branches, tuple[int, ...], dict[int, int]]:
    """The branches without results that are the same operand in all of them; which results stay; which operands the others are."""
    positions = [{v: k for k, v in enumerate(b.jaxpr.invars)} for b in branches]
    passed = {}
    for k in range(len(first.jaxpr.outvars)):
        outs = [b.jaxpr.outvars[k] for b in branches]
        at = {None if type(v) is Literal else p.get(v) for v, p in zip(outs, positions, strict=True)}
        if len(at) == 1 and (one := at.pop()) is not None:
            passed[k] = one
    kept = tuple(k for k in range(len(first.jaxpr.outvars)) if k not in passed)
    if not passed:
        return branches, kept, passed
    return tuple(reordered(b, tuple(range(len(b.jaxpr.invars))), kept) for b in branches), kept, passed


def _check_results(name: str, bodies: Sequence[Body], labels: Sequence[str], users: Sequence[Callable[..., Any]]) -> None:
    """TypeError that says where the results of two branches differ in structure or type."""
    pairs = [(1, 0)] if name == "cond" else [(0, k) for k in range(1, len(bodies))]
    for a, b in pairs:
        one, two = bodies[a], bodies[b]
        who = f"{labels[a]} is {located(users[a])}\n{labels[b]} is {located(users[b])}\n\n"
        if one.out_tree != two.out_tree:
            lines = [
                f"{labels[a]} output{_at(path)} is a {first} but {labels[b]} output{_at(path)} is a {second}, so {why}"
                for path, first, second, why in structure_differences(one.out_tree, two.out_tree)
            ]
            raise TypeError(
                f"{name} branch outputs must have the same pytree structure, but they differ:\n\n{who}{_sentences(lines)}\n\n"
                f"Revise {labels[a]} and/or {labels[b]} so that they have the same pytree structure: they return {one.out_tree} and "
                f"{two.out_tree}."
            )
        lines, fixes = [], []
        for path, x, y in zip(_paths(one.out_tree), one.out_avals, two.out_avals, strict=True):
            if not same_type(x, y):
                lines.append(
                    f"The output of {labels[a]}{_at(path)} has type {x.str_short()} but the corresponding output of {labels[b]} has type "
                    f"{y.str_short()}, so {difference(x, y)}"
                )
                if x.shape == y.shape:
                    fixes.append(f"{path or 'the output'}: convert one with .astype, say to {dtypes.name(dtypes.result_type(x, y))}")
                else:
                    fixes.append(f"{path or 'the output'}: give both the shape {x.shape}, or both {y.shape}")
        if lines:
            raise TypeError(
                f"{name} branches must have equal output types but they differ.\n\n{who}{_sentences(lines)}\n\n"
                f"Revise {labels[a]} and/or {labels[b]} so that all output types match:\n" + ";\n".join(f"  * {f}" for f in fixes) + "."
            )


def _at(path: str) -> str:
    return f" at path {path}" if path else ""


def _paths(tree: PyTreeDef) -> list[str]:
    return [keystr(path) for path in leaf_paths(tree)]


def _sentences(lines: Sequence[str]) -> str:
    return lines[0] + "." if len(lines) == 1 else ";\n".join(f"  * {line}" for line in lines) + "."


# platform_dependent


@boundary
def platform_dependent(*args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]) -> Any:
    """The function given for this platform (`cpu=`), or else `default`, of the arguments. NotImplementedError if there is neither."""
    fun = per_platform.get("cpu", default)
    if fun is None:
        raise NotImplementedError(
            f"translation rule of platform_dependent not found for platform cpu: there are only {', '.join(per_platform) or 'none'}"
        )
    return fun(*args)
