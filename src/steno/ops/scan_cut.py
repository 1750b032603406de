"""The body of a scan cut in two: what is known, and the rest with what it needs of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from steno.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from steno.core.record import record
from steno.ops.control import chosen, reordered, split, union
from steno.transforms.linearize import linearize_jaxpr
from steno.transforms.partial import partial_eval_jaxpr
from steno.transforms.programs import Flags, Split, anonymous, remembered, remove_dead


@final
@record(frozen=True)
class Cut:
    """A scan as two scans. Residuals pass from one to the other row by row only if they must: what is the same in all iterations is
    computed before both, and what is a row of an array that is there anyway is read from that.

    before        constants --> values that are the same in all iterations
    known         values of `before`, some constants; carries; rows --> carries, rows, rows of residuals
    rest          residuals that are the same in all iterations, constants; carries; residuals of this iteration, rows --> carries, rows
    fixed         where the former residuals are found: ("constant", k) or ("before", k)
    rows          where the latter are found: ("array", k) of the known operands, or ("row", k) of the known scan's results
    constants     which constants the known scan takes
    carries_rest, rows_rest    which carries and which rows the second scan gives
    """

    before: ClosedJaxpr
    known: ClosedJaxpr
    rest: ClosedJaxpr
    fixed: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, int], ...]
    constants: Flags
    carries_rest: Flags
    rows_rest: Flags


def _hoist(closed: ClosedJaxpr, constants: int, wanted: Sequence[int]) -> tuple[ClosedJaxpr, ClosedJaxpr, dict[int, int]]:
    """Takes the computation of those of the `wanted` outputs that depend on constants alone out of a body.

    `{ lambda c x . let a = sin c ; b = mul a x in (b, a) }` --> `{ lambda c . let a = sin c in (a,) }` and
    `{ lambda a c x . let b = mul a x in (b, a) }`. Also returns which outputs are values of the first program, and which of them."""
    j = closed.jaxpr
    unchanging: set[Any] = {*j.constvars, *j.invars[:constants]}
    maker: dict[Any, JaxprEqn] = {}
    for e in j.eqns:
        if not e.effects and all(type(a) is Literal or a in unchanging for a in e.invars):
            unchanging.update(e.outvars)
            maker.update((v, e) for v in e.outvars)
    out = {k: v for k in wanted if (v := j.outvars[k]) in maker}
    taken: set[JaxprEqn] = set()
    pending = [maker[v] for v in out.values()]
    while pending:
        e = pending.pop()
        if e not in taken:
            taken.add(e)
            pending.extend(maker[a] for a in e.invars if a in maker)
    stay = [e for e in j.eqns if e not in taken]
    moved = [e for e in j.eqns if e in taken]
    used = {a for e in stay for a in e.invars if type(a) is not Literal} | set(out.values())
    values = [v for e in moved for v in e.outvars if v in used]
    info = anonymous(j, j.debug_info.traced_for)
    before = Jaxpr(j.constvars, j.invars[:constants], values, moved, None, info)
    rest = Jaxpr(j.constvars, [*values, *j.invars], j.outvars, stay, None, info)
    places = {v: k for k, v in enumerate(values)}
    return remove_dead(ClosedJaxpr(before, closed.consts)), ClosedJaxpr(rest, closed.consts), {k: places[v] for k, v in out.items()}


def _cut(
    cut: Split,
    known_inputs: tuple[int, int],
    known_results: tuple[int, int],
    own: tuple[int, int],
    rest: tuple[Sequence[bool], Sequence[bool]],
) -> Cut:
    """How many constants and carries the known program takes, how many carries and results it gives, how many constants and carries the
    second program takes after the residuals, and which carries and rows that gives."""
    constants, carries = known_inputs
    first_row, results = known_results
    before, known, hoisted = _hoist(cut.known, constants, [r.position for r in cut.residuals if r.where == "out"])
    j = known.jaxpr
    before_values = len(before.jaxpr.outvars)
    carried = j.invars[before_values + constants :]
    outputs: list[Atom] = j.outvars[:results]
    sources: list[tuple[str, int]] = []
    for r in cut.residuals:
        if r.where == "in" and r.position < constants:
            sources.append(("constant", r.position))
        elif r.where == "in" and r.position >= constants + carries:
            sources.append(("array", r.position - constants - carries))
        elif r.where == "out" and r.position in hoisted:
            sources.append(("before", hoisted[r.position]))
        else:
            v = carried[r.position - constants] if r.where == "in" else j.outvars[r.position]
            at = next((k for k in range(first_row, len(outputs)) if outputs[k] is v), len(outputs))
            if at == len(outputs):
                outputs.append(v)
            sources.append(("row", at - first_row))
    used = {a for e in j.eqns for a in e.invars if type(a) is not Literal} | {a for a in outputs if type(a) is not Literal}
    mine = j.invars[before_values : before_values + constants]
    taken = tuple(v in used for v in mine)
    invars = [*j.invars[:before_values], *chosen(mine, taken), *carried]
    known = remove_dead(ClosedJaxpr(Jaxpr(j.constvars, invars, outputs, j.eqns, j.effects, j.debug_info), known.consts))
    fixed = [k for k, (where, _) in enumerate(sources) if where in ("constant", "before")]
    rows = [k for k, (where, _) in enumerate(sources) if where in ("array", "row")]
    own_constants, own_carries, own_rows = split(range(len(sources), len(cut.unknown.jaxpr.invars)), *own)
    order = (*fixed, *own_constants, *own_carries, *rows, *own_rows)
    second = reordered(cut.unknown, order, tuple(range(len(cut.unknown.jaxpr.outvars))))
    return Cut(before, known, second, tuple(sources[k] for k in fixed), tuple(sources[k] for k in rows), taken, *map(tuple, rest))


@remembered
def linearized(closed: ClosedJaxpr, n: int, c: int, nonzero: Flags) -> Cut:
    """The known scan gives all results; the second one takes and gives tangents, those of operands and results that have any."""
    constants, nz, arrays = split(nonzero, n, c)
    outs = len(closed.jaxpr.outvars)
    while True:
        found = linearize_jaxpr(closed, [*constants, *nz, *arrays], [*nz, *[False] * (outs - c)])
        if union(nz, found.out_nonzero[:c]) == nz:
            break
        nz = union(nz, found.out_nonzero[:c])
    return _cut(found.split, (n, c), (c, outs), (sum(constants), sum(nz)), (nz, found.out_nonzero[c:]))


@remembered
def partly_evaluated(closed: ClosedJaxpr, n: int, c: int, unknown: Flags) -> Cut:
    """The known scan takes the known operands, but for carries that do not stay known."""
    constants, uk, arrays = split(unknown, n, c)
    outs = len(closed.jaxpr.outvars)
    while True:
        found = partial_eval_jaxpr(closed, [*constants, *uk, *arrays], [*uk, *[False] * (outs - c)])
        if union(uk, found.out_unknown[:c]) == uk:
            break
        uk = union(uk, found.out_unknown[:c])
    known = c - sum(uk)
    results = (known, outs - sum(found.out_unknown))
    return _cut(found.split, (n - sum(constants), known), results, (sum(constants), sum(uk)), (uk, found.out_unknown[c:]))
