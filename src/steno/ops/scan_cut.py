"""The body of a scan cut in two: what is known, and the rest with what it needs of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from steno.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from steno.core.record import record
from steno.ops.control import chosen, evaluate, evaluate_into, program, split, union
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


def _hoist(closed: ClosedJaxpr, constants: int, wanted: Sequence[int]) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Takes the computation of those of the `wanted` outputs that depend on constants alone out of a body.

    `{ lambda c x . let a = sin c ; b = mul a x in (b, a) }` --> `{ lambda c . let a = sin c in (a,) }` and
    `{ lambda a c x . let b = mul a x in (b, a) }`."""
    j = closed.jaxpr
    unchanging: set[Any] = {*j.constvars, *j.invars[:constants]}
    maker: dict[Any, JaxprEqn] = {}
    for e in j.eqns:
        if not e.effects and all(type(a) is Literal or a in unchanging for a in e.invars):
            unchanging.update(e.outvars)
            maker.update((v, e) for v in e.outvars)
    out = {v for k in wanted if (v := j.outvars[k]) in maker}
    taken: set[JaxprEqn] = set()
    pending = [maker[v] for v in out]
    while pending:
        e = pending.pop()
        if e not in taken:
            taken.add(e)
            pending.extend(maker[a] for a in e.invars if a in maker)
    stay = [e for e in j.eqns if e not in taken]
    moved = [e for e in j.eqns if e in taken]
    used = {a for e in stay for a in e.invars if type(a) is not Literal}
    used.update(a for a in j.outvars if type(a) is not Literal)  # also outputs that are not wanted, as a carry's next value
    values = [v for e in moved for v in e.outvars if v in used]
    info = anonymous(j, j.debug_info.traced_for)
    before = Jaxpr(j.constvars, j.invars[:constants], values, moved, None, info)
    rest = Jaxpr(j.constvars, [*values, *j.invars], j.outvars, stay, None, info)
    return remove_dead(ClosedJaxpr(before, closed.consts)), ClosedJaxpr(rest, closed.consts)


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
    first_row, n_results = known_results
    before, known = _hoist(cut.known, constants, [r.position for r in cut.residuals if r.where == "out"])
    j = known.jaxpr
    n_before = len(before.jaxpr.outvars)
    outputs: list[Atom] = j.outvars[:n_results]
    place: dict[Any, tuple[str, int]] = {}  # what the second scan can have although the first does not keep it
    for where, variables in zip(("before", "constant", None, "array"), split(j.invars, n_before, constants, carries), strict=True):
        if where is not None:
            place.update((v, (where, k)) for k, v in enumerate(variables))
    place.update((v, ("row", k)) for k, v in enumerate(outputs[first_row:]) if type(v) is not Literal and v not in place)

    wanted = [j.invars[n_before + r.position] if r.where == "in" else j.outvars[r.position] for r in cut.residuals]
    later = _later(j, [v for v in wanted if v not in place], place, outputs)
    made = {v for e in later for v in e.outvars}
    read_later = [a for e in later for a in e.invars if type(a) is not Literal]
    leaves = dict.fromkeys(v for v in (*wanted, *read_later) if v not in made and v not in j.constvars)
    for v in leaves:
        if v not in place:
            place[v] = ("row", len(outputs) - first_row)
            outputs.append(v)
    used = {a for a in outputs if type(a) is not Literal}
    for e in reversed(j.eqns):
        if e.effects or not used.isdisjoint(e.outvars):
            used.update(a for a in e.invars if type(a) is not Literal)
    given = j.invars[n_before : n_before + constants]
    taken = tuple(v in used for v in given)
    invars = [*j.invars[:n_before], *chosen(given, taken), *j.invars[n_before + constants :]]
    consts = known.consts
    known = remove_dead(ClosedJaxpr(Jaxpr(j.constvars, invars, outputs, j.eqns, j.effects, j.debug_info), consts))

    fixed = [v for v in leaves if place[v][0] in ("constant", "before")]
    rows = [v for v in leaves if place[v][0] in ("array", "row")]
    inner = cut.unknown.in_avals[len(wanted) :]
    own_types = split(inner, *own)

    def second(*args: Any) -> list[Any]:
        same, own_constants, own_carries, residuals, own_rows = split(args, len(fixed), *own, len(rows))
        env: dict[Any, Any] = dict(zip((*j.constvars, *fixed, *rows), (*consts, *same, *residuals), strict=True))
        evaluate_into(env, later)
        return evaluate(cut.unknown, [*(env[v] for v in wanted), *own_constants, *own_carries, *own_rows])

    types = [*(v.aval for v in fixed), *own_types[0], *own_types[1], *(v.aval for v in rows), *own_types[2]]
    return Cut(
        before,
        known,
        program(second, types, cut.unknown),
        tuple(place[v] for v in fixed),
        tuple(place[v] for v in rows),
        taken,
        *map(tuple, rest),
    )


_CHEAP: Final = frozenset((
    "abs", "add", "add_any", "and", "broadcast_in_dim", "convert_element_type", "copy", "div", "eq", "ge", "gt", "imag", "integer_pow",
    "is_finite", "le", "lt", "max", "min", "mul", "ne", "neg", "not", "one_minus_square", "or", "real", "reshape", "select_n", "sign",
    "slice", "square", "squeeze", "stop_gradient", "sub", "transpose", "unchosen", "xor",
))  # fmt: skip
"""Ops that cost less than to write their result to memory and read it again."""
_WEIGHT: Final = {"div": 6, "integer_pow": 8}
_AGAIN: Final = 16
_ROW: Final = 64
"""So many operations, weighted, are computed again rather than a row of a residual kept, of so many elements and more, which goes to memory
and back."""
_LONGEST: Final = 100


def _later(j: Jaxpr, kept: Sequence[Any], place: dict[Any, Any], outputs: Sequence[Atom]) -> list[JaxprEqn]:
    """The equations, in order, that are better left to the second scan: cheap ones of values that it has anyway, which only the residuals
    `kept` need. A few may be computed by the first scan, too."""
    maker = {v: e for e in j.eqns for v in e.outvars}
    users: dict[Any, list[JaxprEqn]] = {}
    for e in j.eqns:
        for a in e.invars:
            if type(a) is not Literal:
                users.setdefault(a, []).append(e)
    results = {v for v in outputs if type(v) is not Literal}
    wanted = set(kept)
    position = {e: k for k, e in enumerate(j.eqns)}
    moved: set[JaxprEqn] = set()
    again: set[JaxprEqn] = set()  # those of them that the first scan needs

    def movable(v: Any, chain: set[JaxprEqn]) -> bool:
        e = maker.get(v)
        if e in chain:
            return True
        if e is None or e.op.name not in _CHEAP or v in results or len(chain) == _LONGEST:
            return False
        chain.add(e)
        return all(type(a) is Literal or a in place or a in wanted or movable(a, chain) for a in e.invars)

    for v in reversed(kept):
        chain: set[JaxprEqn] = set()
        if not movable(v, chain):
            continue
        both: set[JaxprEqn] = set()
        for e in sorted(chain, key=position.__getitem__, reverse=True):
            if any((u not in moved and u not in chain) or u in again or u in both for o in e.outvars for u in users.get(o, ())):
                both.add(e)
        weight = sum(_WEIGHT.get(e.op.name, 1) for e in both - again)
        if weight <= (_AGAIN if v.aval.size >= _ROW else 0):
            moved |= chain
            again |= both
    return [e for e in j.eqns if e in moved]


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
