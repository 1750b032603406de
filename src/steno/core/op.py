"""The record of an op, and `bind`: calling an op hands it to the current trace, or evaluates it.

Everything about an op is in its record; the tables of transformations, backends and tests are views of `OPS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from steno._native import ShapedArray, current_trace
from steno.core import source
from steno.core.aval import typeof
from steno.core.errors import MissingRule
from steno.core.refs import AbstractRef

OPS: dict[str, Op] = {}
_TYPES_LIMIT = 4096


class Op:
    """One primitive operation. Final, but for `extend.core.Primitive`: ops of users.

    name             JAX's primitive name; parameters have JAX's names too and are hashable
    typ              `typ(*avals, **params) -> aval | list of avals`: the result's type; raises what users see for bad operands
    oracle           `oracle(*ndarrays, **params) -> ndarray | list`: the specification, in NumPy
    lower            `lower(avals_in, avals_out, **params) -> Kind` (ir/kinds.py): how it becomes loops; None where only `expand` says it
    expand           `expand(*args, **params)`: the op in terms of others; missing rules are derived from it
    jvp, transpose, batch, linearize, partial_eval, dce      rules of the transformations (transforms/)
    accumulate       `accumulate(total, ct, *args, **params)`: the transpose of an op that reads few elements of its first operand, the only
                     linear one: its cotangent added to the `total` there is already
    effects          `effects(*avals, **params) -> set`: None for a pure op
    subprograms      `subprograms(params) -> sequence of jaxprs`: None for an op without nested programs
    aliases          `aliases(**params) -> ((out index, in index), ...)`: which result may take over which operand's memory
    cost             `cost(avals_in, avals_out, **params) -> float`: how many arithmetic operations, or comparisons, it takes (None: few for
                     each element)
    axis_names       `axis_names(params) -> names`: the mapped axes a collective works over; None for other ops
    samples          `samples() -> iterable of (args, params)`: what the test-suite tries
    show             `show(params) -> dict`: the parameters a printed jaxpr shows, in order (None: all, sorted)
    parse            `parse(shown, avals_in, avals_out) -> params`: the inverse of `show`
    doc              `doc(results, operands, params) -> text`: an equation that prints otherwise than `results = op[params] operands`
    discharge        `discharge(*args, **params)`: an op on references as reads and writes of `Cell`s (transforms/discharge.py)
    makes_ref        it makes a reference: the transformations around see it although no operand is theirs
    override         `override(*args, **params)`: what evaluates it when nothing is traced, if `def_impl` has set it; None: the backend does
    listed           it is in `OPS`, the ops known by name
    """

    __slots__ = (
        "__dict__", "__weakref__", "_types", "accumulate", "aliases", "axis_names", "batch", "cost", "dce", "discharge", "doc", "effects",
        "expand", "jvp", "linearize", "lower", "makes_ref", "multiple_results", "name", "oracle", "override", "parse", "partial_eval",
        "samples", "show", "subprograms", "transpose", "typ",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        typ: Callable[..., Any],
        oracle: Callable[..., Any] | None = None,
        lower: Callable[..., Any] | None = None,
        expand: Callable[..., Any] | None = None,
        multiple_results: bool = False,
        jvp: Any = None,
        transpose: Any = None,
        accumulate: Any = None,
        batch: Any = None,
        linearize: Any = None,
        partial_eval: Any = None,
        dce: Any = None,
        effects: Callable[..., Any] | None = None,
        subprograms: Callable[[dict[str, Any]], Sequence[Any]] | None = None,
        aliases: Any = None,
        cost: Callable[..., float] | None = None,
        axis_names: Callable[[dict[str, Any]], Iterable[Any]] | None = None,
        samples: Callable[[], Iterable[Any]] | None = None,
        show: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        parse: Callable[[dict[str, Any], Sequence[ShapedArray], Sequence[ShapedArray]], dict[str, Any]] | None = None,
        doc: Callable[[Sequence[str], Sequence[str], dict[str, Any]], str] | None = None,
        discharge: Callable[..., Any] | None = None,
        makes_ref: bool = False,
        override: Callable[..., Any] | None = None,
        listed: bool = True,
    ) -> None:
        if listed and name in OPS:
            raise ValueError(f"there is already an op of the name {name!r}")
        self.name, self.typ, self.oracle, self.lower, self.expand = name, typ, oracle, lower, expand
        self.multiple_results = multiple_results
        self.jvp, self.transpose, self.accumulate, self.batch = jvp, transpose, accumulate, batch
        self.linearize, self.partial_eval, self.dce = linearize, partial_eval, dce
        self.effects, self.subprograms, self.aliases, self.cost = effects, subprograms, aliases, cost
        self.axis_names, self.samples, self.show, self.parse = axis_names, samples, show, parse
        self.doc, self.discharge, self.makes_ref, self.override = doc, discharge, makes_ref, override
        self._types: dict[Any, Any] = {}
        if listed:
            OPS[name] = self

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Binds the op: an array or tracer, or a list of them for an op of multiple results."""
        trace = current_trace()
        if trace is None:
            return _eager(self, args, params) if self.override is None else self.evaluate(args, params)
        return trace.process(self, args, params)

    bind = __call__

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        if OPS.get(self.name) is not self:
            raise TypeError(f"the op {self.name!r} cannot be pickled: it is a user's own")
        return _op_named, (self.name,)

    def types(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> Any:
        """`typ`, remembered by operand avals and parameters (an aval, or a list of them)."""
        known = self._types
        try:
            key = (avals, *params.items()) if params else avals
            out = known.get(key)
        except TypeError:  # a parameter that cannot be hashed
            return self.typ(*avals, **params)
        if out is None:
            if self.discharge is None:
                self._refuse_refs(avals)
            out = self.typ(*avals, **params)
            if self.subprograms is None:  # else the table would keep programs alive
                if len(known) >= _TYPES_LIMIT:
                    known.clear()
                known[key] = out
        return out

    def _refuse_refs(self, avals: Sequence[Any]) -> None:
        for k, a in enumerate(avals):
            if type(a) is AbstractRef:
                raise TypeError(f"{self.name} takes arrays, but operand {k} is a reference of type {a}: read it with `ref[...]` first")

    def evaluate(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Evaluates now, whatever the current trace."""
        return _eager(self, args, params) if self.override is None else self.override(*_operands(args), **params)

    @property
    def impl(self) -> Callable[..., Any]:
        """What evaluates the op on known values: a function of operands and parameters."""
        return self.override or (lambda *args, **params: _eager(self, args, params))

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """Sets what evaluates the op when nothing is traced; returns it. Compiled programs do not use it."""
        self.override = impl
        return impl


def _op_named(name: str) -> Op:
    return OPS[name]


def op(name: str, **fields: Any) -> Callable[[Callable[..., Any]], Op]:
    """`@op("name", oracle=..., ...)`: the decorated function is `expand`. Without `typ` the types are those of the expansion."""

    def declare(expand: Callable[..., Any]) -> Op:
        record = Op(name, expand=expand, **fields)
        record.__doc__ = expand.__doc__
        return record

    return declare


def _no_backend(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    raise MissingRule(op, "evaluation", "no backend is registered (steno.core.op.set_eager)")


_eager: Callable[[Op, Sequence[Any], dict[str, Any]], Any] = _no_backend


def set_eager(f: Callable[[Op, Sequence[Any], dict[str, Any]], Any]) -> Callable[..., Any]:
    """Sets how ops are evaluated when nothing is traced: `f(op, args, params)`; returns the previous function."""
    global _eager
    previous, _eager = _eager, f
    return previous


_operands: Callable[[Sequence[Any]], Sequence[Any]] = tuple


def set_operands(f: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
    """Sets what makes an op's operands those of its override: numbers become arrays."""
    global _operands
    _operands = f


def rule(op: Op, field: str, what: str) -> Callable[..., Any]:
    """The op's rule of that field. MissingRule, saying what to give the record, if there is none."""
    found = getattr(op, field)
    if found is None:
        raise MissingRule(op, what, hint=f"give Op({op.name!r}) a `{field}` or an `expand`")
    return found


def check_operands(op_name: str, args: Sequence[Any]) -> tuple[ShapedArray, ...]:
    """The avals of operands. TypeError naming the op and the position of what is no array."""
    out = []
    for k, x in enumerate(args):
        try:
            out.append(typeof(x))
        except TypeError:
            raise TypeError(
                f"Error interpreting argument to {op_name} as a JAX value. The problematic value is of type {type(x)} "
                f"and was passed to {op_name} at position {k}."
            ) from None
    return tuple(out)


__all__ = ["OPS", "Op", "check_operands", "op", "rule", "set_eager", "set_operands", "source"]
