"""What is known of symbolic sizes: bounds, and whether one is at least 0.

The terms of an expression are bounded by what their factors can be. Where that does not tell, multiples of inequalities that are known to
hold (those of the scope, and those that operations bring along) are taken away from the expression, so that a term goes, as in
Fourier-Motzkin elimination; max and min are taken for each of their operands. All this to a small depth: what is not found is not known.

Expressions are those of `symbolic`: ints, or objects with `scope` and `terms`, pairs of a tuple of (factor, power) and a coefficient."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from steno.core.sizes import UnknownSize

Size = Any
Factor = Any
Term = tuple[tuple[Factor, int], ...]

_DEPTH: Final = 3
_INF: Final = math.inf


def not_negative(e: Size) -> bool:
    """Whether e is known to be at least 0."""
    return e >= 0 if type(e) is int else _proved(e, _DEPTH)


def _proved(e: Size, depth: int) -> bool:
    if type(e) is int:
        return e >= 0
    memo = e.scope._bounded
    key = e, depth, "proved"
    found = memo.get(key)
    if found is None:
        memo[key] = False  # what this very question may assume meanwhile
        found = memo[key] = _simple_lower(e, 1) >= 0 or (depth > 0 and any(_proved_all(goals, depth - 1) for goals in _sufficient(e)))
    return found


def _proved_all(goals: Iterable[Size], depth: int) -> bool:
    return all(_proved(g, depth) for g in goals)


def _sufficient(e: Any) -> Iterator[list[Size]]:
    """Lists of expressions: if all in one of them are at least 0, e is."""
    for left, k in _eliminations(e):
        yield [left + (k - 1)]
    for f in _factors(e):
        if f[0] in ("max", "min"):
            yield [_replaced(e, f, x) for x in f[1:]]
        elif f[0] == "floordiv" and type(f[2]) is int:
            yield [e * f[2] + (f[2] - 1)]


def _eliminations(e: Any) -> Iterator[tuple[Size, int]]:
    """Pairs (left, k) with k * e = left + a multiple of a known inequality, which takes away one term of e."""
    coefficients = dict(e.terms)
    for known in _inequalities(e):
        for term, k in known.terms:
            c = coefficients.get(term, 0)
            if term and c * k > 0:
                yield e.scope.made([*((t, n * abs(k)) for t, n in e.terms), *((t, -n * abs(c)) for t, n in known.terms)]), abs(k)


def lower_bound(e: Size) -> float:
    """A number that is at most e, whatever the variables are: an int, or minus infinity."""
    return _lower(e, _DEPTH)


def upper_bound(e: Size) -> float:
    """A number that is at least e: an int, or infinity."""
    return -_lower(-e, _DEPTH)


def bounds(e: Size, depth: int) -> tuple[float, float]:
    return _lower(e, depth), -_lower(-e, depth)


def _lower(e: Size, depth: int) -> float:
    if type(e) is int:
        return e
    memo = e.scope._bounded
    found = memo.get((e, depth))
    if found is None:
        memo[e, depth] = -_INF
        found = memo[e, depth] = _lower_of(e, depth)
    return found


def _simple_lower(e: Any, depth: int) -> float:
    """By the bounds of the terms."""
    best: float = 0
    for term, c in e.terms:
        low, high = _term_bounds(e.scope, term, depth)
        best += c * (low if c > 0 else high)
    return best


def _lower_of(e: Any, depth: int) -> float:
    best = _simple_lower(e, depth)
    if depth == 0:
        return best
    for left, k in _eliminations(e):
        best = max(best, _divided_up(_lower(left, depth - 1), k))
    for f in _factors(e):
        if f[0] in ("max", "min"):
            best = max(best, min(_lower(_replaced(e, f, x), depth - 1) for x in f[1:]))
        elif f[0] == "floordiv" and type(f[2]) is int:
            best = max(best, _divided_up(_lower(e * f[2], depth - 1), f[2]))
    return best


def _divided_up(x: float, k: int) -> float:
    return x if x in (_INF, -_INF) else -(-int(x) // k)


def _factors(e: Any) -> list[Any]:
    """The operations among the factors."""
    return list(dict.fromkeys(f for term, _ in e.terms for f, _ in term if type(f) is tuple))


def _replaced(e: Any, f: Factor, x: Size) -> Size:
    """e with x in the place of a factor."""
    total: Size = 0
    for term, c in e.terms:
        power = dict(term).get(f, 0)
        rest = e.scope.made([(tuple(p for p in term if p[0] != f), c)])
        total = total + rest * x**power
    return total


def _inequalities(e: Any) -> Iterator[Any]:
    """Expressions that are at least 0 and may help to bound e."""
    scope = e.scope
    for c in scope.constraints:
        yield c.surplus
        if c.equal and isinstance(-c.surplus, UnknownSize):
            yield -c.surplus
    out: list[Size] = []
    for f in _factors(e):
        word, x, y = f
        itself = scope.made([(((f, 1),), 1)])
        if word == "max":
            out += [itself - x, itself - y]
        elif word == "min":
            out += [x - itself, y - itself]
        elif word == "mod":
            if isinstance(y, UnknownSize) and _lower(y, 1) >= 1:
                out.append(y - 1 - itself)
            if _lower(x, 1) >= 0 and _lower(y, 1) >= 1:
                out.append(x - itself)
        elif _lower(y, 1) >= 1:
            if _lower(x, 1) >= 0:
                out.append(x - itself)
            if isinstance(y, UnknownSize):
                out += [x - y * itself, y * itself + y - 1 - x]
    for term, _ in e.terms:
        if len(term) == 2 and all(type(f) is str and p == 1 for f, p in term):  # (x - low)(y - low) >= 0
            x, y = (scope.made([(((f, 1),), 1)]) for f, _ in term)
            out.append((x - 1) * (y - 1))
        elif len(term) == 1 and type(term[0][0]) is str and term[0][1] == 2:
            x = scope.made([(((term[0][0], 1),), 1)])
            out.append(x * (x - 1))
    yield from (s for s in out if isinstance(s, UnknownSize))


def _term_bounds(scope: Any, term: Term, depth: int) -> tuple[float, float]:
    low: float = 1
    high: float = 1
    for f, p in term:
        bounds = (1, _INF) if type(f) is str else _factor_bounds(scope, f, max(depth - 1, 0))
        for _ in range(p):
            ends = [_end(x, y) for x in (low, high) for y in bounds]
            low, high = min(ends), max(ends)
        if p % 2 == 0 and low < 0 and len(term) == 1:
            low = 0
    return low, high


def _end(x: float, y: float) -> float:
    return 0 if not x or not y else x * y


def _factor_bounds(scope: Any, f: Any, depth: int) -> tuple[float, float]:
    word, x, y = f
    (x0, x1), (y0, y1) = bounds(x, depth), bounds(y, depth)
    if word == "max":
        return max(x0, y0), max(x1, y1)
    if word == "min":
        return min(x0, y0), min(x1, y1)
    if word == "mod":
        if y0 > 0:
            return 0, min(y1 - 1, x1 if x0 >= 0 else _INF)
        return (y0 + 1, 0) if y1 < 0 else (min(y0 + 1, 0), max(y1 - 1, 0))
    if y0 <= 0:
        return -_INF, _INF
    ends = [_over(a, b) for a in (x0, x1) for b in (y0, y1)]
    return min(ends), max(ends)


def _over(x: float, y: float) -> float:
    """x // y for y > 0, either of which may be infinite."""
    if y == _INF:
        return 0 if x >= 0 else -1 if x > -_INF else -_INF
    return x if x in (_INF, -_INF) else int(x) // int(y)


__all__ = ["bounds", "lower_bound", "not_negative", "upper_bound"]
