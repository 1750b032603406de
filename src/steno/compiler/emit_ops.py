"""The primitive ops of `ir/expr.py` as LLVM instructions, on scalars (W = 1) or vectors of W lanes, with exactly their stated meaning.

No instruction carries a fast-math flag, so nothing is reassociated or contracted. Sequences are chosen by the machine code they become on
x86-64 and aarch64 without optimisation passes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from steno.compiler.target import Target
from steno.ir.expr import Expr

BOOL, I32, I64, U32, F16, F32, F64 = (np.dtype(n) for n in ("bool", "int32", "int64", "uint32", "float16", "float32", "float64"))

_REGISTER = {BOOL: "i1", F16: "half", F32: "float", F64: "double"}
REGISTER = _REGISTER | {np.dtype(f"{s}int{n}"): f"i{n}" for s in ("", "u") for n in (8, 16, 32, 64)}
MEMORY = REGISTER | {BOOL: "i8"}
"""dtype -> LLVM type of a scalar in a register and in memory."""

_vectors: dict[tuple[str, int], str] = {}


def vector(scalar: str, lanes: int) -> str:
    """`float`, 16 --> `<16 x float>`; one lane is the scalar itself."""
    if lanes == 1:
        return scalar
    found = _vectors.get((scalar, lanes))
    if found is None:
        found = _vectors[scalar, lanes] = f"<{lanes} x {scalar}>"
    return found


def typed(dtype: np.dtype, lanes: int) -> str:
    return vector(REGISTER[dtype], lanes)


def suffix(scalar: str, lanes: int) -> str:
    """How an intrinsic's name says a type: f32, v16f32, i1."""
    s = {"half": "f16", "float": "f32", "double": "f64"}.get(scalar, scalar)
    return s if lanes == 1 else f"v{lanes}{s}"


def number(value: Any, dtype: np.dtype) -> str:
    """A scalar constant."""
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype.kind != "f":
        return str(int(value))
    if dtype == F16:
        return f"0xH{np.float16(value).view(np.uint16):04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


def splat_constant(text: str, scalar: str, lanes: int) -> str:
    return text if lanes == 1 else f"splat ({scalar} {text})"


def constant(value: Any, dtype: np.dtype, lanes: int) -> str:
    return splat_constant(number(value, dtype), REGISTER[dtype], lanes)


def integers(values: Sequence[int], bits: int) -> str:
    """A vector constant of integers, or for one value a scalar."""
    if len(values) == 1:
        return str(values[0])
    if all(v == values[0] for v in values):
        return f"splat (i{bits} {values[0]})"
    return "<" + ", ".join(f"i{bits} {v}" for v in values) + ">"


def booleans(values: Sequence[bool]) -> str:
    """A mask constant."""
    if len(values) == 1:
        return "true" if values[0] else "false"
    return "<" + ", ".join("i1 true" if v else "i1 false" for v in values) + ">"


@final
class Declarations:
    """What a module must declare: intrinsics, library functions. `functions`: those that its expressions call, as they are written."""

    def __init__(self) -> None:
        self.text: dict[str, str] = {}
        self.functions: dict[str, str] = {}

    def add(self, name: str, result: str, args: Sequence[str]) -> str:
        if name not in self.text:
            self.text[name] = f"declare {result} @{name}({', '.join(args)})"
        return name


class Writer:
    """Writes instructions to `lines`, which the owner points at a block; names are unique within a function."""

    def __init__(self, declarations: Declarations, target: Target) -> None:
        self.count = 0
        self.lines: list[str] = []
        self.declarations = declarations
        self.target = target

    def name(self) -> str:
        self.count += 1
        return f"%a{self.count}"

    def op(self, text: str) -> str:
        """An instruction with a result."""
        self.count += 1
        name = f"%a{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def say(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append("  " + text)

    def call(self, intrinsic: str, scalar: str, lanes: int, args: Sequence[str], extra: str = "") -> str:
        """`@llvm.intrinsic.type(args)`: all of one type, which is the result's too; `extra`: a last argument of its own type."""
        t = vector(scalar, lanes)
        types = [t] * len(args) + ([extra.split()[0]] if extra else [])
        name = self.declarations.add(f"llvm.{intrinsic}.{suffix(scalar, lanes)}", t, types)
        text = ", ".join(f"{t} {a}" for a in args)
        return self.op(f"call {t} @{name}({text}{', ' + extra if extra else ''})")

    def splat(self, value: str, scalar: str, lanes: int) -> str:
        """A scalar in every lane."""
        if lanes == 1:
            return value
        if value[0] != "%":
            return splat_constant(value, scalar, lanes)
        t = vector(scalar, lanes)
        one = self.op(f"insertelement {t} poison, {scalar} {value}, i64 0")
        return self.op(f"shufflevector {t} {one}, {t} poison, <{lanes} x i32> zeroinitializer")

    def any_lane(self, mask: str, lanes: int) -> str:
        if lanes == 1:
            return mask
        t = vector("i1", lanes)
        name = self.declarations.add(f"llvm.vector.reduce.or.v{lanes}i1", "i1", [t])
        return self.op(f"call i1 @{name}({t} {mask})")


Emit = Callable[[Writer, Expr, int, Sequence[str]], str]
OPS: dict[str, Emit] = {}


def _kind(e: Expr) -> str:
    return e.args[0].dtype.kind


def _plain(floats: str, ints: str) -> Emit:
    def emit(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
        name = floats + w.target.flags if e.dtype.kind == "f" else ints
        return w.op(f"{name} {typed(e.dtype, lanes)} {a[0]}, {a[1]}")

    return emit


for _name, _float, _int in (("add", "fadd", "add"), ("sub", "fsub", "sub"), ("mul", "fmul", "mul")):
    OPS[_name] = _plain(_float, _int)
for _name in ("and", "or", "xor"):
    OPS[_name] = _plain("", _name)


def _float_intrinsic(intrinsic: str) -> Emit:
    return lambda w, e, lanes, a: w.call(intrinsic, REGISTER[e.dtype], lanes, a)


for _name, _intrinsic in (
    ("fma", "fma"), ("sqrt", "sqrt"), ("floor", "floor"), ("ceil", "ceil"), ("round_even", "roundeven"), ("trunc", "trunc"),
    ("copysign", "copysign"),
):  # fmt: skip
    OPS[_name] = _float_intrinsic(_intrinsic)


def _not(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    ones = "true" if e.dtype == BOOL else "-1"
    return w.op(f"xor {typed(e.dtype, lanes)} {a[0]}, {splat_constant(ones, REGISTER[e.dtype], lanes)}")


def _neg(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    t = typed(e.dtype, lanes)
    return w.op(f"fneg {t} {a[0]}") if e.dtype.kind == "f" else w.op(f"sub {t} {constant(0, e.dtype, lanes)}, {a[0]}")


def _abs(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    if e.dtype.kind == "f":
        return w.call("fabs", REGISTER[e.dtype], lanes, a)
    return w.call("abs", REGISTER[e.dtype], lanes, a, "i1 false") if e.dtype.kind == "i" else a[0]


OPS["not"], OPS["neg"], OPS["abs"] = _not, _neg, _abs
OPS["clz"] = lambda w, e, lanes, a: w.call("ctlz", REGISTER[e.dtype], lanes, a, "i1 false")
OPS["popcnt"] = lambda w, e, lanes, a: w.call("ctpop", REGISTER[e.dtype], lanes, a)


def _scale(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    """x * 2**n: vscalef, or two powers of two, only the second product rounds. Beyond the clamps all outcomes are 0 or infinite."""
    dtype = e.dtype
    t, single = typed(dtype, lanes), dtype == F32
    if w.target.name == "avx512" and lanes in ((4, 8, 16) if single else (2, 4, 8)):
        bits = lanes * dtype.itemsize * 8
        letter, mask = ("ps", "i16" if lanes == 16 else "i8") if single else ("pd", "i8")
        rounding, types = (", i32 4", ("i32",)) if bits == 512 else ("", ())
        name = w.declarations.add(f"llvm.x86.avx512.mask.scalef.{letter}.{bits}", t, (t, t, t, mask, *types))
        return w.op(f"call {t} @{name}({t} {a[0]}, {t} {a[1]}, {t} zeroinitializer, {mask} -1{rounding})")
    low, high = (-160, 140) if single else (-1100, 1040)
    bias, digits, scalar = (127, 23, "i32") if single else (1023, 52, "i64")
    i32, it = vector("i32", lanes), vector(scalar, lanes)
    n = w.op(f"fptosi {t} {a[1]} to {i32}")
    n = w.call("smax", "i32", lanes, (n, constant(low, I32, lanes)))
    n = w.call("smin", "i32", lanes, (n, constant(high, I32, lanes)))
    half = w.op(f"ashr {i32} {n}, {constant(1, I32, lanes)}")
    rest = w.op(f"sub {i32} {n}, {half}")
    x = a[0]
    for k in (half, rest):
        if not single:
            k = w.op(f"sext {i32} {k} to {it}")
        field = w.op(f"add {it} {k}, {splat_constant(str(bias), scalar, lanes)}")
        field = w.op(f"shl {it} {field}, {splat_constant(str(digits), scalar, lanes)}")
        power = w.op(f"bitcast {it} {field} to {t}")
        x = w.op(f"fmul {t} {x}, {power}")
    return x


OPS["scale"] = _scale


# ---- comparison and choice ----

_FCMP = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


def compare(w: Writer, op: str, dtype: np.dtype, lanes: int, x: str, y: str) -> str:
    t = typed(dtype, lanes)
    if dtype.kind == "f":
        return w.op(f"fcmp {_FCMP[op]} {t} {x}, {y}")
    if op not in ("eq", "ne"):
        op = ("s" if dtype.kind == "i" else "u") + op
    return w.op(f"icmp {op} {t} {x}, {y}")


def _compare(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    return compare(w, e.op, e.args[0].dtype, lanes, a[0], a[1])


for _name in _FCMP:
    OPS[_name] = _compare


def select(w: Writer, dtype: np.dtype, lanes: int, c: str, x: str, y: str) -> str:
    t = typed(dtype, lanes)
    return w.op(f"select {vector('i1', lanes)} {c}, {t} {x}, {t} {y}")


OPS["select"] = lambda w, e, lanes, a: select(w, e.dtype, lanes, *a)


def _extremum(name: str, greater: bool) -> Emit:
    """Floats, max (min mirrored): `x > y ? x : y` is one vmaxps, and right but for NaN in x and zeros of two signs;
    equal operands differ in nothing but the zero's sign, which the AND of their bits (min: the OR) makes right."""
    order = "ogt" if greater else "olt"
    meet = "and" if greater else "or"

    def is_safe(e: Expr) -> bool:
        return e.op == "const" and e.attr == e.attr and e.attr != 0

    def emit(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
        x, y = a
        dtype = e.dtype
        if dtype == BOOL:
            return w.op(f"{'or' if greater else 'and'} {vector('i1', lanes)} {x}, {y}")
        if dtype.kind != "f":
            return w.call(("s" if dtype.kind == "i" else "u") + name, REGISTER[dtype], lanes, a)
        t, mask = typed(dtype, lanes), vector("i1", lanes)
        if is_safe(e.args[0]) or is_safe(e.args[1]):
            c, v = (x, y) if is_safe(e.args[0]) else (y, x)
            above = w.op(f"fcmp {order} {t} {c}, {v}")
            return w.op(f"select {mask} {above}, {t} {c}, {t} {v}")
        bits = vector(f"i{8 * dtype.itemsize}", lanes)
        above = w.op(f"fcmp {order} {t} {x}, {y}")
        best = w.op(f"select {mask} {above}, {t} {x}, {t} {y}")
        equal = w.op(f"fcmp oeq {t} {x}, {y}")
        xi = w.op(f"bitcast {t} {x} to {bits}")
        yi = w.op(f"bitcast {t} {y} to {bits}")
        both = w.op(f"{meet} {bits} {xi}, {yi}")
        tie = w.op(f"bitcast {bits} {both} to {t}")
        best = w.op(f"select {mask} {equal}, {t} {tie}, {t} {best}")
        nan = w.op(f"fcmp uno {t} {x}, {x}")
        return w.op(f"select {mask} {nan}, {t} {x}, {t} {best}")

    return emit


def has_ordered_extremum(target: Target, dtype: np.dtype, lanes: int) -> bool:
    return target.name == "avx512" and dtype in (F32, F64) and lanes * dtype.itemsize in (16, 32, 64)


def ordered_extremum(w: Writer, name: str, dtype: np.dtype, lanes: int, x: str, y: str) -> str:
    """max or min of floats of which none is a NaN, by vrange, which orders zeros by their signs."""
    t, bits = typed(dtype, lanes), lanes * dtype.itemsize * 8
    letter, mask = ("ps", "i16" if lanes == 16 else "i8") if dtype == F32 else ("pd", "i8")
    rounding, types = (", i32 4", ("i32",)) if bits == 512 else ("", ())
    intrinsic = w.declarations.add(f"llvm.x86.avx512.mask.range.{letter}.{bits}", t, (t, t, "i32", t, mask, *types))
    kind = 5 if name == "max" else 4  # the sign of the outcome
    return w.op(f"call {t} @{intrinsic}({t} {x}, {t} {y}, i32 {kind}, {t} zeroinitializer, {mask} -1{rounding})")


OPS["max"], OPS["min"] = _extremum("max", True), _extremum("min", False)


# ---- integer division, shifts, high products ----


def _quotient(w: Writer, dtype: np.dtype, lanes: int, x: str, y: str) -> str:
    """x / y, truncating, where y is not 0 and the quotient fits. Vectors go through floats with enough digits: the rounded quotient of
    n-bit integers is never an integer that the exact one is below, if the float has more than n digits."""
    t = typed(dtype, lanes)
    signed = dtype.kind == "i"
    if lanes == 1 or dtype.itemsize == 8:
        return w.op(f"{'sdiv' if signed else 'udiv'} {t} {x}, {y}")
    f = vector("float" if dtype.itemsize <= 2 else "double", lanes)
    into, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    xf = w.op(f"{into} {t} {x} to {f}")
    yf = w.op(f"{into} {t} {y} to {f}")
    q = w.op(f"fdiv {f} {xf}, {yf}")
    if dtype.itemsize == 4:
        return w.op(f"{back} {f} {q} to {t}")
    wide = vector("i32", lanes)
    q = w.op(f"fptosi {f} {q} to {wide}")
    return w.op(f"trunc {wide} {q} to {t}")


def _safe_divisor(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> tuple[str, str]:
    """(the divisor, 1 in the lanes without a quotient; the mask of zero divisors)"""
    dtype = e.dtype
    t, mask = typed(dtype, lanes), vector("i1", lanes)
    zero = w.op(f"icmp eq {t} {a[1]}, {constant(0, dtype, lanes)}")
    bad = zero
    if dtype.kind == "i":
        minus = w.op(f"icmp eq {t} {a[1]}, {constant(-1, dtype, lanes)}")
        lowest = w.op(f"icmp eq {t} {a[0]}, {constant(np.iinfo(dtype).min, dtype, lanes)}")
        overflow = w.op(f"and {mask} {minus}, {lowest}")
        bad = w.op(f"or {mask} {zero}, {overflow}")
    return select(w, dtype, lanes, bad, constant(1, dtype, lanes), a[1]), zero


def _constant_divisor(e: Expr) -> bool:
    d = e.args[1]
    return d.op == "const" and d.attr not in (0, -1)


def _div(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    dtype = e.dtype
    t = typed(dtype, lanes)
    if dtype.kind == "f":
        return w.op(f"fdiv{w.target.flags} {t} {a[0]}, {a[1]}")
    if _constant_divisor(e):
        return w.op(f"{'sdiv' if dtype.kind == 'i' else 'udiv'} {t} {a[0]}, {a[1]}")
    divisor, zero = _safe_divisor(w, e, lanes, a)
    q = _quotient(w, dtype, lanes, a[0], divisor)
    return select(w, dtype, lanes, zero, constant(-1, dtype, lanes), q)


def _rem(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    dtype = e.dtype
    t = typed(dtype, lanes)
    if dtype.kind == "f":
        return w.op(f"frem {t} {a[0]}, {a[1]}")
    if _constant_divisor(e):
        return w.op(f"{'srem' if dtype.kind == 'i' else 'urem'} {t} {a[0]}, {a[1]}")
    divisor, zero = _safe_divisor(w, e, lanes, a)
    q = _quotient(w, dtype, lanes, a[0], divisor)
    product = w.op(f"mul {t} {q}, {divisor}")
    r = w.op(f"sub {t} {a[0]}, {product}")
    return select(w, dtype, lanes, zero, a[0], r)


def _shift(instruction: str) -> Emit:
    def emit(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
        t, width = typed(e.dtype, lanes), 8 * e.dtype.itemsize
        amount = e.args[1]
        if amount.op == "const":
            n = amount.attr % (1 << width)
            if n < width:
                return w.op(f"{instruction} {t} {a[0]}, {a[1]}")
            if instruction != "ashr":
                return constant(0, e.dtype, lanes)
            return w.op(f"ashr {t} {a[0]}, {constant(width - 1, e.dtype, lanes)}")
        if instruction == "ashr":
            n = w.call("umin", REGISTER[e.dtype], lanes, (a[1], constant(width - 1, e.dtype, lanes)))
            return w.op(f"ashr {t} {a[0]}, {n}")
        within = w.op(f"icmp ult {t} {a[1]}, {constant(width, e.dtype, lanes)}")
        shifted = w.op(f"{instruction} {t} {a[0]}, {a[1]}")
        return select(w, e.dtype, lanes, within, shifted, constant(0, e.dtype, lanes))

    return emit


def _mulhi(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    width = 8 * e.dtype.itemsize
    t, wide = typed(e.dtype, lanes), vector(f"i{2 * width}", lanes)
    x = w.op(f"zext {t} {a[0]} to {wide}")
    y = w.op(f"zext {t} {a[1]} to {wide}")
    p = w.op(f"mul {wide} {x}, {y}")
    h = w.op(f"lshr {wide} {p}, {splat_constant(str(width), f'i{2 * width}', lanes)}")
    return w.op(f"trunc {wide} {h} to {t}")


OPS["div"], OPS["rem"], OPS["mulhi"] = _div, _rem, _mulhi
OPS["shl"], OPS["lshr"], OPS["ashr"] = _shift("shl"), _shift("lshr"), _shift("ashr")


# ---- quotients by one divisor ----


@final
class Divisor(NamedTuple):
    """In every lane: a divisor; its reciprocal, rounded; the float below that and what it lacks, above 0; the bound of `near_quotient`."""

    divisor: str
    reciprocal: str
    high: str
    low: str
    bound: str


def has_divisors(target: Target, dtype: np.dtype, lanes: int) -> bool:
    """Whether the processor takes longer to divide such vectors than for the nine instructions of `near_quotient`."""
    return target.name == "avx512" and dtype in (F32, F64) and lanes * dtype.itemsize == target.vector_bytes


# dtype: exponents of the divisors, and of the least and greatest dividends, for which nothing overflows or loses bits below
_FIT = {F32: (20, 100), F64: (100, 900)}


def prepared_divisor(w: Writer, dtype: np.dtype, lanes: int, y: str) -> Divisor:
    scalar, bits = REGISTER[dtype], f"i{8 * dtype.itemsize}"
    one = number(1.0, dtype)
    reciprocal = w.op(f"fdiv {scalar} {one}, {y}")
    high = w.op(f"bitcast {scalar} {reciprocal} to {bits}")
    high = w.op(f"sub {bits} {high}, 1")
    high = w.op(f"bitcast {bits} {high} to {scalar}")
    negative = w.op(f"fneg {scalar} {high}")
    low = w.call("fma", scalar, 1, (negative, y, one))
    low = w.op(f"fmul {scalar} {low}, {reciprocal}")
    reach, extent = _FIT[dtype]
    least, most = _doubled_bits(dtype, -extent), _doubled_bits(dtype, extent)
    # from 1 on a quotient is finite for finite dividends: then all may come that are not too small, and 0, which follows the greatest
    large, small, fits = (
        w.op(f"fcmp {test} {scalar} {y}, {number(value, dtype)}")
        for test, value in (("oge", 1.0), ("oge", 2.0**-reach), ("ole", 2.0**reach))
    )
    bound = w.op(f"select i1 {large}, {bits} {1 - least}, {bits} {most - least}")
    fits = w.op(f"and i1 {fits}, {small}")
    bound = w.op(f"select i1 {fits}, {bits} {bound}, {bits} 0")
    y, reciprocal, high, low = (w.splat(x, scalar, lanes) for x in (y, reciprocal, high, low))
    return Divisor(y, reciprocal, high, low, w.splat(bound, bits, lanes))


def _doubled_bits(dtype: np.dtype, exponent: int) -> int:
    """The bits of 2**exponent, its sign shifted out."""
    return int(np.array(2.0**exponent, dtype).view(f"u{dtype.itemsize}")) * 2


def near_quotient(w: Writer, dtype: np.dtype, lanes: int, x: str, d: Divisor) -> tuple[str, str]:
    """(x / y correctly rounded, mask of the lanes where it may not be).

    With the reciprocal in two parts a first quotient is good to little more than half a unit, so its remainder is exact, and the remainder
    times the rounded reciprocal makes it right (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor",
    IBM J. Res. Dev. 34, 1990). The signs are such that zeros keep theirs; infinities have no remainder.
    """
    t, bits = typed(dtype, lanes), vector(f"i{8 * dtype.itemsize}", lanes)

    def fma(a: str, b: str, c: str) -> str:
        return w.call("fma", REGISTER[dtype], lanes, (a, b, c))

    def negated(a: str) -> str:
        return w.op(f"fneg {t} {a}")

    first = fma(x, d.high, w.op(f"fmul {t} {x}, {d.low}"))
    excess = fma(first, d.divisor, negated(x))
    most = constant(2.0 ** (10 * _FIT[dtype][0]) if dtype == F64 else 2.0**120, dtype, lanes)  # there is none of an infinity
    excess = w.op(f"select {vector('i1', lanes)} {w.op(f'fcmp olt {t} {excess}, {most}')}, {t} {excess}, {t} {most}")
    near = fma(negated(excess), d.reciprocal, first)
    u = w.op(f"bitcast {t} {x} to {bits}")
    u = w.op(f"add {bits} {u}, {u}")
    u = w.op(f"sub {bits} {u}, {splat_constant(str(_doubled_bits(dtype, -_FIT[dtype][1])), f'i{8 * dtype.itemsize}', lanes)}")
    return near, w.op(f"icmp uge {bits} {u}, {d.bound}")


# ---- conversion ----


def convert(w: Writer, source: np.dtype, target: np.dtype, lanes: int, x: str) -> str:
    """Numeric conversion by the rules of `ir/expr.py`."""
    if source == target:
        return x
    if target == BOOL:
        return compare(w, "ne", source, lanes, x, constant(0, source, lanes))
    s, t = typed(source, lanes), typed(target, lanes)
    if source.kind in "iub":
        unsigned = source.kind != "i"
        if target == F16:  # integers beyond float32's 24 digits are beyond float16's range
            return convert(w, F32, F16, lanes, convert(w, source, F32, lanes, x))
        if target.kind == "f":
            return w.op(f"{'uitofp' if unsigned else 'sitofp'} {s} {x} to {t}")
        if source.itemsize == target.itemsize and source != BOOL:
            return x
        narrower = source != BOOL and target.itemsize < source.itemsize
        return w.op(f"{'trunc' if narrower else 'zext' if unsigned else 'sext'} {s} {x} to {t}")
    if target.kind == "f":
        if source == F64 and target == F16:
            return _double_to_half(w, lanes, x)
        if F16 in (source, target) and F64 in (source, target):
            return convert(w, F32, target, lanes, convert(w, source, F32, lanes, x))
        return w.op(f"{'fpext' if target.itemsize > source.itemsize else 'fptrunc'} {s} {x} to {t}")
    if source == F16:
        return convert(w, F32, target, lanes, convert(w, F16, F32, lanes, x))
    return _float_to_integer(w, source, target, lanes, x)


def _double_to_half(w: Writer, lanes: int, x: str) -> str:
    """By a float32 rounded to odd, so that the second rounding is right (Boldo, Melquiond 2008)."""
    f, d, i = vector("float", lanes), vector("double", lanes), vector("i32", lanes)
    near = w.op(f"fptrunc {d} {x} to {f}")
    back = w.op(f"fpext {f} {near} to {d}")
    inexact = w.op(f"fcmp one {d} {back}, {x}")
    bits = w.op(f"bitcast {f} {near} to {i}")
    low, size = (w.call("fabs", "double", lanes, (v,)) for v in (x, back))
    over = w.op(f"fcmp ogt {d} {size}, {low}")
    step = w.op(f"zext {vector('i1', lanes)} {over} to {i}")
    toward = w.op(f"sub {i} {bits}, {step}")
    odd = w.op(f"or {i} {toward}, {integers([1] * lanes, 32)}")
    chosen = w.op(f"select {vector('i1', lanes)} {inexact}, {i} {odd}, {i} {bits}")
    near = w.op(f"bitcast {i} {chosen} to {f}")
    return w.op(f"fptrunc {f} {near} to {vector('half', lanes)}")


def _float_to_integer(w: Writer, source: np.dtype, target: np.dtype, lanes: int, x: str) -> str:
    """Truncates, saturates, NaN --> 0: comparisons of x beside a conversion whose out-of-range lanes are not taken."""
    if target.itemsize < 4:
        wide = _float_to_integer(w, source, I32, lanes, x)
        info = np.iinfo(target)
        i32 = vector("i32", lanes)
        low = w.call("smax", "i32", lanes, (wide, constant(info.min, I32, lanes)))
        both = w.call("smin", "i32", lanes, (low, constant(info.max, I32, lanes)))
        return w.op(f"trunc {i32} {both} to {typed(target, lanes)}")
    f, t, mask = typed(source, lanes), typed(target, lanes), vector("i1", lanes)
    width = 8 * target.itemsize
    signed = target.kind == "i"
    info = np.iinfo(target)
    q = w.op(f"{'fptosi' if signed else 'fptoui'} {f} {x} to {t}")
    beyond = w.op(f"fcmp oge {f} {x}, {constant(2.0 ** (width - signed), source, lanes)}")
    q = w.op(f"select {mask} {beyond}, {t} {constant(info.max if signed else -1, target, lanes)}, {t} {q}")
    if not signed:
        positive = w.op(f"fcmp ogt {f} {x}, {constant(0.0, source, lanes)}")
        return w.op(f"select {mask} {positive}, {t} {q}, {t} {constant(0, target, lanes)}")
    below = w.op(f"fcmp olt {f} {x}, {constant(-(2.0 ** (width - 1)), source, lanes)}")
    q = w.op(f"select {mask} {below}, {t} {constant(info.min, target, lanes)}, {t} {q}")
    nan = w.op(f"fcmp uno {f} {x}, {x}")
    return w.op(f"select {mask} {nan}, {t} {constant(0, target, lanes)}, {t} {q}")


OPS["convert"] = lambda w, e, lanes, a: convert(w, e.args[0].dtype, e.dtype, lanes, a[0])


def _bitcast(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    s, t = typed(e.args[0].dtype, lanes), typed(e.dtype, lanes)
    return a[0] if s == t else w.op(f"bitcast {s} {a[0]} to {t}")


OPS["bitcast"] = _bitcast
