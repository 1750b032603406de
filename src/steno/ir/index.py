"""Affine index arithmetic: integer linear combinations of loop variables, with division by bounds.

grammar:  Index ::= const + sum(coefficient * Atom)
          Atom  ::= LoopVar(name, extent)            0 <= v < extent
                  | FloorDiv(Index, int) | Mod(Index, int)   what does not simplify
                  | Value(Expr)                      an index computed at run time (gather, dynamic_slice)

Every Index has bounds `lo <= index <= hi`, from which divisions and remainders simplify.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steno.core.record import field, record


@record(frozen=True, eq=False)
class LoopVar:
    """A loop variable, by identity: `0 <= v < extent`."""

    name: str
    extent: int

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, max(self.extent - 1, 0)

    def __repr__(self) -> str:
        return self.name


@record(frozen=True)
class FloorDiv:
    index: Index
    divisor: int

    @property
    def bounds(self) -> tuple[int, int]:
        return self.index.lo // self.divisor, self.index.hi // self.divisor

    def __repr__(self) -> str:
        return f"({self.index} // {self.divisor})"


@record(frozen=True)
class Mod:
    index: Index
    divisor: int

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, self.divisor - 1

    def __repr__(self) -> str:
        return f"({self.index} % {self.divisor})"


@record(frozen=True)
class Value:
    """An int64 expression (compared by identity), known to lie in [low, high]."""

    expr: Any
    low: int
    high: int

    @property
    def bounds(self) -> tuple[int, int]:
        return self.low, self.high

    def __repr__(self) -> str:
        return f"[{self.expr}]"


Atom = LoopVar | FloorDiv | Mod | Value


@record(frozen=True)
class Index:
    """`const + sum(c * atom for atom, c in terms)`; terms in order of first use, no zero coefficients."""

    const: int
    terms: tuple[tuple[Atom, int], ...] = ()
    lo: int = field(init=False, compare=False)
    hi: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        lo = hi = self.const
        for atom, c in self.terms:
            a, b = atom.bounds
            lo += c * (a if c > 0 else b)
            hi += c * (b if c > 0 else a)
        object.__setattr__(self, "lo", lo)
        object.__setattr__(self, "hi", hi)

    def coefficient(self, atom: Atom) -> int:
        for a, c in self.terms:
            if a is atom or a == atom:
                return c
        return 0

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.const + other, self.terms)
        terms = dict(self.terms)
        for atom, c in other.terms:
            terms[atom] = terms.get(atom, 0) + c
        out = Index(self.const + other.const, tuple((a, c) for a, c in terms.items() if c))
        if any(isinstance(a, Mod) for a, _ in out.terms):
            return _rejoined(out)
        return out

    def __mul__(self, k: int) -> Index:
        if k == 0:
            return ZERO
        return Index(self.const * k, tuple((a, c * k) for a, c in self.terms))

    __rmul__ = __mul__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other)

    def __floordiv__(self, d: int) -> Index:
        """(d*q + r) // d --> q   when 0 <= r < d for the part r whose coefficients d does not divide."""
        if d == 1:
            return self
        if self.lo // d == self.hi // d:
            return Index(self.lo // d)
        q, r = self._split(d)
        if 0 <= r.lo and r.hi < d:
            return q
        return q + Index(0, ((FloorDiv(r, d), 1),))

    def __mod__(self, d: int) -> Index:
        if d == 1:
            return ZERO
        if self.lo // d == self.hi // d:
            return self - (self.lo // d) * d
        _, r = self._split(d)
        if 0 <= r.lo and r.hi < d:
            return r
        return Index(0, ((Mod(r, d), 1),))

    def _split(self, d: int) -> tuple[Index, Index]:
        """self == d * quotient + rest, the rest holding what d does not divide."""
        qc, rc = divmod(self.const, d)
        quotient, rest = [], []
        for atom, c in self.terms:
            if c % d == 0:
                quotient.append((atom, c // d))
            else:
                rest.append((atom, c))
        return Index(qc, tuple(quotient)), Index(rc, tuple(rest))

    def substitute(self, replacement: dict[Atom, Index]) -> Index:
        """Replaces loop variables (also inside divisions), simplifying again."""
        out = Index(self.const)
        for atom, c in self.terms:
            if atom in replacement:
                out = out + replacement[atom] * c
            elif isinstance(atom, FloorDiv):
                out = out + (atom.index.substitute(replacement) // atom.divisor) * c
            elif isinstance(atom, Mod):
                out = out + (atom.index.substitute(replacement) % atom.divisor) * c
            else:
                out = out + Index(0, ((atom, c),))
        return out

    def __repr__(self) -> str:
        parts = [f"{c}*{a}" if c != 1 else f"{a}" for a, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


def _rejoined(i: Index) -> Index:
    """d * (x // d) + x % d --> x,   also where x = y // e and the quotient is y // (e * d)."""
    for atom, c in i.terms:
        if not isinstance(atom, Mod):
            continue
        x, d = atom.index, atom.divisor
        wanted = [FloorDiv(x, d)]
        if x.const == 0 and len(x.terms) == 1 and x.terms[0][1] == 1 and isinstance(x.terms[0][0], FloorDiv):
            inner = x.terms[0][0]
            wanted.append(FloorDiv(inner.index, inner.divisor * d))
        for quotient in wanted:
            if i.coefficient(quotient) == c * d:
                rest = tuple((a, k) for a, k in i.terms if a != atom and a != quotient)
                return Index(i.const, rest) + x * c
    return i


ZERO = Index(0)


def var(v: LoopVar) -> Index:
    """A loop of extent 1 --> 0."""
    return Index(0, ((v, 1),)) if v.extent > 1 else ZERO


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a C-contiguous array."""
    strides, s = [], 1
    for n in reversed(shape):
        strides.append(s)
        s *= n
    return tuple(reversed(strides))


def linear(indices: Sequence[Index], shape: tuple[int, ...]) -> Index:
    """The offset in elements of `indices` in a C-contiguous array of `shape`."""
    out = ZERO
    for i, s in zip(indices, row_major(shape), strict=True):
        out = out + i * s
    return out


def unlinear(offset: Index, shape: tuple[int, ...]) -> list[Index]:
    """The inverse of `linear` for offsets in range."""
    return [(offset // s) % n if k else offset // s for k, (n, s) in enumerate(zip(shape, row_major(shape), strict=True))]
