"""Recorded programs.

grammar
    ClosedJaxpr ::= Jaxpr with the values of its constvars
    Jaxpr       ::= { lambda constvars ; invars . let JaxprEqn* in ( Atom* ) }
    JaxprEqn    ::= Var* = op[ params ] Atom*            params may hold jaxprs
    Atom        ::= Var | Literal

Array constants are constvars (run-time inputs, by identity); scalars are Literals. Single assignment: a Var is bound once, before use."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ShapedArray
from steno.core import dtypes, pretty, source
from steno.core.aval import TypedScalar
from steno.core.errors import JaxprTypeError
from steno.core.names import NO_NAMES, NameStack, recorders, set_names, text as names_text
from steno.core.op import Op
from steno.core.record import record
from steno.core.refs import STATE, AbstractRef

NO_EFFECTS: Final[frozenset[Any]] = frozenset()


class Var:
    """A variable, by identity."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


@final
class DropVar(Var):
    """A result nobody uses; prints as `_`."""

    __slots__ = ()


@final
class Literal:
    """A scalar constant; `val` is an `np.generic` of the aval's dtype."""

    __slots__ = ("aval", "val")

    def __init__(self, val: np.generic, aval: ShapedArray) -> None:
        self.val, self.aval = val, aval

    def __repr__(self) -> str:
        return f"{literal_text(self.val)}:{self.aval.str_short(short_dtypes=True)}"


Atom = Var | Literal


@final
class JaxprEqn:
    """`outvars = op[params] invars`. `place`: where in the user's code (core/source.py); `names`: the named scopes around it."""

    __slots__ = ("effects", "invars", "names", "op", "outvars", "params", "place")

    def __init__(
        self,
        op: Op,
        invars: list[Atom],
        outvars: list[Var],
        params: dict[str, Any],
        effects: frozenset[Any] = NO_EFFECTS,
        place: source.Place | None = None,
        names: tuple[str, ...] = NO_NAMES,
    ) -> None:
        self.op, self.invars, self.outvars, self.params = op, invars, outvars, params
        self.effects, self.place, self.names = effects, place, names

    @property
    def primitive(self) -> Op:
        return self.op

    @property
    def source_info(self) -> SourceInfo:
        return SourceInfo(self.place, self.names)

    def bind(self, args: Sequence[Any]) -> list[Any]:
        """The op on these operands: a list of its results. What is recorded or evaluated comes from where the equation comes from."""
        with origins() as origin:
            origin.of(self)
            out = self.op(*args, **self.params)
        return out if self.op.multiple_results else [out]

    def replace(self, **changes: Any) -> JaxprEqn:
        """A copy with some of op, invars, outvars, params, effects, place, names changed."""
        fields = {
            name: changes.pop(name, getattr(self, name)) for name in ("op", "invars", "outvars", "params", "effects", "place", "names")
        }
        if changes:
            raise TypeError(f"JaxprEqn.replace: unknown fields {sorted(changes)}")
        return JaxprEqn(**fields)

    def __repr__(self) -> str:
        return pretty.layout(_eqn_doc(self, _Context(), _Settings()))

    __str__ = __repr__


@final
class origins:
    """`with origins() as origin: ...`: after `origin.of(equation)` what is recorded or evaluated comes from where the equation comes from,
    and carries its names."""

    __slots__ = ("_names", "_outer", "_place", "_recording")

    def __enter__(self) -> origins:
        self._place = source.swap_place(None)
        self._recording = recorders()
        self._outer = [r.names for r in self._recording]
        self._names = NO_NAMES
        return self

    def of(self, e: JaxprEqn) -> None:
        source.override.place = self._place or e.place
        if e.names is not self._names:
            self._names = e.names
            set_names(self._recording, self._outer, e.names)

    def __exit__(self, *exc: object) -> None:
        source.swap_place(self._place)
        set_names(self._recording, self._outer, NO_NAMES)


@final
class SourceInfo:
    """Where an equation comes from: `place` in the user's code, and `names`, whose text `name_stack` has. `str` gives the place."""

    __slots__ = ("names", "place")

    def __init__(self, place: source.Place | None, names: tuple[str, ...] = NO_NAMES) -> None:
        self.place, self.names = place, names

    @property
    def location(self) -> source.Location | None:
        return None if self.place is None else source.Location(self.place)

    @property
    def name_stack(self) -> NameStack:
        return NameStack(self.names)

    def __str__(self) -> str:
        return source.summary(self.place)


Names = tuple[str, ...] | Callable[[], "tuple[str, ...] | None"] | None


@final
class DebugInfo:
    """What a program was traced from: `jit`, `f at file.py:3`, the names of its flat arguments (`x['a']`), the paths of its results
    (`result[0]`).

    Names may be given as a function, which is called when they are first wanted."""

    __slots__ = ("_arg_names", "_result_paths", "fun", "traced_for")

    def __init__(self, traced_for: str, fun: Any = None, arg_names: Names = None, result_paths: Names = None) -> None:
        """`fun`: the function, or a text such as `f at file.py:3`."""
        self.traced_for, self.fun = traced_for, fun
        self._arg_names, self._result_paths = arg_names, result_paths

    @property
    def func_src_info(self) -> str:
        return self.fun if isinstance(self.fun, str) else source.function_info(self.fun)

    @property
    def func_name(self) -> str:
        return self.func_src_info.split(" ")[0]

    @property
    def arg_names(self) -> tuple[str, ...] | None:
        if callable(self._arg_names):
            self._arg_names = self._arg_names()
        return self._arg_names

    @property
    def result_paths(self) -> tuple[str, ...] | None:
        if callable(self._result_paths):
            self._result_paths = self._result_paths()
        return self._result_paths

    def arg_name(self, k: int) -> str:
        names = self.arg_names
        return names[k] if names is not None and k < len(names) and names[k] else f"number {k}"

    def with_names(self, arg_names: Names, result_paths: Names) -> DebugInfo:
        return DebugInfo(self.traced_for, self.fun, arg_names, result_paths)

    def __repr__(self) -> str:
        return (
            f"DebugInfo(traced_for={self.traced_for!r}, func_src_info={self.func_src_info!r}, arg_names={self.arg_names!r}, "
            f"result_paths={self.result_paths!r})"
        )


NO_DEBUG_INFO: Final = DebugInfo("unknown", "<unknown>")


class Jaxpr:
    """A program over typed variables. Treated as immutable; hashed by identity."""

    __slots__ = ("__weakref__", "constvars", "debug_info", "effects", "eqns", "invars", "outvars")

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[JaxprEqn],
        effects: Iterable[Any] | None = None,
        debug_info: DebugInfo = NO_DEBUG_INFO,
    ) -> None:
        self.constvars, self.invars, self.outvars, self.eqns = list(constvars), list(invars), list(outvars), list(eqns)
        found = frozenset(effects) if effects is not None else join_effects(self.eqns)
        if STATE in found and not any(type(v.aval) is AbstractRef for v in (*self.constvars, *self.invars)):
            found -= {STATE}  # of references that live and die in the program
        self.effects = found
        self.debug_info = debug_info

    @property
    def in_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.outvars]

    @property
    def jaxpr(self) -> Jaxpr:
        """Itself: code that takes a ClosedJaxpr may take a program without constants."""
        return self

    @property
    def consts(self) -> list[Any]:
        """The values of its constvars: none. ValueError if it has any, whose values are not its own."""
        if self.constvars:
            raise ValueError(f"a Jaxpr has no values for its {len(self.constvars)} constvars; a ClosedJaxpr has")
        return []

    def replace(self, **changes: Any) -> Jaxpr:
        """A copy with some of constvars, invars, outvars, eqns, effects, debug_info changed. New eqns without effects: theirs are
        joined."""
        if "eqns" in changes:
            changes.setdefault("effects", None)
        fields = {n: changes.pop(n, getattr(self, n)) for n in ("constvars", "invars", "outvars", "eqns", "effects", "debug_info")}
        if changes:
            raise TypeError(f"Jaxpr.replace: unknown fields {sorted(changes)}")
        return Jaxpr(**fields)

    def pretty_print(self, *, source_info: bool = False, name_stack: bool = False, width: int = 80, **ignored: Any) -> str:
        """The text of the program; `source_info` and `name_stack` add where each equation comes from in a column to the right."""
        return print_jaxpr(self, _Settings(source_info, name_stack), width)

    def __str__(self) -> str:
        return print_jaxpr(self)

    __repr__ = __str__


@final
class ClosedJaxpr:
    """A Jaxpr and the values of its constvars (arrays; or, while an outer function is traced, tracers of that)."""

    __slots__ = ("__dict__", "__weakref__", "consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> None:
        if len(consts) != len(jaxpr.constvars):
            raise ValueError(f"ClosedJaxpr: {len(jaxpr.constvars)} constvars, but {len(consts)} values")
        self.jaxpr, self.consts = jaxpr, list(consts)

    @property
    def eqns(self) -> list[JaxprEqn]:
        return self.jaxpr.eqns

    @property
    def invars(self) -> list[Var]:
        return self.jaxpr.invars

    @property
    def outvars(self) -> list[Atom]:
        return self.jaxpr.outvars

    @property
    def constvars(self) -> list[Var]:
        return self.jaxpr.constvars

    @property
    def in_avals(self) -> list[ShapedArray]:
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ShapedArray]:
        return self.jaxpr.out_avals

    @property
    def effects(self) -> frozenset[Any]:
        return self.jaxpr.effects

    @property
    def debug_info(self) -> DebugInfo:
        return self.jaxpr.debug_info

    @property
    def literals(self) -> list[Any]:
        return self.consts

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None) -> ClosedJaxpr:
        return ClosedJaxpr(self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts)

    def pretty_print(self, **settings: Any) -> str:
        return self.jaxpr.pretty_print(**settings)

    def __str__(self) -> str:
        return print_jaxpr(self.jaxpr)

    __repr__ = __str__


def close(jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> ClosedJaxpr:
    return ClosedJaxpr(jaxpr, consts)


def join_effects(eqns: Iterable[JaxprEqn]) -> frozenset[Any]:
    out: frozenset[Any] = NO_EFFECTS
    for e in eqns:
        if e.effects:
            out |= e.effects
    return out


def subjaxprs(params: dict[str, Any]) -> Iterator[Jaxpr | ClosedJaxpr]:
    """The programs among an equation's parameters, also inside tuples and lists, in order of the parameters."""
    for value in params.values():
        yield from _programs(value)


def _programs(value: Any) -> Iterator[Jaxpr | ClosedJaxpr]:
    if isinstance(value, Jaxpr | ClosedJaxpr):
        yield value
    elif isinstance(value, tuple | list):
        for v in value:
            yield from _programs(v)


def open_jaxpr(program: Jaxpr | ClosedJaxpr) -> Jaxpr:
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def consts_to_inputs(closed: ClosedJaxpr) -> ClosedJaxpr:
    """`{ lambda c ; x . ...}` --> `{ lambda ; c x . ...}`: the constants become leading inputs, to be passed as `closed.consts`."""
    j = closed.jaxpr
    if not j.constvars:
        return closed
    n = len(j.constvars)
    info = j.debug_info
    names = info.with_names(lambda: None if info.arg_names is None else ("",) * n + info.arg_names, lambda: info.result_paths)
    return ClosedJaxpr(Jaxpr((), j.constvars + j.invars, j.outvars, j.eqns, j.effects, names), ())


def new_eqn(op: Op, invars: Sequence[Atom], params: dict[str, Any], like: JaxprEqn | None = None) -> JaxprEqn:
    """An equation with fresh outvars of the types the op gives; place and names of `like`."""
    avals = tuple(v.aval for v in invars)
    out = op.types(avals, params)
    outvars = [Var(a) for a in (out if op.multiple_results else [out])]
    effects = NO_EFFECTS if op.effects is None else frozenset(op.effects(*avals, **params))
    place, names = (like.place, like.names) if like is not None else (None, ())
    return JaxprEqn(op, list(invars), outvars, params, effects, place, names)


# Evaluation


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Runs the program by binding its ops one by one: under a trace this records, else it evaluates. A list of the results."""
    if len(args) != len(jaxpr.invars):
        raise TypeError(f"eval_jaxpr: the program takes {len(jaxpr.invars)} arguments, got {len(args)}")
    env: dict[Atom, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    last = last_uses(jaxpr)

    def read(a: Atom) -> Any:
        return literal_value(a) if type(a) is Literal else env[a]

    with origins() as origin:
        for e, dying in zip(jaxpr.eqns, last, strict=True):
            origin.of(e)
            out = e.op(*[read(a) for a in e.invars], **e.params)
            if e.op.multiple_results:
                env.update(zip(e.outvars, out, strict=True))
            else:
                env[e.outvars[0]] = out
            for v in dying:
                env.pop(v, None)
    return [read(a) for a in jaxpr.outvars]


def literal_value(a: Literal) -> Any:
    """What a Literal is passed to an op as: a scalar that keeps dtype and weak type."""
    return TypedScalar(a.val, a.aval)


def last_uses(jaxpr: Jaxpr) -> list[list[Var]]:
    """For each equation the variables that are not needed after it."""
    seen: set[Any] = {a for a in jaxpr.outvars if type(a) is not Literal}
    out: list[list[Var]] = []
    for e in reversed(jaxpr.eqns):
        dying = []
        for a in (*e.invars, *e.outvars):
            if type(a) is not Literal and a not in seen:
                seen.add(a)
                dying.append(a)
        out.append(dying)
    out.reverse()
    return out


# Dead code


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[bool]]:
    """Drops the outputs not used, what only they need, and the inputs that are not needed then (unless `instantiate`d).

    An op's `dce(used_outputs, eqn) -> (used_inputs, eqn | None)` may thin out an equation. Equations with effects stay. Returns the program
    and which inputs it still takes."""
    keep = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else list(instantiate)
    outvars = [a for a, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live: set[Any] = {a for a in outvars if type(a) is not Literal}
    eqns: list[JaxprEqn] = []
    for e in reversed(jaxpr.eqns):
        used = [v in live for v in e.outvars]
        if not any(used) and not e.effects:
            continue
        new: JaxprEqn | None = e
        if e.op.dce is not None:
            needed, new = e.op.dce(used, e)
            if new is None:
                continue
            live.update(a for a, n in zip(e.invars, needed, strict=True) if n and type(a) is not Literal)
        else:
            live.update(a for a in e.invars if type(a) is not Literal)
        eqns.append(new)
    eqns.reverse()
    used_inputs = [k or v in live for v, k in zip(jaxpr.invars, keep, strict=True)]
    invars = [v for v, used in zip(jaxpr.invars, used_inputs, strict=True) if used]
    info = jaxpr.debug_info
    names = info.with_names(lambda: _pick(info.arg_names, used_inputs), lambda: _pick(info.result_paths, used_outputs))
    return Jaxpr(jaxpr.constvars, invars, outvars, eqns, None, names), used_inputs


def _pick(names: tuple[str, ...] | None, which: Sequence[bool]) -> tuple[str, ...] | None:
    return None if names is None else tuple(n for n, use in zip(names, which, strict=False) if use)


# Checking


def check_jaxpr(program: Jaxpr | ClosedJaxpr) -> None:
    """JaxprTypeError, with the program and the equation, unless every variable is bound once and before use, every equation has the
    types its op gives, and the effects are the equations' effects; nested programs too."""
    if isinstance(program, ClosedJaxpr):
        for v, c in zip(program.constvars, program.consts, strict=True):
            if tuple(c.shape) != v.aval.shape:
                raise JaxprTypeError(f"the constant of shape {tuple(c.shape)} is bound to a variable of type {v.aval}")
    jaxpr = open_jaxpr(program)
    bound: set[Var] = set()
    context = _Context()

    def fail(what: str, e: JaxprEqn | None = None) -> JaxprTypeError:
        where = (
            ""
            if e is None
            else f"\nin equation:\n\n  {pretty.layout(_eqn_doc(e, context, _Settings()))}\n\nfrom {source.summary(e.place) or 'unknown'}"
        )
        return JaxprTypeError(f"{what}{where}\n\nin jaxpr:\n{print_jaxpr(jaxpr)}")

    def bind(v: Var, e: JaxprEqn | None = None) -> None:
        if v in bound:
            raise fail(f"Variable '{context.name(v)}' already bound", e)
        bound.add(v)

    def use(a: Atom, e: JaxprEqn | None = None) -> None:
        if type(a) is Literal:
            if a.aval.shape != ():
                raise fail(f"Literal of type {a.aval} is no scalar", e)
        elif a not in bound:
            raise fail(f"Variable '{context.name(a)}' not defined", e)

    for v in (*jaxpr.constvars, *jaxpr.invars):
        bind(v)
    effects: frozenset[Any] = NO_EFFECTS
    for e in jaxpr.eqns:
        for a in e.invars:
            use(a, e)
        avals = tuple(a.aval for a in e.invars)
        try:
            types = e.op.typ(*avals, **e.params)
        except (TypeError, ValueError) as err:
            raise fail(str(err), e) from err
        types = list(types) if e.op.multiple_results else [types]
        if len(types) != len(e.outvars):
            raise fail(f"{e.op.name} has {len(types)} results, the equation binds {len(e.outvars)}", e)
        for v, t in zip(e.outvars, types, strict=True):
            if v.aval.shape != t.shape or v.aval.dtype != t.dtype:
                raise fail(f"Variable '{context.name(v)}' has type {v.aval}, but {e.op.name} gives {t}", e)
        for v in e.outvars:
            bind(v, e)
        for sub in subjaxprs(e.params):
            check_jaxpr(sub)
        effects |= e.effects
    for a in jaxpr.outvars:
        use(a)
    if not effects - {STATE} <= jaxpr.effects:
        raise fail(f"Equations have effects {set(effects)}, the program says {set(jaxpr.effects)}")


# Printing


@final
@record(frozen=True)
class _Settings:
    source_info: bool = False
    name_stack: bool = False


@final
class _Context:
    """Names given to variables, and the nested programs that are defined before the program that uses them."""

    def __init__(self) -> None:
        self._names: dict[Var, str] = {}
        self._letters = (_letters(k) for k in itertools.count())
        self.shared: dict[Jaxpr, str] = {}
        self._taken: set[str] = set()

    def name(self, v: Var) -> str:
        if type(v) is DropVar:
            return "_"
        found = self._names.get(v)
        if found is None:
            found = self._names[v] = next(n for n in self._letters if n not in self._taken)
        return found

    def drop(self, variables: Iterable[Var]) -> None:
        self._names.update(dict.fromkeys(variables, "_"))

    def suggest(self, inner: Sequence[Any], outer: Sequence[Any]) -> None:
        """Names the variables of a nested program like those of the equation they stand for, unless they have names."""
        taken: set[Var] = set()
        for v, like in zip(inner, outer, strict=False):
            if type(v) is not Literal and type(like) is not Literal and v not in self._names and like not in taken:
                taken.add(like)
                self._names[v] = self.name(like)

    def share(self, jaxpr: Jaxpr, name: str) -> None:
        unique = next(n for k in itertools.count() if (n := f"{name}{k or ''}") not in self._taken)
        self._taken.add(unique)
        self.shared[jaxpr] = unique


def _letters(k: int) -> str:
    """0, 1, ... --> a, b, ..., z, ba, bb, ...: base 26 with the digits a to z."""
    out = ""
    while True:
        k, digit = divmod(k, 26)
        out = "abcdefghijklmnopqrstuvwxyz"[digit] + out
        if not k:
            return out


def literal_text(val: Any) -> str:
    value = val.item() if isinstance(val, np.generic) else val
    if not isinstance(value, bool | int | float | complex | tuple):
        value = complex(val) if dtypes.is_complex(val.dtype) else int(val) if dtypes.is_integer(val.dtype) else float(val)
    return str(value)


def _binder(v: Var, context: _Context) -> str:
    return f"{context.name(v)}:{v.aval.str_short(short_dtypes=True)}"


def _atom(a: Atom, context: _Context) -> str:
    return repr(a) if type(a) is Literal else context.name(a)


_GAP: Final = pretty.Group(pretty.SPACE)  # each gap of a list breaks by itself
_NEWLINE: Final = pretty.Break("; ")


def _binders(variables: Sequence[Var], context: _Context) -> pretty.Doc:
    return pretty.Nest(2, pretty.join(_GAP, [_binder(v, context) for v in variables]))


def _value_doc(value: Any, context: _Context, settings: _Settings) -> pretty.Doc:
    if isinstance(value, Jaxpr | ClosedJaxpr):
        jaxpr = open_jaxpr(value)
        shared = context.shared.get(jaxpr)
        return shared if shared is not None else _jaxpr_doc(jaxpr, context, settings)
    if isinstance(value, tuple) and value and all(isinstance(v, Jaxpr | ClosedJaxpr) for v in value):
        inner = pretty.join(pretty.SPACE, [_value_doc(v, context, settings) for v in value])
        return pretty.Group(pretty.concat("(", pretty.Nest(2, pretty.concat(pretty.SOFT, inner)), pretty.SOFT, ")"))
    if isinstance(value, np.dtype):
        return dtypes.name(value)
    return str(value)


def _params_doc(e: JaxprEqn, context: _Context, settings: _Settings) -> pretty.Doc:
    params = e.op.show(e.params) if e.op.show is not None else dict(sorted(e.params.items()))
    if not params:
        return ""
    items = [pretty.concat(f"{k}=", _value_doc(v, context, settings)) for k, v in params.items()]
    body = pretty.concat(pretty.SOFT, pretty.join(pretty.SPACE, items))
    return pretty.Group(pretty.concat("[", pretty.Nest(2, body), pretty.SOFT, "]"))


def _eqn_doc(e: JaxprEqn, context: _Context, settings: _Settings) -> pretty.Doc:
    if e.op.subprograms is not None and e.op.name in ("jit", "closed_call", "core_call"):
        for sub in subjaxprs(e.params):
            inner = open_jaxpr(sub)
            if inner not in context.shared:
                context.suggest(inner.invars, e.invars)
                context.suggest(inner.outvars, e.outvars)
    left = _binders(e.outvars, context)
    params = _params_doc(e, context, settings)
    operands = pretty.Nest(2, pretty.join(_GAP, [_atom(a, context) for a in e.invars]))
    right = pretty.concat(e.op.name, params, " ", operands)
    doc = pretty.concat(left, " = ", right) if e.outvars else right
    if e.op.doc is not None:
        doc = e.op.doc([_binder(v, context) for v in e.outvars], [_atom(a, context) for a in e.invars], e.params)
    if settings.source_info or settings.name_stack:
        note = source.summary(e.place) if settings.source_info else f"[{names_text(e.names)}]"
        return pretty.Annotated(doc, note)
    return doc


def _jaxpr_doc(jaxpr: Jaxpr, context: _Context, settings: _Settings) -> pretty.Doc:
    head = pretty.concat(
        "{ ",
        "lambda ",
        _binders(jaxpr.constvars, context),
        "; ",
        _binders(jaxpr.invars, context),
        ". let",
    )
    eqns = [_eqn_doc(e, context, settings) for e in jaxpr.eqns]
    body = pretty.Nest(2, pretty.concat(pretty.SPACE, pretty.join(_NEWLINE, eqns)))
    outs = [_atom(a, context) for a in jaxpr.outvars]
    result = pretty.concat("in (", pretty.Nest(2, pretty.join(pretty.concat(",", _GAP), outs)), "," if len(outs) == 1 else "", ") }")
    return pretty.Group(pretty.concat(pretty.Nest(2, pretty.concat(head, body, pretty.SPACE, result))))


_SHARE_BEYOND: Final = 10  # equations


def _shared_programs(jaxpr: Jaxpr) -> dict[Jaxpr, str]:
    """Nested programs that are printed before: those met more than once, and long ones. In order of first meeting, outer ones first."""
    names: dict[Jaxpr, str] = {}
    sites: Counter[Jaxpr] = Counter()
    level = [jaxpr]
    order = [jaxpr]
    while level:
        below = []
        for j in level:
            for e in j.eqns:
                name = e.params.get("name")
                for sub in map(open_jaxpr, subjaxprs(dict(sorted(e.params.items())))):
                    sites[sub] += 1
                    if isinstance(name, str):
                        names.setdefault(sub, name.strip("<>"))
                    if sites[sub] == 1:
                        below.append(sub)
                        order.append(sub)
        level = below
    several: set[Jaxpr] = set()

    def mark(j: Jaxpr) -> None:
        if j not in several:
            several.add(j)
            for e in j.eqns:
                for sub in map(open_jaxpr, subjaxprs(e.params)):
                    mark(sub)

    for j in order:
        if sites[j] > 1:
            mark(j)
    return {j: names.get(j, "jaxpr") for j in order[1:] if j in several or len(j.eqns) > _SHARE_BEYOND}


def print_jaxpr(jaxpr: Jaxpr, settings: _Settings | None = None, width: int = 80) -> str:
    """The program in JAX's syntax."""
    settings = settings or _Settings()
    context = _Context()
    used = {a for a in jaxpr.outvars if type(a) is not Literal}
    for e in jaxpr.eqns:
        used.update(a for a in e.invars if type(a) is not Literal)
    for e in jaxpr.eqns:
        context.drop(v for v in e.outvars if v not in used)
    definitions = _shared_programs(jaxpr)
    for sub, name in definitions.items():
        context.share(sub, name)
    docs = [pretty.concat(f"let {context.shared[sub]} = ", _jaxpr_doc(sub, context, settings), " in") for sub in definitions]
    docs.append(_jaxpr_doc(jaxpr, context, settings))
    return pretty.layout(pretty.join(_LINE, docs), width)


_LINE: Final = pretty.SPACE  # outside of any group: always a line end


@functools.cache
def jaxpr_as_fun(closed: Jaxpr | ClosedJaxpr) -> Callable[..., list[Any]]:
    """The program as a function of its flat inputs that returns the list of its results."""
    return functools.partial(eval_jaxpr, closed.jaxpr, closed.consts)
