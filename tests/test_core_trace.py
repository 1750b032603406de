"""Ops, bind, traces and tracers."""

from __future__ import annotations

import gc
import pickle
import time
import weakref

import numpy as np
import pytest

import steno
from steno._native import ArrayImpl, current_trace
from steno.backends import reference
from steno.core import dtypes, source
from steno.core.aval import ShapedArray, register_aval_type, typed_scalar
from steno.core.errors import MissingRule, UnexpectedTracerError
from steno.core.interpret import interpret, to_array
from steno.core.jaxpr import DebugInfo, Literal, Var, check_jaxpr
from steno.core.op import OPS, Op, check_operands, rule
from steno.core.trace import (
    JaxprTrace,
    JitTracer,
    Trace,
    Tracer,
    ensure_compile_time_eval,
    install_methods,
    named_scope,
    set_current_trace,
    trace_to_jaxpr,
)
from steno.ops.arithmetic import add, mul, neg

F = ShapedArray((3,), np.dtype(np.float32))
S = ShapedArray((), np.dtype(np.float32))
INFO = DebugInfo("jit", "f at file.py:3", ("x", "y"))


def array(x) -> ArrayImpl:
    x = np.asarray(x, np.float32)
    return to_array(x, ShapedArray(x.shape, x.dtype))


def test_records_equations():
    closed = trace_to_jaxpr(lambda x, y: [add(mul(x, y), 2.0)], [F, F], INFO)
    first, second = closed.eqns
    assert (first.op, second.op) == (mul, add) and first.primitive is mul
    assert first.invars == closed.invars and second.invars[0] is first.outvars[0] and closed.outvars == second.outvars
    assert isinstance(second.invars[1], Literal) and second.invars[1].aval is ShapedArray((), F.dtype, True)
    assert closed.in_avals == [F, F] and closed.out_avals == [F] and not closed.effects
    check_jaxpr(closed)
    np.testing.assert_array_equal(interpret(closed, [np.float32([1, 2, 3]), np.float32([2, 2, 2])])[0], [4, 6, 8])


def test_tracers_print_as_in_jax():
    seen = []

    def look(x):
        seen.append((str(x), repr(x), f"{x}", x.shape, x.dtype, x.ndim, x.size, x.weak_type))
        return [x]

    trace_to_jaxpr(look, [S.update(weak_type=True)])
    text = "Traced<~float32[]>with<DynamicJaxprTrace>"
    assert seen == [(text, "JitTracer(~float32[])", text, (), np.float32, 0, 1, True)]


def test_constants():
    big, small, scalar = np.ones(4, np.float64), array([1, 2, 3]), np.float32(5)
    closed = trace_to_jaxpr(lambda x: [mul(x, small), add(x, small), mul(x, scalar), np.float64(2), big, big, x, array(7)], [F])
    assert len(closed.consts) == 3  # by identity: small, big, the array of rank 0
    assert closed.consts[0] is small  # steno's own is not copied
    big[:] = 0  # a NumPy array was snapshotted
    assert closed.consts[1].dtype == np.float32 and np.asarray(closed.consts[1]).sum() == 4
    literals = [a for a in (*closed.eqns[2].invars, *closed.outvars) if isinstance(a, Literal)]
    assert [(a.val.dtype.name, a.aval.weak_type) for a in literals] == [("float32", False), ("float32", False)]


def test_typed_scalars_keep_their_type():
    closed = trace_to_jaxpr(lambda x: [typed_scalar(2, dtypes.bfloat16, True), typed_scalar(3, dtypes.int8)], [F])
    assert str(closed) == "{ lambda ; a:f32[3]. let  in (2.0:bf16[], 3:i8[]) }"
    assert [a.aval.weak_type for a in closed.outvars] == [True, False]


def test_outer_tracers_become_constants():
    inner = []

    def f(x):
        inner.append(trace_to_jaxpr(lambda y: [mul(x, y)], [F]))
        return [x]

    trace_to_jaxpr(f, [F])
    (closed,) = inner
    assert len(closed.consts) == 1 and isinstance(closed.consts[0], JitTracer)
    assert current_trace() is None


def test_a_trace_ends_also_by_an_exception():
    with pytest.raises(ZeroDivisionError):
        trace_to_jaxpr(lambda x: 1 / 0, [F])
    assert current_trace() is None


def test_escaped_tracers():
    kept = []

    def leaky(x):
        kept.append(x)
        kept.append(neg(x))
        return [x]

    trace_to_jaxpr(leaky, [F], INFO)
    for use in (lambda t: neg(t), lambda t: add(1.0, t), lambda t: trace_to_jaxpr(lambda x: [add(x, t)], [F])):
        with pytest.raises(UnexpectedTracerError) as e:
            use(kept[1])
        lines = str(e.value).splitlines()
        assert lines[0].startswith("Encountered an unexpected tracer. A function transformed by JAX had a side effect")
        assert "float32[3] wrapped in a DynamicJaxprTracer" in lines[0]
        assert "f at file.py:3 traced for jit" in str(e.value)
        assert " by neg\n" in str(e.value) and "created on line " in str(e.value) and "kept.append(neg(x))" in str(e.value)
    with pytest.raises(UnexpectedTracerError, match="is the argument x itself"):
        neg(kept[0])


def test_checking_leaks():
    kept = []
    with steno.checking_leaks():
        trace_to_jaxpr(lambda x: [neg(x)], [F], INFO)
        with pytest.raises(Exception, match="Leaked trace DynamicJaxprTrace of f at file.py:3"):
            trace_to_jaxpr(lambda x: kept.append(x) or [x], [F], INFO)


def test_no_tracing():
    with steno.no_tracing(), pytest.raises(RuntimeError, match="f at file.py:3"):
        trace_to_jaxpr(lambda x: [x], [F], INFO)


def test_ensure_compile_time_eval():
    seen = []

    def f(x):
        with ensure_compile_time_eval():
            seen.append(add(array(1), array(2)))
        return [add(x, seen[0])]

    closed = trace_to_jaxpr(f, [S])
    assert isinstance(seen[0], ArrayImpl) and float(seen[0]) == 3 and len(closed.eqns) == 1


def test_named_scopes():
    def f(x):
        with named_scope("outer"):
            y = neg(x)
            with named_scope("inner"):
                y = neg(y)
        return [neg(y)]

    closed = trace_to_jaxpr(f, [F])
    assert [e.names for e in closed.eqns] == [("outer",), ("outer", "inner"), ()]
    assert "# [outer/inner]" in closed.pretty_print(name_stack=True)
    with pytest.raises(TypeError, match="named_scope name argument must be a string"), named_scope(3):
        pass


def test_places_are_the_users():
    closed = trace_to_jaxpr(lambda x: [neg(x)], [F])
    location = closed.eqns[0].source_info.location
    assert location.file == __file__ and location.function.endswith("<lambda>")
    assert "neg(x)" in source.line_text(closed.eqns[0].place)
    assert f"{__file__}:{location.line}:{location.column}" in closed.pretty_print(source_info=True)


def test_wrong_operands():
    with pytest.raises(TypeError, match=r"add .*float32\[3\], float32\[4\]|shapes"):
        trace_to_jaxpr(lambda x, y: [add(x, y)], [F, ShapedArray((4,), F.dtype)])
    for wrong in ("a", None, [1.0], object()):
        with pytest.raises(TypeError, match=r"Error interpreting argument to neg as a JAX value.*\n?.*at position 0"):
            trace_to_jaxpr(lambda x, wrong=wrong: [neg(wrong)], [F])
    with pytest.raises(TypeError, match="passed to sin at position 1"):
        check_operands("sin", [1.0, "a"])


def test_results_that_are_no_arrays():
    with pytest.raises(TypeError, match="not a valid JAX type"):
        trace_to_jaxpr(lambda x: ["a"], [F])


def test_op_records():
    op = Op("test_twice", typ=lambda x: x, expand=lambda x: add(x, x))
    try:
        assert OPS["test_twice"] is op and repr(op) == "test_twice" and pickle.loads(pickle.dumps(op)) is op
        np.testing.assert_array_equal(np.asarray(op(array([1, 2]))), [2, 4])
        with pytest.raises(MissingRule, match="transpose for 'test_twice' not implemented: give Op\\('test_twice'\\) a"):
            rule(op, "transpose", "transpose")
        with pytest.raises(ValueError, match="already an op of the name 'test_twice'"):
            Op("test_twice", typ=lambda x: x)
        bare = Op("test_bare", typ=lambda x: x)
        with pytest.raises(MissingRule, match="evaluation for 'test_bare'"):
            reference.eager(bare, [array(1)], {})
    finally:
        for n in ("test_twice", "test_bare"):
            OPS.pop(n, None)


def test_types_are_remembered():
    calls = []

    def typ(x, *, k):
        calls.append(k)
        return x

    op = Op("test_typ", typ=typ, oracle=lambda x, *, k: x)
    try:
        for k in (1, 1, 2, [3], [3]):  # a list cannot be hashed, and works all the same
            trace_to_jaxpr(lambda x, k=k: [op(x, k=k)], [F])
        assert calls == [1, 2, [3], [3]]
    finally:
        del OPS["test_typ"]


class _Log(Trace):
    """A transformation: logs ops, and binds them under its parent."""

    __slots__ = ("log", "parent")

    def __init__(self, parent):
        self.parent, self.log = parent, []

    def process(self, op, args, params):
        self.log.append(op.name)
        with set_current_trace(self.parent):
            out = op(*[x.value if type(x) is _LogTracer else x for x in args], **params)
        return [_LogTracer(self, y) for y in out] if op.multiple_results else _LogTracer(self, out)


class _LogTracer(Tracer):
    __slots__ = ("value",)

    def __init__(self, trace, value):
        self._trace, self.value, self.aval = trace, value, getattr(value, "aval", None)

    def _known(self):
        return self.value if isinstance(self.value, ArrayImpl) else None


register_aval_type(_LogTracer)


def test_a_transformation_is_a_trace():
    trace = _Log(current_trace())
    with set_current_trace(trace):
        y = add(neg(_LogTracer(trace, array(3))), 1.0)
        if y:  # its value is known
            assert float(y) == -2 and int(y) == -2 and np.asarray(y) == -2 and y.item() == -2
    assert trace.log == ["neg", "add"] and current_trace() is None
    with pytest.raises(UnexpectedTracerError, match="of a _Log was used outside"):
        neg(y)


def test_methods_are_installed_on_arrays_and_tracers():
    install_methods({"test_method": lambda self: neg(self)})
    try:
        assert float(array(2).test_method()) == -2
        closed = trace_to_jaxpr(lambda x: [x.test_method()], [F])
        assert closed.eqns[0].op is neg
    finally:
        for cls in (ArrayImpl, Tracer):
            delattr(cls, "test_method")


def test_nothing_keeps_a_trace_alive():
    trace = JaxprTrace(INFO)
    ref = weakref.ref(trace)
    closed = trace.finish([trace.argument(F)])
    del trace
    gc.collect()
    assert ref() is None and isinstance(closed.invars[0], Var)


def test_tracing_is_cheap():
    def f(x):
        for _ in range(2000):
            x = add(x, x)
        return [x]

    best = float("inf")
    for _ in range(7):
        start = time.thread_time()  # the processor's time: other processes do not count
        trace_to_jaxpr(f, [F])
        best = min(best, time.thread_time() - start)
    assert best / 2000 < 15e-6
