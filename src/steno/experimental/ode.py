"""Initial value problems of ordinary differential equations, with derivatives.

The method is the embedded Runge-Kutta pair of order 5(4) of J. Dormand and P. Prince (A family of embedded Runge-Kutta formulae, J. Comp.
Appl. Math. 6, 1980); between steps its solution is the quartic polynomial through the step's ends, its middle and its slopes (L. Shampine,
Some practical Runge-Kutta formulas, Math. Comp. 46, 1986). The first step and the next ones are chosen as in E. Hairer, S. Norsett,
G. Wanner, Solving ordinary differential equations I, II.4.

Derivatives do not go through the steps. Forward mode solves the variational equation along the solution, reverse mode its adjoint,
backwards from one requested time to the one before it (L. Pontryagin et al., 1962); the two are each other's transposes, so they are one
`linear_call`, and being solutions of differential equations themselves they can be differentiated again. As in JAX a solution has reverse
mode alone unless the caller asks for both: programs that try one mode and then the other find the same way."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.core.jaxpr import ClosedJaxpr
from steno.core.pytree import treedef_tuple
from steno.core.record import record
from steno.custom_derivatives import CustomVJPPrimal, SymbolicZero, custom_jvp, custom_vjp, linear_call
from steno.derivatives import jvp, vjp
from steno.flatten_util import ravel_pytree
from steno.lax.control_flow.bodies import body_of
from steno.lax.control_flow.loops import scan, while_loop
from steno.lax.operands import as_array
from steno.mapping import vmap
from steno.ops.control import evaluate
from steno.tree_util import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten

Array = Any

_NODES: Final = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES: Final = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
"""Row k: the weights of the slopes found so far in the argument of slope k + 1. The last row is the solution of order 5."""
_ERROR: Final = (
    35 / 384 - 1951 / 21600, 0.0, 500 / 1113 - 22642 / 50085, 125 / 192 - 451 / 720, -2187 / 6784 + 12231 / 42400, 11 / 84 - 649 / 6300,
    -1 / 60,
)  # fmt: skip
"""The solution of order 5 less that of order 4."""
_MIDDLE: Final = (
    6025192743 / 30085553152 / 2, 0.0, 51252292925 / 65400821598 / 2, -2691868925 / 45128329728 / 2, 187940372067 / 1594534317056 / 2,
    -1776094331 / 19743644256 / 2, 11237099 / 235043384 / 2,
)  # fmt: skip
"""The solution in the middle of the step."""
_SAFETY, _GROW, _SHRINK, _ORDER = 0.9, 10.0, 0.2, 5.0


@final
@record(frozen=True)
class _System:
    """y' = f(y, t, operands) for vectors y, and how it is solved. `program`: inputs are the first `consts` operands, y's leaves, t, the
    other operands. Systems of equal fields are equal: as a static argument one costs no trace of its own."""

    program: ClosedJaxpr
    consts: int
    unravel: Callable[[Array], Any]
    rtol: float
    atol: float
    mxstep: float
    hmax: float

    def slope(self, y: Array, t: Array, operands: Sequence[Any]) -> Array:
        before, after = operands[: self.consts], operands[self.consts :]
        outs = evaluate(self.program, [*before, *tree_leaves(self.unravel(y)), t, *after])
        return lax.convert_element_type(ravel_pytree(outs)[0], y.dtype)

    def solve(self, fun: Callable[..., Any], y0: Any, ts: Array, *args: Any) -> Any:
        """Another system, in the same way."""
        options = {"rtol": self.rtol, "atol": self.atol, "mxstep": self.mxstep, "hmax": self.hmax}
        return odeint(fun, y0, ts, *args, **options, forward_mode=True)


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Array,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
    forward_mode: bool = False,
) -> Any:
    """The solution of y' = func(y, t, *args), y(t[0]) = y0 at the times `t`: y0's tree, with a new leading axis for the times.

    func          gives the slope: floats or complex numbers, a tree like y0 or another one with as many numbers in the same order
    t             increasing times, floats of shape (n,)
    args          trees of arrays. Derivatives are by y0, t, args and whatever func closes over
    rtol, atol    the error of a step that is aimed at: the root of the mean square of error / (atol + rtol |y|) is at most 1
    mxstep        the greatest number of steps from one time to the next: there the last step's polynomial is prolonged
    hmax          the greatest length of a step
    forward_mode  whether the solution itself has derivatives in forward mode (`jvp`, `jacfwd`, `linearize`) too. JAX has no such argument
                  and refuses them, as this function does by default; forward mode of a gradient (`hessian`) goes either way

    TypeError if t, y0 or args are no such arrays, and for forward mode that was not asked for; ValueError if func gives more or fewer
    numbers than y0 has. Where steps would have to be smaller than the rounding errors of the time, as at a singularity, results are NaN."""
    if not callable(func):
        raise TypeError(f"odeint: func must be callable, got {func!r}")
    if not hasattr(t, "dtype") or not dtypes.is_float(t.dtype):
        raise TypeError(f"odeint: t must be an array of floats, but got {t}.")
    ts = as_array("odeint", t)
    if ts.ndim != 1:
        raise ValueError(f"odeint: t must be an array of shape (n,), got one of shape {ts.shape}")
    leaves, y_tree = _leaves("y0", y0)
    for y in leaves:
        if not dtypes.is_inexact(y.dtype):
            raise TypeError(f"odeint: y0 must hold floats or complex numbers, but got {y} of dtype {dtypes.name(y.dtype)}")
    operands, args_tree = _leaves("*args", args)
    avals = [*(y.aval.strip_weak_type() for y in leaves), ts.aval.update(shape=(), weak_type=False), *(x.aval for x in operands)]
    tree = treedef_tuple([y_tree, tree_structure(0), *args_tree.children()])
    body = body_of(func, tree, avals, "odeint")
    size, got = sum(y.size for y in leaves), sum(a.size for a in body.out_avals)
    if got != size:
        shapes = [y.shape for y in leaves], [a.shape for a in body.out_avals]
        raise ValueError(f"odeint: func must give the {size} numbers of y0, of shapes {shapes[0]}, but gave {got}, of shapes {shapes[1]}")
    vector, unravel = ravel_pytree([lax.convert_element_type(y, y.dtype) for y in leaves])
    system = _System(body.closed, len(body.consts), unravel, float(rtol), float(atol), float(mxstep), float(hmax))
    solve = _compiled if forward_mode else _in_reverse_mode
    ys = solve(system, vector, ts, *body.consts, *operands)
    return tree_unflatten(y_tree, vmap(unravel)(ys))


def _leaves(what: str, tree: Any) -> tuple[list[Array], Any]:
    leaves, structure = tree_flatten(tree)
    out = []
    for x in leaves:
        try:
            out.append(as_array("odeint", x))
        except TypeError:
            raise TypeError(f"The contents of odeint {what} must be arrays or scalars, but got {x}.") from None
    return out, structure


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _solution(system: _System, y0: Array, ts: Array, *operands: Array) -> Array:
    """y at the times `ts`: shape (times, size of y)."""
    f = functools.partial(_slope, system, operands)
    if not ts.shape[0]:
        return jnp.zeros((0, *y0.shape), y0.dtype)

    def advance(state: Any, target: Array) -> tuple[Any, Array]:
        def unfinished(counted: Any) -> Array:
            count, (_, _, t, step, *_) = counted
            more = (t < target) & (t + step > t)
            return more if math.isinf(system.mxstep) else more & (count < math.ceil(system.mxstep))

        count, state = while_loop(unfinished, lambda counted: (counted[0] + 1, _step(system, f, counted[1])), (0, state))
        y, _, t, step, last, polynomial = state
        # the step just done spans [last, t]; none has been done where these are equal
        stuck = (t < target) & ~(t + step > t)
        x = _real((target - last) / jnp.where(t > last, t - last, 1), y.dtype)
        inside = functools.reduce(lambda total, c: total * x + c, polynomial)
        value = jnp.where(t > last, inside, jnp.where(target == t, y, jnp.nan))
        return state, jnp.where(stuck, jnp.nan, value).astype(y.dtype)

    slope = f(y0, ts[0])
    state = (y0, slope, ts[0], _first_step(system, f, y0, slope, ts[0]), ts[0], (jnp.zeros_like(y0),) * 4 + (y0,))
    _, ys = scan(advance, state, ts[1:])
    return jnp.concatenate([y0[None], ys])


_compiled = jit(_solution, static_argnums=0)


def _slope(system: _System, operands: Sequence[Array], y: Array, t: Array) -> Array:
    return system.slope(y, t, operands)


def _real(x: Array, dtype: Any) -> Array:
    """A real number that keeps `dtype` where it is combined with values of it."""
    return x.astype(dtypes.finfo(dtype).dtype)


def _norm(x: Array) -> Array:
    return jnp.sqrt(jnp.sum(jnp.square(jnp.abs(x))))


def _first_step(system: _System, f: Callable[[Array, Array], Array], y0: Array, slope: Array, t0: Array) -> Array:
    """A first guess of the step's length."""
    scale = system.atol + jnp.abs(y0) * system.rtol
    d0, d1 = _norm(y0 / scale), _norm(slope / scale)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h = jnp.where(small, 1e-6, 0.01 * d0 / jnp.where(small, 1, d1))
    d2 = _norm((f(y0 + h * slope, t0 + h.astype(t0.dtype)) - slope) / scale) / h
    flat = (d1 <= 1e-15) & (d2 <= 1e-15)
    steepest = jnp.where(flat, 1, jnp.maximum(d1, d2))
    step = jnp.where(flat, jnp.maximum(1e-6, h * 1e-3), (0.01 / steepest) ** (1 / _ORDER))
    return jnp.clip(jnp.minimum(100 * h, step), 0, system.hmax).astype(t0.dtype)


def _step(system: _System, f: Callable[[Array, Array], Array], state: Any) -> Any:
    """One step, which is taken back if its error is too large: y, its slope, the time, the next step's length, the time of the last step's
    beginning, and that step's polynomial (greatest power first)."""
    y, slope, t, step, last, polynomial = state
    h = _real(step, y.dtype)
    slopes = [slope]
    y1 = y
    for node, weights in zip(_NODES, _STAGES, strict=True):
        y1 = y + h * _combined(weights, slopes)
        slopes.append(f(y1, t + step * node))
    tolerance = system.atol + system.rtol * jnp.maximum(jnp.abs(y), jnp.abs(y1))
    error = jnp.sqrt(jnp.mean(jnp.square(jnp.abs(h * _combined(_ERROR, slopes) / tolerance))))
    shrink = jnp.where(error < 1, 1.0, _SHRINK)
    factor = jnp.minimum(_GROW, jnp.maximum(error ** (-1 / _ORDER) * _SAFETY, shrink))
    factor = jnp.where(error == 0, _GROW, factor)
    done = error <= 1
    middle = y + h * _combined(_MIDDLE, slopes)
    through = _quartic(h * slope, h * slopes[-1], y, y1, middle)
    return (
        jnp.where(done, y1, y),
        jnp.where(done, slopes[-1], slope),
        jnp.where(done, t + step, t),
        jnp.clip(step * factor.astype(step.dtype), 0, system.hmax),
        jnp.where(done, t, last),
        tuple(jnp.where(done, new, old) for new, old in zip(through, polynomial, strict=True)),
    )


def _combined(weights: Sequence[float], slopes: Sequence[Array]) -> Array:
    return functools.reduce(jnp.add, (w * k for w, k in zip(weights, slopes, strict=True) if w))


def _quartic(d0: Array, d1: Array, y0: Array, y1: Array, middle: Array) -> tuple[Array, ...]:
    """The p of degree 4, greatest power first, with p(0) = y0, p(1/2) = middle, p(1) = y1, p'(0) = d0, p'(1) = d1."""
    return (
        2 * (d1 - d0) - 8 * (y0 + y1) + 16 * middle,
        5 * d0 - 3 * d1 + 18 * y0 + 14 * y1 - 32 * middle,
        d1 - 4 * d0 - 11 * y0 - 5 * y1 + 16 * middle,
        d0,
        y0,
    )


# Derivatives


@functools.partial(_solution.defjvp, symbolic_zeros=True)
def _solution_jvp(system: _System, primals: Sequence[Array], tangents: Sequence[Any]) -> tuple[Array, Any]:
    """The change of y(t[k]) is v(t[k]) + y'(t[k]) dt[k], where v' = (df/dy) v + the change of f by its operands and
    v(t[0]) = dy0 - y'(t[0]) dt[0]."""
    _, ts, *operands = primals
    ys = _solution(system, *primals)
    moves = [type(d) is not SymbolicZero for d in tangents]
    if not any(moves):
        return ys, jnp.zeros_like(ys)
    y_moves, t_moves, *operand_moves = moves
    which = [k for k, m in enumerate(operand_moves) if m]
    given = tuple(d for d, m in zip(tangents, moves, strict=True) if m)
    residuals = (ys, ts, operands)
    return ys, linear_call(
        functools.partial(_variation, system, y_moves, t_moves, which), functools.partial(_adjoint, system, y_moves, t_moves, which),
        residuals, given,
    )  # fmt: skip


def _with(operands: Sequence[Array], which: Sequence[int], varying: Sequence[Array]) -> list[Array]:
    out = list(operands)
    for k, x in zip(which, varying, strict=True):
        out[k] = x
    return out


def _slopes(system: _System, ys: Array, ts: Array, operands: Sequence[Array]) -> Array:
    return vmap(lambda y, t: system.slope(y, t, operands))(ys, ts)


def _variation(system: _System, y_moves: bool, t_moves: bool, which: Sequence[int], residuals: Any, changes: Sequence[Array]) -> Array:
    """The changes of all y."""
    ys, ts, operands = residuals
    left = list(changes)
    v0 = left.pop(0) if y_moves else jnp.zeros_like(ys[0])
    along = jnp.zeros_like(ys)
    if t_moves:
        along = _slopes(system, ys, ts, operands) * _real(left.pop(0), ys.dtype)[:, None]
        v0 = v0 - along[0]

    def both(state: Any, t: Array, operands: Sequence[Array], changes: Sequence[Array]) -> Any:
        y, v = state
        varying = [operands[k] for k in which]
        return jvp(lambda y, *xs: system.slope(y, t, _with(operands, which, xs)), (y, *varying), (v, *changes))

    _, vs = system.solve(both, (ys[0], v0), ts, operands, left)
    return vs + along


def _adjoint(system: _System, y_moves: bool, t_moves: bool, which: Sequence[int], residuals: Any, cts: Array) -> Any:
    """The transpose: a' = -(df/dy)^T a backwards in time, where a jumps by the cotangent of y(t[k]) at each t[k]; the operands collect
    (df/d operand)^T a along the way."""
    ys, ts, operands = residuals

    def slopes(state: Any, s: Array, operands: Sequence[Array]) -> Any:
        y, a, _ = state
        varying = [operands[k] for k in which]
        dy, pull = vjp(lambda y, *xs: system.slope(y, -s, _with(operands, which, xs)), y, *varying)
        da, *collected = pull(a)
        return -dy, da, collected

    def back(state: Any, interval: Any) -> tuple[Any, None]:
        a, collected = state
        y, earlier, later, ct = interval
        # from the solution itself at the later time: errors of going back do not add up
        path = system.solve(slopes, (y, a, collected), jnp.stack([-later, -earlier]), operands)
        _, a, collected = tree_map(lambda x: x[1], path)
        return (a + ct, collected), None

    start = (cts[-1], [jnp.zeros_like(operands[k]) for k in which])
    (a, collected), _ = scan(back, start, (ys[1:], ts[:-1], ts[1:], cts[:-1]), reverse=True)
    out = [a] if y_moves else []
    if t_moves:
        slope = _slopes(system, ys, ts, operands)
        first = jnp.sum(slope[0] * a)
        by_time = jnp.sum(slope * cts, 1).at[0].add(-first)
        out.append(lax.real(by_time).astype(ts.dtype) if dtypes.is_complex(by_time.dtype) else by_time.astype(ts.dtype))
    return (*out, *collected)


@functools.partial(custom_vjp, nondiff_argnums=(0,))
def _in_reverse_mode(system: _System, y0: Array, ts: Array, *operands: Array) -> Array:
    return _compiled(system, y0, ts, *operands)


def _solved(system: _System, *given: CustomVJPPrimal) -> tuple[Array, Any]:
    """The solution, and what `_pulled_back` wants: with () for each argument that moves, None for the others."""
    y0, ts, *operands = (x.value for x in given)
    ys = _compiled(system, y0, ts, *operands)
    return ys, (ys, ts, operands, [() if x.perturbed else None for x in given])


def _pulled_back(system: _System, kept: Any, cts: Any) -> tuple[Any, ...]:
    ys, ts, operands, marks = kept
    moves = [m is not None for m in marks]
    if type(cts) is SymbolicZero or not any(moves):
        return (None,) * len(moves)
    y_moves, t_moves, *operand_moves = moves
    found = iter(_adjoint(system, y_moves, t_moves, [k for k, m in enumerate(operand_moves) if m], (ys, ts, operands), cts))
    return tuple(next(found) if m else None for m in moves)


_in_reverse_mode.defvjp(_solved, _pulled_back, symbolic_zeros=True)


__all__ = ["odeint"]
