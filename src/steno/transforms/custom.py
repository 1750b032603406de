"""Calls of functions that bring rules of their own: custom_jvp, custom_vjp.

A call is a bundle of functions of flat values. The current trace decides what becomes of it: evaluation runs the function, differentiation
its rule, vmap makes the bundle of batched functions and calls that under the trace below, and a recording trace records one equation that
holds the function's program and the bundle."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, final

from steno._native import ShapedArray, current_trace
from steno.core.errors import JAXTypeError
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, dce_jaxpr, eval_jaxpr
from steno.core.op import Op
from steno.core.refs import Ref
from steno.core.trace import Tracer, set_current_trace, trace_to_jaxpr
from steno.ops.structural import jit
from steno.transforms.batching import BatchTrace, Dims, batch_flat, batch_program, batch_with_dims, element_aval
from steno.transforms.forward import JVPTrace
from steno.transforms.linearize import LinearizeTrace
from steno.transforms.partial import PartialTrace
from steno.transforms.programs import Flags
from steno.transforms.rules import (
    Axis,
    Linear,
    Zero,
    as_value,
    is_differentiable,
    sum_over,
    tangent_aval,
    to_dim,
    typeof,
    zero_of,
)

Values = Sequence[Any]


class CustomRulesError(JAXTypeError):
    """A function with custom rules was differentiated by a value that is not among its arguments."""


# custom_jvp


class AbstractCustomJvp(ABC):
    """`run(*args) -> results`; `rule(primals, tangents) -> (results, tangents)`, where tangents may be `Zero`s."""

    __slots__ = ()
    name: str
    rule_name: str
    symbolic_zeros: bool

    @abstractmethod
    def run(self, *args: Any) -> list[Any]: ...

    @abstractmethod
    def rule(self, primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]: ...

    def __repr__(self) -> str:
        return self.rule_name


def call_custom_jvp(call: AbstractCustomJvp, args: Values) -> list[Any]:
    """Calls the function under the current trace."""
    trace = current_trace()
    if trace is None or trace.evaluates():
        return call.run(*args)
    if isinstance(trace, JVPTrace | LinearizeTrace):
        primals, tangents, any_nonzero = trace.split(args)
        if not any_nonzero:
            with set_current_trace(trace.parent):
                return call_custom_jvp(call, primals)
        with set_current_trace(trace.tangents if isinstance(trace, LinearizeTrace) else trace.parent):
            outs, out_tangents = call.rule(primals, tangents)
        if isinstance(trace, LinearizeTrace) and any(map(trace.tangents.is_unknown, outs)):
            raise TypeError(f"the custom_jvp rule of {call.name} gave a primal output that depends on the tangents")
        return [trace.join(y, t) for y, t in zip(outs, out_tangents, strict=True)]
    if isinstance(trace, BatchTrace):
        values, dims = trace.split(args)
        batched = BatchedJvp(call, trace.axis, tuple(dims), None, trace.tag)
        with set_current_trace(trace.parent):
            outs = call_custom_jvp(batched, values)
        assert batched.out_dims is not None
        return [trace.join(y, d) for y, d in zip(outs, batched.out_dims, strict=True)]
    if isinstance(trace, PartialTrace):
        if any(trace.is_unknown(x) for x in args):
            return call.run(*args)  # what is recorded here is linear and will be transposed
        with set_current_trace(trace.parent):
            return call_custom_jvp(call, args)
    closed, consts, args = _recorded(call.run, call.name, args)
    return custom_jvp_call(
        *consts, *args, call_jaxpr=closed, jvp=call, name=call.name, num_consts=len(consts), symbolic_zeros=call.symbolic_zeros
    )


def _recorded(run: Callable[..., list[Any]], name: str, args: Values) -> tuple[ClosedJaxpr, list[Any], list[Any]]:
    """The program of a function of these arguments; tracers it closes over become leading inputs, which are returned."""
    args = [as_value(x) for x in args]
    closed, consts = hoist_tracers(trace_to_jaxpr(run, [x.aval for x in args], DebugInfo("custom_jvp or custom_vjp", name)))
    return closed, consts, args


def hoist_tracers(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """Constants that are tracers or references become leading inputs, and are returned; arrays stay."""
    j = closed.jaxpr
    outer = [isinstance(c, Tracer | Ref) for c in closed.consts]
    if not any(outer):
        return closed, []
    hoisted = [v for v, o in zip(j.constvars, outer, strict=True) if o]
    kept = [(v, c) for v, c, o in zip(j.constvars, closed.consts, outer, strict=True) if not o]
    info, n = j.debug_info, len(hoisted)
    names = info.with_names(lambda: None if info.arg_names is None else ("",) * n + info.arg_names, lambda: info.result_paths)
    opened = Jaxpr([v for v, _ in kept], [*hoisted, *j.invars], j.outvars, j.eqns, j.effects, names)
    return ClosedJaxpr(opened, [c for _, c in kept]), [c for c, o in zip(closed.consts, outer, strict=True) if o]


@final
class BatchedJvp(AbstractCustomJvp):
    """A bundle for whole batches. `out_dims`: where the results' batch axes are, once known. `tag`: that of the map, whose values function
    and rule may refer to."""

    __slots__ = ("axis", "call", "dims", "name", "out_dims", "rule_name", "symbolic_zeros", "tag")

    def __init__(self, call: AbstractCustomJvp, axis: Axis, dims: Dims, out_dims: Dims | None, tag: object) -> None:
        self.call, self.axis, self.dims, self.out_dims, self.tag = call, axis, dims, out_dims, tag
        self.name, self.rule_name, self.symbolic_zeros = call.name, call.rule_name, call.symbolic_zeros

    def run(self, *args: Any) -> list[Any]:
        outs, dims = batch_flat(self.call.run, self.axis, args, self.dims, self.tag)
        if self.out_dims is None:
            self.out_dims = _settled(dims, self.dims)
        return _placed(self.name, outs, dims, self.out_dims, self.axis)

    def rule(self, primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]:
        nonzero = [type(t) is not Zero for t in tangents]
        n = len(primals)
        zeros = [Zero(element_aval(t.aval, d) if d is not None else t.aval) if type(t) is Zero else None
                 for t, d in zip(tangents, self.dims, strict=True)]  # fmt: skip
        out_zero: list[bool] = []

        def element(*xs: Any) -> list[Any]:
            moving = iter(xs[n:])
            outs, out_tangents = self.call.rule(xs[:n], [next(moving) if z is None else z for z in zeros])
            out_zero[:] = [type(t) is Zero for t in out_tangents]
            return [*outs, *(t for t in out_tangents if type(t) is not Zero)]

        given = [*primals, *(t for t, nz in zip(tangents, nonzero, strict=True) if nz)]
        given_dims = [*self.dims, *(d for d, nz in zip(self.dims, nonzero, strict=True) if nz)]
        values, dims = batch_flat(element, self.axis, given, given_dims, self.tag)
        m = len(out_zero)
        moving = iter(zip(values[m:], dims[m:], strict=True))
        pairs = [None if z else next(moving) for z in out_zero]
        if self.out_dims is None:
            of_tangents = [None if p is None else p[1] for p in pairs]
            self.out_dims = tuple(d if d is not None else None if t is None else 0 for d, t in zip(dims[:m], of_tangents, strict=True))
        check_count(self.name, m, len(self.out_dims))
        outs = _placed(self.name, values[:m], dims[:m], self.out_dims, self.axis)
        out_tangents = [
            zero_of(y) if p is None else _to(self.name, k, *p, w, self.axis)
            for k, (y, p, w) in enumerate(zip(outs, pairs, self.out_dims, strict=True))
        ]
        return outs, out_tangents


def _settled(out_dims: Sequence[int | None], in_dims: Dims) -> Dims:
    """Where the batch axes of a call's results are. Where a program is recorded and an argument is batched, all have one, so that a rule
    that runs later can give what the function gave."""
    trace = current_trace()
    forced = not (trace is None or trace.evaluates()) and any(d is not None for d in in_dims)
    return tuple(0 if d is None and forced else d for d in out_dims)


def _placed(name: str, outs: Values, dims: Sequence[int | None], wanted: Dims, axis: Axis) -> list[Any]:
    return [_to(name, k, y, d, w, axis) for k, (y, d, w) in enumerate(zip(outs, dims, wanted, strict=True))]


def _to(name: str, k: int, y: Any, dim: int | None, wanted: int | None, axis: Axis) -> Any:
    if wanted is None and dim is not None:
        raise ValueError(
            f"a custom rule of {name}: under vmap result {k} differs from element to element of the mapped axis {axis.name!r}, but the "
            "function's own does not"
        )
    return y if dim is None and wanted is None else to_dim(y, dim, wanted, axis.size)


def check_count(name: str, got: int, wanted: int) -> None:
    """TypeError unless a rule gave as many results as the function."""
    if got != wanted:
        raise TypeError(f"a custom rule of {name} must produce the {wanted} primal outputs that the function itself gives, but gave {got}")


def check_primals(name: str, outs: Values, avals: Sequence[ShapedArray]) -> None:
    """TypeError unless a rule gave results of the function's types."""
    check_count(name, len(outs), len(avals))
    for k, (y, a) in enumerate(zip(outs, avals, strict=True)):
        got = typeof(y)
        if (got.shape, got.dtype) != (a.shape, a.dtype):
            raise TypeError(
                f"a custom rule of {name} must produce primal outputs of the types that the function itself gives, but result {k} is of "
                f"type {got.str_short()} instead of {a.str_short()}"
            )


def _call_typ(*avals: ShapedArray, call_jaxpr: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    return call_jaxpr.out_avals


def _call_expand(*args: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *args)


def _call_partial_eval(trace: PartialTrace, unknown: Flags, *args: Any, **params: Any) -> list[Any]:
    """What is recorded is linear and will be transposed: the function itself, which the rules of transposition see through."""
    return _call_expand(*args, **params)


def _call_oracle(*args: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return interpret(call_jaxpr, args)


def _no_closure(kind: str, tangents: Values, num_consts: int) -> None:
    if any(type(t) is not Zero for t in tangents[:num_consts]):
        raise CustomRulesError(
            f"Detected differentiation of a {kind} function with respect to a closed-over value. That isn't supported because the custom "
            f"rule only says how to differentiate the function with respect to its arguments. Pass the value to the {kind} function as an "
            "argument, and let the rule return a derivative for it."
        )


def _custom_jvp_jvp(
    primals: Values, tangents: Values, *, call_jaxpr: ClosedJaxpr, jvp: AbstractCustomJvp, num_consts: int, **_: Any
) -> tuple[list[Any], list[Any]]:
    _no_closure("custom_jvp", tangents, num_consts)
    outs, out_tangents = jvp.rule(primals[num_consts:], tangents[num_consts:])
    check_primals(jvp.name, outs, call_jaxpr.out_avals)
    return outs, out_tangents


def _batched_program(call_jaxpr: ClosedJaxpr, axis: Axis, dims: Sequence[int | None]) -> tuple[ClosedJaxpr, Dims]:
    """The program on a batch, with its results batched as `_settled` says."""
    program, out_dims = batch_program(call_jaxpr, axis, dims)
    settled = _settled(out_dims, tuple(dims))
    if settled != out_dims:
        return batch_with_dims(call_jaxpr, axis, tuple(dims), False, tuple(d is None for d in out_dims))
    return program, out_dims


def _custom_jvp_batch(
    axis: Axis, args: Values, dims: Sequence[int | None], *, call_jaxpr: ClosedJaxpr, jvp: AbstractCustomJvp, num_consts: int, **rest: Any
) -> tuple[list[Any], list[int | None]]:
    program, out_dims = _batched_program(call_jaxpr, axis, dims)
    batched = BatchedJvp(jvp, axis, tuple(dims[num_consts:]), out_dims, None)
    return custom_jvp_call(*args, call_jaxpr=program, jvp=batched, num_consts=num_consts, **rest), list(out_dims)


@final
class SomeJvp(AbstractCustomJvp):
    """A bundle that gives some of another's results."""

    __slots__ = ("call", "kept", "name", "rule_name", "symbolic_zeros")

    def __init__(self, call: AbstractCustomJvp, kept: tuple[int, ...]) -> None:
        self.call, self.kept = call, kept
        self.name, self.rule_name, self.symbolic_zeros = call.name, call.rule_name, call.symbolic_zeros

    def run(self, *args: Any) -> list[Any]:
        outs = self.call.run(*args)
        return [outs[k] for k in self.kept]

    def rule(self, primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]:
        outs, out_tangents = self.call.rule(primals, tangents)
        return [outs[k] for k in self.kept], [out_tangents[k] for k in self.kept]


def _thin_call(bundle: str, some: Callable[..., Any], used: Sequence[bool], e: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """`dce` of a call whose parameter `bundle` has the rules: without the results that nobody uses. Rules read all operands."""
    if all(used) or e.effects:
        return [True] * len(e.invars), e
    if not any(used):
        return [False] * len(e.invars), None
    closed: ClosedJaxpr = e.params["call_jaxpr"]
    program = ClosedJaxpr(dce_jaxpr(closed.jaxpr, used, instantiate=True)[0], closed.consts)
    kept = tuple(k for k, u in enumerate(used) if u)
    params = e.params | {"call_jaxpr": program, bundle: some(e.params[bundle], kept)}
    return [True] * len(e.invars), e.replace(outvars=[e.outvars[k] for k in kept], params=params)


custom_jvp_call = Op(
    "custom_jvp_call",
    typ=_call_typ,
    oracle=_call_oracle,
    expand=_call_expand,
    multiple_results=True,
    jvp=_custom_jvp_jvp,
    batch=_custom_jvp_batch,
    partial_eval=_call_partial_eval,
    dce=functools.partial(_thin_call, "jvp", SomeJvp),
    effects=lambda *avals, call_jaxpr, **_: call_jaxpr.effects,
    subprograms=lambda params: (params["call_jaxpr"],),
    show=lambda p: {k: p[k] for k in ("name", "call_jaxpr", "jvp", "symbolic_zeros")},
)
"""A call of `call_jaxpr`; differentiated by `jvp`."""


# custom_vjp

Pull = Callable[[Values, Values], list[Any]]
"""(residuals, cotangents of the results, which may be `Zero`) --> a cotangent for each argument; None or `Zero`: zero."""


class AbstractCustomVjp(ABC):
    """`run(*args) -> results`; `fwd(primals, nonzero) -> (results, residuals, pull)`, all flat; `nonzero[k]`: argument k varies."""

    __slots__ = ()
    name: str
    fwd_name: str
    bwd_name: str
    symbolic_zeros: bool
    optimize_remat: bool

    @abstractmethod
    def run(self, *args: Any) -> list[Any]: ...

    @abstractmethod
    def fwd(self, primals: Values, nonzero: Sequence[bool]) -> tuple[list[Any], list[Any], Pull]: ...

    def __repr__(self) -> str:
        return self.fwd_name


def call_custom_vjp(call: AbstractCustomVjp, args: Values) -> list[Any]:
    """Calls the function under the current trace."""
    trace = current_trace()
    if trace is None or trace.evaluates():
        return call.run(*args)
    if isinstance(trace, JVPTrace | LinearizeTrace):
        primals, tangents, any_nonzero = trace.split(args)
        with set_current_trace(trace.parent):
            if not any_nonzero:
                return call_custom_vjp(call, primals)
            if isinstance(trace, JVPTrace) and trace.parent is None:
                _refuse_forward_mode()
        with set_current_trace(trace.tangents if isinstance(trace, LinearizeTrace) else trace.parent):
            outs, out_tangents = linear_part(call, primals, tangents)
        return [trace.join(y, t) for y, t in zip(outs, out_tangents, strict=True)]
    if isinstance(trace, BatchTrace):
        values, dims = trace.split(args)
        batched = BatchedVjp(call, trace.axis, tuple(dims), None, trace.tag)
        with set_current_trace(trace.parent):
            outs = call_custom_vjp(batched, values)
        assert batched.out_dims is not None
        return [trace.join(y, d) for y, d in zip(outs, batched.out_dims, strict=True)]
    if isinstance(trace, PartialTrace):
        if any(trace.is_unknown(x) for x in args):
            return call.run(*args)  # what is recorded here is linear and will be transposed
        with set_current_trace(trace.parent):
            return call_custom_vjp(call, args)
    closed, consts, args = _recorded(call.run, call.name, args)
    return custom_vjp_call(
        *consts, *args, call_jaxpr=closed, fwd=call, name=call.name, num_consts=len(consts), symbolic_zeros=call.symbolic_zeros
    )


def linear_part(call: AbstractCustomVjp, primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]:
    """Runs fwd; the results' tangents are an op that can only be transposed, which runs bwd."""
    nonzero = tuple(type(t) is not Zero for t in tangents)
    outs, residuals, pull = _thinnable_fwd(call, primals, nonzero) if call.optimize_remat else call.fwd(primals, nonzero)
    avals = [tangent_aval(typeof(y)) for y in outs]
    varying = tuple(is_differentiable(a) for a in avals)
    moving = iter(
        custom_lin(
            *residuals,
            *(t for t in tangents if type(t) is not Zero),
            bwd=pull,
            num_res=len(residuals),
            nonzero=nonzero,
            out_avals=tuple(avals),
            varying=varying,
        )
    )
    return outs, [next(moving) if v else Zero(a) for a, v in zip(avals, varying, strict=True)]


def _thinnable_fwd(call: AbstractCustomVjp, primals: Values, nonzero: Sequence[bool]) -> tuple[list[Any], list[Any], Pull]:
    """`call.fwd`, as one op that becomes the function itself where nobody needs the residuals."""
    trace = current_trace()
    trace = trace.parent if isinstance(trace, PartialTrace) else trace
    if trace is None or trace.evaluates():
        return call.fwd(primals, nonzero)
    count, pull = 0, None

    def run(*xs: Any) -> list[Any]:
        nonlocal count, pull
        outs, residuals, pull = call.fwd(xs, nonzero)
        count = len(outs)
        return [*outs, *residuals]

    primals = [as_value(x) for x in primals]
    avals = [x.aval for x in primals]
    fwd, of_fwd = hoist_tracers(trace_to_jaxpr(run, avals, DebugInfo("custom_vjp fwd", call.fwd_name)))
    fun, of_fun = hoist_tracers(trace_to_jaxpr(call.run, avals, DebugInfo("custom_vjp", call.name)))
    values = custom_vjp_fwd(*of_fwd, *of_fun, *primals, fwd=fwd, fun=fun, num_consts=(len(of_fwd), len(of_fun)))
    check_primals(call.name, values[:count], fun.out_avals)
    assert pull is not None
    return values[:count], values[count:], pull


def _operands(args: Values, num_consts: tuple[int, int]) -> tuple[list[Any], list[Any]]:
    """Of the operands of `custom_vjp_fwd` those of `fwd` and those of `fun`."""
    n, m = num_consts
    return [*args[:n], *args[n + m :]], [*args[n : n + m], *args[n + m :]]


def _fwd_dce(used: Sequence[bool], e: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    fun, (n, m) = e.params["fun"], e.params["num_consts"]
    count = len(fun.out_avals)
    if any(used[count:]):
        return [True] * len(e.invars), e
    _, operands = _operands(e.invars, (n, m))
    thin = e.replace(op=jit, invars=operands, outvars=e.outvars[:count], params={"jaxpr": fun, "name": fun.jaxpr.debug_info.fun})
    return [False] * n + [True] * (len(e.invars) - n), thin


custom_vjp_fwd = Op(
    "custom_vjp_fwd",
    typ=lambda *avals, fwd, **_: fwd.out_avals,
    oracle=lambda *args, fwd, num_consts, **_: interpret(fwd, _operands(args, num_consts)[0]),
    expand=lambda *args, fwd, num_consts, **_: eval_jaxpr(fwd.jaxpr, fwd.consts, *_operands(args, num_consts)[0]),
    multiple_results=True,
    dce=_fwd_dce,
    effects=lambda *avals, fwd, **_: fwd.effects,
    subprograms=lambda params: (params["fwd"],),
)
"""The results and residuals of the program `fwd`; the results alone are those of `fun`."""


@final
class BatchedVjp(AbstractCustomVjp):
    """A bundle for whole batches; see `BatchedJvp`."""

    __slots__ = ("axis", "bwd_name", "call", "dims", "fwd_name", "name", "optimize_remat", "out_dims", "symbolic_zeros", "tag")

    def __init__(self, call: AbstractCustomVjp, axis: Axis, dims: Dims, out_dims: Dims | None, tag: object) -> None:
        self.call, self.axis, self.dims, self.out_dims, self.tag = call, axis, dims, out_dims, tag
        self.name, self.fwd_name, self.bwd_name, self.symbolic_zeros = call.name, call.fwd_name, call.bwd_name, call.symbolic_zeros
        self.optimize_remat = call.optimize_remat

    def run(self, *args: Any) -> list[Any]:
        outs, dims = batch_flat(self.call.run, self.axis, args, self.dims, self.tag)
        if self.out_dims is None:
            self.out_dims = _settled(dims, self.dims)
        return _placed(self.name, outs, dims, self.out_dims, self.axis)

    def fwd(self, primals: Values, nonzero: Sequence[bool]) -> tuple[list[Any], list[Any], Pull]:
        axis, tag, count, pull = self.axis, self.tag, 0, None

        def element(*xs: Any) -> list[Any]:
            nonlocal count, pull
            outs, residuals, pull = self.call.fwd(xs, nonzero)
            count = len(outs)
            return [*outs, *residuals]

        values, dims = batch_flat(element, axis, primals, self.dims, tag)
        if self.out_dims is None:
            self.out_dims = tuple(dims[:count])
        check_count(self.name, count, len(self.out_dims))
        outs = _placed(self.name, values[:count], dims[:count], self.out_dims, axis)
        out_dims, residual_dims, in_dims = self.out_dims, dims[count:], self.dims
        one_pull: Any = pull

        def batched_pull(residuals: Values, cts: Values) -> list[Any]:
            given = [ct for ct in cts if type(ct) is not Zero]
            given_dims = [d for ct, d in zip(cts, out_dims or (), strict=True) if type(ct) is not Zero]
            zeros = [
                Zero(element_aval(ct.aval, d) if d is not None else ct.aval) if type(ct) is Zero else None
                for ct, d in zip(cts, out_dims or (), strict=True)
            ]
            kinds: list[Any] = []

            def element_pull(*xs: Any) -> list[Any]:
                moving = iter(xs[len(residuals) :])
                out = one_pull(xs[: len(residuals)], [next(moving) if z is None else z for z in zeros])
                kinds[:] = [None if ct is None or type(ct) is Zero else True for ct in out]
                return [ct for ct, kind in zip(out, kinds, strict=True) if kind]

            pulled, pulled_dims = batch_flat(element_pull, axis, [*residuals, *given], [*residual_dims, *given_dims], tag)
            moving = iter(zip(pulled, pulled_dims, strict=True))
            return [None if kind is None else _summed(*next(moving), d, axis) for kind, d in zip(kinds, in_dims, strict=True)]

        return outs, values[count:], batched_pull


def _summed(ct: Any, dim: int | None, wanted: int | None, axis: Axis) -> Any:
    """The cotangent of an argument: of one that all elements share the sum over them."""
    if wanted is not None:
        return to_dim(ct, dim, wanted, axis.size)
    return ct if dim is None else sum_over(ct, (dim,))


def _custom_vjp_jvp(
    primals: Values, tangents: Values, *, call_jaxpr: ClosedJaxpr, fwd: AbstractCustomVjp, num_consts: int, **_: Any
) -> tuple[list[Any], list[Any]]:
    _no_closure("custom_vjp", tangents, num_consts)
    outs, out_tangents = linear_part(fwd, primals[num_consts:], tangents[num_consts:])
    check_primals(fwd.name, outs, call_jaxpr.out_avals)
    return outs, out_tangents


def _custom_vjp_batch(
    axis: Axis, args: Values, dims: Sequence[int | None], *, call_jaxpr: ClosedJaxpr, fwd: AbstractCustomVjp, num_consts: int, **rest: Any
) -> tuple[list[Any], list[int | None]]:
    program, out_dims = _batched_program(call_jaxpr, axis, dims)
    batched = BatchedVjp(fwd, axis, tuple(dims[num_consts:]), out_dims, None)
    return custom_vjp_call(*args, call_jaxpr=program, fwd=batched, num_consts=num_consts, **rest), list(out_dims)


@final
class SomeVjp(AbstractCustomVjp):
    """A bundle that gives some of another's results."""

    __slots__ = ("bwd_name", "call", "fwd_name", "kept", "name", "optimize_remat", "symbolic_zeros")

    def __init__(self, call: AbstractCustomVjp, kept: tuple[int, ...]) -> None:
        self.call, self.kept = call, kept
        self.name, self.fwd_name, self.bwd_name = call.name, call.fwd_name, call.bwd_name
        self.symbolic_zeros, self.optimize_remat = call.symbolic_zeros, call.optimize_remat

    def run(self, *args: Any) -> list[Any]:
        outs = self.call.run(*args)
        return [outs[k] for k in self.kept]

    def fwd(self, primals: Values, nonzero: Sequence[bool]) -> tuple[list[Any], list[Any], Pull]:
        outs, residuals, pull = self.call.fwd(primals, nonzero)
        avals = [tangent_aval(typeof(y)) for y in outs]

        def pull_some(residuals: Values, cts: Values) -> list[Any]:
            every: list[Any] = [Zero(a) for a in avals]
            for k, ct in zip(self.kept, cts, strict=True):
                every[k] = ct
            return pull(residuals, every)

        return [outs[k] for k in self.kept], residuals, functools.update_wrapper(pull_some, pull)


custom_vjp_call = Op(
    "custom_vjp_call",
    typ=_call_typ,
    oracle=_call_oracle,
    expand=_call_expand,
    multiple_results=True,
    jvp=_custom_vjp_jvp,
    batch=_custom_vjp_batch,
    partial_eval=_call_partial_eval,
    dce=functools.partial(_thin_call, "fwd", SomeVjp),
    effects=lambda *avals, call_jaxpr, **_: call_jaxpr.effects,
    subprograms=lambda params: (params["call_jaxpr"],),
    show=lambda p: {
        "name": p["name"],
        "bwd": p["fwd"].bwd_name,
        "call_jaxpr": p["call_jaxpr"],
        "fwd": p["fwd"].fwd_name,
        "symbolic_zeros": p["symbolic_zeros"],
    },
)
"""A call of `call_jaxpr`; differentiated by the bundle `fwd`."""


def _refuse_forward_mode(*args: Any, **params: Any) -> NoReturn:
    raise TypeError(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function. It has a rule for the backward pass alone; use custom_jvp for "
        "functions that are to be differentiated in forward mode too."
    )


def _custom_lin_typ(*avals: ShapedArray, out_avals: tuple[ShapedArray, ...], varying: Flags, **_: Any) -> list[ShapedArray]:
    return [a for a, v in zip(out_avals, varying, strict=True) if v]


def _custom_lin_transpose(
    cts: Values, *args: Any, bwd: Pull, num_res: int, nonzero: Flags, out_avals: tuple[ShapedArray, ...], varying: Flags
) -> list[Any]:
    moving = iter(cts)
    out_cts = [next(moving) if v else Zero(a) for a, v in zip(out_avals, varying, strict=True)]
    pulled = bwd(args[:num_res], out_cts)
    linear = [ct for ct, nz in zip(pulled, nonzero, strict=True) if nz]
    return [None] * num_res + [_of_type(ct, x) for ct, x in zip(linear, args[num_res:], strict=True)]


def _of_type(ct: Any, x: Linear) -> Any:
    return Zero(x.aval) if ct is None else ct


custom_lin = Op(
    "custom_lin",
    typ=_custom_lin_typ,
    expand=_refuse_forward_mode,
    multiple_results=True,
    transpose=_custom_lin_transpose,
    show=lambda p: {"bwd": getattr(p["bwd"], "__name__", "bwd"), "num_res": p["num_res"]},
)
"""The tangents of a custom_vjp call's results, of residuals and the arguments' tangents. It can only be transposed."""
