"""Local algebra of scalar expressions: exact to the bit (signed zeros, infinities, NaNs), tried on each new node.

`RULES[op](b, dtype, args)` gives the simpler Expr, or None. Arguments are not all constants (those are folded before), and a constant
operand of a commutative op stands on the right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from steno.ir.index import Index
from steno.ir.primitives import BOOL, COMPARISONS, F16

if TYPE_CHECKING:
    from steno.ir.expr import Builder, Expr


def _is(e: Expr, value: float) -> bool:
    """A constant with exactly this value and sign."""
    return e.op == "const" and e.attr == value and (value != 0 or math.copysign(1, e.attr) == math.copysign(1, value))


def _all_ones(e: Expr) -> bool:
    if e.op != "const" or e.dtype.kind == "f":
        return False
    return e.attr is True if e.dtype == BOOL else int(e.attr) & ((1 << 8 * e.dtype.itemsize) - 1) == (1 << 8 * e.dtype.itemsize) - 1


def _add(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """x + 0 --> x (integers)   x + -0.0 --> x   x + -y --> x - y   -x + y --> y - x"""
    x, y = args
    if _is(y, -0.0 if d.kind == "f" else 0):
        return x
    if y.op == "neg":
        return b.node("sub", d, (x, y.args[0]))
    if x.op == "neg":
        return b.node("sub", d, (y, x.args[0]))
    return None


def _sub(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """x - 0 --> x   x - x --> 0 (integers)   x - -y --> x + y"""
    x, y = args
    if _is(y, 0.0 if d.kind == "f" else 0):
        return x
    if x is y and d.kind != "f":
        return b.constant(0, d)
    if y.op == "neg":
        return b.node("add", d, (x, y.args[0]))
    return None


def _mul(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """x * 1 --> x   x * -1 --> -x   x * 0 --> 0 (integers)"""
    x, y = args
    if _is(y, 1):
        return x
    if _is(y, -1):
        return b.node("neg", d, (x,))
    if d.kind != "f" and _is(y, 0):
        return y
    return None


def _div(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """x / 1 --> x   x / 2**k --> x * 2**-k (floats)"""
    x, y = args
    if _is(y, 1):
        return x
    if d.kind == "f" and y.op == "const" and abs(math.frexp(y.attr)[0]) == 0.5:
        reciprocal = 1.0 / y.attr
        if float(np.finfo(d).tiny) <= abs(reciprocal) <= float(np.finfo(d).max):  # a normal number, so exact
            return b.node("mul", d, (x, b.constant(reciprocal, d)))
    return None


def _fma_rule(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """fma(x, 1, z) --> x + z   fma(1, y, z) --> y + z"""
    x, y, z = args
    if _is(y, 1):
        return b.node("add", d, (x, z))
    return b.node("add", d, (y, z)) if _is(x, 1) else None


def _neg(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """- -x --> x   -(x * c) --> x * -c (floats)"""
    (x,) = args
    if x.op == "neg":
        return x.args[0]
    if d.kind == "f" and x.op == "mul" and x.args[1].op == "const":
        return b.node("mul", d, (x.args[0], b.constant(-x.args[1].attr, d)))
    return None


def _not(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """not not x --> x   not (x == y) --> x != y   not (x < y) --> x >= y (integers)"""
    (x,) = args
    if x.op == "not":
        return x.args[0]
    opposite = {"eq": "ne", "ne": "eq"}
    if x.op in COMPARISONS and x.args[0].dtype.kind != "f":
        opposite |= {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
    return b.node(opposite[x.op], BOOL, x.args) if x.op in opposite else None


def _abs(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """|-x| --> |x|   ||x|| --> |x|   |copysign(x, y)| --> |x|   |x| --> x (unsigned)"""
    (x,) = args
    if d.kind == "u" or x.op == "abs":
        return x
    return b.node("abs", d, (x.args[0],)) if x.op in ("neg", "copysign") else None


def affine(e: Expr) -> Index | None:
    """An integer expression as an index, if it is one, computed without overflow."""
    if e.dtype.kind not in "iu":
        return None
    out = None
    if e.op == "index":
        out = e.attr
    elif e.op == "const":
        out = Index(e.attr)
    elif e.op == "convert":
        out = affine(e.args[0])
    elif e.op in ("add", "sub", "mul"):
        x = affine(e.args[0])
        y = None if x is None else affine(e.args[1])
        if x is not None and y is not None:
            if e.op == "mul":
                out = None if y.terms else x * y.const
            else:
                out = x + y if e.op == "add" else x - y
    if out is None:
        return None
    bits = 8 * e.dtype.itemsize - (e.dtype.kind == "i")
    return out if out.hi < 1 << bits and out.lo >= (-(1 << bits) if e.dtype.kind == "i" else 0) else None


def _extremum(least: bool) -> Callable[..., Expr | None]:
    """min(x, x) --> x   max(x, x) --> x   min(index, c) --> one of them, if the bounds tell"""

    def rule(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
        x, y = args
        if x is y:
            return x
        i = affine(x)
        j = None if i is None else affine(y)
        if i is None or j is None or i.hi > j.lo and j.hi > i.lo:
            return None
        return x if (i.hi <= j.lo) == least else y

    return rule


def _and(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """x & x --> x   x & ones --> x   x & 0 --> 0   (x & c1) & c2 --> x & (c1 & c2)"""
    x, y = args
    if x is y or _all_ones(y):
        return x
    if _is(y, 0):
        return y
    if y.op == "const" and x.op == "and" and x.args[1].op == "const":
        return b.node("and", d, (x.args[0], b.constant(x.args[1].attr & y.attr, d)))
    return None


def _or(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """x | x --> x   x | 0 --> x   x | ones --> ones"""
    x, y = args
    if x is y or _is(y, 0):
        return x
    return y if _all_ones(y) else None


def _xor(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """x ^ x --> 0   x ^ 0 --> x   x ^ ones --> not x"""
    x, y = args
    if x is y:
        return b.constant(0, d)
    if _is(y, 0):
        return x
    return b.node("not", d, (x,)) if _all_ones(y) else None


def _shift(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """x << 0 --> x"""
    return args[0] if _is(args[1], 0) else None


def _comparison(below: bool, same: bool, above: bool) -> Callable[..., Expr | None]:
    """x == x --> true, x < x --> false ... (not floats)   index < c --> true or false, if the bounds tell. The arguments: what the
    comparison gives for x < y, x == y, x > y."""

    def rule(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
        x, y = args
        if x is y:
            return b.constant(same, BOOL) if x.dtype.kind != "f" else None
        i = affine(x)
        j = None if i is None else affine(y)
        if i is None or j is None:
            return None
        outcomes = {value for value, possible in ((below, i.lo < j.hi), (above, i.hi > j.lo)) if possible}
        if i.lo <= j.hi and j.lo <= i.hi:
            outcomes.add(same)
        return b.constant(outcomes.pop(), BOOL) if len(outcomes) == 1 else None

    return rule


def _select(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """select(true, x, y) --> x   select(c, x, x) --> x   select(not c, x, y) --> select(c, y, x)   select(c, true, false) --> c"""
    c, x, y = args
    if c.op == "const":
        return x if c.attr else y
    if x is y:
        return x
    if c.op == "not":
        return b.node("select", d, (c.args[0], y, x))
    if d == BOOL and x.op == "const" and y.op == "const":
        return c if x.attr else b.node("not", BOOL, (c,))
    return None


def _rare(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """rare(false, x, y) --> x   rare(true, x, y) --> y   rare(c, x, x) --> x"""
    c, x, y = args
    if c.op == "const":
        return y if c.attr else x
    return x if x is y else None


def _holds(wide: np.dtype, dtype: np.dtype) -> bool:
    """Every value of `dtype` is one of `wide`."""
    return np.can_cast(dtype, wide, "safe") if wide != BOOL else dtype == BOOL


def _convert(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """convert to its own dtype --> x   x to a wider dtype and on to d --> x to d
    integer x to a narrower dtype and on to a still narrower d --> x to d"""
    (x,) = args
    if x.dtype == d:
        return x
    if x.op == "convert":
        inner = x.args[0]
        if _holds(x.dtype, inner.dtype) and (d != F16 and inner.dtype != F16 or inner.dtype == d):
            return b.node("convert", d, (inner,))
        if d.kind in "iu" and x.dtype.kind in "iu" and inner.dtype.kind in "iu" and d.itemsize <= x.dtype.itemsize <= inner.dtype.itemsize:
            return b.node("convert", d, (inner,))
    return None


def _bitcast(b: Builder, d: np.dtype, args: tuple[Expr, ...]) -> Expr | None:
    """bitcast to its own dtype --> x   bitcast(bitcast(x)) --> bitcast(x)"""
    (x,) = args
    if x.dtype == d:
        return x
    return b.node("bitcast", d, x.args) if x.op == "bitcast" else None


RULES: dict[str, Callable[[Builder, np.dtype, tuple[Expr, ...]], Expr | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "fma": _fma_rule,
    "neg": _neg,
    "not": _not,
    "abs": _abs,
    "min": _extremum(True),
    "max": _extremum(False),
    "and": _and,
    "or": _or,
    "xor": _xor,
    "shl": _shift,
    "lshr": _shift,
    "ashr": _shift,
    "eq": _comparison(False, True, False),
    "le": _comparison(True, True, False),
    "ge": _comparison(False, True, True),
    "ne": _comparison(True, False, True),
    "lt": _comparison(True, False, False),
    "gt": _comparison(False, False, True),
    "select": _select,
    "rare": _rare,
    "convert": _convert,
    "bitcast": _bitcast,
}
