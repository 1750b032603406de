"""What the ops of control flow share: lists of operands, types of nested programs, programs derived from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from steno.core.aval import ShapedArray
from steno.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, eval_jaxpr, literal_value
from steno.core.trace import trace_to_jaxpr
from steno.transforms.programs import Flags, anonymous, remembered, remove_dead
from steno.transforms.rules import Zero, instantiate, tangent_aval

T = TypeVar("T")


# Lists


def split(xs: Sequence[T], *sizes: int) -> list[list[T]]:
    """Pieces of the given sizes, then what remains."""
    out, at = [], 0
    for n in sizes:
        out.append(list(xs[at : at + n]))
        at += n
    out.append(list(xs[at:]))
    return out


def chosen(xs: Iterable[T], which: Iterable[bool]) -> list[T]:
    return [x for x, w in zip(xs, which, strict=True) if w]


def others(xs: Iterable[T], which: Iterable[bool]) -> list[T]:
    return [x for x, w in zip(xs, which, strict=True) if not w]


def union(*masks: Sequence[bool]) -> list[bool]:
    return [any(m) for m in zip(*masks, strict=True)]


def inverted(mask: Iterable[bool]) -> list[bool]:
    return [not m for m in mask]


def spread(which: Iterable[bool], there: Iterable[Any], elsewhere: Iterable[Any]) -> list[Any]:
    """The inverse of `chosen` and `others`."""
    yes, no = iter(there), iter(elsewhere)
    return [next(yes) if w else next(no) for w in which]


# Types


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    """Equal but for weak types."""
    return a.shape == b.shape and a.dtype == b.dtype


def check_types(what: str, got: Sequence[ShapedArray], wanted: Sequence[ShapedArray]) -> None:
    """TypeError, in the words of `what`, unless the types are equal but for weak types."""
    if len(got) != len(wanted):
        raise TypeError(f"{what}: expected {len(wanted)}, got {len(got)}")
    for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
        if not same_type(g, w):
            raise TypeError(f"{what}: number {k} must be of type {w.str_short()}, got {g.str_short()}")


def check_param(op: str, name: str, value: Any, kind: Any, what: str) -> None:
    """TypeError for a parameter of another class."""
    if not isinstance(value, kind):
        raise TypeError(f"invalid {op} param {name} of type {type(value).__name__}, {what} required: {value}")


# Programs


def evaluate(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Binds the ops of the program."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def read(env: dict[Any, Any], a: Atom) -> Any:
    return literal_value(a) if type(a) is Literal else env[a]


def evaluate_into(env: dict[Any, Any], eqns: Iterable[JaxprEqn]) -> None:
    """Binds the ops of the equations; their results go to `env`."""
    for e in eqns:
        env.update(zip(e.outvars, e.bind([read(env, a) for a in e.invars]), strict=True))


def program(fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], like: ClosedJaxpr) -> ClosedJaxpr:
    """The program of a function of flat arrays, said to come from where `like` comes from."""
    return trace_to_jaxpr(fun, avals, anonymous(like.jaxpr, like.debug_info.traced_for))


@remembered
def reordered(closed: ClosedJaxpr, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> ClosedJaxpr:
    """The program with its inputs and outputs in another order: place k takes the present number `inputs[k]`. Outputs may be left out or
    repeated, inputs not."""
    j = closed.jaxpr
    jaxpr = Jaxpr(
        j.constvars,
        [j.invars[k] for k in inputs],
        [j.outvars[k] for k in outputs],
        j.eqns,
        j.effects,
        anonymous(j, j.debug_info.traced_for),
    )
    out = ClosedJaxpr(jaxpr, closed.consts)
    return out if len(set(outputs)) == len(j.outvars) else remove_dead(out)


# Tangents


def is_nonzero(xs: Iterable[Any]) -> Flags:
    return tuple(type(x) is not Zero for x in xs)


def made(tangents: Iterable[Any], which: Iterable[bool]) -> list[Any]:
    """The chosen tangents as arrays."""
    return [instantiate(t) for t, w in zip(tangents, which, strict=True) if w]


def with_zero_tangents(nonzero: Sequence[bool], tangents: Iterable[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """One tangent for each primal type: those given, where `nonzero`, else `Zero`s."""
    rest = iter(tangents)
    return [next(rest) if n else Zero(tangent_aval(a)) for n, a in zip(nonzero, avals, strict=True)]
