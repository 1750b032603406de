"""Unknown sizes: `symbolic_shape("b, 2*n")` gives expressions that shapes may hold while a program is traced.

An expression is a polynomial with integer coefficients whose factors are variables, which stand for integers from 1, and the operations
floordiv, mod, max and min of other expressions. It is kept in a normal form, one object for each within a scope, so that equal ones are
identical. What comparisons say is found in `size_bounds`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

from steno._native import set_dimension_type
from steno.core import dtypes, source
from steno.core.aval import pytype_aval_mappings, scalar_aval
from steno.core.errors import InconclusiveDimensionOperation
from steno.core.size_bounds import bounds, lower_bound, not_negative, upper_bound
from steno.core.sizes import UnknownSize, max_size, min_size, size_of

Size = Any
"""An int or a `DimExpr`."""
Factor = Any
"""The name of a variable, or `(operation, operand, operand)`."""
Term = tuple[tuple[Factor, int], ...]
"""Factors and their powers, in order; the empty one is the number 1."""

_WORDS: Final = {
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "max": max_size,
    "min": min_size,
}


@final
class SymbolicScope:
    """What dimension variables belong to, with the constraints that are taken to hold of them: texts such as "a >= b", "a <= 8",
    "mod(a, 3) == 0". One side of an equality is one term, and is replaced by the other side everywhere. ValueError for constraints that
    cannot be read or met."""

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        if isinstance(constraints_str, str):
            raise ValueError(f"SymbolicScope: the symbolic constraints must be a sequence of strings, got {constraints_str!r}")
        self._made_at = source.place(1)
        self._known: dict[Any, DimExpr] = {}
        self._rules: dict[Term, tuple[int, Size]] = {}
        """`k * term` is what stands there: of equalities."""
        self._bounded: dict[Any, Any] = {}
        self.constraints: tuple[Constraint, ...] = ()
        # those without operations first: they may decide what the operations are
        for text in sorted(constraints_str, key=lambda text: ("(" in text, "==" not in text)):
            self._add(text)

    def _add(self, text: str) -> None:
        parts = re.split("(==|>=|<=)", text) if isinstance(text, str) else []
        if len(parts) != 3:
            raise ValueError(f"symbolic_shape: a constraint must contain '==', '>=' or '<=', once, got {text!r}")
        left, right = (_Parser(side, self, f"constraint {text!r}").whole() for side in (parts[0], parts[2]))
        equal = parts[1] == "=="
        surplus = left - right if parts[1] != "<=" else right - left
        if type(surplus) is int:
            if surplus if equal else surplus < 0:
                raise ValueError(f"symbolic_shape: Unsatisfiable constraint {text!r}: no sizes meet it")
            return
        if equal:
            self._equate(left, right, text)
        elif not_negative(-surplus - 1):
            raise ValueError(f"symbolic_shape: Unsatisfiable constraint {text!r}: no sizes meet it and the others")
        self.constraints = (*self.constraints, Constraint(text, surplus, equal))
        self._bounded.clear()

    def _equate(self, left: Size, right: Size, text: str) -> None:
        if type(left) is int or len(left.terms) != 1:
            left, right = right, left
        if type(left) is int or len(left.terms) != 1:
            raise ValueError(f"symbolic_shape: one side of the constraint {text!r} must be a single term")
        ((term, coefficient),) = left.terms
        if coefficient < 0:
            coefficient, right = -coefficient, -right
        if type(right) is not int and any(_quotient(t, term) is not None for t, _ in right.terms):
            raise ValueError(f"symbolic_shape: both sides of the constraint {text!r} hold {left}")
        self._rules[term] = coefficient, right
        for t, (c, e) in self._rules.items():
            if type(e) is not int:
                self._rules[t] = c, made(self, e.terms)

    def __str__(self) -> str:
        return f"scope made at {source.summary(self._made_at)}" if self._made_at is not None else "scope"

    def made(self, terms: Iterable[tuple[Term, int]]) -> Size:
        """The sum of terms with coefficients."""
        return made(self, terms)

    def advice(self) -> str:
        """For messages about what is not known."""
        if self.constraints:
            return f"It is so with constraints {', '.join(c.text for c in self.constraints)}"
        return "Constraints may decide it: symbolic_shape(..., constraints=[...])"

    def check(self, other: SymbolicScope, what: str, of: object) -> None:
        """ValueError if `other`, the scope of the expression `of`, is another one."""
        if other is not self:
            raise ValueError(f"Invalid mixing of symbolic scopes {what}: {of} is of another scope ({other}) than the rest ({self})")


@final
class Constraint:
    """`surplus` is at least 0, or 0 if `equal`; `text` says it in the user's words."""

    __slots__ = ("equal", "surplus", "text")

    def __init__(self, text: str, surplus: Any, equal: bool) -> None:
        self.text, self.surplus, self.equal = text, surplus, equal


# The normal form


def made(scope: SymbolicScope, terms: Iterable[tuple[Term, int]]) -> Size:
    """The sum of terms with coefficients."""
    total: dict[Term, int] = {}
    _add_to(total, terms)
    while (found := _simplification(scope, total)) is not None:
        term, others = found
        del total[term]
        _add_to(total, others)
    if not total:
        return 0
    if len(total) == 1 and () in total:
        return total[()]
    key = tuple(sorted(total.items(), key=_order))
    known = scope._known.get(key)
    if known is None:
        known = scope._known[key] = DimExpr(scope, key)
    return known


def _add_to(total: dict[Term, int], terms: Iterable[tuple[Term, int]]) -> None:
    for term, c in terms:
        c += total.get(term, 0)
        if c:
            total[term] = c
        else:
            total.pop(term, None)


def _simplification(scope: SymbolicScope, total: dict[Term, int]) -> tuple[Term, list[tuple[Term, int]]] | None:
    """A term of a sum, and the terms that it is replaced by; None: the sum is in the normal form.

    Where floordiv(x, k) and mod(x, k) are both there, or a multiple of k times the former, one of them goes: x = k * floordiv + mod.
    Of max(x, y) and min(x, y), whose sum is x + y, the one stays that leaves fewer terms."""
    for term, c in total.items():
        for known, (k, e) in scope._rules.items():
            rest = _quotient(term, known) if c % k == 0 else None
            if rest is not None:
                return term, _times(e, rest, c // k)
        for factor, _ in term:
            if type(factor) is not tuple:
                continue
            word, x, k = factor
            rest = _quotient(term, ((factor, 1),))
            assert rest is not None
            if word in ("max", "min"):
                opposite = _product(((("min" if word == "max" else "max", x, k), 1),), rest)
                others = [*_times(x, rest, c), *_times(k, rest, c), (opposite, -c)]
                after = {t: n for t, n in total.items() if t is not term}
                _add_to(after, others)
                if len(after.keys() - {()}) < len(total.keys() - {()}):
                    return term, others
            elif type(k) is not int:
                continue
            elif word == "mod":
                quotient = _product(((("floordiv", x, k), 1),), rest)
                if quotient in total:
                    return term, [*_times(x, rest, c), (quotient, -k * c)]
            elif word == "floordiv" and c % k == 0 and _product(((("mod", x, k), 1),), rest) not in total:
                return term, [*_times(x, rest, c // k), *_times(x % k, rest, -(c // k))]
    return None


def _times(e: Size, rest: Term, c: int) -> list[tuple[Term, int]]:
    return [(_product(t, rest), n * c) for t, n in terms_of(e)]


def _order(item: tuple[Term, int]) -> Any:
    """Terms of higher degree first, then by name."""
    term, _ = item
    return -sum(p for _, p in term), [(type(f) is not str, _factor_text(f), -p) for f, p in term]


def _product(x: Term, y: Term) -> Term:
    if not x or not y:
        return x or y
    powers = dict(x)
    for f, p in y:
        powers[f] = powers.get(f, 0) + p
    return tuple(sorted(powers.items(), key=lambda item: (type(item[0]) is not str, _factor_text(item[0]))))


def _quotient(x: Term, y: Term) -> Term | None:
    """x / y if y's factors are among x's."""
    powers = dict(x)
    for f, p in y:
        left = powers.pop(f, 0) - p
        if left < 0:
            return None
        if left:
            powers[f] = left
    return tuple((f, powers[f]) for f, _ in x if f in powers)


def term_variables(term: Term) -> set[str]:
    """The names of the variables in a product of factors."""
    out: set[str] = set()
    for f, _ in term:
        if type(f) is str:
            out.add(f)
        else:
            out.update(*(x.variables() for x in f[1:] if isinstance(x, DimExpr)))
    return out


def terms_of(e: Size) -> tuple[tuple[Term, int], ...]:
    if type(e) is int:
        return (((), e),) if e else ()
    return e.terms


def variable(scope: SymbolicScope, name: str) -> Size:
    """The dimension variable of that name."""
    return made(scope, [(((name, 1),), 1)])


def _operation(scope: SymbolicScope, word: str, x: Size, y: Size) -> Size:
    return made(scope, [((((word, x, y), 1),), 1)])


def _text(terms: Iterable[tuple[Term, int]]) -> str:
    out = ""
    for term, c in terms:
        sign, size = ("-" if c < 0 else "+"), abs(c)
        body = "*".join(([] if size == 1 and term else [str(size)]) + [_factor_text(f) + (f"^{p}" if p > 1 else "") for f, p in term])
        out += (f" {sign} " if out else "-" if c < 0 else "") + body
    return out


def _factor_text(f: Factor) -> str:
    return f if type(f) is str else f"{f[0]}({f[1]}, {f[2]})"


@final
class DimExpr(UnknownSize):
    """An unknown size. Made by `symbolic_shape` and by arithmetic; with a number or an array it is the value of that size.

    InconclusiveDimensionOperation for a comparison that depends on the variables, and where an int is needed. `==` is False there."""

    __slots__ = ("__weakref__", "scope", "terms", "text")
    __array_priority__ = 1000

    def __init__(self, scope: SymbolicScope, terms: tuple[tuple[Term, int], ...]) -> None:
        self.scope, self.terms, self.text = scope, terms, _text(terms)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __copy__(self) -> DimExpr:
        return self

    def __deepcopy__(self, memo: Any) -> DimExpr:
        return self

    def __reduce__(self) -> Any:
        return made, (self.scope, self.terms)

    def variables(self) -> set[str]:
        """The names of the variables."""
        return {name for term, _ in self.terms for name in term_variables(term)}

    def evaluate(self, values: Mapping[str, Size]) -> Size:
        """The expression with sizes in the place of variables."""
        total: Size = 0
        for term, c in self.terms:
            product: Size = c
            for f, p in term:
                product = product * factor_value(f, values) ** p
            total = total + product
        return total

    # Arithmetic

    def _other(self, y: Any, symbol: str) -> Any:
        """An operand as a size; NotImplemented for what is none."""
        if type(y) is int:
            return y
        if type(y) is DimExpr:
            self.scope.check(y.scope, f"in an operation '{symbol}' with '{self}'", y)
            return y
        if isinstance(y, bool) or hasattr(y, "aval") or not hasattr(y, "__index__"):
            return NotImplemented
        try:
            return operator.index(y)
        except TypeError:
            return NotImplemented

    def __neg__(self) -> Size:
        return made(self.scope, [(t, -c) for t, c in self.terms])

    def __pos__(self) -> Size:
        return self

    def maximum(self, y: Any) -> Size:
        return self._chosen("max", y, 1)

    def minimum(self, y: Any) -> Size:
        return self._chosen("min", y, -1)

    def _chosen(self, word: str, y: Any, sign: int) -> Size:
        y = self._other(size_of(y), word)
        surplus = (self - y) * sign
        if not_negative(surplus):
            return self
        if not_negative(-surplus):
            return y
        shift = min(dict(terms_of(e)).get((), 0) for e in (self, y)) if type(y) is not int else dict(self.terms).get((), 0)
        first, second = self - shift, y - shift
        if type(second) is not int and (type(first) is int or str(second) < str(first)):
            first, second = second, first
        return _operation(self.scope, word, first, second) + shift

    def __jax_array__(self) -> Any:
        return _as_value(self)

    # Comparisons

    def __bool__(self) -> bool:
        return True  # as it is not equal to 0

    def __int__(self) -> int:
        raise InconclusiveDimensionOperation(f"the symbolic dimension '{self}' is used where a constant is needed")


def _arithmetic(symbol: str, f: Callable[[SymbolicScope, Size, Size], Size], on_arrays: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """An operator and its reflection. With what is no size it is the operator of arrays."""

    def forward(self: DimExpr, y: Any) -> Any:
        other = self._other(y, symbol)
        return on_arrays(self.__jax_array__(), y) if other is NotImplemented else f(self.scope, self, other)

    def backward(self: DimExpr, x: Any) -> Any:
        other = self._other(x, symbol)
        return on_arrays(x, self.__jax_array__()) if other is NotImplemented else f(self.scope, other, self)

    return forward, backward


def _add(scope: SymbolicScope, x: Size, y: Size) -> Size:
    return made(scope, (*terms_of(x), *terms_of(y)))


def _sub(scope: SymbolicScope, x: Size, y: Size) -> Size:
    return made(scope, (*terms_of(x), *((t, -c) for t, c in terms_of(y))))


def _mul(scope: SymbolicScope, x: Size, y: Size) -> Size:
    return made(scope, ((_product(t, u), c * d) for t, c in terms_of(x) for u, d in terms_of(y)))


def _floordiv(scope: SymbolicScope, x: Size, y: Size) -> Size:
    return _divmod(scope, x, y)[0]


def _mod(scope: SymbolicScope, x: Size, y: Size) -> Size:
    return _divmod(scope, x, y)[1]


def _divmod(scope: SymbolicScope, x: Size, y: Size) -> tuple[Size, Size]:
    """The quotient, rounded down, and the remainder, which has the sign of y: of the form q + floordiv(r, y) and mod(r, y)."""
    if type(y) is int:
        if not y:
            raise ZeroDivisionError(f"symbolic dimension '{x}' divided by zero")
        if y < 0:
            q, r = _divmod(scope, -x, -y)
            return q, -r
        if type(x) is not int and x.terms[0][1] < 0:  # rounded down is minus the opposite rounded up: one form for both
            q, r = _divmod(scope, y - 1 - x, y)
            return -q, y - 1 - r
        found = next(((t[0][0], c) for t, c in terms_of(x) if _is_mod(t, y)), None) if len(terms_of(x)) > 1 else None
        if found is not None:  # c * mod(z, y k)  -->  c * z - c * y * k * floordiv(z, y k)
            (_, z, m), c = found
            q, r = _divmod(scope, x + (z - z % m) * c, y)
            return q - z // m * (m // y * c), r
        q = made(scope, [(t, c // y) for t, c in terms_of(x)])
        r = made(scope, [(t, c % y) for t, c in terms_of(x)])
    else:
        q, r = _long_division(scope, x, y)
    if type(r) is int and type(y) is int:
        return q + r // y, r % y
    if type(r) is int and not r:
        return q, 0
    if not_negative(r) and not_negative(y - r - 1):
        return q, r
    low, high = bounds(r, 1) if type(y) is int else (-math.inf, math.inf)
    if type(y) is int and high - low < y and low // y == high // y:
        return q + int(low // y), r - int(low // y) * y
    terms = terms_of(r)
    if type(y) is int and len(terms) == 1 and terms[0][1] == 1:
        term = terms[0][0]
        (f, p) = term[0]
        if len(term) == 1 and p == 1 and type(f) is tuple and f[0] == "floordiv" and type(f[2]) is int:
            return q + _divmod(scope, f[1], f[2] * y)[0], _operation(scope, "mod", r, y)  # of a quotient
    g = math.gcd(*(c for e in (r, y) for _, c in terms_of(e)))
    if g > 1:
        r, y = (made(scope, [(t, c // g) for t, c in terms_of(e)]) for e in (r, y))
        if type(y) is int and y == 1:
            return q + r, 0
    return q + _operation(scope, "floordiv", r, y), _operation(scope, "mod", r, y) * g


def _is_mod(term: Term, y: int) -> bool:
    """Whether it is the remainder of a division by a multiple of y."""
    if len(term) != 1 or term[0][1] != 1 or type(term[0][0]) is not tuple:
        return False
    word, _, m = term[0][0]
    return word == "mod" and type(m) is int and m % y == 0


def _long_division(scope: SymbolicScope, x: Size, y: DimExpr) -> tuple[Size, Size]:
    """Polynomials q and r with x = q * y + r: leading terms are divided as long as that is possible."""
    lead, k = y.terms[0]
    q: Size = 0
    for _ in range(64):
        if type(x) is int:
            break
        found = next(((t, c) for t, c in x.terms if c % k == 0 and _quotient(t, lead) is not None), None)
        if found is None:
            break
        factor = made(scope, [(_quotient(found[0], lead), found[1] // k)])  # type: ignore[list-item]
        q, x = q + factor, x - factor * y
    return q, x


def _power(scope: SymbolicScope, x: Size, y: Size) -> Size:
    if type(y) is not int or y < 0:
        raise NotImplementedError(f"symbolic dimensions are raised to known powers from 0 only, got ({x})**({y})")
    out: Size = 1
    for _ in range(y):
        out = out * x
    return out


def factor_value(f: Factor, values: Mapping[str, Size]) -> Size:
    """A variable's value, or an operation on evaluated operands. KeyError for a variable without a value."""
    if type(f) is str:
        return values[f]
    x, y = (e.evaluate(values) if isinstance(e, DimExpr) else e for e in f[1:])
    return _WORDS[f[0]](x, y)


def _divmod_both(scope: SymbolicScope, x: Size, y: Size) -> Any:
    return _divmod(scope, x, y)


def _truediv(scope: SymbolicScope, x: Size, y: Size) -> Any:
    return operator.truediv(*(e.__jax_array__() if isinstance(e, DimExpr) else e for e in (x, y)))


for _name, _symbol, _f, _g in (
    ("add", "+", _add, operator.add), ("sub", "-", _sub, operator.sub), ("mul", "*", _mul, operator.mul),
    ("floordiv", "//", _floordiv, operator.floordiv), ("mod", "%", _mod, operator.mod), ("divmod", "divmod", _divmod_both, divmod),
    ("truediv", "/", _truediv, operator.truediv), ("pow", "**", _power, operator.pow),
):  # fmt: skip
    for _method, _value in zip((f"__{_name}__", f"__r{_name}__"), _arithmetic(_symbol, _f, _g), strict=True):
        setattr(DimExpr, _method, _value)


def _comparison(symbol: str, surplus: Callable[[Size, Size], Size], on_arrays: Callable[[Any, Any], Any]) -> Any:
    """`surplus(x, y) >= 0` is what the comparison says."""

    def compare(self: DimExpr, y: Any) -> Any:
        other = self._other(y, symbol)
        if other is NotImplemented:
            return on_arrays(self.__jax_array__(), y)
        d = surplus(self, other)
        if not_negative(d):
            return True
        if not_negative(-d - 1):
            return False
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension comparison '{self}' {symbol} '{other}' is inconclusive: it depends on the dimension variables. "
            f"{self.scope.advice()}"
        )

    return compare


for _name, _symbol, _surplus, _on_arrays in (
    ("ge", ">=", lambda x, y: x - y, operator.ge), ("le", "<=", lambda x, y: y - x, operator.le),
    ("gt", ">", lambda x, y: x - y - 1, operator.gt), ("lt", "<", lambda x, y: y - x - 1, operator.lt),
):  # fmt: skip
    setattr(DimExpr, f"__{_name}__", _comparison(_symbol, _surplus, _on_arrays))


# Text


_TOKEN: Final = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(\.\.\.)|(.))")


class _Parser:
    """Reads sums of products of numbers, names, powers, parentheses and calls of floordiv, mod, max and min."""

    def __init__(self, text: str, scope: SymbolicScope, where: str) -> None:
        self.text, self.scope, self.where = text, scope, where
        self.tokens = [next(k for k in m.groups() if k is not None) for m in _TOKEN.finditer(text.rstrip())]
        self.at = 0

    def error(self, wanted: str) -> ValueError:
        got = repr(self.next) if self.next else "the end"
        return ValueError(
            f"symbolic_shape: syntax error in {self.where}: expected {wanted}, got {got} (word {self.at + 1} of {self.text!r})"
        )

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        """The next word if it is one of these; else the empty text."""
        word = self.next
        if word and word in wanted:
            self.at += 1
            return word
        return ""

    def need(self, word: str) -> None:
        if not self.take(word):
            raise self.error(repr(word))

    def whole(self) -> Size:
        e = self.sum()
        if self.next:
            raise self.error("an operator or the end")
        return e

    def sum(self) -> Size:
        e = -self.product() if self.take("-") else self.product()
        while sign := self.take("+", "-"):
            term = self.product()
            e = e + term if sign == "+" else e - term
        return e

    def product(self) -> Size:
        e = self.power()
        while self.take("*"):
            e = e * self.power()
        return e

    def power(self) -> Size:
        e = self.atom()
        while self.take("^"):
            if not self.next.isdigit():
                raise self.error("a number as exponent")
            e = e ** int(self.next)
            self.at += 1
        return e

    def atom(self) -> Size:
        word = self.next
        if word.isdigit():
            self.at += 1
            return int(word)
        if self.take("("):
            e = self.sum()
            self.need(")")
            return e
        if self.take("-"):
            return -self.atom()
        if not word.isidentifier() or word == "_":
            raise self.error("a number, a name or '('")
        self.at += 1
        if word not in _WORDS:
            return variable(self.scope, word)
        self.need("(")
        x = self.sum()
        self.need(",")
        y = self.sum()
        self.need(")")
        return _WORDS[word](x, y)


def read_size(scope: SymbolicScope, text: str) -> Size:
    """The size that prints as `text`."""
    return _Parser(text, scope, f"the size {text!r}").whole()


def symbolic_shape(
    shape_spec: str | None, *, constraints: Sequence[str] = (), scope: SymbolicScope | None = None, like: Sequence[int | None] | None = None
) -> tuple[Size, ...]:
    """A shape of dimension expressions: `symbolic_shape("b, 2*n, 3")`. `_` is the size of `like` there, a final `...` all that are left of
    it; None is `like` itself. All are of `scope`, or of a new one with the `constraints`. ValueError for text that cannot be read, or that
    differs from the known sizes of `like`."""
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("symbolic_shape: constraints belong to the scope: give one of `scope` and `constraints`")
    spec = "..." if shape_spec is None else shape_spec
    if not isinstance(spec, str):
        raise ValueError(f"symbolic_shape: the specification must be a text or None, got {shape_spec!r}")
    given = None if like is None else tuple(like)
    parser = _Parser(spec, scope, f"the symbolic shape {spec!r}")
    bracketed = parser.tokens[:1] == ["("] and _closes_at_end(parser.tokens)
    if bracketed:
        parser.tokens = parser.tokens[1:-1]
    out: list[Size] = []
    while parser.next:
        if parser.take("..."):
            out += _like(parser, given, len(out), None)
            if parser.next:
                raise parser.error("the end after '...'")
            break
        if parser.take("_"):
            out += _like(parser, given, len(out), len(out) + 1)
        else:
            out.append(_checked(parser, parser.sum(), given, len(out)))
        if not parser.next:
            break
        parser.need(",")
    if given is not None and len(out) != len(given):
        raise ValueError(f"symbolic_shape: {spec!r} is of {len(out)} sizes, and `like` is {given}")
    return tuple(out)


def _closes_at_end(tokens: Sequence[str]) -> bool:
    """Whether the first parenthesis is closed by the last word."""
    depth = 0
    for k, word in enumerate(tokens):
        depth += (word == "(") - (word == ")")
        if not depth:
            return k == len(tokens) - 1
    return False


def _like(parser: _Parser, like: tuple[int | None, ...] | None, start: int, stop: int | None) -> list[Size]:
    if like is None:
        raise ValueError(f"symbolic_shape: {parser.text!r} has a placeholder, '_' or '...', which needs a shape `like`")
    sizes = like[start:stop]
    if any(n is None for n in sizes) or (stop is not None and not sizes):
        raise ValueError(f"symbolic_shape: {parser.text!r} has a placeholder where `like`, {like}, has no size")
    return list(sizes)


def _checked(parser: _Parser, e: Size, like: tuple[int | None, ...] | None, k: int) -> Size:
    if like is not None and type(e) is int and k < len(like) and like[k] is not None and like[k] != e:
        raise ValueError(f"symbolic_shape: {parser.text!r} has the size {e} where `like`, {like}, has another")
    if type(e) is int and e < 0:
        raise ValueError(f"symbolic_shape: {parser.text!r} has the negative size {e}")
    return e


def is_symbolic_dim(p: Any) -> bool:
    """Whether a size is a dimension expression, and no number."""
    return isinstance(p, DimExpr)


def symbolic_dim_bounds(dimension: Any) -> tuple[float, float]:
    """Numbers between which a size lies; infinite ones where none are known."""
    n = size_of(dimension)
    return lower_bound(n), upper_bound(n)


# Values


def _no_value(size: DimExpr) -> Any:
    raise NotImplementedError(f"the symbolic dimension '{size}' has no value outside of exported functions")


_as_value: Callable[[DimExpr], Any] = _no_value


def set_as_value(f: Callable[[DimExpr], Any]) -> None:
    """Sets what makes an array of a size where one is needed."""
    global _as_value
    _as_value = f


set_dimension_type(DimExpr)
pytype_aval_mappings[DimExpr] = lambda size: scalar_aval(dtypes.default_int(), True)

__all__ = [
    "Constraint", "DimExpr", "SymbolicScope", "factor_value", "is_symbolic_dim", "made", "read_size", "set_as_value", "symbolic_dim_bounds",
    "symbolic_shape",
]  # fmt: skip
