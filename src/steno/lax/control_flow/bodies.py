"""From the functions users give to loops and branches to programs; what is said of those that do not fit."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

from steno._native import config_token, global_config_token
from steno.core import dtypes, source
from steno.core.aval import ShapedArray
from steno.core.config import config
from steno.core.errors import ConcretizationTypeError
from steno.core.jaxpr import ClosedJaxpr, consts_to_inputs
from steno.core.pytree import equality_errors_pytreedef, keystr, treedef_tuple
from steno.core.record import record
from steno.core.refs import Ref
from steno.core.trace import Tracer
from steno.lax.operands import as_array, as_operand, convert
from steno.ops.control import same_type
from steno.tracing import argument_names, check_captured, check_references, leaf_paths, trace_tree
from steno.transforms.axes import axis_env
from steno.transforms.discharge import has_ref
from steno.tree_util import PyTreeDef, tree_flatten, tree_structure


@final
@record(frozen=True, eq=False)
class Body:
    """A function of pytrees as a program. Inputs: what the function closes over (`consts`, arrays and tracers), then the leaves of its
    arguments."""

    closed: ClosedJaxpr
    consts: tuple[Any, ...]
    out_tree: PyTreeDef

    @property
    def out_avals(self) -> list[ShapedArray]:
        return self.closed.out_avals


_NO_KEYWORDS: Final = tree_structure({})
_bodies: dict[int, tuple[Callable[[], Any], dict[Any, Body]]] = {}  # by id; an entry goes with its function


def body_of(
    fun: Callable[..., Any],
    args_tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    traced_for: str,
    adapted: Callable[..., Any] | None = None,
) -> Body:
    """The program of `fun`, whose positional arguments have the structure `args_tree` and leaves of the types `avals`; of
    `adapted(fun, *args)`, if that is given.

    Like jit's, it is remembered for each function and kind of arguments: a function is traced once however often a loop is run."""
    key = (args_tree, tuple(avals), traced_for, adapted, global_config_token(), config_token(), axis_env())
    table = _table_of(fun)
    found = table.get(key)
    if found is None:
        call = fun if adapted is None else _adapt(fun, adapted)
        closed, out_tree = trace_tree(call, treedef_tuple([args_tree, _NO_KEYWORDS]), avals, traced_for, user_fun=fun)
        found = Body(consts_to_inputs(closed), tuple(closed.consts), out_tree)
        if not any(isinstance(c, Tracer) for c in closed.consts) and not config._state.check_tracer_leaks:
            table[key] = found  # with tracers it belongs to the trace around it
    return found


def _adapt(fun: Callable[..., Any], adapted: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: adapted(fun, *args)


def _table_of(fun: Callable[..., Any]) -> dict[Any, Body]:
    i = id(fun)
    entry = _bodies.get(i)
    if entry is None or entry[0]() is not fun:
        try:
            ref = weakref.ref(fun, lambda _, table=_bodies: table.pop(i, None))
        except TypeError:
            return {}
        if inspect.ismethod(fun):
            return {}  # a new object at each access
        entry = _bodies[i] = (ref, {})
    return entry[1]


def check_callable(name: str, what: str, *funs: Any) -> None:
    if not all(callable(f) for f in funs):
        raise TypeError(f"lax.{name}: {what} should be callable, got {', '.join(map(repr, funs))}.")


def operands_of(name: str, tree: Any) -> tuple[list[Any], PyTreeDef]:
    """The leaves of an argument in the form that ops take, or references, and its structure. TypeError for a leaf that is neither."""
    leaves, structure = tree_flatten(tree)
    out = []
    for x in leaves:
        try:
            out.append(x if type(x) is Ref else as_operand(name, x))
        except TypeError:
            raise TypeError(f"{name}: argument '{x}' of type {type(x)} is not a valid JAX type") from None
    return out, structure


def arrays_of(xs: Iterable[Any]) -> list[Any]:
    """Operands as what users get: arrays and references, not typed scalars."""
    return [x if type(x) is Ref else as_array("", x) for x in xs]


def check_body_references(fun: Any, args_tree: PyTreeDef, leaves: Sequence[Any], traced_for: str, body: Body | None = None) -> None:
    """ValueError if the same reference to a mutable array is passed to a body twice, or also closed over by it."""
    if has_ref(leaves):

        def names() -> Sequence[str]:
            return argument_names(fun, treedef_tuple([args_tree, _NO_KEYWORDS]))

        check_references(fun, leaves, names, traced_for)
        if body is not None:
            check_captured(fun, body.consts, leaves, names, traced_for)


def concrete_value(x: Any) -> Any:
    """The value of an operand that is known now; None for a traced one."""
    return x.to_concrete_value() if isinstance(x, Tracer) else x


def without_jit(run: Callable[[], Any]) -> tuple[bool, Any]:
    """With `disable_jit` the result of `run`, a loop in Python, unless that needs values that are traced: (whether it ran, result)."""
    if config._state.disable_jit:
        try:
            return True, run()
        except ConcretizationTypeError:
            pass
    return False, None


# Carries


def promoted(carries: Sequence[Any], found: Sequence[ShapedArray]) -> list[Any] | None:
    """Initial carries, with weakly typed ones made to fit the types the body gives; None if none of them has to change."""
    out = list(carries)
    for k, (x, after) in enumerate(zip(carries, found, strict=True)):
        before = x.aval
        if before.weak_type and before.dtype != after.dtype:
            dtype = dtypes.result_type(x, after)
            if dtype != before.dtype:
                out[k] = convert(x, dtype)
    return None if all(x is y for x, y in zip(out, carries, strict=True)) else out


def check_carry(
    name: str,
    argument: str,
    names: Sequence[str],
    tree: PyTreeDef,
    before: Sequence[ShapedArray],
    got: PyTreeDef,
    after: Sequence[ShapedArray],
) -> None:
    """TypeError that says, component by component, where the carry a body returns (structure `got`, types `after`) differs from the one it
    takes (`tree`, `before`). `argument`: what the body calls its carry; `names`: and the components of it."""
    if tree != got:
        _raise_structures(name, argument, tree, got)
    wrong = []
    for path, b, a in zip(names, before, after, strict=True):
        if not same_type(b, a):
            wrong.append((path, b, a))
    if not wrong:
        return
    lines, fixes = [], []
    for path, b, a in wrong:
        component = path if path == argument else f"component {path}"
        lines.append(
            f"the input carry {component} has type {b.str_short()} but the corresponding output carry component has type {a.str_short()}, "
            f"so {difference(b, a)}"
        )
        if b.shape == a.shape:
            fixes.append(
                f"  * {path}: convert what the body returns with .astype({dtypes.name(b.dtype)!r}), or start with a value of dtype "
                f"{dtypes.name(a.dtype)};"
            )
        else:
            fixes.append(f"  * {path}: return an array of shape {b.shape}, or start with one of shape {a.shape};")
    raise TypeError(
        f"{name} body function carry input and carry output must have equal types, but they differ:\n\n{_listed(lines)}\n\n"
        "Revise the function so that all output types match the corresponding input types:\n" + "\n".join(fixes)[:-1] + "."
    )


def difference(b: ShapedArray, a: ShapedArray) -> str:
    """`the dtypes do not match, and the shapes do not match`"""
    parts = []
    if b.dtype != a.dtype:
        parts.append("the dtypes do not match")
    if b.shape != a.shape:
        parts.append("the shapes do not match")
    return ", and ".join(parts)


def _listed(lines: Sequence[str]) -> str:
    """One sentence, or a list of several."""
    if len(lines) == 1:
        return lines[0][0].upper() + lines[0][1:] + "."
    return ";\n".join(f"  * {line}" for line in lines) + "."


def _raise_structures(name: str, argument: str, tree: PyTreeDef, got: PyTreeDef) -> None:
    lines = []
    for path, one, two, why in structure_differences(tree, got):
        component = f"component {argument}{path}" if path else argument
        lines.append(f"the input carry {component} is a {one} but the corresponding component of the carry output is a {two}, so {why}")
    raise TypeError(
        f"{name} body function carry input and carry output must have the same pytree structure, but they differ:\n\n{_listed(lines)}\n\n"
        f"Revise the function so that the carry output has the same pytree structure as the carry input: it takes {tree} and returns {got}."
    )


_LEAF_CLASS: Final = "_LeafMark"


def structure_differences(one: PyTreeDef, two: PyTreeDef) -> list[tuple[str, str, str, str]]:
    """(path, what stands there in the first, in the second, why they differ) for each place where two structures differ."""
    out = []
    for path, first, second, why in equality_errors_pytreedef(one, two):
        out.append((keystr(path), _node_text(first), _node_text(second), why))
    return out


def _node_text(text: str) -> str:
    if _LEAF_CLASS in text:
        return "pytree leaf"
    return f"node with {text}" if text.startswith("pytree metadata") else text


def component_names(fun: Any, args_tree: PyTreeDef, position: int, fallback: str) -> tuple[str, list[str]]:
    """What the function calls its argument at `position` in error messages, and the argument's leaves."""
    name = fallback
    try:
        parameters = [p for p in inspect.signature(fun).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        name = parameters[position].name
    except (ValueError, TypeError, IndexError):
        pass
    paths = leaf_paths(args_tree)
    return name, [name + keystr(path[1:]) for path in paths if path[0].idx == position]


def located(fun: Any) -> str:
    """`f at file.py:3`"""
    return source.function_info(fun)


__all__ = [
    "Body", "arrays_of", "body_of", "check_body_references", "check_callable", "check_carry", "component_names", "concrete_value",
    "difference", "located", "operands_of", "promoted", "structure_differences", "without_jit",
]  # fmt: skip
