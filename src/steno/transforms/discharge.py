"""Discharge: programs that read and write references become programs of values.

A reference is a `Cell` while its program is evaluated again: reads give the cell's value, writes change it, and ops with programs inside
(`jit`, loops, branches) take the values in and give the new ones back. What is left are updates of arrays that are handed on, which the
compiler does in place. An op's `discharge(*args, **params)` takes cells for its references, and binds ops of values.

Used before a program is compiled, before programs of tangents are transposed, and wherever a transformation meets an op with programs
that works on references: it then sees reads, an op of values, and writes (`call_on_values`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from steno.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, literal_value, origins
from steno.core.op import OPS, Op
from steno.core.record import record
from steno.core.refs import STATE, is_ref, is_ref_type
from steno.core.trace import trace_to_jaxpr
from steno.transforms.programs import Flags, remembered


@final
class Cell:
    """The array of a reference at one point of a program. `ref`: the reference it stands for, if the trace around knows it."""

    __slots__ = ("_value", "ref", "written")

    def __init__(self, value: Any = None, ref: Any = None) -> None:
        self._value, self.ref, self.written = value, ref, False

    @property
    def value(self) -> Any:
        if self._value is None:
            if self.ref is None:
                raise ValueError("a reference is used after free_ref")
            self._value = OPS["get"](self.ref, access=None)
        return self._value

    @value.setter
    def value(self, x: Any) -> None:
        self._value, self.written = x, True

    def free(self) -> None:
        self.value  # noqa: B018  for its complaint about what was freed before
        self._value = self.ref = None


def has_ref(args: Sequence[Any]) -> bool:
    return any(map(is_ref, args))


# What programs do with references


def stateful(closed: ClosedJaxpr) -> bool:
    """Whether a program, or one inside it, reads or writes a reference."""
    table = closed.__dict__
    found = table.get("stateful")
    if found is None:
        found = table["stateful"] = any(map(_is_stateful, closed.jaxpr.eqns))
    return found


def _is_stateful(e: JaxprEqn) -> bool:
    return STATE in e.effects or (e.op.subprograms is not None and any(map(stateful, e.op.subprograms(e.params))))


def takes_refs(closed: ClosedJaxpr) -> bool:
    """Whether a program has references as inputs or constants."""
    return any(is_ref_type(v.aval) for v in (*closed.jaxpr.invars, *closed.jaxpr.constvars))


@remembered
def handed_on(closed: ClosedJaxpr) -> Flags:
    """Which inputs are references that the program does not touch, but hands to functions with derivatives of their own."""
    jaxpr = closed.jaxpr
    handed: set[Any] = set()
    touched: set[Any] = set()
    for e in jaxpr.eqns:
        for k, a in enumerate(e.invars):
            if is_ref_type(a.aval):
                (handed if hands_on(e.op, e.params, len(e.invars), k) else touched).add(a)
    return tuple(is_ref_type(v.aval) and v in handed and v not in touched for v in jaxpr.invars)


def hands_on(op: Op, params: dict[str, Any], n: int, k: int) -> bool:
    """Whether an op of n operands does nothing with the reference that is operand k but hand it to a function with derivatives of its
    own."""
    if op.name in _WITH_RULES:
        return True
    if op.subprograms is None:
        return False
    if op.name == "while":
        conditions = params["cond_nconsts"]
        return k >= conditions and handed_on(params["body_jaxpr"])[k - conditions]
    if op.name in _WITH_EQUATIONS:
        for closed, own in zip(params["jaxprs"], params["const_lengths"], strict=False):
            if k < own:
                return handed_on(closed)[k]
            k -= own
        return False
    return all(handed_on(p)[k - (n - len(p.jaxpr.invars))] for p in op.subprograms(params))


_WITH_RULES: Final = ("custom_vjp_call", "custom_lin")
_WITH_EQUATIONS: Final = ("custom_linear_solve", "custom_root")


def works_on_refs(op: Op, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether an op with programs inside reads or writes references among its operands."""
    return op.subprograms is not None and any(is_ref(x) and not hands_on(op, params, len(args), k) for k, x in enumerate(args))


# Programs


def evaluate_cells(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Binds the ops of a program, whose references are cells. A list of the results."""
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))
    with origins() as origin:
        for e in jaxpr.eqns:
            origin.of(e)
            xs = [literal_value(a) if type(a) is Literal else env[a] for a in e.invars]
            with_cells = any(type(x) is Cell for x in xs)
            if with_cells or e.op.makes_ref or (e.op.subprograms is not None and _is_stateful(e)):
                if e.op.discharge is None:
                    raise NotImplementedError(f"{e.op.name} with references to mutable arrays")
                out = e.op.discharge(*xs, **e.params)
            else:
                out = e.op(*xs, **e.params)
            env.update(zip(e.outvars, out if e.op.multiple_results else [out], strict=True))
    return [literal_value(a) if type(a) is Literal else env[a] for a in jaxpr.outvars]


@final
@record(frozen=True)
class Discharged:
    """`program` takes values for references (but for those that are kept), and gives, after the results, the new values of the inputs
    `written`. `out_refs`: which results are new references, given by their values."""

    program: ClosedJaxpr
    written: tuple[int, ...]
    out_refs: Flags


@remembered
def discharged(closed: ClosedJaxpr, keep: Flags) -> Discharged:
    """A program of values. `keep`: inputs that stay references, which are handed on."""
    written: tuple[int, ...] = ()
    out_refs: Flags = ()
    cells = [is_ref_type(a) and not k for a, k in zip(closed.in_avals, keep, strict=True)]

    def run(*args: Any) -> list[Any]:
        nonlocal written, out_refs
        xs = [Cell(x) if c else x for x, c in zip(args, cells, strict=True)]
        outs = evaluate_cells(closed.jaxpr, closed.consts, xs)
        written = tuple(k for k, x in enumerate(xs) if type(x) is Cell and x.written)
        out_refs = tuple(type(y) is Cell for y in outs)
        return [*(y.value if type(y) is Cell else y for y in outs), *(xs[k].value for k in written)]

    avals = [a.inner_aval if c else a for a, c in zip(closed.in_avals, cells, strict=True)]
    return Discharged(trace_to_jaxpr(run, avals, closed.debug_info), written, out_refs)


def pure(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without the references that live and die in it."""
    return discharged(closed, (True,) * len(closed.jaxpr.invars)).program if stateful(closed) else closed


def keeps(closed: ClosedJaxpr, args: Sequence[Any]) -> Flags:
    """Which inputs of a program inside an op stay references, given the op's operands for them."""
    return tuple(
        is_ref_type(a) and (type(x) is not Cell or (x.ref is not None and h))
        for a, x, h in zip(closed.in_avals, args, handed_on(closed), strict=True)
    )


def operand(x: Any, keep: bool = False) -> Any:
    """What an op of values takes for a cell: its value, or, to `keep` it, its reference."""
    return x if type(x) is not Cell else x.ref if keep else x.value


def call_on_values(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Binds an op with programs inside, some of whose operands are references, as reads, an op of values, and writes."""
    cells: dict[int, Cell] = {}
    xs = [cells.setdefault(id(x), Cell(ref=x)) if is_ref(x) else x for x in args]
    if op.discharge is None:
        raise NotImplementedError(f"{op.name} with references to mutable arrays under a transformation")
    outs = op.discharge(*xs, **params)
    for c in cells.values():
        if c.written:
            OPS["swap"](c.ref, c.value, access=None)
    return outs
