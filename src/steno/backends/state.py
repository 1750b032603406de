"""Programs with references to mutable arrays: the backend's programs take values in and give new ones back, in memory taken over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from steno import backends
from steno._native import ShapedArray
from steno.backends import finite
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, eval_jaxpr
from steno.core.op import Op
from steno.core.refs import Ref, is_ref
from steno.core.trace import trace_to_jaxpr
from steno.transforms.discharge import Discharged, discharged


def single_op(op: Op, avals: Sequence[ShapedArray], params: dict[str, Any]) -> ClosedJaxpr:
    """The program of one equation."""
    types = op.types(tuple(avals), params)
    invars = [Var(a) for a in avals]
    outvars = [Var(t) for t in (types if op.multiple_results else [types])]
    effects = op.effects(*avals, **params) if op.effects is not None else frozenset()
    return ClosedJaxpr(Jaxpr([], invars, outvars, [JaxprEqn(op, list(invars), outvars, params, frozenset(effects))]), [])


@final
class StatefulExecutable:
    """A program with references among its inputs (those captured come first) or results. The memory of those it writes is handed to the
    run, so that a write costs what is written; it is copied if the array that was read from the reference still lives."""

    __slots__ = ("_captured", "_closed", "_compile", "_discharged", "_merged", "_results", "_written", "as_produced", "inner")

    def __init__(self, compile: Callable[..., Any], inner: Any, closed: ClosedJaxpr, captured: Sequence[Ref], d: Discharged) -> None:
        self.inner, self._closed, self._captured, self._discharged = inner, closed, captured, d
        self._compile = compile
        self._merged: dict[tuple[int, ...], Any] = {}
        self._results = len(d.out_refs)
        self._written = frozenset(d.written)
        self.as_produced = False

    def run(self, args: Sequence[Any], donated: Iterable[int] = ()) -> list[Any]:
        n = len(self._captured)
        operands = [*self._captured, *args]
        refs = [id(x) for x in operands if type(x) is Ref]
        if len({*refs}) < len(refs):
            return self._run_merged(operands)
        values = [x.value if type(x) is Ref else x for x in operands]
        if finite.watching():  # the values are needed again if something turns up, and the references keep them then
            outs = self.inner.run(values)
            self._check(values, outs)
        else:
            outs = self.inner.run(values, self._written.union(n + k for k in donated) if donated else self._written)
        for k, y in zip(self._discharged.written, outs[self._results :], strict=True):
            operands[k].value = y
        types = [v.aval for v in self._closed.jaxpr.outvars]
        return [Ref(y, a) if r else y for y, r, a in zip(outs, self._discharged.out_refs, types, strict=False)]

    def _check(self, values: Sequence[Any], outs: Sequence[Any]) -> None:
        program, n = self._discharged.program, len(self._captured)

        def names() -> list[str]:
            return [self._closed.debug_info.arg_name(k - n) if k >= n else "a reference that is closed over" for k in range(len(values))]

        finite.check_program(program, values, outs, self._closed.debug_info.func_name, names, backends.current().eager)

    def _run_merged(self, operands: Sequence[Any]) -> list[Any]:
        """The same reference several times, as condition and body of a loop may read it: a program with one input for it."""
        first: dict[int, int] = {}
        places = tuple(first.setdefault(id(x), k) if type(x) is Ref else k for k, x in enumerate(operands))
        distinct = sorted({*places})
        found = self._merged.get(places)
        if found is None:
            closed, at = self._closed, [distinct.index(p) for p in places]

            def run(*xs: Any) -> list[Any]:
                return eval_jaxpr(closed.jaxpr, closed.consts, *(xs[k] for k in at))

            merged = trace_to_jaxpr(run, [closed.in_avals[k] for k in distinct], closed.debug_info)
            found = self._merged[places] = compile_stateful(self._compile, merged, frozenset())
        return found.run([operands[k] for k in distinct])

    @property
    def compiled(self) -> Any:
        return getattr(self.inner, "compiled", None)

    def as_text(self, level: str = "loops") -> str:
        return self.inner.as_text(level)


def compile_stateful(compile: Callable[..., Any], closed: ClosedJaxpr, donated: frozenset[int]) -> Any:
    """The executable of a program that works on references: that of a program of values, if they live and die in it."""
    closed, captured = _refs_to_inputs(closed)
    d = discharged(closed, (False,) * len(closed.jaxpr.invars))
    n = len(captured)
    inner = compile(d.program, donated=frozenset(d.written).union(n + k for k in donated))
    return StatefulExecutable(compile, inner, closed, captured, d) if any(map(is_ref, closed.jaxpr.invars)) or any(d.out_refs) else inner


def _refs_to_inputs(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Ref]]:
    """References among the constants become leading inputs."""
    j = closed.jaxpr
    refs = [(v, c) for v, c in zip(j.constvars, closed.consts, strict=True) if is_ref(v)]
    if not refs:
        return closed, []
    rest = [(v, c) for v, c in zip(j.constvars, closed.consts, strict=True) if not is_ref(v)]
    opened = Jaxpr([v for v, _ in rest], [*(v for v, _ in refs), *j.invars], j.outvars, j.eqns, j.effects, j.debug_info)
    return ClosedJaxpr(opened, [c for _, c in rest]), [c for _, c in refs]
