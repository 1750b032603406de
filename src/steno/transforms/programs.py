"""What transformations of whole programs share: results remembered on the program, dead code, residuals."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from steno._native import config_token, global_config_token
from steno.core import source
from steno.core.jaxpr import Atom, ClosedJaxpr, DebugInfo, Jaxpr, Literal, Var, dce_jaxpr
from steno.core.record import record
from steno.core.trace import JaxprTrace, JitTracer
from steno.transforms.axes import axis_env

Flags = tuple[bool, ...]


class _Logging(threading.local):
    on: bool = False


logging: Final = _Logging()
"""Whether the backward passes of this thread are to record what rules log."""


def remembered(transform: Callable[..., Any]) -> Callable[..., Any]:
    """`transform(closed, *key)` is computed once for each program, key, configuration, axis environment and state of `logging`. The key is
    hashable."""

    @functools.wraps(transform)
    def call(closed: ClosedJaxpr, *key: Any) -> Any:
        table = closed.__dict__.setdefault("transformed", {})
        full = (transform, key, global_config_token(), config_token(), axis_env(), logging.on)
        found = table.get(full)
        if found is None:
            place = source.swap_place(None)  # equations of the program come from where they came from, not from where it is called
            try:
                found = table[full] = transform(closed, *key)
            finally:
                source.swap_place(place)
        return found

    return call


def flags(value: bool | Sequence[bool], count: int) -> Flags:
    """One bool for all, or one for each."""
    return (value,) * count if isinstance(value, bool) else tuple(value)


def anonymous(jaxpr: Jaxpr, what: str) -> DebugInfo:
    """Debug information of a program derived from another: the function is the same, the arguments have no names."""
    return DebugInfo(what, jaxpr.debug_info.fun)


def remove_dead(closed: ClosedJaxpr, keep_inputs: bool = True) -> ClosedJaxpr:
    """The program without equations and constants that no result needs."""
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=keep_inputs)
    used: set[Any] = {a for a in jaxpr.outvars if type(a) is not Literal}
    for e in jaxpr.eqns:
        used.update(a for a in e.invars if type(a) is not Literal)
    kept = [(v, c) for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True) if v in used]
    jaxpr = jaxpr.replace(constvars=[v for v, _ in kept])
    return ClosedJaxpr(jaxpr, [c for _, c in kept])


@final
@record(frozen=True)
class Residual:
    """Where a value that the known program hands on comes from: `("in", k)` an input of it, `("out", k)` an output."""

    where: str
    position: int


@final
@record(frozen=True)
class Split:
    """A program cut in two.

    known     what can be computed first: outputs are the known results, then residuals that are neither inputs nor results
    unknown   the rest: inputs are the residuals, then its own
    residuals where the residuals are found
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    residuals: tuple[Residual, ...]

    def residual_values(self, known_inputs: Sequence[Any], known_outputs: Sequence[Any]) -> list[Any]:
        return [(known_inputs if r.where == "in" else known_outputs)[r.position] for r in self.residuals]


def split_program(outer: JaxprTrace, known_outs: Sequence[Any], unknown: ClosedJaxpr) -> Split:
    """Finishes the trace of the known program. Constants of `unknown` that are values of `outer` become residuals."""
    unknown = remove_dead(unknown)
    out_atoms: list[Atom] = [y.atom if type(y) is JitTracer and y._trace is outer else outer.lift(y) for y in known_outs]
    inputs: dict[Any, int] = {v: k for k, v in enumerate(outer.invars)}
    outputs: dict[Any, int] = {a: k for k, a in reversed(list(enumerate(out_atoms))) if type(a) is not Literal}
    residuals: list[Residual] = []
    extra: list[Any] = []
    residual_vars: list[Var] = []
    constvars: list[Var] = []
    consts: list[Any] = []
    for v, c in zip(unknown.jaxpr.constvars, unknown.consts, strict=True):
        if not (type(c) is JitTracer and c._trace is outer):
            constvars.append(v)
            consts.append(c)
            continue
        residual_vars.append(v)
        at = inputs.get(c.atom)
        if at is not None:
            residuals.append(Residual("in", at))
            continue
        at = outputs.get(c.atom)
        if at is None:
            at = outputs[c.atom] = len(known_outs) + len(extra)
            extra.append(c)
        residuals.append(Residual("out", at))
    j = unknown.jaxpr
    opened = Jaxpr(constvars, [*residual_vars, *j.invars], j.outvars, j.eqns, j.effects, j.debug_info)
    known = remove_dead(outer.finish([*known_outs, *extra]))
    return Split(known, ClosedJaxpr(opened, consts), tuple(residuals))


NO_PROGRAM: Final = ClosedJaxpr(Jaxpr((), (), (), ()), ())
