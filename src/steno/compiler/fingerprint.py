"""What identifies a program from one process to the next: bytes that two programs share only if they compile to the same code.

    fingerprint(program) -> (bytes, constants)     or Unknown, for a program that holds something with no lasting name

Left out is what no code depends on: names of functions and variables, places in the source, the values of array constants (they are
inputs of the compiled program). `constants`: the arrays, each once, in the order in which the text numbers them."""

from __future__ import annotations

import enum
import marshal
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ShapedArray
from steno.compiler.version import COMPILING, package_version
from steno.core import dtypes
from steno.core.dtypes import KeyDType
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from steno.core.op import OPS, Op


class Unknown(Exception):
    """The program holds a user's function, op or object."""


def fingerprint(program: ClosedJaxpr) -> tuple[bytes, list[Any]]:
    writer = _Writer()
    writer.closed(program)
    return marshal.dumps(writer.out, _NO_REFERENCES), writer.constants


_NO_REFERENCES: Final = 2
"""The version of marshal's format where the bytes depend on the values alone, not on which of them are one object."""


def _named(op: Op) -> str:
    """The op's name, if the compiler's version tells what it means; for an op that a face defines also the package's. Unknown for an op of
    a user."""
    if type(op) is not Op or OPS.get(op.name) is not op or op.override is not None:
        raise Unknown(op.name)
    fun: Any = op.lower or op.expand or op.typ
    module = getattr(getattr(fun, "func", fun), "__module__", None)  # `func`: of a partial
    if module is None:
        return op.name
    if not module.startswith("steno."):
        raise Unknown(op.name)
    return _of(op.name, module)


def _of(name: str, module: str) -> str:
    """The name of something of ours, with the package's version if the compiler's does not cover it."""
    return name if module.split(".", 2)[1] in COMPILING else f"{name} of {package_version()}"


def _of_class(t: type) -> str:
    return _of(t.__qualname__, t.__module__) if t.__module__.startswith("steno.") else t.__qualname__


@final
class _Writer:
    """`out`: names and types are str, variables their numbers, constants of programs (bytes, type), values what marshal writes them as."""

    def __init__(self) -> None:
        self.out: list[Any] = []
        self.constants: list[Any] = []
        self._numbers: dict[int, int] = {}  # of constants, by identity
        self._programs: dict[int, tuple[int, ClosedJaxpr]] = {}  # by identity, which lasts as long as they do
        self._vars: dict[Any, int] = {}
        self._avals: dict[ShapedArray, str] = {}
        self._ops: dict[Op, str] = {}
        self._writers = dict(_VALUES)

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
        put, numbers, avals, writers = self.out.append, self._vars, self._avals, self._writers
        for v in (*j.constvars, *j.invars):
            numbers[v] = len(numbers)
            put(self.aval(v.aval))
        put("|")
        for e in j.eqns:
            op = e.op
            text = self._ops.get(op)
            if text is None:
                text = self._ops[op] = _named(op)
            put(text)
            for name, value in e.params.items():
                write = writers.get(type(value)) or self.writer(value)
                if write is not None:
                    put(name)
                    write(self, value)
                # An op that is compiled as the programs it holds: what has no lasting name beside them is a rule of derivatives or maps.
                elif op.lower is not None or op.subprograms is None:
                    raise Unknown(f"{op.name}: {type(value).__qualname__}")
            for a in e.invars:
                put(self.literal(a) if type(a) is Literal else numbers[a])
            put(">")
            for v in e.outvars:
                numbers[v] = len(numbers)
                put(avals.get(v.aval) or self.aval(v.aval))
        put("|")
        for a in j.outvars:
            put(self.literal(a) if type(a) is Literal else numbers[a])

    def literal(self, a: Literal) -> tuple[bytes, str]:
        """Its value is of the type's dtype."""
        return a.val.tobytes(), self._avals.get(a.aval) or self.aval(a.aval)

    def aval(self, a: ShapedArray) -> str:
        text = self._avals.get(a)
        if text is None:
            if type(a) is not ShapedArray or getattr(a.dtype, "made", None) is not None:
                raise Unknown(str(a))
            text = self._avals[a] = str(a)
        return text

    def writer(self, v: Any) -> Callable[[_Writer, Any], None] | None:
        """What writes values of a type that is not among `_writers`, where it is from now on; None: such have no lasting name."""
        t = type(v)
        found = next((write for kind, write in _KINDS if isinstance(v, kind)), None)
        if found is None:
            if isinstance(v, tuple) and hasattr(t, "_fields"):
                found = _Writer.named_tuple
            elif t.__module__.startswith("steno.") and hasattr(t, "__record_fields__"):
                found = _Writer.record
            else:
                return None
        self._writers[t] = found
        return found

    def value(self, v: Any) -> None:
        write = self._writers.get(type(v)) or self.writer(v)
        if write is None:
            raise Unknown(type(v).__qualname__)
        write(self, v)

    def enumerated(self, v: enum.Enum) -> None:
        self.out.append(f"{_of_class(type(v))}.{v.name}")

    def key(self, v: KeyDType) -> None:
        if v.made is not None:
            raise Unknown(v.name)
        self.out.append(v.name)

    def dtype(self, v: np.dtype) -> None:
        self.out.append(f"dtype {dtypes.name(v)}")

    def scalar(self, v: np.generic) -> None:
        self.out.append(f"{dtypes.name(v.dtype)} {v.tobytes().hex()}")

    def named_tuple(self, v: Any) -> None:
        self.fields(v, type(v)._fields)

    def record(self, v: Any) -> None:
        self.fields(v, type(v).__record_fields__)

    def fields(self, v: Any, names: Iterable[str]) -> None:
        self.out.append(f"{_of_class(type(v))}(")
        for n in names:
            self.value(getattr(v, n))
        self.out.append(")")

    def sequence(self, v: Sequence[Any]) -> None:
        if _PLAIN.issuperset(map(type, v)):
            self.out.append(tuple(v))
            return
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

    def plain(self, v: Any) -> None:
        self.out.append(v)

    def quoted(self, v: str) -> None:
        self.out.append(repr(v))

    def op(self, v: Op) -> None:
        self.out.append(f"op {_named(v)}")

    def open(self, v: Jaxpr) -> None:
        self.out.append("(")
        self.jaxpr(v)
        self.out.append(")")


_PLAIN: Final = frozenset((bytes, bool, int, float, complex, type(None)))

_VALUES: Final[dict[type, Callable[[_Writer, Any], None]]] = {
    **dict.fromkeys(_PLAIN, _Writer.plain),
    str: _Writer.quoted,
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
