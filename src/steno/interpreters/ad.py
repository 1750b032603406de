"""Rules of derivatives of a user's own ops, by the names of `jax.interpreters.ad`.

`primitive_jvps[p] = rule`          `rule(primals, tangents, **params) -> (out, tangent)`; a tangent that is zero is a `Zero`
`primitive_transposes[p] = rule`    `rule(ct, *operands, **params) -> cotangents`, of an op that is linear in the operands that are
                                    `UndefinedPrimal`; the cotangent of a known operand is None
`defjvp`, `deflinear`, `defbilinear` write these rules for common cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steno.core.jaxpr import ClosedJaxpr, Jaxpr, open_jaxpr
from steno.core.on_demand import on_demand
from steno.core.op import OPS, Op, rule as _rule
from steno.interpreters.rule_tables import RuleTable, on_arrays, operands
from steno.transforms.backward import backward
from steno.transforms.forward import JVPTrace as JVPTrace, JVPTracer as JVPTracer, jvp_jaxpr as _jvp_jaxpr
from steno.transforms.rules import Linear as UndefinedPrimal, Zero as Zero, add, as_value, instantiate, rule_of, zero_of, zeros


def _jvp_on_arrays(op: Op, rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda primals, tangents, **params: rule(operands(primals), operands(tangents), **params)


primitive_jvps = RuleTable("jvp", _jvp_on_arrays)
primitive_transposes = RuleTable("transpose", on_arrays)
add_jaxvals_p = OPS["add_any"]


def is_undefined_primal(x: Any) -> bool:
    """Whether a transpose rule's operand is one the op is linear in."""
    return type(x) is UndefinedPrimal


def instantiate_zeros(tangent: Any) -> Any:
    """A `Zero` as an array of zeros; anything else as it is."""
    return instantiate(tangent)


def zeros_like_aval(aval: Any) -> Any:
    """An array of zeros of the type."""
    return zeros(aval)


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two values of one type."""
    return add_jaxvals_p.bind(x, y)


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a `Zero`."""
    return add(x, y)


def get_primitive_transpose(op: Op) -> Callable[..., Any]:
    """The op's transpose rule. MissingRule (a NotImplementedError) if it has none."""
    _rule(op, "transpose", "Transpose rule (for reverse-mode differentiation)")
    return rule_of(op, "transpose")


def _sum_of_tangents(out: Any, tangents: Sequence[Any]) -> Any:
    total: Any = zero_of(out)
    for t in tangents:
        total = add(total, t)
    return total


def defjvp2(primitive: Op, *jvprules: Callable[..., Any] | None) -> None:
    """Of an op of one result: `jvprules[k](t, out, *operands, **params)` is the part of the tangent that comes from operand k; None: there
    is none."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        known = as_value(out)
        parts = [
            rule(t, out, *primals, **params) for rule, t in zip(jvprules, tangents, strict=True) if rule is not None and type(t) is not Zero
        ]
        return out, _sum_of_tangents(known, parts)

    primitive_jvps[primitive] = jvp


def defjvp(primitive: Op, *jvprules: Callable[..., Any] | None) -> None:
    """Of an op of one result: `jvprules[k](t, *operands, **params)` is the part of the tangent that comes from operand k; None: there is
    none."""
    defjvp2(primitive, *(None if r is None else _without_result(r) for r in jvprules))


def _without_result(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda t, out, *operands, **params: rule(t, *operands, **params)


def deflinear2(primitive: Op, transpose_rule: Callable[..., Any]) -> None:
    """Of an op that is linear in all operands together: `transpose_rule(ct, *operands, **params)` gives the cotangents of the operands."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        return primitive.bind(*primals, **params), primitive.bind(*map(instantiate, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule


def deflinear(primitive: Op, transpose_rule: Callable[..., Any]) -> None:
    """`deflinear2`, the rule of which is not told the operands: `transpose_rule(ct, **params)`."""
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def defbilinear(prim: Op, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]) -> None:
    """Of an op that is linear in each of its two operands: `lhs_rule(ct, x, y, **params)` gives the cotangent of x, `rhs_rule` of y. The
    operand asked for is an `UndefinedPrimal`."""
    defjvp(prim, lambda t, x, y, **params: prim.bind(t, y, **params), lambda t, x, y, **params: prim.bind(x, t, **params))

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> tuple[Any, Any]:
        if is_undefined_primal(x) is is_undefined_primal(y):
            raise AssertionError(f"{prim.name}: exactly one of the operands of a bilinear op must be unknown when it is transposed")
        if type(ct) is Zero:
            return (ct, None) if is_undefined_primal(x) else (None, ct)
        return (lhs_rule(ct, x, y, **params), None) if is_undefined_primal(x) else (None, rhs_rule(ct, x, y, **params))

    primitive_transposes[prim] = transpose


def jvp_jaxpr(jaxpr: ClosedJaxpr, nonzeros: Sequence[bool], instantiate: bool | Sequence[bool]) -> tuple[ClosedJaxpr, list[bool]]:
    """The program of values and tangents: it takes the program's inputs, then the tangents of those that are not zero; results likewise.
    Also which results have tangents."""
    program, nonzero = _jvp_jaxpr(jaxpr, nonzeros, instantiate)
    return program, list(nonzero)


def backward_pass(
    jaxpr: Jaxpr, transform_stack: bool, consts: Sequence[Any], primals_in: Sequence[Any], cts_in: Sequence[Any]
) -> list[Any]:
    """Runs a program that is linear in the inputs that are `UndefinedPrimal` backwards: their cotangents, from those of the results."""
    found = backward(open_jaxpr(jaxpr), consts, primals_in, cts_in)
    return [zero_of(x) if ct is None else ct for x, ct in zip(primals_in, found, strict=True)]


__getattr__, __dir__ = on_demand(__name__, {})
