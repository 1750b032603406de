"""The quasi-Newton methods of `minimize`, for vectors of real numbers (J. Nocedal and S. Wright, Numerical Optimization, 2nd ed. 2006)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from steno import numpy as jnp
from steno.core import dtypes
from steno.lax.control_flow.loops import fori_loop, while_loop
from steno.scipy.optimize.line_search import line_search

Array = Any
ValueAndGrad = Callable[[Array], tuple[Array, Array]]

CONVERGED: Final = 0
ITERATIONS: Final = 1
FUNCTIONS: Final = 2
GRADIENTS: Final = 3
STAGNATION: Final = 4
LINE_SEARCH: Final = 5
_RUNNING: Final = -1


class Minimum(NamedTuple):
    """Where an iteration stands. `before`: the value at the point before, `inverse`: the inverse Hessian, a matrix or None."""

    x: Array
    value: Array
    gradient: Array
    before: Array
    inverse: Any
    iterations: Any
    evaluations: Any
    status: Any


def _norm(x: Array, order: float) -> Array:
    return jnp.linalg.norm(x, ord=order)


def _dot(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")


def _first_step(s: Minimum, direction: Array) -> Array:
    """1, or less where the function is expected to decrease by no more than it did in the step before."""
    guess = 2.02 * (s.value - s.before) / _dot(s.gradient, direction)
    return jnp.where((guess > 0) & (guess < 1), guess, 1)


def _advance(f: ValueAndGrad, s: Minimum, direction: Array, first: Array, limit: int) -> tuple[Minimum, Array]:
    """The state after a line search; whether it failed."""
    found = line_search(f, s.x, direction, s.value, s.gradient, first, limit)
    at = found.point
    # a search that found nothing leaves everything where it was
    out = s._replace(
        x=jnp.where(found.failed, s.x, s.x + at.step * direction),
        value=at.value,
        gradient=at.gradient,
        before=s.value,
        iterations=s.iterations + 1,
        evaluations=s.evaluations + found.evaluations,
    )
    return out, found.failed


def _begin(f: ValueAndGrad, x: Array, gtol: float, norm: float, inverse: Any) -> Minimum:
    value, gradient = f(x)
    # so that the first step has about the length 1
    before = value + jnp.linalg.norm(gradient) / 2
    status = jnp.where(_norm(gradient, norm) <= gtol, CONVERGED, _RUNNING)
    return Minimum(x, value, gradient, before, inverse, 0, 1, status)


def _finish(s: Minimum) -> Minimum:
    return s._replace(status=jnp.where(s.status == _RUNNING, ITERATIONS, s.status))


def bfgs(
    f: ValueAndGrad, x: Array, *, maxiter: int | None = None, norm: float = math.inf, gtol: float = 1e-5, line_search_maxiter: int = 10
) -> Minimum:  # fmt: skip
    """Algorithm 6.1: the method of Broyden, Fletcher, Goldfarb and Shanno."""
    n = x.shape[0]
    limit = 200 * n if maxiter is None else maxiter
    unit = jnp.eye(n, dtype=x.dtype)
    drowns = math.sqrt(dtypes.finfo(x.dtype).eps)

    def step(s: Minimum) -> Minimum:
        direction = -_dot(s.inverse, s.gradient)
        out, failed = _advance(f, s, direction, _first_step(s, direction), line_search_maxiter)
        moved, turned = out.x - s.x, out.gradient - s.gradient
        curvature = _dot(moved, turned)
        rho = 1 / jnp.where(curvature > 0, curvature, 1)
        # (6.20), only where the unit matrix is so far from the inverse Hessian that its rounding would drown it
        scale = curvature / _dot(turned, turned)
        off = (s.iterations == 0) & ((scale < drowns) | (scale > 1 / drowns))
        s = s._replace(inverse=jnp.where(off, scale * unit, s.inverse))
        side = unit - rho * jnp.outer(moved, turned)
        inverse = _dot(_dot(side, s.inverse), side.T) + rho * jnp.outer(moved, moved)
        status = jnp.where(failed, LINE_SEARCH, jnp.where(_norm(out.gradient, norm) <= gtol, CONVERGED, _RUNNING))
        return out._replace(inverse=jnp.where((curvature > 0) & ~failed, inverse, s.inverse), status=status)

    return _finish(while_loop(lambda s: (s.status == _RUNNING) & (s.iterations < limit), step, _begin(f, x, gtol, norm, unit)))


class _History(NamedTuple):
    """The last pairs of a step and a change of the gradient (count, n), the newest last; 1 / their products (count,), 0 for none."""

    moved: Array
    turned: Array
    rho: Array

    def with_pair(self, moved: Array, turned: Array) -> _History:
        product = _dot(moved, turned)
        keeps = product > 0
        rho = 1 / jnp.where(keeps, product, 1)

        def pushed(rows: Array, row: Array) -> Array:
            return jnp.where(keeps, jnp.concatenate([rows[1:], row[None]]), rows)

        return _History(pushed(self.moved, moved), pushed(self.turned, turned), pushed(self.rho, rho))

    def times(self, v: Array) -> Array:
        """The inverse Hessian times v: algorithm 7.4, in two loops."""
        count = self.rho.shape[0]

        def backwards(k: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
            v, factors = state
            k = count - 1 - k
            factor = self.rho[k] * _dot(self.moved[k], v)
            return v - factor * self.turned[k], factors.at[k].set(factor)

        def forwards(k: Any, v: Array) -> Array:
            return v + self.moved[k] * (factors[k] - self.rho[k] * _dot(self.turned[k], v))

        v, factors = fori_loop(0, count, backwards, (v, jnp.zeros_like(self.rho)))
        square = self.rho[-1] * _dot(self.turned[-1], self.turned[-1])
        return fori_loop(0, count, forwards, v / jnp.where(square > 0, square, 1))


def l_bfgs(
    f: ValueAndGrad,
    x: Array,
    *,
    maxiter: float | None = None,
    norm: float = math.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-5,
    maxfun: float | None = None,
    maxgrad: float | None = None,
    maxls: int = 20,
) -> Minimum:
    """Algorithm 7.5: BFGS with a limited memory of `maxcor` pairs of vectors."""
    none = _History(jnp.zeros((maxcor, *x.shape), x.dtype), jnp.zeros((maxcor, *x.shape), x.dtype), jnp.zeros(maxcor, x.dtype))
    bounds = [(GRADIENTS, maxgrad), (FUNCTIONS, maxfun)]

    def step(s: Minimum) -> Minimum:
        history = s.inverse
        direction = -history.times(s.gradient)
        out, failed = _advance(f, s, direction, jnp.where(s.iterations == 0, _first_step(s, direction), 1), maxls)
        size = jnp.maximum(jnp.abs(s.value), jnp.abs(out.value))
        status: Any = jnp.where(jnp.abs(s.value - out.value) <= ftol * size, STAGNATION, _RUNNING)
        for code, bound in bounds:
            if bound is not None:
                status = jnp.where(out.evaluations >= bound, code, status)
        status = jnp.where(failed, LINE_SEARCH, status)
        status = jnp.where(_norm(out.gradient, norm) <= gtol, CONVERGED, status)
        return out._replace(inverse=history.with_pair(out.x - s.x, out.gradient - s.gradient), status=status)

    def proceed(s: Minimum) -> Array:
        running = s.status == _RUNNING
        return running if maxiter is None else running & (s.iterations < maxiter)

    return _finish(while_loop(proceed, step, _begin(f, x, gtol, norm, none)))._replace(inverse=None)
