"""A line search for the strong Wolfe conditions: algorithms 3.5 and 3.6 of J. Nocedal and S. Wright, Numerical Optimization, 2nd ed. 2006.

Both algorithms run in one loop whose body evaluates the function once, so that it is compiled once. Near a minimum the decrease of the
function is lost in its rounding; there the condition on the decrease is replaced by the one on the slope that it stands for
(W. Hager and H. Zhang, A new conjugate gradient method with guaranteed descent and an efficient line search, SIAM J. Optim. 16, 2005)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from steno import numpy as jnp
from steno.core import dtypes
from steno.lax.control_flow.loops import while_loop

Array = Any

_DECREASE: Final = 1e-4
_CURVATURE: Final = 0.9
_GROW: Final = 2.0
_ROUNDING: Final = 8.0
"""Changes of the function below so many units in its last place are taken for rounding."""


class Point(NamedTuple):
    """A step along the line: its length, the function and its slope there, and the gradient (n,)."""

    step: Array
    value: Array
    slope: Array
    gradient: Array


class LineSearch(NamedTuple):
    """The point found, which is the one the search began at if nothing satisfies the conditions; whether it failed; evaluations."""

    point: Point
    failed: Array
    evaluations: Array


class _State(NamedTuple):
    k: Any  # evaluations
    zooming: Any  # whether `low` and `other` enclose a step that satisfies the conditions
    low: Point  # the best step so far
    other: Point  # the other end of the interval; before zooming, the step before `low`
    previous: Point  # the last end that was thrown away
    trial: Any  # the next step
    done: Any
    found: Point


def _cubic(a: Point, b: Point, c: Point) -> Array:
    """The minimum of the cubic polynomial through a with its slope, b and c."""
    db, dc = b.step - a.step, c.step - a.step
    denominator = (db * dc) ** 2 * (db - dc)
    rb = b.value - a.value - a.slope * db
    rc = c.value - a.value - a.slope * dc
    p = (dc**2 * rb - db**2 * rc) / denominator
    q = (db**3 * rc - dc**3 * rb) / denominator
    return a.step + (-q + jnp.sqrt(q * q - 3 * p * a.slope)) / (3 * p)


def _quadratic(a: Point, b: Point) -> Array:
    """The minimum of the parabola through a with its slope, and b."""
    d = b.step - a.step
    return a.step - a.slope * d * d / (2 * (b.value - a.value - a.slope * d))


def _inside(low: Point, other: Point, previous: Point) -> Array:
    """A step between two: by a cubic, by a parabola if that comes too near to an end, or halfway."""
    first, last = jnp.minimum(low.step, other.step), jnp.maximum(low.step, other.step)
    width = last - first

    def fits(x: Array, margin: float) -> Array:
        return (x > first + margin * width) & (x < last - margin * width)  # False for NaN

    cubic, quadratic = _cubic(low, other, previous), _quadratic(low, other)
    return jnp.where(
        fits(cubic, 0.2) & (previous.step != other.step),
        cubic,
        jnp.where(fits(quadratic, 0.1), quadratic, first + width / 2),
    )


def _choose(which: Array, a: Point, b: Point) -> Point:
    return Point(*(jnp.where(which, x, y) for x, y in zip(a, b, strict=True)))


def line_search(
    value_and_grad: Callable[[Array], tuple[Array, Array]], x: Array, direction: Array, value: Array, gradient: Array, first: Array,
    limit: int,
) -> LineSearch:  # fmt: skip
    """A step from x (n,), where the function has `value` and `gradient`, along a direction of descent; `first`: the step to be tried first;
    limit: the greatest number of evaluations."""
    start = Point(jnp.zeros_like(value), value, jnp.dot(gradient, direction), gradient)
    rounding = _ROUNDING * dtypes.finfo(value.dtype).eps * jnp.abs(value)

    def proceed(s: _State) -> Any:
        return ~s.done & (s.k < limit)

    def step(s: _State) -> _State:
        f, g = value_and_grad(x + s.trial * direction)
        now = Point(s.trial, f, jnp.dot(g, direction), g)
        decreased = f <= value + _DECREASE * s.trial * start.slope
        decreased |= (f <= value + rounding) & (now.slope <= (2 * _DECREASE - 1) * start.slope)
        flat = jnp.abs(now.slope) <= -_CURVATURE * start.slope
        accepted = decreased & flat
        # as long as nothing is enclosed, `low` is the step before; NaN is above everything
        too_high = ~decreased | ~(f < s.low.value)
        too_high &= ~(decreased & (jnp.abs(f - s.low.value) <= rounding))
        turned = now.slope * jnp.where(s.zooming, s.other.step - s.low.step, 1) >= 0
        # the interval: now is its other end, or its better end, whose other end is the one that the slope points to
        low = _choose(too_high, s.low, now)
        other = _choose(too_high, now, _choose(turned, s.low, s.other))
        previous = _choose(too_high | turned, s.other, s.low)
        zooming = s.zooming | too_high | turned
        trial = jnp.where(zooming, _inside(low, other, previous), _GROW * s.trial)
        return _State(s.k + 1, zooming, low, other, previous, trial.astype(value.dtype), accepted, _choose(accepted, now, s.found))

    begin = _State(0, False, start, start, start, first.astype(value.dtype), start.slope >= 0, start)
    end = while_loop(proceed, step, begin)
    return LineSearch(end.found, ~end.done | (start.slope >= 0), end.k)
