"""Reads programs back from the text jaxprs print as: `parse_jaxpr(str(jaxpr))` prints the same.

    { lambda c:f32[3]; x:f32[]. let y:f32[3] = mul[k=v k=v] c x in (y,) }          let name = {...} in {...}   for shared programs

Parameters are Python literals, dtypes, nested programs, names (`name=<lambda>`), or values of the classes that `register_parameter_type`
knows. What a printed equation leaves out (`Op.show`) the op's `parse(shown, avals_in, avals_out) -> params` restores."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import numpy as np

from steno._native import ShapedArray
from steno.core import dtypes
from steno.core.aval import scalar_value
from steno.core.errors import JaxprTypeError
from steno.core.jaxpr import NO_EFFECTS, Atom, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from steno.core.op import OPS, Op

_TYPE: Final = re.compile(r"(key<\w+>|\w+)\[([\d,]*)\]")
_NUMBER: Final = re.compile(r"(\([^()\s]*j\)|True|False|-?(?:inf|nan|[\d.][\w.+-]*)):")
_NAME: Final = re.compile(r"[a-z]+|_")
_BY_NAME: Final = {dtypes.name(d): d for d in dtypes.ALL}
_parameter_types: dict[str, Callable[..., Any]] = {}


def register_parameter_type(cls: type) -> type:
    """Lets `ClassName(field=value, ...)` and `ClassName.MEMBER` stand as parameters."""
    _parameter_types[cls.__name__] = cls
    return cls


def parse_jaxpr(text: str, ops: Mapping[str, Op] = OPS) -> ClosedJaxpr | Jaxpr:
    """The program of a text: closed, or a Jaxpr if it has constvars (their values do not stand in the text).

    JaxprTypeError, with the place, for text that is no program."""
    parser = _Parser(text, ops)
    program = parser.program()
    parser.space()
    if parser.at < len(text):
        raise parser.error("the end of the text")
    return program


@final
class _Parser:
    def __init__(self, text: str, ops: Mapping[str, Op]) -> None:
        self.text, self.ops, self.at = text, ops, 0
        self.shared: dict[str, ClosedJaxpr | Jaxpr] = {}

    def error(self, wanted: str) -> JaxprTypeError:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - self.text.rfind("\n", 0, self.at)
        return JaxprTypeError(f"parse_jaxpr: expected {wanted} at line {line}, column {column}, got {self.text[self.at : self.at + 40]!r}")

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def sees(self, token: str) -> bool:
        self.space()
        return self.text.startswith(token, self.at)

    def take(self, token: str) -> bool:
        if not self.sees(token):
            return False
        self.at += len(token)
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise self.error(repr(token))

    def match(self, pattern: re.Pattern[str], wanted: str) -> re.Match[str]:
        self.space()
        m = pattern.match(self.text, self.at)
        if m is None:
            raise self.error(wanted)
        self.at = m.end()
        return m

    def program(self) -> ClosedJaxpr | Jaxpr:
        # shared programs may use later ones: first all their texts, then from the last to the first
        bodies: list[tuple[str, int]] = []
        while self.take("let "):
            name = self.match(re.compile(r"([^=\n]*?) = (?=\{)"), "a name").group(1)
            bodies.append((name, self.at))
            self.skip_braces()
            self.expect("in")
        end = self.at
        for name, start in reversed(bodies):
            self.at = start
            self.shared[name] = self.jaxpr({})
        self.at = end
        return self.jaxpr({})

    def skip_braces(self) -> None:
        depth = 0
        while True:
            if self.at >= len(self.text):
                raise self.error("'}'")
            c = self.text[self.at]
            depth += (c == "{") - (c == "}")
            self.at += 1
            if depth == 0:
                return

    def type(self) -> ShapedArray:
        m = self.match(_TYPE, "a type such as f32[3]")
        dtype = dtypes.FROM_SHORT.get(m.group(1))
        if dtype is None:
            raise self.error("a type such as f32[3]")
        return ShapedArray(tuple(int(n) for n in m.group(2).split(",") if n), dtype)

    def binders(self, env: dict[str, Var], end: str) -> list[Var]:
        out = []
        while not self.take(end):
            name = self.match(_NAME, "a variable").group()
            self.expect(":")
            aval = self.type()
            v: Var = DropVar(aval) if name == "_" else Var(aval)
            env[name] = v
            out.append(v)
        return out

    def atom(self, env: dict[str, Var]) -> Atom:
        self.space()
        m = _NUMBER.match(self.text, self.at)
        if m is not None:
            self.at = m.end()
            aval = self.type()
            raw = m.group(1)
            value: Any = complex(raw) if raw.endswith("j)") else float(raw) if raw.lstrip("-") in ("inf", "nan") else ast.literal_eval(raw)
            return Literal(scalar_value(value, aval.dtype), aval)
        name = self.match(_NAME, "a variable or literal").group()
        if name not in env:
            self.at -= len(name)
            raise self.error("a variable that is bound")
        return env[name]

    def jaxpr(self, env: dict[str, Var]) -> ClosedJaxpr | Jaxpr:
        env = dict(env) if env else {}
        self.expect("{ lambda")
        constvars = self.binders(env, ";")
        invars = self.binders(env, ".")
        self.expect("let")
        eqns: list[JaxprEqn] = []
        while not self.sees("in ("):
            eqns.append(self.equation(env))
            self.take(";")
        self.expect("in (")
        outs: list[Atom] = []
        while not self.take(")"):
            outs.append(self.atom(env))
            self.take(",")
        self.expect("}")
        jaxpr = Jaxpr(constvars, invars, outs, eqns)
        return jaxpr if constvars else ClosedJaxpr(jaxpr, ())

    def equation(self, env: dict[str, Var]) -> JaxprEqn:
        start = self.at
        bound: dict[str, Var] = {}
        outvars: list[Var] = []
        self.space()
        if re.compile(r"[a-z]+:|_:").match(self.text, self.at):
            outvars = self.binders(bound, "=")
        op_name = self.match(re.compile(r"[\w-]+"), "an op").group()
        op = self.ops.get(op_name)
        if op is None:
            self.at = start
            raise self.error(f"a known op, not {op_name!r},")
        shown = self.params() if self.text.startswith("[", self.at) else {}
        invars: list[Atom] = []
        while not (self.sees(";") or self.sees("in (") or self.at_equation()):
            invars.append(self.atom(env))
        env.update(bound)
        avals = tuple(a.aval for a in invars)
        params = op.parse(shown, avals, [v.aval for v in outvars]) if op.parse is not None else shown
        effects = NO_EFFECTS if op.effects is None else frozenset(op.effects(*avals, **params))
        return JaxprEqn(op, invars, outvars, params, effects)

    def at_equation(self) -> bool:
        """Whether another equation begins here: binders, or the name of an op without results."""
        self.space()
        if re.compile(r"[a-z]+:|_:").match(self.text, self.at) and _NUMBER.match(self.text, self.at) is None:
            return True
        m = re.compile(r"([\w-]+)\[").match(self.text, self.at)
        return m is not None and m.group(1) in self.ops

    def params(self) -> dict[str, Any]:
        self.expect("[")
        out = {}
        while not self.take("]"):
            key = self.match(re.compile(r"(\w+)="), "a parameter").group(1)
            out[key] = self.value(key)
        return out

    def value(self, key: str) -> Any:
        if self.sees("{ lambda"):
            return self.jaxpr({})
        if re.compile(r"\(\s*\{ lambda").match(self.text, self.at) or self.shared_tuple():
            self.expect("(")
            programs = []
            while not self.take(")"):
                programs.append(self.jaxpr({}) if self.sees("{") else self.shared_name())
            return tuple(programs)
        if "jaxpr" in key and (shared := self.try_shared()) is not None:
            return shared
        return self.plain(key, self.value_text())

    def shared_tuple(self) -> bool:
        m = re.compile(r"\(\s*").match(self.text, self.at)
        return m is not None and any(self.text.startswith(n, m.end()) for n in self.shared)

    def try_shared(self) -> ClosedJaxpr | Jaxpr | None:
        name = max((n for n in self.shared if self.text.startswith(n, self.at)), key=len, default=None)
        if name is None:
            return None
        self.at += len(name)
        return self.shared[name]

    def shared_name(self) -> ClosedJaxpr | Jaxpr:
        self.space()
        found = self.try_shared()
        if found is None:
            raise self.error("a program")
        return found

    def value_text(self) -> str:
        """Up to the next ` key=` or the closing bracket, whichever comes first outside of brackets."""
        begin, depth = self.at, 0
        following = re.compile(r"\s+\w+=")
        while self.at < len(self.text):
            c = self.text[self.at]
            if depth == 0 and (c == "]" or c.isspace() and following.match(self.text, self.at)):
                break
            if c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
            self.at += 1
        return self.text[begin : self.at].strip()

    def plain(self, key: str, text: str) -> Any:
        if text in _BY_NAME and key != "name":
            return _BY_NAME[text]
        if text in dtypes.FROM_SHORT and text.startswith("key<"):
            return dtypes.FROM_SHORT[text]
        if key == "name":
            return text
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            return text
        try:
            return _evaluate(tree)
        except ValueError:
            return text


def _evaluate(node: ast.expr) -> Any:
    """A literal, with the registered classes. ValueError for anything else."""
    if isinstance(node, ast.Tuple):
        return tuple(map(_evaluate, node.elts))
    if isinstance(node, ast.List):
        return list(map(_evaluate, node.elts))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _parameter_types:
        return _parameter_types[node.func.id](*map(_evaluate, node.args), **{k.arg: _evaluate(k.value) for k in node.keywords if k.arg})
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _parameter_types:
        return getattr(_parameter_types[node.value.id], node.attr)
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return float(node.id)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "np"
    ):
        return getattr(np, node.func.attr)(*map(_evaluate, node.args))
    return ast.literal_eval(node)
