"""Tracing functions of pytrees: flat names and paths for messages, and the step from a Python function to a program."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, final

from steno._native import ShapedArray
from steno.core import source
from steno.core.aval import is_value, typeof
from steno.core.jaxpr import ClosedJaxpr, DebugInfo
from steno.core.record import record
from steno.core.refs import is_ref
from steno.core.trace import JaxprTrace, JitTracer, finish_trace
from steno.tree_util import PyTreeDef, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten


@final
@record(frozen=True)
class Parameters:
    """The parameters of a callable by name: those given by position (the first `positional_only` of them only so), those given by keyword
    only, and what takes the rest."""

    positional: tuple[str, ...]
    positional_only: int
    keyword_only: tuple[str, ...]
    var_positional: str | None
    var_keyword: str | None

    @property
    def named(self) -> tuple[str, ...]:
        """Those that can be given by keyword."""
        return self.positional[self.positional_only :] + self.keyword_only


def parameters(fun: Any) -> Parameters | None:
    """The parameters of a callable, None if it does not tell."""
    if type(fun) is FunctionType and not _ELSEWHERE & fun.__dict__.keys():  # what inspect would find, at a twentieth of the time
        code = fun.__code__
        names, n, end = code.co_varnames, code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        takes_args, takes_kwargs = bool(code.co_flags & inspect.CO_VARARGS), bool(code.co_flags & inspect.CO_VARKEYWORDS)
        return Parameters(
            names[:n],
            code.co_posonlyargcount,
            names[n:end],
            names[end] if takes_args else None,
            names[end + takes_args] if takes_kwargs else None,
        )
    try:
        found = inspect.signature(fun).parameters.values()
    except (ValueError, TypeError):
        return None
    return Parameters(
        tuple(p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)),
        sum(p.kind == p.POSITIONAL_ONLY for p in found),
        tuple(p.name for p in found if p.kind == p.KEYWORD_ONLY),
        next((p.name for p in found if p.kind == p.VAR_POSITIONAL), None),
        next((p.name for p in found if p.kind == p.VAR_KEYWORD), None),
    )


_ELSEWHERE: Final = frozenset(("__wrapped__", "__signature__"))
"""Attributes of functions that tell the parameters of something else."""


def weakly(fun: Any) -> Callable[[], Any]:
    """A function that gives `fun` while it lives, then None: what is remembered of a function must not keep it alive."""
    try:
        return weakref.ref(fun)
    except TypeError:
        return lambda: fun


def leaf_paths(tree: PyTreeDef) -> list[tuple[Any, ...]]:
    """The key path of each leaf."""
    dummy = tree_unflatten(tree, [_LEAF] * tree.num_leaves)
    return [path for path, _ in tree_flatten_with_path(dummy)[0]]


class _Leaf:
    __slots__ = ()


_LEAF = _Leaf()


def argument_names(fun: Any, in_tree: PyTreeDef, positions: Sequence[int] | None = None) -> tuple[str, ...]:
    """The names of the leaves of `in_tree`, the structure of (args, kwargs), as the function's signature calls them: `x`, `y['a'][1]`,
    `args[0]`. `positions[i]`: where the i-th positional argument stands in the user's call (some may be left out as static)."""
    found = parameters(fun) if fun is not None else None
    positional = found.positional if found is not None else ()
    named = found.named if found is not None else ()
    var_positional = found and found.var_positional or "args"
    var_keyword = found and found.var_keyword or "kwargs"
    out = []
    for path in leaf_paths(in_tree):
        which, first, rest = path[0].idx, path[1], path[2:]
        if which == 0:
            i = positions[first.idx] if positions is not None else first.idx
            base = positional[i] if i < len(positional) else f"{var_positional}[{i - len(positional)}]"
        else:
            base = first.key if first.key in named else f"{var_keyword}[{first.key!r}]"
        out.append(base + keystr(rest))
    return tuple(out)


def result_paths(out_tree: PyTreeDef) -> tuple[str, ...]:
    """`result['a'][0]` for each leaf."""
    return tuple("result" + keystr(path) for path in leaf_paths(out_tree))


def not_an_argument(fun: Any, path: str, value: Any) -> TypeError:
    return TypeError(
        f"Error interpreting argument to {fun} as an abstract array. The problematic value is of type {type(value)} and was passed to the "
        f"function at path {path}.\nThis typically means that a jit-wrapped function was called with a non-array argument, and this "
        "argument was not marked as static using the static_argnums or static_argnames parameters of jax.jit."
    )


def argument_avals(fun: Any, leaves: Sequence[Any], in_tree: PyTreeDef, positions: Sequence[int] | None = None) -> tuple[ShapedArray, ...]:
    """The avals of the flat arguments. TypeError naming the path of what is no array, OverflowError of an int that is too large."""
    try:
        return tuple([typeof(x) for x in leaves])
    except (TypeError, OverflowError):
        pass
    names = argument_names(fun, in_tree, positions)
    for name, x in zip(names, leaves, strict=True):
        try:
            typeof(x)
        except TypeError:
            raise not_an_argument(fun, name, x) from None
        except OverflowError:
            raise OverflowError(
                "An overflow was encountered while parsing an argument to a jitted computation, whose argument path is "
                f"{name}. Got {type(x)} with value {x}"
            ) from None
    raise AssertionError("an argument had no type at first, and has one now")


# References to mutable arrays: one name each, and none is returned


def check_references(fun: Any, leaves: Sequence[Any], names: Callable[[], Sequence[str]], traced_for: str) -> None:
    """ValueError if the same reference is among the arguments twice."""
    seen: dict[int, int] = {}
    for k, x in enumerate(leaves):
        if is_ref(x):
            first = seen.setdefault(_identity(x), k)
            if first != k:
                listed = names()
                raise ValueError(
                    f"{source.function_info(fun)}, for {traced_for}: only one reference to a mutable array may be passed as an argument, "
                    f"but the one of type {x.aval} appeared at both {listed[first]} and {listed[k]}"
                )


def check_captured(fun: Any, captured: Sequence[Any], leaves: Sequence[Any], names: Callable[[], Sequence[str]], traced_for: str) -> None:
    """ValueError if a reference that the function closes over is an argument too."""
    inside = {_identity(c) for c in captured if is_ref(c)}
    for k, x in enumerate(leaves) if inside else ():
        if is_ref(x) and _identity(x) in inside:
            raise ValueError(
                f"{source.function_info(fun)}, for {traced_for}: a reference to a mutable array of type {x.aval} was both closed over and "
                f"passed as the argument {names()[k]}"
            )


def _identity(ref: Any) -> int:
    return id(ref.atom) if type(ref) is JitTracer else id(ref)


def returned_ref(trace: JaxprTrace, leaves: Sequence[Any], out_tree: PyTreeDef) -> ValueError:
    """The error for a function that returns a reference to a mutable array: with where it came from."""
    k = next(k for k, y in enumerate(leaves) if is_ref(y))
    info, y = trace.debug_info, leaves[k]
    path = keystr(leaf_paths(out_tree)[k])
    where = f" at output tree path result{path}" if path else ""
    made = next((e for e in trace.eqns if type(y) is JitTracer and y.atom in e.outvars), None)
    if made is not None:
        origin = f"was created on line {source.summary(made.place)}"
    elif type(y) is JitTracer and y.atom in trace.invars:
        origin = f"was passed in as the argument {info.arg_name(trace.invars.index(y.atom))}"
    else:
        origin = "was closed over"
    return ValueError(
        f"function {info.func_src_info} traced for {info.traced_for} returned a mutable array reference of type {y.aval}{where}: "
        f"references may be passed to functions, but not returned\n\nThe reference {origin}. Return its value, `ref[...]`, instead."
    )


def trace_tree(
    fun: Callable[..., Any],
    in_tree: PyTreeDef,
    in_avals: Sequence[ShapedArray],
    traced_for: str,
    *,
    user_fun: Any = None,
    positions: Sequence[int] | None = None,
) -> tuple[ClosedJaxpr, PyTreeDef]:
    """Records `fun(*args, **kwargs)`, where `in_tree` is the structure of (args, kwargs) and `in_avals` the types of its leaves.

    `user_fun`: what messages name, if it is not `fun`. Returns the program and the structure of the result. TypeError naming the path of a
    result that is no array."""
    named = fun if user_fun is None else user_fun
    out_tree: PyTreeDef | None = None
    ref = weakly(named)
    info = DebugInfo(
        traced_for,
        source.function_info(named),
        lambda: argument_names(ref(), in_tree, positions),
        lambda: None if out_tree is None else result_paths(out_tree),
    )
    trace = JaxprTrace(info)

    def run() -> list[Any]:
        nonlocal out_tree
        args, kwargs = tree_unflatten(in_tree, [trace.argument(a) for a in in_avals])
        leaves, out_tree = tree_flatten(source.call(fun, *args, **kwargs))
        if any(map(is_ref, leaves)):
            raise returned_ref(trace, leaves, out_tree)
        return leaves

    def check(leaves: Sequence[Any]) -> None:
        for k, y in enumerate(leaves):
            if not is_value(y):
                path = keystr(leaf_paths(out_tree)[k])
                where = f" at output component {path}" if path else ""
                raise TypeError(
                    f"function {source.function_info(named)} traced for {traced_for} returned a value of type {type(y)}{where}, "
                    "which is not a valid JAX type"
                )

    closed = finish_trace(trace, run, check)
    assert out_tree is not None
    return closed, out_tree
