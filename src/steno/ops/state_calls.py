"""Discharge of ops with programs inside: the values of references go in and come out, as carries of loops, results of calls and branches.

References that a program only hands on to functions with derivatives of their own stay references (`handed_on`)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from steno.core.jaxpr import ClosedJaxpr
from steno.core.op import Op
from steno.ops.cond import cond
from steno.ops.control import evaluate, program, reordered, split
from steno.ops.implicit import custom_linear_solve, custom_root
from steno.ops.scan import scan
from steno.ops.structural import jit
from steno.ops.while_loop import while_
from steno.transforms.custom import custom_jvp_call, custom_lin, custom_vjp_call
from steno.transforms.custom_batch import custom_vmap_call
from steno.transforms.custom_linear import linear_call
from steno.transforms.discharge import Cell, Discharged, discharged, evaluate_cells, keeps, operand, pure
from steno.transforms.programs import remembered
from steno.transforms.remat import remat

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


def _custom(op: Op, *args: Any, call_jaxpr: ClosedJaxpr, **rest: Any) -> list[Any]:
    """References that the trace around knows go to the rule as they are; a program of values alone is inlined."""
    cells = [x for x in args if type(x) is Cell]
    if any(x.ref is None for x in cells):
        return evaluate_cells(call_jaxpr.jaxpr, call_jaxpr.consts, args)
    return op(*(operand(x, True) for x in args), call_jaxpr=pure(call_jaxpr), **rest)


def _custom_lin(*args: Any, **params: Any) -> list[Any]:
    if any(type(x) is Cell and x.ref is None for x in args):
        raise NotImplementedError("a custom_vjp function that is differentiated by a reference to a mutable array")
    return custom_lin(*(operand(x, True) for x in args), **params)


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
    cond_keep, body_keep = keeps(cond_jaxpr, tests), keeps(body_jaxpr, steps)
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
    keep = tuple(any(ks) for ks in zip(*(keeps(b, args) for b in branches), strict=True))
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
custom_jvp_call.discharge = functools.partial(_custom, custom_jvp_call)
custom_vjp_call.discharge = functools.partial(_custom, custom_vjp_call)
custom_vmap_call.discharge = _custom_vmap
custom_lin.discharge = _custom_lin
custom_linear_solve.discharge = functools.partial(_implicit, custom_linear_solve)
custom_root.discharge = functools.partial(_implicit, custom_root)
linear_call.discharge = _linear_call
