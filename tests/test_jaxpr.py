"""Programs: printing in JAX's syntax (against texts that JAX printed), parsing, checking, evaluation, dead code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import steno
from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.errors import JaxprTypeError
from steno.core.interpret import interpret
from steno.core.jaxpr import (
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    check_jaxpr,
    consts_to_inputs,
    dce_jaxpr,
    eval_jaxpr,
    jaxpr_as_fun,
    last_uses,
    new_eqn,
    subjaxprs,
)
from steno.core.op import OPS, Op
from steno.core.parse import parse_jaxpr
from steno.core.trace import trace_to_jaxpr
from steno.ops.arithmetic import add, mul, neg

TEXTS = (Path(__file__).parent / "data" / "jaxprs.txt").read_text().strip().split("\n\n")
F = ShapedArray((3,), dtypes.float32)
S = ShapedArray((), dtypes.float32)


class StandIns(dict):
    """Ops of any name, that print all their parameters (jit, and other calls of named functions, the name first)."""

    def get(self, name, default=None):
        return self[name]

    def __contains__(self, name):
        return True

    def __missing__(self, name):
        first = name in ("jit", "custom_jvp_call", "custom_vjp_call")
        op = Op(
            f"stand-in {name}",
            typ=lambda *_, **__: [],
            show=(lambda p: {"name": p["name"], **{k: v for k, v in sorted(p.items()) if k != "name"}}) if first else None,
            subprograms=(lambda p: ()) if name == "jit" else None,
        )
        del OPS[op.name]
        op.name = name
        self[name] = op
        return op


STAND_INS = StandIns()


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_prints_what_jax_prints(text):
    # The parser keeps no names and no line ends: all of the layout, the names and what is shared come from the printer.
    assert str(parse_jaxpr(text, STAND_INS)) == text


def test_parsed_programs_run():
    text = """{ lambda ; a:f32[3] b:f32[]. let
        c:f32[3] = mul a b; d:f32[3] = add c 1.5:f32[]
        e:f32[3] = jit[name=f jaxpr={ lambda ; x:f32[3]. let y:f32[3] = neg x in (y,) }] d
      in (e, c, 2:i32[]) }"""
    closed = parse_jaxpr(text)
    assert isinstance(closed, ClosedJaxpr)
    check_jaxpr(closed)
    out = interpret(closed, [np.float32([1, 2, 3]), np.float32(2)])
    assert [y.tolist() for y in out] == [[-3.5, -5.5, -7.5], [2, 4, 6], 2]
    again = parse_jaxpr(str(closed))
    assert str(again) == str(closed)
    out = eval_jaxpr(closed.jaxpr, [], np.float32([1, 2, 3]), 2.0)
    assert np.asarray(out[1]).tolist() == [2, 4, 6]
    assert np.asarray(jaxpr_as_fun(closed)(np.float32([1, 2, 3]), 1.0)[1]).tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="takes 2 arguments, got 1"):
        eval_jaxpr(closed.jaxpr, [], 1.0)


def test_constvars_are_parsed():
    j = parse_jaxpr("{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = add a b in (c,) }")
    assert isinstance(j, Jaxpr) and len(j.constvars) == 1
    check_jaxpr(ClosedJaxpr(j, [np.ones(3, np.float32)]))
    with pytest.raises(ValueError, match="1 constvars, but 0 values"):
        ClosedJaxpr(j, [])
    closed = consts_to_inputs(ClosedJaxpr(j, [np.ones(3, np.float32)]))
    assert str(closed) == "{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = add a b in (c,) }"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ lambda ; a:f32[3]. let b:f32[3] = neg c in (b,) }", "a variable that is bound at line 1, column 41, got 'c in"),
        ("{ lambda ; a:f33[3]. let in (a,) }", "a type such as"),
        ("{ lambda ; a:f32[3]. let b:f32[3] = frobnicate a in (b,) }", "a known op, not 'frobnicate'"),
        ("{ lambda ; a:f32[3]. let in (a,) } x", "the end of the text"),
        ("{ lambda ; a:f32[3]. let in (a", "a variable or literal"),
        ("lambda x: x", "'{ lambda'"),
    ],
)  # fmt: skip
def test_what_is_no_program(text, message):
    with pytest.raises(JaxprTypeError, match=message):
        parse_jaxpr(text)


def test_checker():
    a, b = Var(F), Var(F)
    fine = new_eqn(neg, [a], {})
    check_jaxpr(Jaxpr([], [a], fine.outvars, [fine]))
    bad = [
        (Jaxpr([], [], [a], []), "Variable 'a' not defined"),
        (Jaxpr([], [a, a], [a], []), "Variable 'a' already bound"),
        (Jaxpr([], [a], [a], [JaxprEqn(neg, [b], [Var(F)], {})]), "not defined"),
        (Jaxpr([], [a], [a], [fine, fine]), "already bound"),
        (Jaxpr([], [a], [a], [JaxprEqn(neg, [a], [Var(S)], {})]), r"has type float32\[\], but neg gives float32\[3\]"),
        (Jaxpr([], [a], [a], [JaxprEqn(neg, [a], [Var(F), Var(F)], {})]), "neg has 1 results, the equation binds 2"),
        (Jaxpr([], [a], [a], [JaxprEqn(neg, [a], [b], {}, frozenset({"io"}))], frozenset()), "have effects"),
        (Jaxpr([], [a], [Literal(np.float32(1), F)], []), "is no scalar"),
        (Jaxpr([], [a], [a], [JaxprEqn(add, [a, Var(ShapedArray((4,), F.dtype))], [b], {})]), "not defined"),
    ]
    for jaxpr, message in bad:
        with pytest.raises(JaxprTypeError, match=message) as e:
            check_jaxpr(jaxpr)
        assert "in jaxpr:\n{ lambda" in str(e.value)
    with pytest.raises(JaxprTypeError, match="constant of shape"):
        check_jaxpr(ClosedJaxpr(Jaxpr([a], [], [a], []), [np.ones(4)]))


def test_every_program_is_checked_on_demand():
    op = Op("test_liar", typ=lambda x: x, subprograms=lambda params: ())
    try:
        types = iter([F, S])
        op.typ = lambda x: next(types)
        with steno.enable_checks(), pytest.raises(JaxprTypeError, match="test_liar gives"):
            trace_to_jaxpr(lambda x: [op(x)], [F])
    finally:
        del OPS["test_liar"]


def test_dead_code():
    def f(x, y, z):
        a = neg(x)
        neg(y)
        return [add(a, 1.0), mul(y, y), z]

    info = DebugInfo("jit", "f", ("x", "y", "z"), ("r0", "r1", "r2"))
    jaxpr = trace_to_jaxpr(f, [F, F, F], info).jaxpr
    kept, used = dce_jaxpr(jaxpr, [True, False, False])
    assert used == [True, False, False] and [e.op.name for e in kept.eqns] == ["neg", "add"]
    assert kept.debug_info.arg_names == ("x",) and kept.debug_info.result_paths == ("r0",)
    kept, used = dce_jaxpr(jaxpr, [False, True, False], instantiate=[True, False, False])
    assert used == [True, True, False] and len(kept.eqns) == 1
    op = Op("test_effect", typ=lambda x: x, effects=lambda x: {"io"})
    try:
        jaxpr = trace_to_jaxpr(lambda x: [op(x), x][1:], [F]).jaxpr
        kept, used = dce_jaxpr(jaxpr, [False])
        assert len(kept.eqns) == 1 and used == [True] and kept.effects == {"io"}
    finally:
        del OPS["test_effect"]


def test_dce_by_the_ops_own_rule():
    def rule(used, e):
        keep = [k for k, u in enumerate(used) if u]
        return [True, *used], e.replace(invars=[e.invars[0], *(e.invars[1 + k] for k in keep)], outvars=[e.outvars[k] for k in keep])

    op = Op("test_many", typ=lambda x, *xs: list(xs), multiple_results=True, dce=rule)
    try:
        jaxpr = trace_to_jaxpr(lambda x, y, z: op(x, y, z), [F, F, F]).jaxpr
        kept, used = dce_jaxpr(jaxpr, [False, True])
        assert used == [True, False, True] and len(kept.eqns[0].outvars) == 1
        check_jaxpr(kept)
    finally:
        del OPS["test_many"]


def test_last_uses():
    jaxpr = trace_to_jaxpr(lambda x: [add(neg(x), x)], [F]).jaxpr
    first, second = last_uses(jaxpr)
    assert first == [] and set(second) == {jaxpr.invars[0], jaxpr.eqns[0].outvars[0]}


def test_pieces():
    closed = steno.make_jaxpr(lambda x: steno.jit(lambda y: neg(y))(x))(1.0)
    (eqn,) = closed.eqns
    (inner,) = subjaxprs(eqn.params)
    assert inner is eqn.params["jaxpr"] and closed.jaxpr.eqns is closed.eqns and closed.literals == []
    assert str(eqn).startswith("b:f32[] = jit[") and str(eqn).endswith("] a") and str(inner.eqns[0]) == "a:f32[] = neg b"
    assert repr(Var(F)).endswith(":float32[3]") and repr(Literal(np.float32(2), S)) == "2.0:f32[]"
    other = eqn.replace(params={"name": "g", "jaxpr": inner})
    assert other.params["name"] == "g" and other.op is eqn.op and other.invars is eqn.invars
    with pytest.raises(TypeError, match="unknown fields"):
        eqn.replace(foo=1)
    with pytest.raises(TypeError, match="unknown fields"):
        closed.jaxpr.replace(foo=1)
    assert closed.replace(consts=[]).jaxpr is closed.jaxpr
    dropped = Jaxpr([], closed.invars, [], [JaxprEqn(neg, closed.invars, [DropVar(S)], {})])
    assert str(dropped) == "{ lambda ; a:f32[]. let _:f32[] = neg a in () }"


def test_literals_print_as_numbers():
    values = [(np.float32(np.nan), "nan:f32[]"), (np.float32(-0.0), "-0.0:f32[]"), (np.float32(1 / 3), "0.3333333432674408:f32[]"),
              (dtypes.bfloat16.type(0.1), "0.10009765625:bf16[]"), (np.complex64(1 + 2j), "(1+2j):c64[]"), (np.bool_(True), "True:bool[]"),
              (dtypes.int4.type(-3), "-3:i4[]"), (np.float16(0.1), "0.0999755859375:f16[]")]  # fmt: skip
    for v, text in values:
        closed = trace_to_jaxpr(lambda v=v: [v], [])
        assert str(closed) == f"{{ lambda ; . let  in ({text},) }}"
        assert str(parse_jaxpr(str(closed))) == str(closed)


def test_shared_programs_do_not_cost_exponential_time():
    f = steno.jit(lambda x: neg(x))
    for _ in range(40):
        f = steno.jit(lambda x, f=f: add(f(x), f(x)))
    closed = steno.make_jaxpr(f)(1.0)
    assert str(closed).count("let lambda") == 40
