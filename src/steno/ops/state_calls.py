"""Discharge of ops with programs inside: the values of references go in and come out, as carries of loops, results of calls and branches.

References that a program only hands on to functions with derivatives of their own stay references (`handed_on`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

from steno.core.jaxpr import ClosedJaxpr
from steno.core.op import Op
from steno.ops.cond import cond
from steno.ops.control import evaluate, program, reordered, split
from steno.ops.implicit import custom_linear_solve, custom_root
from steno.ops.scan import scan
from steno.ops.state import freeze, get, new_ref
from steno.ops.structural import jit
from steno.ops.while_loop import while_
from steno.transforms.custom import (
    AbstractCustomJvp,
    AbstractCustomVjp,
    CustomRulesError,
    custom_jvp_call,
    custom_lin,
    custom_vjp_call,
)
from steno.transforms.custom_batch import custom_vmap_call
from steno.transforms.custom_linear import linear_call
from steno.transforms.discharge import Cell, Discharged, discharged, evaluate_cells, keeps, operand, pure
from steno.transforms.programs import remembered
from steno.transforms.remat import remat
from steno.transforms.rules import Zero, add, instantiate

# Calls


def _call(op: Op, args: Sequence[Any], jaxpr: ClosedJaxpr, **rest: Any) -> list[Any]:
    keep = keeps(jaxpr, args)
    d = discharged(jaxpr, keep)
    outs = op(*(operand(x, k) for x, k in zip(args, keep, strict=True)), jaxpr=d.program, **rest)
    n = len(jaxpr.jaxpr.outvars)
    for k, y in zip(d.written, outs[n:], strict=True):
        args[k].value = y
    return outs[:n]


def _jit(*args: Any, **params: Any) -> list[Any]:
    return _call(jit, args, **params)


def _remat(*args: Any, **params: Any) -> list[Any]:
    return _call(remat, args, **params)


# Functions with rules of their own


@final
class _Values:
    """Arguments of a function with rules, some of which are references of the program that is discharged. `made`: their positions, where
    values are given instead. `written`: those whose new values are further results; one below 0 is closed over."""

    __slots__ = ("made", "name", "written")

    def __init__(self, name: str, made: tuple[int, ...], written: tuple[int, ...]) -> None:
        self.name, self.made, self.written = name, made, written

    def references(self, xs: Sequence[Any]) -> list[Any]:
        return [_reference(x) if k in self.made and type(x) is not Zero else x for k, x in enumerate(xs)]

    def after(self, refs: Sequence[Any], what: Callable[[Any], Any] = freeze) -> list[Any]:
        """The new values of the references that are written."""
        if any(k < 0 for k in self.written):
            raise CustomRulesError(
                f"{self.name}: a function with derivatives of its own changes a mutable array that it closes over, and is differentiated; "
                "pass the reference as an argument"
            )
        return [refs[k] if type(refs[k]) is Zero else what(refs[k]) for k in self.written]


def _reference(x: Any) -> Any:
    return new_ref(x, memory_space=None, kind=None, pin=False)


@final
class ValuesJvp(AbstractCustomJvp):
    """A bundle that makes references of values, and gives, after the results, the new values of those that are written."""

    __slots__ = ("call", "name", "rule_name", "symbolic_zeros", "values")

    def __init__(self, call: AbstractCustomJvp, values: _Values) -> None:
        self.call, self.values = call, values
        self.name, self.rule_name, self.symbolic_zeros = call.name, call.rule_name, call.symbolic_zeros

    def run(self, *args: Any) -> list[Any]:
        refs = self.values.references(args)
        return [*self.call.run(*refs), *self.values.after(refs)]

    def rule(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        refs = self.values.references(primals)
        moving = self.values.references([instantiate(t) if k in self.values.written else t for k, t in enumerate(tangents)])
        outs, out_tangents = self.call.rule(refs, moving)
        return [*outs, *self.values.after(refs)], [*out_tangents, *self.values.after(moving)]


@final
class ValuesVjp(AbstractCustomVjp):
    """As `ValuesJvp`. What is written to a reference varies with what it held before as if it were that."""

    __slots__ = ("bwd_name", "call", "fwd_name", "name", "optimize_remat", "symbolic_zeros", "values")

    def __init__(self, call: AbstractCustomVjp, values: _Values) -> None:
        self.call, self.values = call, values
        self.name, self.fwd_name, self.bwd_name = call.name, call.fwd_name, call.bwd_name
        self.symbolic_zeros, self.optimize_remat = call.symbolic_zeros, call.optimize_remat

    def run(self, *args: Any) -> list[Any]:
        refs = self.values.references(args)
        return [*self.call.run(*refs), *self.values.after(refs)]

    def fwd(self, primals: Sequence[Any], nonzero: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        """References among the residuals are handed on by their values at the end of fwd."""
        values, refs = self.values, self.values.references(primals)
        outs, residuals, pull = self.call.fwd(refs, nonzero)
        n, own = len(outs), [refs[k] for k in values.made]
        held = [any(x is r for r in own) for x in residuals]
        residuals = [get(x, access=None) if h else x for x, h in zip(residuals, held, strict=True)]

        def pull_values(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            pulled = list(pull([_reference(x) if h else x for x, h in zip(residuals, held, strict=True)], cts[:n]))
            for k, ct in zip(values.written, cts[n:], strict=True):
                pulled[k] = ct if pulled[k] is None else add(pulled[k], ct)
            return pulled

        return [*outs, *values.after(refs)], residuals, functools.update_wrapper(pull_values, pull)


def _custom(
    op: Op, bundle: str, adapted: Callable[..., Any], *args: Any, call_jaxpr: ClosedJaxpr, num_consts: int, **rest: Any
) -> list[Any]:
    """References that the trace around knows go to the rule as they are; for others it gets references made of their values."""
    made = [k for k, x in enumerate(args) if type(x) is Cell and x.ref is None]
    if not made:
        return op(*(operand(x, True) for x in args), call_jaxpr=pure(call_jaxpr), num_consts=num_consts, **rest)
    keep = tuple(type(x) is Cell and x.ref is not None for x in args)
    d = discharged(call_jaxpr, keep)
    values = _Values(rest["name"], tuple(k - num_consts for k in made), tuple(k - num_consts for k in d.written))
    rest[bundle] = adapted(rest[bundle], values)
    outs = op(*(operand(x, k) for x, k in zip(args, keep, strict=True)), call_jaxpr=d.program, num_consts=num_consts, **rest)
    n = len(call_jaxpr.jaxpr.outvars)
    for k, y in zip(d.written, outs[n:], strict=True):
        args[k].value = y
    return outs[:n]


def _custom_lin(*args: Any, num_res: int, **params: Any) -> list[Any]:
    """By a reference that lives in the program the result is linear in its value, the cotangent of which is what the rule gives for it."""
    if any(type(x) is Cell and x.ref is None for x in args[:num_res]):
        raise NotImplementedError(
            "a custom_vjp function, the residuals of which hold a reference to a mutable array that is differentiated by"
        )
    return custom_lin(*(operand(x, type(x) is Cell and x.ref is not None) for x in args), num_res=num_res, **params)


def _custom_vmap(*args: Any, call: ClosedJaxpr, **rest: Any) -> list[Any]:
    if any(type(x) is Cell for x in args):
        return evaluate_cells(call.jaxpr, call.consts, args)
    return custom_vmap_call(*args, call=pure(call), **rest)


# scan


def _scan(*args: Any, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **rest: Any) -> list[Any]:
    """A constant that is written becomes a carry; a scanned one is written row by row, as a further result."""
    n, c = num_consts, num_carry
    keep = keeps(jaxpr, args)
    d = discharged(jaxpr, keep)
    constants, rows = [k for k in d.written if k < n], [k for k in d.written if k >= n]
    results = len(jaxpr.jaxpr.outvars)
    moved = {k: results + j for j, k in enumerate(d.written)}
    order = [*(k for k in range(n) if k not in constants), *constants, *range(n, len(args))]
    outputs = (*(moved[k] for k in constants), *range(results), *(moved[k] for k in rows))
    m = len(constants)
    outs = scan(
        *(operand(args[k], keep[k]) for k in order), jaxpr=reordered(d.program, tuple(order), outputs), num_consts=n - m,
        num_carry=c + m, **rest,
    )  # fmt: skip
    first, own, last = split(outs, m, results)
    for k, y in zip((*constants, *rows), (*first, *last), strict=True):
        args[k].value = y
    return own


# while


@remembered
def _while_programs(
    body: ClosedJaxpr, condition: ClosedJaxpr, cond_from: tuple[int, ...], body_from: tuple[int, ...], n: int, m: int, written: Any
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Condition and body that carry the references written. `cond_from`, `body_from`: for each constant which written reference it is, or
    -1; `written`: for each written reference the body's outputs where its new value is."""
    w = len(written)
    carries = len(body.jaxpr.invars) - len(body_from)
    avals = [body.out_avals[k] for k in written]

    def inputs(closed: ClosedJaxpr, places: tuple[int, ...]) -> list[Any]:
        own = [a for a, p in zip(closed.in_avals, places, strict=False) if p < 0]
        return [*own, *avals, *closed.in_avals[len(places) :]]

    def given(args: Sequence[Any], places: tuple[int, ...]) -> list[Any]:
        own, values, rest = split(args, sum(p < 0 for p in places), w)
        left = iter(own)
        return [*(values[p] if p >= 0 else next(left) for p in places), *rest]

    def step(*args: Any) -> list[Any]:
        outs = evaluate(body, given(args, body_from))
        return [*(outs[k] for k in written), *outs[:carries]]

    test = program(lambda *args: evaluate(condition, given(args, cond_from)), inputs(condition, cond_from), condition)
    return test, program(step, inputs(body, body_from), body)


def _while(*args: Any, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int) -> list[Any]:
    conditions, constants, carries = split(args, cond_nconsts, body_nconsts)
    tests, steps = [*conditions, *carries], [*constants, *carries]
    cond_keep, body_keep = (False,) * len(tests), keeps(body_jaxpr, steps)  # as `hands_on` has it
    test, body = discharged(cond_jaxpr, cond_keep), discharged(body_jaxpr, body_keep)
    if test.written:
        raise NotImplementedError("while_loop: the condition function writes to a reference to a mutable array")
    cells = [steps[k] for k in body.written]
    results = len(carries)
    where = {id(c): j for j, c in enumerate(cells)}
    cond_from = tuple(where.get(id(x), -1) for x in conditions)
    body_from = tuple(where.get(id(x), -1) for x in constants)
    new_test, new_body = _while_programs(
        body.program, test.program, cond_from, body_from, cond_nconsts, body_nconsts, tuple(results + j for j in range(len(cells)))
    )
    outs = while_(
        *(operand(x, k) for x, k, p in zip(conditions, cond_keep, cond_from, strict=False) if p < 0),
        *(operand(x, k) for x, k, p in zip(constants, body_keep, body_from, strict=False) if p < 0),
        *(c.value for c in cells), *carries, cond_jaxpr=new_test, body_jaxpr=new_body, cond_nconsts=cond_from.count(-1),
        body_nconsts=body_from.count(-1),
    )  # fmt: skip
    for c, y in zip(cells, outs, strict=False):
        c.value = y
    return outs[len(cells) :]


# cond


def _with_all(d: Discharged, written: tuple[int, ...], results: int) -> ClosedJaxpr:
    """A branch that gives the values of all references that some branch writes."""
    mine = {k: results + j for j, k in enumerate(d.written)}

    def run(*args: Any) -> list[Any]:
        outs = evaluate(d.program, args)
        return [*outs[:results], *(outs[mine[k]] if k in mine else args[k] for k in written)]

    return program(run, d.program.in_avals, d.program)


@remembered
def _branches(first: ClosedJaxpr, branches: tuple[ClosedJaxpr, ...], keep: Any) -> tuple[tuple[ClosedJaxpr, ...], tuple[int, ...]]:
    each = [discharged(b, keep) for b in branches]
    written = tuple(sorted({k for d in each for k in d.written}))
    return tuple(_with_all(d, written, len(b.jaxpr.outvars)) for d, b in zip(each, branches, strict=True)), written


def _cond(index: Any, *args: Any, branches: tuple[ClosedJaxpr, ...]) -> list[Any]:
    keep = tuple(all(ks) for ks in zip(*(keeps(b, args) for b in branches), strict=True))
    pure_branches, written = _branches(branches[0], branches, keep)
    outs = cond(index, *(operand(x, k) for x, k in zip(args, keep, strict=True)), branches=pure_branches)
    n = len(branches[0].jaxpr.outvars)
    for k, y in zip(written, outs[n:], strict=True):
        args[k].value = y
    return outs[:n]


# Functions whose derivatives come from equations


def _implicit(op: Op, *args: Any, const_lengths: Any, jaxprs: Any) -> list[Any]:
    """References are among the constants. What the solver writes are further results of it; what the solver of the transposed equation
    writes, which runs in backward passes, is not kept."""
    constants = split(args, *const_lengths)[:-1]
    programs: list[ClosedJaxpr | None] = []
    keep: list[bool] = []
    written: list[Cell] = []
    for name, j, own in zip(jaxprs._fields, jaxprs, constants, strict=True):
        if j is None:
            programs.append(None)
            continue
        kept = keeps(j, [*own, *[None] * (len(j.jaxpr.invars) - len(own))])
        d = discharged(j, kept)
        keep.extend(kept[: len(own)])
        if j is jaxprs.solve:
            written = [own[k] for k in d.written] if name == "solve" else written
            programs.append(d.program)
        else:
            if d.written and name != "transpose_solve":
                raise NotImplementedError(f"{op.name}: {name} writes to a reference to a mutable array; only solvers may")
            programs.append(reordered(d.program, tuple(range(len(j.jaxpr.invars))), tuple(range(len(j.jaxpr.outvars)))))
    keep.extend([False] * (len(args) - len(keep)))
    outs = op(*(operand(x, k) for x, k in zip(args, keep, strict=True)), const_lengths=const_lengths, jaxprs=type(jaxprs)(*programs))
    n = len(jaxprs.solve.jaxpr.outvars)
    for c, y in zip(written, outs[n:], strict=True):
        c.value = y
    return outs[:n]


def _linear_call(*args: Any, callee: ClosedJaxpr, transpose: ClosedJaxpr, num_res: int) -> list[Any]:
    """References are among the residuals."""

    def values(j: ClosedJaxpr) -> ClosedJaxpr:
        d = discharged(j, (False,) * len(j.jaxpr.invars))
        if d.written:
            raise NotImplementedError("linear_call: a function that writes to a reference to a mutable array")
        return d.program

    return linear_call(*map(operand, args), callee=values(callee), transpose=values(transpose), num_res=num_res)


jit.discharge, remat.discharge = _jit, _remat
scan.discharge, while_.discharge, cond.discharge = _scan, _while, _cond
custom_jvp_call.discharge = functools.partial(_custom, custom_jvp_call, "jvp", ValuesJvp)
custom_vjp_call.discharge = functools.partial(_custom, custom_vjp_call, "fwd", ValuesVjp)
custom_vmap_call.discharge = _custom_vmap
custom_lin.discharge = _custom_lin
custom_linear_solve.discharge = functools.partial(_implicit, custom_linear_solve)
custom_root.discharge = functools.partial(_implicit, custom_root)
linear_call.discharge = _linear_call
