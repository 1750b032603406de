"""Scalar expressions: the body language of kernels. A DAG of interned nodes, one `Builder` per kernel or program.

grammar of primitive expressions (what the code generator and the interpreters read)
    Expr ::= (op, dtype, args, attr)
    dtype: bool, int8..int64, uint8..uint64, float32, float64. float16 occurs only as the dtype of `load`, of a stored value (Store.value),
           of `convert` from and to float32, and of `bitcast` from and to 16-bit integers.
    op:
      const(attr: bool, int or float)                  load(attr: (Buffer, offset Index, guard Expr | None))
      index(attr: Index) : int64                       local(attr: name)     acc(attr: k)     elt(attr: k)
      add sub mul                                      wrap-around for integers; one rounding for floats, never contracted
      div rem                                          floats: IEEE, C fmod. Integers: truncating; x / 0 = -1 (all ones), x rem 0 = x,
                                                       INT_MIN / -1 = INT_MIN, INT_MIN rem -1 = 0
      fma                                              floats, one rounding
      scale(x, n)                                      float32, float64: x * 2**n with one rounding, for 2**-16 <= |x| <= 2**16 or NaN,
                                                       n an integral float, |n| <= 252 (float32), 2044 (float64); else unspecified
      neg abs sqrt floor ceil round_even trunc copysign   neg and abs: also integers, INT_MIN stays
      min max                                          floats: a NaN operand gives NaN, -0 < +0
      and or xor not                                   bool and integers
      shl lshr ashr                                    integers; the amount has the dtype of the value; amounts (unsigned) at or beyond
                                                       the width: 0, 0, sign fill
      eq ne lt le gt ge : bool                         IEEE for floats (ne is true with NaN); args of one dtype
      select(bool, x, y)
      rare(bool, x, y)                                 the value of select(bool, y, x) where `bool` is hardly ever true: "if it holds in any
                                                       lane evaluate y for the vector and select, else skip y". Nodes reached only through
                                                       third arguments of `rare` belong into the skipped region (copied into that of
                                                       each `rare` which reaches them). May nest.
      outline(attr: name)                              OUTLINED[name] of the arguments, in a function of its own: for long and rarely
                                                       computed code, which so stands once in a program
      convert                                          numeric conversion; float to integer truncates, saturates, NaN -> 0; integer to
                                                       narrower integer wraps; to bool: != 0; from bool: 0 or 1
      bitcast                                          same width, not bool
      clz popcnt                                       integers, the result has the operand's dtype
      mulhi                                            uint32, uint64: the high half of the product
    NaNs made by arithmetic have no particular sign or payload.

Scalars, what op bodies handle: `Scalar = Expr | Narrow | Pair`, each with a logical `dtype`.
    Expr    a dtype with machine arithmetic: itself
    Narrow  float16, bfloat16, float8_*, float6_*, float4_*: the exact value as float32; int4, uint4, int2, ...: as int8 or uint8
    Pair    complex64, complex128: (re, im) as float32, float64; PRNG keys: the halves of their words
The methods of `Builder` take Scalars and reduce everything to primitive Exprs: Narrow floats compute in float32 and round after each op,
narrow integers wrap to their width, complex numbers go by components. Operands must have one dtype; a Python number stands for a constant
of the other operand's dtype.

Two flat forms of a Scalar: `to_storage`/`from_storage`, the primitive values that lie in memory (raw bits of Narrow ones: uint8, uint16,
float16; `storage(dtype)` tells dtype and count), and `to_registers`/`from_registers`, the values it computes with (`registers(dtype)`), for
`local`, `acc` and `elt` leaves. `load` of a logical dtype reads the storage form. Moving bits in and out keeps them (NaN payloads too).

`call(name, *args)` expands an elementary function of `FUNCTIONS`, where `steno.compiler.vecmath` registers them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from steno.core.record import record
from steno.ir import primitives
from steno.ir.algebra import RULES
from steno.ir.index import FloorDiv, Index, Mod, Value
from steno.ir.narrow import FORMATS, FloatFormat, Format, IntFormat, decode, encode, round_to

BOOL, I8, I32, I64, U8, U16, U32, U64, F16, F32, F64 = (
    np.dtype(n) for n in ("bool", "int8", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
)
C64, C128 = np.dtype("complex64"), np.dtype("complex128")
PRIMITIVE = frozenset(
    np.dtype(n) for n in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
)
COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor", "eq", "ne", "mulhi"})
LEAVES = frozenset({"const", "load", "index", "local", "acc", "elt"})


@final
@record(frozen=True, eq=False, slots=True)
class Expr:
    """A primitive expression; equal ones of one Builder are identical. Made by `Builder` only."""

    op: str
    dtype: Any
    args: tuple[Expr, ...] = ()
    attr: Any = None

    def __repr__(self) -> str:
        return f"<{self.op} {self.dtype}{'' if self.attr is None else f' {self.attr}'}>"


@final
@record(frozen=True, slots=True)
class Narrow:
    """A scalar of a dtype without machine arithmetic: `value` is exact, in the wider dtype its Format names; `dtype` is the logical one."""

    dtype: Any
    value: Expr


@final
@record(frozen=True, slots=True)
class Pair:
    """A scalar of two components: complex (re, im), or a PRNG key (two uint32 or uint64). `dtype` is the logical dtype."""

    dtype: Any
    first: Expr
    second: Expr


Scalar = Expr | Narrow | Pair
_SCALARS = frozenset({Expr, Narrow, Pair})
Operand = Expr | Narrow | Pair | bool | int | float | complex

OUTLINED: dict[str, Callable[..., Expr]] = {}
"""What `outline` nodes stand for, by name: `f(b, *primitive Exprs) -> Expr`, of nodes without leaves, `rare` and `outline`."""

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Elementary functions by name: `f(b, *scalars) -> Scalar`. Filled by `steno.compiler.vecmath`."""


def is_complex(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "c"


def component(dtype: Any) -> np.dtype:
    """complex64 --> float32, complex128 --> float64, key of one word --> uint16, of two --> uint32, of four --> uint64; float0, which has
    no elements that are read, as if of two words."""
    if is_complex(dtype):
        return F32 if dtype == C64 else F64
    return {1: U16, 2: U32, 4: U64}[getattr(dtype, "words", 2)]


def storage(dtype: Any) -> tuple[np.dtype, int]:
    """(primitive dtype, count) of one element of a logical dtype in memory."""
    if dtype in PRIMITIVE:
        return dtype, 1
    if dtype in FORMATS:
        return FORMATS[dtype].storage, 1
    return component(dtype), 2


def registers(dtype: Any) -> tuple[np.dtype, ...]:
    """The primitive dtypes of the values that a scalar of a logical dtype computes with."""
    if dtype in PRIMITIVE:
        return (dtype,)
    if dtype in FORMATS:
        return (FORMATS[dtype].value,)
    return (component(dtype),) * 2


def children(e: Expr) -> tuple[Expr, ...]:
    """The Exprs that `e` reads, those inside its indices and guard included."""
    if e.op == "load":
        _, offset, guard = e.attr
        inner = tuple(index_values(offset))
        return inner if guard is None else (*inner, guard)
    if e.op == "index":
        return tuple(index_values(e.attr))
    return e.args


def outlined(e: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """What an `outline` node stands for: an Expr over the leaves elt 0, 1, ..., and these leaves."""
    key = (e.attr, tuple(a.dtype for a in e.args))
    found = _outlined.get(key)
    if found is None:
        b = Builder()
        leaves = tuple(b.elt(k, a.dtype) for k, a in enumerate(e.args))
        found = _outlined[key] = (OUTLINED[e.attr](b, *leaves), leaves)
    return found


_outlined: dict[Any, tuple[Expr, tuple[Expr, ...]]] = {}


def index_values(index: Index) -> Iterator[Expr]:
    """The Exprs inside an Index."""
    for atom, _ in index.terms:
        if isinstance(atom, Value):
            yield atom.expr
        elif isinstance(atom, (FloorDiv, Mod)):
            yield from index_values(atom.index)


def topological(roots: Iterable[Expr]) -> list[Expr]:
    """Every Expr reached from `roots`, operands first."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    for root in roots:
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            e, done = stack.pop()
            if done:
                order.append(e)
            elif e not in seen:
                seen.add(e)
                stack.append((e, True))
                stack.extend((c, False) for c in reversed(children(e)) if c not in seen)
    return _unique(order)


def _unique(order: list[Expr]) -> list[Expr]:
    return list(dict.fromkeys(order))


def show(roots: Sequence[Expr]) -> str:
    """The DAG as text, one node a line: `%2 = add float32 %0 %1`, the roots last."""
    names: dict[Expr, str] = {}
    lines = []
    for e in topological(roots):
        names[e] = f"%{len(names)}"
        words = [e.op, str(e.dtype), *(names[a] for a in e.args)]
        if e.op == "load":
            buffer, offset, guard = e.attr
            words.append(f"{getattr(buffer, 'name', buffer)}[{_show_index(offset, names)}]")
            if guard is not None:
                words.append(f"if {names[guard]}")
        elif e.op == "index":
            words.append(f"[{_show_index(e.attr, names)}]")
        elif e.op in LEAVES or e.op == "outline":
            words.append(repr(e.attr))
        lines.append(f"{names[e]} = {' '.join(words)}")
    lines.append("give " + " ".join(names[r] for r in roots))
    return "\n".join(lines)


def _show_index(index: Index, names: Mapping[Expr, str]) -> str:
    text = repr(index)
    for e in index_values(index):
        text = text.replace(repr(e), names[e])
    return text


def _rounded(v: float, dtype: np.dtype) -> float:
    if dtype is F32:
        try:
            return struct.unpack("<f", struct.pack("<f", v))[0]
        except OverflowError:
            return math.copysign(math.inf, v)
    with np.errstate(all="ignore"):
        return float(dtype.type(v))


def _describe(x: Any) -> str:
    return str(getattr(x, "dtype", type(x).__name__))


@final
class Builder:
    """Makes expressions: interned, constants folded, reduced to primitive dtypes (see the module's text)."""

    __slots__ = ("_nodes", "_raw")

    def __init__(self) -> None:
        self._nodes: dict[Any, Expr] = {}
        self._raw: dict[tuple[Any, Expr], Expr] = {}  # (narrow dtype, value) -> its known stored bits

    # ---- nodes ----

    def node(self, op: str, dtype: np.dtype, args: tuple[Expr, ...]) -> Expr:
        """The interned primitive node, simplified; no checks."""
        if op in COMMUTATIVE and args[0].op == "const" and args[1].op != "const":
            args = (args[1], args[0])
        key = (op, dtype.char, args)
        found = self._nodes.get(key)
        if found is None:
            found = self._simplify(op, dtype, args)
            self._nodes[key] = found
        return found

    def _simplify(self, op: str, dtype: np.dtype, args: tuple[Expr, ...]) -> Expr:
        for a in args:
            if a.op != "const":
                break
        else:
            lanes = [np.asarray([a.attr], a.dtype) for a in args]
            return self.constant(primitives.apply(op, dtype, lanes)[0].item(), dtype)
        rule = RULES.get(op)
        if rule is not None:
            out = rule(self, dtype, args)
            if out is not None:
                return out
        if op in COMMUTATIVE and len(args) == 2:
            swapped = self._nodes.get((op, dtype.char, (args[1], args[0])))
            if swapped is not None:
                return swapped
        return Expr(op, dtype, args)

    def _leaf(self, op: str, dtype: np.dtype, attr: Any) -> Expr:
        key = (op, dtype.char, attr)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Expr(op, dtype, (), attr)
        return found

    def constant(self, value: Any, dtype: np.dtype) -> Expr:
        """A primitive constant; integers are taken modulo the width, floats rounded."""
        kind = dtype.kind
        if kind == "f":
            v: Any = float(value)
            if dtype is not F64:
                v = _rounded(v, dtype)
            # 0 and -0 are equal, a NaN is not to itself: their bits tell
            key: Any = ("const", dtype.char, v if v and v == v else struct.pack("<d", v))
        else:
            if dtype == BOOL:
                v = bool(value)
            else:
                width = 8 * dtype.itemsize
                v = int(value) & ((1 << width) - 1)
                if kind == "i" and v >> (width - 1):
                    v -= 1 << width
            key = ("const", dtype.char, v)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Expr("const", dtype, (), v)
        return found

    def outline(self, name: str, *args: Expr) -> Expr:
        """OUTLINED[name] of the arguments, as a node of its own; its dtype is that of the first argument."""
        if all(a.op == "const" for a in args):
            return OUTLINED[name](self, *args)
        key = ("outline", name, args)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Expr("outline", args[0].dtype, args, name)
        return found

    def rebuilt(self, e: Expr, args: tuple[Expr, ...]) -> Expr:
        """The node `e` with other operands."""
        return self.outline(e.attr, *args) if e.op == "outline" else self.node(e.op, e.dtype, args)

    # ---- leaves ----

    def const(self, value: Any, dtype: Any) -> Any:
        """A constant Scalar of a logical dtype from a Python or NumPy number (key dtypes: a pair of integers)."""
        dtype = _as_dtype(dtype)
        if dtype in PRIMITIVE:
            return self.constant(value.real if isinstance(value, (complex, np.complexfloating)) else value, dtype)
        f = FORMATS.get(dtype)
        if f is not None:
            if isinstance(f, IntFormat):
                return Narrow(dtype, round_to(self, f, self.constant(int(value), f.value)))
            raw = np.asarray(value).astype(dtype)
            stored = self.constant(raw.item() if f.storage == F16 else raw.view(f.storage).item(), f.storage)
            return self.from_storage(dtype, (stored,))
        if is_complex(dtype):
            v = complex(value)
            return Pair(dtype, self.constant(v.real, component(dtype)), self.constant(v.imag, component(dtype)))
        first, second = value
        return Pair(dtype, self.constant(first, component(dtype)), self.constant(second, component(dtype)))

    def index(self, index: Index) -> Expr:
        """An index as an int64 value."""
        if not index.terms:
            return self.constant(index.const, I64)
        if index.const == 0 and len(index.terms) == 1 and index.terms[0][1] == 1 and isinstance(index.terms[0][0], Value):
            return index.terms[0][0].expr
        return self._leaf("index", I64, index)

    def load(self, buffer: Any, offset: Index, guard: Expr | None = None, dtype: Any = None) -> Any:
        """Element `offset` of `buffer` as a Scalar of `dtype` (default: the buffer's). Offsets count elements of `dtype`, so
        a complex or key element k takes the buffer's elements 2k and 2k + 1. Where `guard` is false: unspecified, nothing is read."""
        dtype = buffer.dtype if dtype is None else _as_dtype(dtype)
        if guard is not None and guard.op == "const" and guard.attr:
            guard = None
        primitive, count = storage(dtype)
        if buffer.dtype != primitive:
            raise TypeError(f"load: buffer {buffer.name} holds {buffer.dtype}, an element of dtype {dtype} needs {primitive}")
        if count == 1:
            return self.from_storage(dtype, (self._leaf("load", primitive, (buffer, offset, guard)),))
        return Pair(dtype, *(self._leaf("load", primitive, (buffer, offset * 2 + k, guard)) for k in range(2)))

    def local(self, name: str, dtype: Any) -> Expr:
        return self._leaf("local", _primitive(dtype, "local"), name)

    def acc(self, k: int, dtype: Any) -> Expr:
        return self._leaf("acc", _primitive(dtype, "acc"), k)

    def elt(self, k: int, dtype: Any) -> Expr:
        return self._leaf("elt", _primitive(dtype, "elt"), k)

    # ---- flat forms ----

    def to_storage(self, x: Scalar) -> tuple[Expr, ...]:
        """The primitive values that lie in memory."""
        if isinstance(x, Expr):
            return (x,)
        if isinstance(x, Pair):
            return x.first, x.second
        return (self._bits(FORMATS[x.dtype], x.value),)

    def _bits(self, f: Format, value: Expr) -> Expr:
        known = self._raw.get((f.dtype, value))
        if known is None:
            if value.op == "select":  # a choice between stored elements moves their bits
                c, x, y = value.args
                if (f.dtype, x) in self._raw and (f.dtype, y) in self._raw:
                    return self.node("select", f.storage, (c, self._raw[f.dtype, x], self._raw[f.dtype, y]))
            known = self._raw[f.dtype, value] = encode(self, f, value)
        return known

    def from_storage(self, dtype: Any, values: Sequence[Expr]) -> Any:
        if dtype in PRIMITIVE:
            return values[0]
        f = FORMATS.get(dtype)
        if f is None:
            return Pair(dtype, *values)
        value = decode(self, f, values[0])
        self._raw.setdefault((f.dtype, value), values[0])
        return Narrow(dtype, value)

    def to_registers(self, x: Scalar) -> tuple[Expr, ...]:
        """The primitive values a scalar computes with."""
        if isinstance(x, Expr):
            return (x,)
        return (x.value,) if isinstance(x, Narrow) else (x.first, x.second)

    def from_registers(self, dtype: Any, values: Sequence[Expr]) -> Any:
        if dtype in PRIMITIVE:
            return values[0]
        return Narrow(dtype, values[0]) if dtype in FORMATS else Pair(dtype, *values)

    def pair(self, dtype: Any, first: Expr, second: Expr) -> Pair:
        """A complex number or a key of its components."""
        dtype = _as_dtype(dtype)
        for part in (first, second):
            if part.dtype != component(dtype):
                raise TypeError(f"pair: a {dtype} has components of dtype {component(dtype)}, got {part.dtype}")
        return Pair(dtype, first, second)

    def narrow(self, dtype: Any, value: Expr) -> Narrow:
        """A narrow scalar: `value` (float32, or the 8-bit integer of its Format) rounded or wrapped to the format."""
        return Narrow(dtype, round_to(self, FORMATS[dtype], value))

    # ---- arithmetic ----

    def _operands(self, op: str, *xs: Operand) -> tuple[Any, ...]:
        """Python numbers become constants of the others' dtype; dtypes must agree."""
        dtype = None
        complete = True
        for x in xs:
            if type(x) not in _SCALARS:
                complete = False
            elif dtype is None:
                dtype = x.dtype
            elif x.dtype is not dtype and x.dtype != dtype:
                raise TypeError(f"{op}: operands of dtypes {', '.join(map(_describe, xs))}; all must be equal")
        if complete:
            return xs
        if dtype is None:
            raise TypeError(f"{op}: no operand has a dtype: {xs}")
        return tuple(x if type(x) in _SCALARS else self.const(x, dtype) for x in xs)

    def _apply(self, op: str, *xs: Operand, exact: bool = False) -> Any:
        """A componentwise op whose result has the operands' dtype. `exact`: rounding is not needed for narrow floats."""
        return self._applied(op, self._operands(op, *xs), exact)

    def _applied(self, op: str, args: tuple[Any, ...], exact: bool = False) -> Any:
        first = args[0]
        if type(first) is Expr:
            return self.node(op, first.dtype, args)
        if isinstance(first, Narrow):
            f = FORMATS[first.dtype]
            value = self.node(op, f.value, tuple(a.value for a in args))
            return Narrow(
                f.dtype, value if exact and isinstance(f, FloatFormat) and f.special in ("ieee", "fn") else round_to(self, f, value)
            )
        raise TypeError(f"{op}: not defined for {first.dtype}")

    def _parts(self, f: Callable[..., Expr], *xs: Pair) -> Pair:
        """`f` on first and on second components."""
        return Pair(xs[0].dtype, f(*(x.first for x in xs)), f(*(x.second for x in xs)))

    def add(self, x: Operand, y: Operand) -> Any:
        x, y = self._operands("add", x, y)
        return self._parts(self.add, x, y) if isinstance(x, Pair) else self._applied("add", (x, y))

    def sub(self, x: Operand, y: Operand) -> Any:
        x, y = self._operands("sub", x, y)
        return self._parts(self.sub, x, y) if isinstance(x, Pair) else self._applied("sub", (x, y))

    def mul(self, x: Operand, y: Operand) -> Any:
        """(a + bi)(c + di) = (ac - bd) + (ad + bc)i, each product and sum rounded."""
        x, y = self._operands("mul", x, y)
        if not isinstance(x, Pair):
            return self._applied("mul", (x, y))
        (a, c), (e, g) = (x.first, x.second), (y.first, y.second)
        return Pair(x.dtype, self.sub(self.mul(a, e), self.mul(c, g)), self.add(self.mul(a, g), self.mul(c, e)))

    def div(self, x: Operand, y: Operand) -> Any:
        x, y = self._operands("div", x, y)
        return self.call("complex_div", x, y) if isinstance(x, Pair) else self._applied("div", (x, y))

    def scale(self, x: Expr, n: Expr) -> Expr:
        """x * 2**n for x near 1 and an integral float n, both float32 or float64; see the grammar."""
        return self.node("scale", x.dtype, self._operands("scale", x, n))

    def rem(self, x: Operand, y: Operand) -> Any:
        return self._apply("rem", x, y)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Any:
        """x * y + z with one rounding (float32, float64)."""
        args = self._operands("fma", x, y, z)
        if not isinstance(args[0], Expr) or args[0].dtype.kind != "f":
            raise TypeError(f"fma: float32 or float64 wanted, got {args[0].dtype}")
        return self.node("fma", args[0].dtype, args)

    def neg(self, x: Scalar) -> Any:
        return self._parts(self.neg, x) if isinstance(x, Pair) else self._apply("neg", x, exact=True)

    def abs(self, x: Scalar) -> Any:
        """The magnitude; of a complex number a float, by `hypot`."""
        return self.call("hypot", x.first, x.second) if isinstance(x, Pair) else self._apply("abs", x, exact=True)

    def sqrt(self, x: Scalar) -> Any:
        return self.call("complex_sqrt", x) if isinstance(x, Pair) else self._apply("sqrt", x)

    def floor(self, x: Scalar) -> Any:
        return self._apply("floor", x)

    def ceil(self, x: Scalar) -> Any:
        return self._apply("ceil", x)

    def round_even(self, x: Scalar) -> Any:
        return self._apply("round_even", x)

    def trunc(self, x: Scalar) -> Any:
        return self._apply("trunc", x)

    def copysign(self, x: Operand, y: Operand) -> Any:
        return self._apply("copysign", x, y, exact=True)

    def min(self, x: Operand, y: Operand) -> Any:
        return self._apply("min", x, y, exact=True)

    def max(self, x: Operand, y: Operand) -> Any:
        return self._apply("max", x, y, exact=True)

    # ---- bits ----

    def _bitwise(self, op: str, *xs: Operand) -> Any:
        args = self._operands(op, *xs)
        if isinstance(args[0], Pair) or args[0].dtype.kind == "f" or isinstance(FORMATS.get(args[0].dtype), FloatFormat):
            raise TypeError(f"{op}: bool or integer operands wanted, got {args[0].dtype}")
        return self._apply(op, *args)

    def and_(self, x: Operand, y: Operand) -> Any:
        return self._bitwise("and", x, y)

    def or_(self, x: Operand, y: Operand) -> Any:
        return self._bitwise("or", x, y)

    def xor(self, x: Operand, y: Operand) -> Any:
        return self._bitwise("xor", x, y)

    def not_(self, x: Operand) -> Any:
        return self._bitwise("not", x)

    def shl(self, x: Operand, n: Operand) -> Any:
        return self._bitwise("shl", x, n)

    def ashr(self, x: Operand, n: Operand) -> Any:
        return self._bitwise("ashr", x, n)

    def lshr(self, x: Operand, n: Operand) -> Any:
        x, n = self._operands("lshr", x, n)
        if isinstance(x, Narrow):
            f = FORMATS[x.dtype]
            raw, amount = self._bits(f, x.value), self._bits(f, n.value)
            return self.from_storage(x.dtype, (self.node("lshr", U8, (raw, amount)),))
        return self._bitwise("lshr", x, n)

    def clz(self, x: Scalar) -> Any:
        if isinstance(x, Narrow):
            f = FORMATS[x.dtype]
            count = self.sub(self.node("clz", U8, (self._bits(f, x.value),)), 8 - f.bits)
            return Narrow(x.dtype, round_to(self, f, self.bitcast(count, f.value)))
        return self._bitwise("clz", x)

    def popcnt(self, x: Scalar) -> Any:
        if isinstance(x, Narrow):
            f = FORMATS[x.dtype]
            count = self.node("popcnt", U8, (self._bits(f, x.value),))
            return Narrow(x.dtype, round_to(self, f, self.bitcast(count, f.value)))
        return self._bitwise("popcnt", x)

    def mulhi(self, x: Operand, y: Operand) -> Any:
        """The high half of the product (uint32, uint64)."""
        args = self._operands("mulhi", x, y)
        if args[0].dtype not in (U32, U64):
            raise TypeError(f"mulhi: uint32 or uint64 wanted, got {args[0].dtype}")
        return self.node("mulhi", args[0].dtype, args)

    # ---- comparison and choice ----

    def _compare(self, op: str, x: Operand, y: Operand) -> Expr:
        x, y = self._operands(op, x, y)
        if isinstance(x, Narrow):
            x, y = x.value, y.value
        if isinstance(x, Pair):
            if op == "eq":
                return self.and_(self.eq(x.first, y.first), self.eq(x.second, y.second))
            if op == "ne":
                return self.or_(self.ne(x.first, y.first), self.ne(x.second, y.second))
            raise TypeError(f"{op}: {x.dtype} has no order")
        return self.node(op, BOOL, (x, y))

    def eq(self, x: Operand, y: Operand) -> Expr:
        return self._compare("eq", x, y)

    def ne(self, x: Operand, y: Operand) -> Expr:
        return self._compare("ne", x, y)

    def lt(self, x: Operand, y: Operand) -> Expr:
        return self._compare("lt", x, y)

    def le(self, x: Operand, y: Operand) -> Expr:
        return self._compare("le", x, y)

    def gt(self, x: Operand, y: Operand) -> Expr:
        return self._compare("gt", x, y)

    def ge(self, x: Operand, y: Operand) -> Expr:
        return self._compare("ge", x, y)

    def select(self, c: Expr, x: Operand, y: Operand) -> Any:
        """x where `c` holds, else y."""
        return self._choose("select", c, x, y)

    def rare(self, c: Expr, common: Operand, seldom: Operand) -> Any:
        """`seldom` where `c` holds, else `common`; `seldom` costs nothing while `c` holds in no lane of a vector."""
        return self._choose("rare", c, common, seldom)

    def _choose(self, op: str, c: Expr, x: Operand, y: Operand) -> Any:
        x, y = self._operands(op, x, y)
        if c.dtype != BOOL:
            raise TypeError(f"{op}: the condition must be bool, got {c.dtype}")
        if isinstance(x, Narrow):
            return Narrow(x.dtype, self.node(op, x.value.dtype, (c, x.value, y.value)))
        if isinstance(x, Pair):
            return self._parts(lambda p, q: self.node(op, p.dtype, (c, p, q)), x, y)
        return self.node(op, x.dtype, (c, x, y))

    def is_nan(self, x: Scalar) -> Expr:
        """False for integers; a complex number is NaN if a component is."""
        return self.ne(x, x)

    def is_finite(self, x: Scalar) -> Expr:
        if isinstance(x, Pair):
            return self.and_(self.is_finite(x.first), self.is_finite(x.second))
        v = x.value if isinstance(x, Narrow) else x
        if v.dtype.kind != "f":
            return self.constant(True, BOOL)
        return self.lt(self.abs(v), np.inf)

    def is_inf(self, x: Scalar) -> Expr:
        """Either sign; a complex number if a component is."""
        if isinstance(x, Pair):
            return self.or_(self.is_inf(x.first), self.is_inf(x.second))
        v = x.value if isinstance(x, Narrow) else x
        return self.eq(self.abs(v), np.inf) if v.dtype.kind == "f" else self.constant(False, BOOL)

    def sign_bit(self, x: Scalar) -> Expr:
        """Whether the sign bit of a real scalar is set (-0.0 and NaN too; integers: negative)."""
        v = x.value if isinstance(x, Narrow) else x
        if v.dtype.kind == "f":
            v = self.bitcast(v, I32 if v.dtype == F32 else I64)
        return self.lt(v, 0)

    def sign(self, x: Scalar) -> Any:
        """-1, 0 or 1; -0.0 and NaN as they are; complex: x / |x|, 0 at 0."""
        if isinstance(x, Pair):
            size = self.abs(x)
            unit = Pair(x.dtype, self.div(x.first, size), self.div(x.second, size))
            return self.select(self.eq(x, 0), self.const(0, x.dtype), unit)
        v = x.value if isinstance(x, Narrow) else x
        kind = v.dtype.kind
        if kind == "f":
            one = self.copysign(self.const(1, x.dtype), x)
            return self.select(self.or_(self.eq(x, 0), self.is_nan(x)), x, one)
        if kind in "ub":
            return self.convert(self.ne(x, 0), x.dtype)
        minus = self.const(-1, x.dtype)
        return self.select(self.eq(x, 0), x, self.select(self.lt(x, 0), minus, self.const(1, x.dtype)))

    def square(self, x: Scalar) -> Any:
        return self.mul(x, x)

    def clamp(self, low: Operand, x: Operand, high: Operand) -> Any:
        """min(max(x, low), high)"""
        return self.min(self.max(x, low), high)

    # ---- conversion ----

    def real(self, x: Scalar) -> Any:
        return x.first if isinstance(x, Pair) else x

    def imag(self, x: Scalar) -> Any:
        return x.second if isinstance(x, Pair) else self.const(0, x.dtype)

    def conj(self, x: Scalar) -> Any:
        return Pair(x.dtype, x.first, self.neg(x.second)) if isinstance(x, Pair) else x

    def convert(self, x: Scalar, dtype: Any) -> Any:
        """Numeric conversion between any two logical dtypes (not keys). complex to real drops the imaginary part (to bool: != 0);
        to a narrow float by way of float32 (float64 to float16: one rounding); float to integer truncates, saturates, NaN becomes 0."""
        dtype = _as_dtype(dtype)
        if x.dtype == dtype:
            return x
        if not isinstance(dtype, np.dtype) or not isinstance(x.dtype, np.dtype):
            raise TypeError(f"convert: from {x.dtype} to {dtype}")
        if isinstance(x, Pair):
            if is_complex(dtype):
                return Pair(dtype, self.convert(x.first, component(dtype)), self.convert(x.second, component(dtype)))
            return self.ne(x, 0) if dtype == BOOL else self.convert(x.first, dtype)
        if is_complex(dtype):
            return Pair(dtype, self.convert(x, component(dtype)), self.constant(0.0, component(dtype)))
        v = x.value if isinstance(x, Narrow) else x
        f = FORMATS.get(dtype)
        if f is None:
            return self.node("convert", dtype, (v,))
        if isinstance(f, IntFormat):
            return self._to_narrow_integer(f, v)
        if v.dtype == F64 and dtype == F16:
            return self.narrow(dtype, self._round_to_odd(v))
        return self.narrow(dtype, self.node("convert", F32, (v,)))

    def _to_narrow_integer(self, f: IntFormat, v: Expr) -> Narrow:
        if v.dtype.kind == "f":
            signed = f.value == I8
            low, high = (-(1 << (f.bits - 1)), (1 << (f.bits - 1)) - 1) if signed else (0, (1 << f.bits) - 1)
            whole = self.node("convert", f.value, (v,))
            return Narrow(f.dtype, self.clamp(low, whole, high))
        return self.narrow(f.dtype, self.node("convert", f.value, (v,)))

    def _round_to_odd(self, x: Expr) -> Expr:
        """float64 to float32, toward zero, with the last bit set if inexact: a second rounding then does what a single one would."""
        y = self.node("convert", F32, (x,))
        back = self.node("convert", F64, (y,))
        bits = self.bitcast(y, U32)
        too_large = self.gt(self.abs(back), self.abs(x))
        truncated = self.select(too_large, self.sub(bits, 1), bits)
        odd = self.or_(truncated, self.convert(self.ne(back, x), U32))
        return self.select(self.is_nan(x), y, self.bitcast(odd, F32))

    def bitcast(self, x: Scalar, dtype: Any) -> Any:
        """The same bits as another dtype of equal width."""
        dtype = _as_dtype(dtype)
        if isinstance(x, Expr) and dtype in PRIMITIVE:
            if x.dtype.itemsize != dtype.itemsize:
                raise TypeError(f"bitcast: {x.dtype} and {dtype} differ in width")
            return self.node("bitcast", dtype, (x,))
        (raw,) = self.to_storage(x)
        target, _ = storage(dtype)
        f, g = FORMATS.get(x.dtype), FORMATS.get(dtype)
        if raw.dtype.itemsize != target.itemsize or _width(f, raw.dtype) != _width(g, target):
            raise TypeError(f"bitcast: {x.dtype} and {dtype} differ in width")
        return self.from_storage(dtype, (self.node("bitcast", target, (raw,)),))

    # ---- functions ----

    def call(self, name: str, *args: Operand) -> Any:
        """An elementary function by name. Real arguments of narrow dtypes are computed in float32 and rounded."""
        function = FUNCTIONS.get(name)
        if function is None:
            raise NotImplementedError(
                f"scalar function {name!r}; there are: {', '.join(sorted(FUNCTIONS)) or 'none (import steno.compiler.vecmath)'}"
            )
        xs = self._operands(name, *args)
        if isinstance(xs[0], Narrow):
            return self.narrow(xs[0].dtype, function(self, *(x.value for x in xs)))
        return function(self, *xs)


def _width(f: Format | None, raw: np.dtype) -> int:
    return f.bits if isinstance(f, IntFormat) else 8 * raw.itemsize


def _as_dtype(dtype: Any) -> Any:
    """np.dtype of what NumPy knows; key dtypes as they are."""
    if isinstance(dtype, np.dtype):
        return dtype
    try:
        return np.dtype(dtype)
    except TypeError:
        return dtype


def _primitive(dtype: Any, what: str) -> np.dtype:
    dtype = _as_dtype(dtype)
    if dtype not in PRIMITIVE and dtype != F16:
        raise TypeError(f"{what}: a primitive dtype wanted, got {dtype}; see Builder.to_registers")
    return dtype
