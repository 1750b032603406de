"""Taylor-mode derivatives: functions of truncated power series.

A value x(t) = x[0] + x[1] t + ... + x[k] t^k travels as its coefficients, and an op maps the coefficients of its operands to those of its
result. `jet_rules` holds the ops' rules: ops that are linear, or linear between places where they are not differentiable, take the
coefficients one by one; products are convolutions; functions that solve a differential equation, such as exp and tanh, get each coefficient
from those before it (A. Griewank, A. Walther, Evaluating Derivatives, 2nd edition, chapter 13). Every other op has the rule that follows
from its jvp: if y = f(x), then y' = jvp(f)(x, x'), whose series is shorter by one. So loops, branches and functions with derivatives of
their own need none."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from steno import lax
from steno._native import current_trace, swap_trace
from steno.core.aval import typed_scalar, typeof
from steno.core.jaxpr import ClosedJaxpr, eval_jaxpr
from steno.core.op import OPS, Op
from steno.core.trace import Trace, Tracer, register_aval_type, trace_to_jaxpr
from steno.transforms.forward import explain_inner, known_value, missing_jvp
from steno.transforms.programs import anonymous, remembered
from steno.transforms.rules import (
    Zero,
    add,
    as_array,
    as_value,
    broadcast,
    full_like,
    instantiate,
    is_differentiable,
    materialize,
    rule_of,
    tangent_aval,
    zero_of,
)
from steno.tree_util import tree_flatten, tree_unflatten

Terms = list[Any]
"""The coefficients from that of t on; some may be `Zero`s."""


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]], factorial_scaled: bool = True, **_: Any
) -> tuple[Any, Any]:
    """The value and higher derivatives of `fun` along a curve: of t --> fun(x(t), ...) at t = 0, by those of the curve.

    primals    x(0) for each argument of `fun`, an array
    series     for each argument the derivatives x'(0), x''(0), ..., as many for one as for the other, or `zero_series`: all are zero
    factorial_scaled    with False, series are the coefficients of Taylor's series, without the factorials of derivatives

    Returns fun's result and, in its tree, a list of as many derivatives for each leaf. ValueError for primals that are no arrays, for
    series of different lengths, and for terms of other shapes than their primals."""
    if not callable(fun):
        raise TypeError(f"jet: the first argument must be callable, got {fun!r}")
    primals, series = list(primals), [terms if terms is zero_series else list(terms) for terms in series]
    lengths = {len(terms) for terms in series if terms is not zero_series}
    if len(lengths) > 1:
        raise ValueError(f"jet terms have inconsistent lengths for different arguments, got {sorted(lengths)} terms")
    if len(series) != len(primals):
        raise ValueError(f"jet: there must be a series for each primal, got {len(series)} series for {len(primals)} primals")
    order = lengths.pop() if lengths else 0
    values = [_array(f"primal value at position {k}", x) for k, x in enumerate(primals)]
    scales = [math.factorial(n) if factorial_scaled else 1 for n in range(1, order + 1)]
    given = [
        [zero_of(x)] * order if terms is zero_series else [_term(k, n, t, x, 1 / scales[n]) for n, t in enumerate(terms)]
        for k, (terms, x) in enumerate(zip(series, values, strict=True))
    ]
    trace = JetTrace(current_trace(), order)
    with_parent = swap_trace(trace)
    try:
        outs, tree = tree_flatten(fun(*[trace.join(x, terms) for x, terms in zip(values, given, strict=True)]))
        outs = [as_value(y) for y in outs]
    finally:
        swap_trace(with_parent)
        trace.over = True
    pairs = [trace.split_one(y) for y in outs]
    results = tree_unflatten(tree, [as_array(y) for y, _ in pairs])
    return results, tree_unflatten(tree, [[materialize(_scaled(t, s)) for t, s in zip(ts, scales, strict=True)] for _, ts in pairs])


def fact(n: Any) -> Any:
    """n!, a float: the factor between the n-th derivative and the n-th coefficient of Taylor's series; elementwise for an array."""
    return lax.exp(lax.lgamma(n + 1.0))


@final
class ZeroSeries:
    """Of `zero_series`, a series of any length whose terms are all zero."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "zero_series"


zero_series: Final = ZeroSeries()


def _array(what: str, x: Any) -> Any:
    _, tree = tree_flatten(x)
    if tree.num_nodes != 1 or tree.num_leaves != 1:
        raise ValueError(f"jet: {what} is not an array, got {x!r}")
    try:
        return as_array(x)
    except TypeError:
        raise TypeError(f"jet: {what} is not an array: {x!r} of type {type(x)} is not a valid JAX type") from None


def _term(argument: int, n: int, t: Any, x: Any, scale: float) -> Any:
    """A user's term of the series of x, as a coefficient."""
    if type(t) is Zero:
        return t
    t = _array(f"term {n} of the series at position {argument}", t)
    if t.shape and t.shape != x.shape:
        raise ValueError(f"jet: term {n} of the series at position {argument} must have its primal's shape {x.shape}, got {t.shape}")
    if not is_differentiable(x.aval):
        return Zero(tangent_aval(x.aval))
    if t.dtype != x.dtype:
        t = OPS["convert_element_type"](t, new_dtype=x.dtype, weak_type=x.aval.weak_type, sharding=None)
    return broadcast(_scaled(t, scale), x.shape)


@final
class JetTracer(Tracer):
    """A value and the further coefficients of its series, which are not all `Zero`s."""

    __slots__ = ("primal", "terms")
    _differentiated = True

    def __init__(self, trace: JetTrace, primal: Any, terms: Terms) -> None:
        self.aval = typeof(primal)
        self._trace = trace
        self.primal, self.terms = primal, terms

    def _known(self) -> Any:
        return known_value(self.primal)


register_aval_type(JetTracer)


@final
class JetTrace(Trace):
    """Hands the ops of coefficients to `parent`. `order`: the number of terms of each series."""

    __slots__ = ("order", "over", "parent")

    def __init__(self, parent: Trace | None, order: int) -> None:
        self.parent, self.order, self.over = parent, order, False

    def __repr__(self) -> str:
        return "JetTrace"

    def is_over(self) -> bool:
        return self.over

    def explain(self, tracer: Any) -> str:
        return explain_inner(tracer.primal, "a function of power series (jet)")

    def join(self, primal: Any, terms: Terms) -> Any:
        return primal if all(type(t) is Zero for t in terms) else JetTracer(self, primal, terms)

    def split_one(self, x: Any) -> tuple[Any, Terms]:
        if type(x) is JetTracer and x._trace is self:
            return x.primal, x.terms
        x = as_value(x)
        return x, [zero_of(x)] * self.order

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not any(type(x) is JetTracer and x._trace is self for x in args):
            return self._below(op, *args, **params)
        rule = jet_rules.get(op) or _RULES.get(op.name)
        if rule is _INLINE or (rule is None and rule_of(op, "jvp") is None and op.expand is not None):
            assert op.expand is not None
            return op.expand(*args, **params)
        pairs = [self.split_one(x) for x in args]
        primals, series = [x for x, _ in pairs], [terms for _, terms in pairs]
        if rule is None:
            out, terms = self._below(functools.partial(_derived, op), primals, series, **params)
        elif type(rule) is _Rule:
            out, terms = self._below(rule.fun, op, primals, series, **params)
        else:
            out, terms = self._below(rule, primals, [[instantiate(t) for t in ts] for ts in series], **params)
        if op.multiple_results:
            return [self._joined(y, ts) for y, ts in zip(out, terms, strict=True)]
        return self._joined(out, terms)

    def _below(self, fun: Callable[..., Any], *args: Any, **params: Any) -> Any:
        previous = swap_trace(self.parent)
        try:
            return fun(*args, **params)
        finally:
            swap_trace(previous)

    def _joined(self, y: Any, terms: Sequence[Any]) -> Any:
        y = as_value(y)
        if not is_differentiable(y.aval):
            return y
        return self.join(y, [t if type(t) is Zero else self._below(broadcast, t, y.shape) for t in terms])


# Coefficients


def _scaled(t: Any, factor: float) -> Any:
    """A coefficient times a number."""
    return t if type(t) is Zero or factor == 1 else OPS["mul"](t, typed_scalar(factor, t.dtype))


def _sum(parts: Sequence[Any], zero: Any) -> Any:
    return functools.reduce(add, parts) if parts else Zero(tangent_aval(zero.aval))


def _minus(x: Any, y: Any) -> Any:
    if type(y) is Zero:
        return x
    return OPS["neg"](y) if type(x) is Zero else OPS["sub"](x, y)


def _product(u: Sequence[Any], v: Sequence[Any], n: int, like: Any, times: Callable[..., Any] | None = None) -> Any:
    """Coefficient n of the product of two series, as far as they go."""
    f = OPS["mul"] if times is None else times
    pairs = [(u[j], v[n - j]) for j in range(n + 1) if j < len(u) and n - j < len(v)]
    return _sum([f(a, b) for a, b in pairs if type(a) is not Zero and type(b) is not Zero], like)


def _quotient(u: Sequence[Any], v: Sequence[Any], w0: Any) -> list[Any]:
    """The series of u / v, whose first coefficient is w0."""
    w = [w0]
    for n in range(1, len(v)):
        top = _minus(u[n], _product([Zero(tangent_aval(typeof(v[0]))), *v[1:]], w, n, w0))
        w.append(top if type(top) is Zero else OPS["div"](top, v[0]))
    return w


def _integrated(x: Sequence[Any], y0: Any, slope: Callable[[int, list[Any]], Any]) -> list[Any]:
    """The series of y where y' = g(x) x': `slope(m, y)` is coefficient m of g, of which y's up to m are known."""
    y, g = [y0], []
    moved = _rates(x)
    for n in range(1, len(x)):
        g.append(slope(n - 1, y))
        y.append(_scaled(_product(moved, g, n - 1, y0), 1 / n))
    return y


def _rates(x: Sequence[Any]) -> list[Any]:
    """The series of x'."""
    return [_scaled(t, n) for n, t in enumerate(x[1:], 1)]


# Rules


@final
class _Rule:
    """A rule that takes and gives `Zero`s: `fun(op, primals, series, **params) -> (result, terms)`; lists of them for an op of several
    results. Called as it stands in `jet_rules`, it takes and gives arrays."""

    __slots__ = ("fun", "op")

    def __init__(self, fun: Callable[..., Any], op: Op | None = None) -> None:
        self.fun, self.op = fun, op

    def __call__(self, primals: Sequence[Any], series: Sequence[Sequence[Any]], **params: Any) -> tuple[Any, Any]:
        op = self.op
        assert op is not None
        out, terms = self.fun(op, [as_value(x) for x in primals], [list(ts) for ts in series], **params)
        if op.multiple_results:
            return out, [[instantiate(t) for t in ts] for ts in terms]
        return out, [instantiate(t) for t in terms]


_INLINE: Final = _Rule(lambda *_, **__: None)
"""The rule of ops that are taken for their expansions."""


def _results(op: Op, out: Any, rows: Sequence[Any], order: int) -> tuple[Any, Any]:
    """From one row for each term (of one entry for each result) to one for each result. None: zeros."""
    if not op.multiple_results:
        return out, [zero_of(out) if r is None else r for r in rows]
    return out, [[zero_of(y) if rows[n] is None else rows[n][k] for n in range(order)] for k, y in enumerate(out)]


def _is_zero(ts: Sequence[Any]) -> bool:
    return all(type(t) is Zero for t in ts)


def _linear(*positions: int) -> _Rule:
    """For ops that are linear in the operands at these positions, or in all, together."""

    def rule(op: Op, primals: Sequence[Any], series: Sequence[Terms], **params: Any) -> tuple[Any, Any]:
        out = op(*primals, **params)
        which = [k for k in positions or range(len(primals)) if is_differentiable(typeof(primals[k]))]
        rows: list[Any] = []
        for terms in zip(*series, strict=True):
            if _is_zero([terms[k] for k in which]):
                rows.append(None)
            else:
                rows.append(
                    op(*[instantiate(t) if k in which else x for k, (x, t) in enumerate(zip(primals, terms, strict=True))], **params)
                )
        return _results(op, out, rows, len(rows))

    return _Rule(rule)


def _piecewise(op: Op, primals: Sequence[Any], series: Sequence[Terms], **params: Any) -> tuple[Any, Any]:
    """For ops that are linear wherever they are differentiable: each coefficient is moved like a tangent."""
    jvp = rule_of(op, "jvp")
    out, rows = None, []
    for terms in zip(*series, strict=True):
        out, moved = jvp(primals, terms, **params)
        rows.append(moved)
    return _results(op, out, rows, len(rows))


def _derived(op: Op, primals: Sequence[Any], series: Sequence[Terms], **params: Any) -> tuple[Any, Any]:
    """For all ops that have a jvp."""
    jvp = rule_of(op, "jvp")
    if jvp is None:
        raise missing_jvp(op)
    inner = JetTrace(current_trace(), len(series[0]) - 1)
    args = [inner.join(x, terms[:-1]) for x, terms in zip(primals, series, strict=True)]
    tangents = []
    for x, terms in zip(primals, series, strict=True):
        rates = _rates([x, *terms])
        tangents.append(zero_of(x) if _is_zero(rates) else inner.join(instantiate(rates[0]), rates[1:]))
    previous = swap_trace(inner)
    try:
        outs, slopes = jvp(args, tangents, **params)
    finally:
        swap_trace(previous)
        inner.over = True

    def whole(y: Any, slope: Any) -> tuple[Any, Terms]:
        y, _ = inner.split_one(y)
        if type(slope) is Zero:
            return y, [zero_of(y)] * (inner.order + 1)
        first, rest = inner.split_one(slope)
        return y, [_scaled(t, 1 / n) for n, t in enumerate([first, *rest], 1)]

    if not op.multiple_results:
        return whole(outs, slopes)
    pairs = [whole(y, s) for y, s in zip(outs, slopes, strict=True)]
    return [y for y, _ in pairs], [terms for _, terms in pairs]


def _constant(op: Op, primals: Sequence[Any], series: Sequence[Terms], **params: Any) -> tuple[Any, Any]:
    out = op(*primals, **params)
    return out, [zero_of(out)] * len(series[0])


def _sum_rule(op: Op, primals: Sequence[Any], series: Sequence[Terms], **params: Any) -> tuple[Any, Any]:
    out = op(*primals, **params)
    terms = [op(t, s) if type(t) is not Zero and type(s) is not Zero else add(t, s) for t, s in zip(*series, strict=True)]
    return out, terms


def _difference_rule(op: Op, primals: Sequence[Any], series: Sequence[Terms], **params: Any) -> tuple[Any, Any]:
    return op(*primals, **params), [_minus(t, s) for t, s in zip(*series, strict=True)]


def _bilinear(op: Op, primals: Sequence[Any], series: Sequence[Terms], **params: Any) -> tuple[Any, Any]:
    out = op(*primals, **params)
    u, v = ([x, *terms] for x, terms in zip(primals, series, strict=True))
    return out, [_product(u, v, n, out, functools.partial(op, **params)) for n in range(1, len(u))]


def _div_rule(op: Op, primals: Sequence[Any], series: Sequence[Terms], **params: Any) -> tuple[Any, Any]:
    out = op(*primals, **params)
    u, v = ([x, *terms] for x, terms in zip(primals, series, strict=True))
    return out, _quotient(u, v, out)[1:]


def _by_series(series_of: Callable[[list[Any], Any], list[Any]]) -> _Rule:
    """For functions of one number: `series_of(x, y[0]) -> y`, all coefficients."""

    def rule(op: Op, primals: Sequence[Any], series: Sequence[Terms], **params: Any) -> tuple[Any, Any]:
        out = op(*primals, **params)
        return out, series_of([primals[0], *series[0]], out)[1:]

    return _Rule(rule)


def _by_slope(slope: Callable[[int, list[Any]], Any]) -> _Rule:
    """For y with y' = g(y) x'; `slope(m, y)` is coefficient m of g(y)."""
    return _by_series(lambda x, y0: _integrated(x, y0, slope))


def _one_and(sign: int) -> Callable[[int, list[Any]], Any]:
    """1 + sign y^2."""

    def slope(m: int, y: list[Any]) -> Any:
        squared = _scaled(_product(y, y, m, y[0]), sign)
        return add(full_like(y[0], 1), squared) if m == 0 else squared

    return slope


def _logistic_slope(m: int, y: list[Any]) -> Any:
    return _minus(y[m], _product(y, y, m, y[0]))


def _log_series(factor: float, shift: int = 0) -> Callable[[list[Any], Any], list[Any]]:
    """factor * log(x + shift)."""

    def series_of(x: list[Any], y0: Any) -> list[Any]:
        below = [add(x[0], full_like(x[0], shift)) if shift else x[0], *x[1:]]
        inverse = _quotient([None, *map(zero_of, x[1:])], below, OPS["div"](full_like(x[0], factor), below[0]))
        return _integrated(x, y0, lambda m, _: inverse[m])

    return series_of


def _paired(other: str, sign: int, first: bool) -> Callable[[list[Any], Any], list[Any]]:
    """f of a pair with f' = g x', g' = sign f x' (`first`) or of its second."""

    def series_of(x: list[Any], y0: Any) -> list[Any]:
        y, z = [y0], [OPS[other](x[0], accuracy=None) if other in ("sin", "cos") else OPS[other](x[0])]
        rates = _rates(x)
        for n in range(1, len(x)):
            dy, dz = _product(rates, z, n - 1, y0), _product(rates, y, n - 1, y0)
            y.append(_scaled(dy, (1 if first else sign) / n))
            z.append(_scaled(dz, (sign if first else 1) / n))
        return y

    return series_of


def _sqrt_series(x: list[Any], y0: Any) -> list[Any]:
    y = [y0]
    for n in range(1, len(x)):
        rest = _minus(x[n], _product(y, [Zero(tangent_aval(typeof(y0))), *y[1:]], n, y0))
        y.append(rest if type(rest) is Zero else OPS["div"](rest, _scaled(y0, 2)))
    return y


def _root_series(power: float) -> Callable[[list[Any], Any], list[Any]]:
    """x ** power for a power that is not a whole number: x y' = power y x'."""

    def series_of(x: list[Any], y0: Any) -> list[Any]:
        y = [y0]
        for n in range(1, len(x)):
            parts = [
                _scaled(OPS["mul"](x[j], y[n - j]), (power * j - (n - j)) / n)
                for j in range(1, n + 1)
                if type(x[j]) is not Zero and type(y[n - j]) is not Zero
            ]
            total = _sum(parts, y0)
            y.append(total if type(total) is Zero else OPS["div"](total, x[0]))
        return y

    return series_of


def _integer_pow_rule(op: Op, primals: Sequence[Any], series: Sequence[Terms], *, y: int) -> tuple[Any, Any]:
    out, x = op(*primals, y=y), [primals[0], *series[0]]
    order = len(x)
    if y == 0:
        return out, [zero_of(out)] * (order - 1)
    square, power, left = x, None, abs(y)
    while left:
        if left & 1:
            power = square if power is None else [_product(power, square, n, out) for n in range(order)]
        left >>= 1
        if left:
            square = [_product(square, square, n, out) for n in range(order)]
    assert power is not None
    if y < 0:
        power = _quotient([None, *map(zero_of, power[1:])], power, out)
    return out, power[1:]


def _abs_rule(op: Op, primals: Sequence[Any], series: Sequence[Terms]) -> tuple[Any, Any]:
    """The sign of x at 0 is 1 here. Complex numbers go by the jvp."""
    (x,), (terms,) = primals, series
    if typeof(x).dtype.kind == "c":
        return _derived(op, primals, series)
    below = OPS["lt"](x, full_like(x, 0))
    return op(x), [t if type(t) is Zero else OPS["select_n"](below, t, OPS["neg"](t)) for t in terms]


def _linear_call_rule(op: Op, primals: Sequence[Any], series: Sequence[Terms], *, num_res: int, **params: Any) -> tuple[Any, Any]:
    by = _piecewise if all(map(_is_zero, series[:num_res])) else _derived
    return by(op, primals, series, num_res=num_res, **params)


def _jit_rule(op: Op, primals: Sequence[Any], series: Sequence[Terms], *, jaxpr: ClosedJaxpr, **params: Any) -> tuple[Any, Any]:
    nonzero = tuple(tuple(type(t) is not Zero for t in terms) for terms in series)
    program, out_nonzero = _jet_jaxpr(jaxpr, nonzero)
    outs = op(*primals, *(t for terms in series for t in terms if type(t) is not Zero), jaxpr=program, **params)
    n = len(out_nonzero)
    given = iter(outs[n:])
    return outs[:n], [[next(given) if nz else zero_of(y) for nz in row] for y, row in zip(outs[:n], out_nonzero, strict=True)]


Matrix = tuple[tuple[bool, ...], ...]


@remembered
def _jet_jaxpr(closed: ClosedJaxpr, nonzero: Matrix) -> tuple[ClosedJaxpr, Matrix]:
    """The program of series: inputs are the program's, then the terms that are not zero, argument by argument; outputs likewise."""
    avals, n = closed.in_avals, len(closed.in_avals)
    out_nonzero: Matrix = ()

    def run(*args: Any) -> list[Any]:
        nonlocal out_nonzero
        given = iter(args[n:])
        trace = JetTrace(current_trace(), len(nonzero[0]))
        inputs = [trace.join(x, [next(given) if nz else zero_of(x) for nz in row]) for x, row in zip(args[:n], nonzero, strict=True)]
        previous = swap_trace(trace)
        try:
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *inputs)
        finally:
            swap_trace(previous)
            trace.over = True
        pairs = [trace.split_one(y) for y in outs]
        out_nonzero = tuple(tuple(type(t) is not Zero for t in terms) for _, terms in pairs)
        return [*(y for y, _ in pairs), *(t for _, terms in pairs for t in terms if type(t) is not Zero)]

    terms = [tangent_aval(a) for a, row in zip(avals, nonzero, strict=True) for nz in row if nz]
    return trace_to_jaxpr(run, [*avals, *terms], anonymous(closed.jaxpr, "jet")), out_nonzero


_ALL = (
    "broadcast_in_dim", "complex", "concatenate", "conj", "convert_element_type", "copy", "cumsum", "device_put", "fft", "imag", "neg",
    "optimization_barrier", "pad", "real", "reduce_precision", "reduce_sum", "reduce_window_sum", "reshape", "reshard", "rev", "slice",
    "split", "squeeze", "stack", "tile", "transpose", "unstack",
)  # fmt: skip
_LEADING = {"dynamic_slice": (0,), "dynamic_update_slice": (0, 1), "scatter-add": (0, 2), "scatter-sub": (0, 2)}
_PIECEWISE = (
    "clamp", "cummax", "cummin", "gather", "max", "min", "nextafter", "reduce_max", "reduce_min", "rem", "scatter", "scatter-max",
    "scatter-min", "select_n", "sort", "top_k",
)  # fmt: skip
_CONSTANT = (
    "and", "bitcast_convert_type", "ceil", "eq", "floor", "ge", "gt", "is_finite", "le", "lt", "ne", "not", "or", "round",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "stop_gradient", "unchosen", "xor",
)  # fmt: skip

_RULES: Final[dict[str, _Rule]] = {
    **{name: _linear() for name in _ALL},
    **{name: _linear(*positions) for name, positions in _LEADING.items()},
    **{name: _Rule(_piecewise) for name in _PIECEWISE},
    **{name: _Rule(_constant) for name in _CONSTANT},
    **{name: _Rule(_bilinear) for name in ("conv_general_dilated", "dot_general", "mul")},
    "abs": _Rule(_abs_rule),
    "add": _Rule(_sum_rule),
    "add_any": _Rule(_sum_rule),
    "cbrt": _by_series(_root_series(1 / 3)),
    "cos": _by_series(_paired("sin", -1, False)),
    "cosh": _by_series(_paired("sinh", 1, False)),
    "custom_vjp_call": _INLINE,
    "div": _Rule(_div_rule),
    "exp": _by_slope(lambda m, y: y[m]),
    "exp2": _by_slope(lambda m, y: _scaled(y[m], math.log(2))),
    "expm1": _by_slope(lambda m, y: add(y[0], full_like(y[0], 1)) if m == 0 else y[m]),
    "integer_pow": _Rule(_integer_pow_rule),
    "jit": _Rule(_jit_rule),
    "linear_call": _Rule(_linear_call_rule),
    "log": _by_series(_log_series(1)),
    "log1p": _by_series(_log_series(1, 1)),
    "log2": _by_series(_log_series(1 / math.log(2))),
    "logistic": _by_slope(_logistic_slope),
    "rsqrt": _by_series(_root_series(-1 / 2)),
    "sin": _by_series(_paired("cos", -1, True)),
    "sinh": _by_series(_paired("cosh", 1, True)),
    "sqrt": _by_series(_sqrt_series),
    "square": _by_series(lambda x, y0: [_product(x, x, n, y0) for n in range(len(x))]),
    "sub": _Rule(_difference_rule),
    "tan": _by_slope(_one_and(1)),
    "tanh": _by_slope(_one_and(-1)),
}

jet_rules: Final[dict[Op, Callable[..., Any]]] = {
    OPS[name]: _Rule(r.fun, OPS[name]) for name, r in _RULES.items() if name in OPS and r is not _INLINE
}
"""The rule of each op: `rule(primals, series, **params) -> (result, terms)`, where `series` holds for each operand the coefficients of t,
t^2, ..., without factorials, and `terms` those of the result; lists of them for an op of several results. Rules put here go before all
others."""

__all__ = ["ZeroSeries", "fact", "jet", "jet_rules", "zero_series"]
