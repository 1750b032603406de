"""Tables of rules by op, as JAX has them: views of the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, final

from steno.core.aval import TypedScalar
from steno.core.op import OPS, Op
from steno.transforms.rules import as_array, rule_of

Rule = Callable[..., Any]


def operands(args: Iterable[Any]) -> list[Any]:
    """Operands as users' rules take them: numbers are arrays."""
    return [as_array(x) if type(x) is TypedScalar else x for x in args]


def on_arrays(op: Op, rule: Rule) -> Rule:
    """A rule `(.., *operands, **params)` that gets arrays for numbers."""
    return lambda *args, **params: rule(*operands(args), **params)


@final
class RuleTable(MutableMapping[Op, Rule]):
    """`table[op] = rule` sets the record's `field`; `stored(op, rule)` gives what the record holds, `shown(op, holds)` the reverse."""

    def __init__(
        self, field: str, stored: Callable[[Op, Rule], Rule] | None = None, shown: Callable[[Op, Rule], Rule] | None = None
    ) -> None:
        self._field, self._stored, self._shown = field, stored, shown
        self._given: dict[Op, tuple[Rule, Rule]] = {}  # what was set: (as it was given, as it is stored)

    def __setitem__(self, op: Op, rule: Rule) -> None:
        if not isinstance(op, Op):
            raise TypeError(f"table of {self._field} rules: the key must be a Primitive, got {op!r}")
        stored = rule if self._stored is None else self._stored(op, rule)
        setattr(op, self._field, stored)
        self._given[op] = rule, stored

    def __getitem__(self, op: Op) -> Rule:
        found = rule_of(op, self._field)
        if found is None:
            raise KeyError(op)
        given = self._given.get(op)
        if given is not None and given[1] is found:
            return given[0]
        return found if self._shown is None else self._shown(op, found)

    def __delitem__(self, op: Op) -> None:
        if getattr(op, self._field) is None:
            raise KeyError(op)
        setattr(op, self._field, None)
        self._given.pop(op, None)

    def __iter__(self) -> Iterator[Op]:
        known = dict.fromkeys((*OPS.values(), *self._given))
        return (op for op in known if getattr(op, self._field) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
