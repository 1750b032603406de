"""What identifies a program from one process to the next: a text that two programs share only if they compile to the same code.

    fingerprint(program) -> (text, constants)     or Unknown, for a program that holds something with no lasting name

Left out is what no code depends on: names of functions and variables, places in the source, the values of array constants (they are
inputs of the compiled program). `constants`: the arrays, each once, in the order in which the text numbers them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ShapedArray
from steno.core.dtypes import KeyDType
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from steno.core.op import OPS, Op


class Unknown(Exception):
    """The program holds a user's function, op or object."""


def fingerprint(program: ClosedJaxpr) -> tuple[str, list[Any]]:
    writer = _Writer()
    writer.closed(program)
    return " ".join(writer.out), writer.constants


def _is_ours(op: Op) -> bool:
    """Whether the package says what the op means, so that its version does."""
    if type(op) is not Op or OPS.get(op.name) is not op or op.override is not None:
        return False
    fun: Any = op.lower or op.expand or op.typ
    fun = getattr(fun, "func", fun)  # of a partial
    return getattr(fun, "__module__", None) is None or fun.__module__.startswith("steno.")


@final
class _Writer:
    def __init__(self) -> None:
        self.out: list[str] = []
        self.constants: list[Any] = []
        self._numbers: dict[int, int] = {}  # of constants, by identity
        self._programs: dict[int, tuple[int, ClosedJaxpr]] = {}  # by identity, which lasts as long as they do
        self._vars: dict[Any, int] = {}
        self._avals: dict[ShapedArray, str] = {}
        self._ours: dict[Op, bool] = {}

    def closed(self, program: ClosedJaxpr) -> None:
        known = self._programs.get(id(program))
        if known is not None:
            self.out.append(f"@{known[0]}")
            return
        self._programs[id(program)] = len(self._programs), program
        self.out.append("(")
        for c in program.consts:
            number = self._numbers.get(id(c))
            if number is None:
                number = self._numbers[id(c)] = len(self.constants)
                self.constants.append(c)
            self.out.append(f"c{number}")
        self.jaxpr(program.jaxpr)
        self.out.append(")")

    def jaxpr(self, j: Jaxpr) -> None:
        out, numbers = self.out, self._vars
        for v in (*j.constvars, *j.invars):
            numbers[v] = len(numbers)
            out.append(self.aval(v.aval))
        out.append("|")
        for e in j.eqns:
            op = e.op
            ours = self._ours.get(op)
            if ours is None:
                ours = self._ours[op] = _is_ours(op)
            if not ours:
                raise Unknown(op.name)
            out.append(op.name)
            # An op that is compiled as the programs it holds: what has no lasting name beside them is a rule of its derivatives or maps.
            inlined = op.lower is None and op.subprograms is not None
            for name, value in e.params.items():
                write = self.writer(value)
                if write is not None:
                    out.append(name)
                    write(self, value)
                elif not inlined:
                    raise Unknown(f"{op.name}: {type(value).__qualname__}")
            self.atoms(e.invars)
            out.append(">")
            for v in e.outvars:
                numbers[v] = len(numbers)
                out.append(self.aval(v.aval))
        out.append("|")
        self.atoms(j.outvars)

    def atoms(self, atoms: Sequence[Any]) -> None:
        for a in atoms:
            if type(a) is Literal:
                self.value(a.val)
                self.out.append(self.aval(a.aval))
            else:
                self.out.append(f"v{self._vars[a]}")

    def aval(self, a: ShapedArray) -> str:
        text = self._avals.get(a)
        if text is None:
            if type(a) is not ShapedArray or getattr(a.dtype, "made", None) is not None:
                raise Unknown(str(a))
            text = self._avals[a] = str(a)
        return text

    def writer(self, v: Any) -> Callable[[_Writer, Any], None] | None:
        """What writes values of this type; None: such have no lasting name."""
        t = type(v)
        found = _VALUES.get(t)
        if found is not None:
            return found
        for kind, write in _KINDS:
            if isinstance(v, kind):
                return write
        if isinstance(v, tuple) and hasattr(t, "_fields"):
            return _Writer.named_tuple
        return _Writer.record if t.__module__.startswith("steno.") and hasattr(t, "__record_fields__") else None

    def value(self, v: Any) -> None:
        write = self.writer(v)
        if write is None:
            raise Unknown(type(v).__qualname__)
        write(self, v)

    def enumerated(self, v: enum.Enum) -> None:
        self.out.append(f"{type(v).__qualname__}.{v.name}")

    def key(self, v: KeyDType) -> None:
        if v.made is not None:
            raise Unknown(v.name)
        self.out.append(v.name)

    def dtype(self, v: np.dtype) -> None:
        self.out.append(f"dtype {v.name}")

    def scalar(self, v: np.generic) -> None:
        self.out.append(f"{v.dtype.name} {v.tobytes().hex()}")

    def named_tuple(self, v: Any) -> None:
        self.fields(v, type(v)._fields)

    def record(self, v: Any) -> None:
        self.fields(v, type(v).__record_fields__)

    def fields(self, v: Any, names: Iterable[str]) -> None:
        self.out.append(f"{type(v).__qualname__}(")
        for n in names:
            self.value(getattr(v, n))
        self.out.append(")")

    def sequence(self, v: Sequence[Any]) -> None:
        self.out.append("[")
        for x in v:
            self.value(x)
        self.out.append("]")

    def pairs(self, v: dict[Any, Any]) -> None:
        self.out.append("{")
        for k, x in v.items():
            self.value(k)
            self.value(x)
        self.out.append("}")

    def simple(self, v: Any) -> None:
        self.out.append(repr(v))

    def real(self, v: float) -> None:
        self.out.append(v.hex())

    def op(self, v: Op) -> None:
        if not _is_ours(v):
            raise Unknown(v.name)
        self.out.append(f"op {v.name}")

    def open(self, v: Jaxpr) -> None:
        self.out.append("(")
        self.jaxpr(v)
        self.out.append(")")


_VALUES: Final[dict[type, Callable[[_Writer, Any], None]]] = {
    **dict.fromkeys((str, bytes, int, bool, type(None)), _Writer.simple),
    float: _Writer.real,
    complex: _Writer.simple,
    tuple: _Writer.sequence,
    list: _Writer.sequence,
    dict: _Writer.pairs,
    ShapedArray: lambda writer, v: writer.out.append(writer.aval(v)),
    ClosedJaxpr: _Writer.closed,
    Jaxpr: _Writer.open,
    Op: _Writer.op,
}

_KINDS: Final = ((KeyDType, _Writer.key), (enum.Enum, _Writer.enumerated), (np.dtype, _Writer.dtype), (np.generic, _Writer.scalar))

__all__ = ["Unknown", "fingerprint"]
