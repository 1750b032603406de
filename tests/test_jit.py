"""jit: what is traced when, statics, donation, nesting, stages, and the explanations of retraces."""

from __future__ import annotations

import functools
import gc
import logging
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest

import steno
from steno import errors, retrace
from steno.core.trace import JitTracer
from steno.ops.arithmetic import add, mul, neg

f32 = np.float32


def put(x, dtype=f32):
    return steno.device_put(np.asarray(x, dtype))


def value(tree):
    return steno.tree.map(lambda x: np.asarray(x).tolist(), tree)


# what is traced when


def test_body_runs_once_for_each_signature():
    calls = []

    @steno.jit
    def f(x, y=2.0):
        calls.append((str(x), str(y)))
        return {"sum": add(x, x), "y": [y, None]}

    assert value(f(put([1, 2]))) == {"sum": [2, 4], "y": [2.0, None]}
    for _ in range(3):
        assert value(f(np.array([3, 4], f32)))["sum"] == [6, 8]
    assert len(calls) == 1
    for other in (put([1, 2, 3]), put([1, 2], np.int32), 1.0, f32(1), put([[1, 2]])):
        f(other), f(other)
    assert len(calls) == 6 == len(f.traces)
    f(x=put([1, 2])), f(put([1, 2]), 3.0)
    assert len(calls) == 8
    with steno.enable_x64():
        assert f(np.array([3.0, 4.0]))["sum"].dtype == np.float64
    assert len(calls) == 9
    f(put([5, 6]))
    assert len(calls) == 9


def test_trees_in_and_out():
    f = steno.jit(lambda *args, **kw: (args, kw, None, {"a": [add(args[0]["x"][0], kw["k"])]}))
    tree = {"x": [put(1), 2], "n": None}
    out = f(tree, k=f32(3))
    assert value(out) == (({"x": [1, 2], "n": None},), {"k": 3}, None, {"a": [4]})
    assert value(f(tree, k=f32(3))) == value(out)
    assert out[0][0]["x"][1].weak_type and not out[1]["k"].weak_type


def test_results_that_are_constants_or_arguments():
    one = put([1, 1])
    f = steno.jit(lambda x: (x, 3, one, np.arange(2, dtype=f32), x))
    for _ in range(2):
        x = put([7])
        a, b, c, d, e = f(x)
        assert value((a, b, c, d, e)) == ([7], 3, [1, 1], [0, 1], [7])
        assert b.dtype == np.int32 and b.weak_type
    assert len(f.traces) == 1


def test_shared_by_callables_of_one_function_and_options():
    calls = []

    def g(x):
        calls.append(1)
        return neg(x)

    for _ in range(3):
        assert value(steno.jit(g)(put(1))) == -1
    assert len(calls) == 1
    steno.jit(g, static_argnames="x")(1)
    assert len(calls) == 2


def test_traces_die_with_their_function():
    def g(x):
        return neg(x)

    steno.jit(g)(1.0)
    ref = weakref.ref(g)
    del g
    gc.collect()
    assert ref() is None


def test_clear_cache():
    calls = []

    @steno.jit
    def f(x):
        calls.append(1)
        return neg(x)

    f(1.0), f(1.0)
    f.clear_cache()
    f(1.0), f(1.0)
    assert len(calls) == 2
    steno.clear_caches()
    f(1.0)
    assert len(calls) == 3


def test_disable_jit():
    f = steno.jit(lambda x: seen.append(x) or x)
    seen = []
    with steno.disable_jit():
        assert f("anything") == "anything"
    assert seen == ["anything"]


def test_an_exception_in_the_function_reaches_the_caller():
    tries = []

    @steno.jit
    def f(x):
        tries.append(1)
        if len(tries) == 1:
            raise KeyError("mine")
        return x

    with pytest.raises(KeyError, match="mine"):
        f(1.0)
    assert float(f(1.0)) == 1 and len(tries) == 2
    assert steno._native.current_trace() is None


def test_recursion():
    @functools.partial(steno.jit, static_argnums=1)
    def power(x, n):
        return mul(x, power(x, n - 1)) if n else 1.0

    assert float(power(2.0, 5)) == 32

    def forever(x):
        return steno.jit(forever)(x)

    with pytest.raises(RecursionError):
        steno.jit(forever)(1.0)


def test_methods_and_partials():
    class Model:
        def __init__(self, k):
            self.k = k

        @functools.partial(steno.jit, static_argnums=0)
        def scaled(self, x):
            return mul(x, self.k)

    model = Model(3.0)
    assert float(model.scaled(2.0)) == 6 and float(Model.scaled(model, 2.0)) == 6 and float(Model(4.0).scaled(2.0)) == 8
    assert float(steno.jit(functools.partial(lambda a, b: add(a, b), 1.0))(2.0)) == 3
    assert float(steno.jit(model.scaled)(2.0)) == 6

    class Callable:
        def __call__(self, x):
            return neg(x)

    assert float(steno.jit(Callable())(2.0)) == -2


def test_looks_like_the_function():
    @steno.jit
    def named(x):
        """Doc."""
        return x

    assert (named.__name__, named.__doc__, named.__module__) == ("named", "Doc.", __name__)
    assert named.__wrapped__(3) == 3 and repr(named).startswith("<PjitFunction of <function")
    decorated = steno.jit(keep_unused=True)(lambda x, y: x)
    assert float(decorated(1.0, 2.0)) == 1


def test_threads_trace_once():
    calls, ready = [], threading.Barrier(8)

    @steno.jit
    def f(x):
        calls.append(1)
        return neg(x)

    out = []

    def work():
        ready.wait()
        out.append(float(f(2.0)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert out == [-2.0] * 8 and len(calls) == 1


# static arguments


def test_static_arguments():
    calls = []

    def g(x, n, *, mode="a"):
        calls.append((n, mode))
        for _ in range(n):
            x = add(x, x)
        return x if mode == "a" else neg(x)

    f = steno.jit(g, static_argnums=1, static_argnames="mode")
    assert float(f(1.0, 3)) == 8 and float(f(1.0, 3)) == 8 and float(f(1.0, 2, mode="b")) == -4
    assert calls == [(3, "a"), (2, "b")]
    by_name = steno.jit(g, static_argnames=("n", "mode"))
    assert float(by_name(1.0, 3)) == 8 and float(by_name(1.0, n=3)) == 8 and float(by_name(n=1, x=1.0)) == 2
    by_number = steno.jit(lambda n, x: x, static_argnums=-2)
    assert float(by_number(3, 1.0)) == 1


def test_static_values_of_other_types_are_other_values():
    f = steno.jit(lambda n: n, static_argnums=0)
    assert [f(v).dtype.name for v in (1, 1.0, True)] == ["int32", "float32", "bool"]
    assert [f(v).dtype.name for v in (True, 1.0, 1)] == ["bool", "float32", "int32"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda g: steno.jit(g, static_argnums=5), ValueError, r"Jitted function has static_argnums=\(5,\), but only accepts 2 positional"),
        (lambda g: steno.jit(g, static_argnums=(0, -5)), ValueError, "only accepts 2 positional arguments"),
        (lambda g: steno.jit(g, static_argnames="z"), ValueError, r"invalid argnames \{'z'\} in static_argnames"),
        (lambda g: steno.jit(g, donate_argnums=7), ValueError, r"donate_argnums=\(7,\)"),
        (lambda g: steno.jit(g, donate_argnames="q"), ValueError, "donate_argnames"),
        (lambda g: steno.jit(g, static_argnums=1, donate_argnums=1), ValueError, "cannot intersect"),
        (lambda g: steno.jit(g, static_argnums="x"), TypeError, "'str' object cannot be interpreted as an integer"),
        (lambda g: steno.jit(g, static_argnames=3), TypeError, "not iterable"),
        (lambda g: steno.jit(g, compiler_options={"foo": 1}), errors.JaxRuntimeError, "No such compile option: 'foo'"),
        (lambda g: steno.jit(g, compiler_options={"fast_math": 1}), TypeError, "fast_math must be a bool"),
        (lambda g: steno.jit(3), TypeError, "Expected a callable value, got 3"),
        (lambda g: steno.jit(g, static_argnums=1)(1, [2]), ValueError, r"Non-hashable static arguments.*<class 'list'>, \[2\]"),
        (lambda g: steno.jit(g)(1), TypeError, "missing 1 required positional argument: 'y'"),
        (lambda g: steno.jit(g)(1, 2, 3), TypeError, "takes 2 positional arguments but 3 were given"),
        (lambda g: steno.jit(g)(1, z=3), TypeError, "unexpected keyword argument 'z'"),
        (lambda g: steno.jit(g)(1, "a"), TypeError, r"type <class 'str'> and was passed to the function at path y\."),
        (lambda g: steno.jit(g)({"k": [1, "s"]}, 1), TypeError, r"at path x\['k'\]\[1\]\."),
        (lambda g: steno.jit(lambda x, *a, k=1, **kw: x)(1, 2, "a"), TypeError, r"at path a\[1\]\."),
        (lambda g: steno.jit(lambda x, *a, k=1, **kw: x)(1, k="a"), TypeError, r"at path k\."),
        (lambda g: steno.jit(lambda x, *a, k=1, **kw: x)(1, zz="a"), TypeError, r"at path kw\['zz'\]\."),
        (lambda g: steno.jit(g, static_argnums=0)(1, "a"), TypeError, r"at path y\."),
        (lambda g: steno.jit(g)(np.array(["a"]), 1), TypeError, r"<class 'numpy.ndarray'> and was passed to the function at path x"),
        (lambda g: steno.jit(g)(2**40, 1), OverflowError, r"argument path is x. Got <class 'int'> with value 1099511627776"),
        (lambda g: steno.jit(lambda x: "a")(1.0), TypeError, r"traced for jit returned a value of type <class 'str'>, which is not"),
        (lambda g: steno.jit(lambda x: {"a": [x, object()]})(1.0), TypeError, r"<class 'object'> at output component \['a'\]\[1\], which"),
        (lambda g: steno.make_jaxpr(3), TypeError, "make_jaxpr: the first argument must be callable"),
        (lambda g: steno.make_jaxpr(g)(1, "a"), TypeError, "at path y"),
        (lambda g: steno.eval_shape(g, 1, "a"), TypeError, "at path y"),
        (lambda g: steno.jit(g).lower(1, 2).as_text("foo"), ValueError, "unknown dialect: foo"),
        (lambda g: steno.devices("gpu"), RuntimeError, "Unknown backend: 'gpu' requested"),
        (lambda g: steno.device_put("a"), TypeError, "Argument 'a' of type '?<class 'str'>'? is not a valid JAX type"),
        (lambda g: steno.device_put(1.0, "nowhere"), ValueError, "device_put: expected a Device"),
    ],
)  # fmt: skip
def test_misuse(make, error, message):
    def g(x, y):
        return add(x, y)

    with pytest.raises(error, match=message):
        make(g)


# donation


def test_donation_deletes_the_array():
    f = steno.jit(lambda x, y: add(x, y), donate_argnums=0)
    for _ in range(3):
        x, y = put([1, 2]), put([3, 4])
        assert value(f(x, y)) == [4, 6] and x.is_deleted() and not y.is_deleted()
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[2\]"):
            f(x, y)
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            add(x, y)
    assert value(f(np.ones(2, f32), y)) == [4, 5]
    by_name = steno.jit(lambda x, y: add(x, y), donate_argnames="y")
    x, y = put(1), put(2)
    assert float(by_name(y=y, x=x)) == 3 and y.is_deleted() and not x.is_deleted()


def test_donation_of_trees():
    f = steno.jit(lambda p, g: {k: add(p[k], g) for k in p}, donate_argnums=0)
    p = {"a": put([1]), "b": put([2, 3])}
    out = f(p, 1.0)
    assert value(out) == {"a": [2], "b": [3, 4]} and all(v.is_deleted() for v in p.values())


def test_donation_that_is_of_no_use():
    f = steno.jit(lambda x, y: (neg(y),), donate_argnums=(0, 1))
    x, y = put([1, 2, 3]), put(1)
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable: x: float32\[3\]"):
        f(x, y)
    assert not x.is_deleted() and y.is_deleted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x, put(1))


def test_donated_twice():
    f = steno.jit(lambda x, y: add(x, y), donate_argnums=0)
    x = put([1, 2])
    with pytest.raises(ValueError, match="donated"):
        f(x, x)


def test_donation_inside_another_trace_does_nothing():
    f = steno.jit(lambda x: neg(x), donate_argnums=0)
    x = put(1)
    assert float(steno.jit(lambda x: f(x))(x)) == -1 and not x.is_deleted()


# nesting and capture


def test_nested_calls_are_one_op():
    inner = steno.jit(lambda y: add(y, 1.0))

    def f(x):
        return inner(inner(x))

    closed = steno.make_jaxpr(f)(1.0)
    assert [e.op.name for e in closed.eqns] == ["jit", "jit"]
    assert closed.eqns[0].params["jaxpr"] is closed.eqns[1].params["jaxpr"]  # traced once
    assert float(steno.jit(f)(1.0)) == 3
    inlined = steno.jit(lambda y: add(y, 1.0), inline=True)
    assert [e.op.name for e in steno.make_jaxpr(lambda x: inlined(x))(1.0).eqns] == ["add"]


def test_inner_function_may_use_the_outer_ones_values():
    @steno.jit
    def outer(x):
        inner = steno.jit(lambda y: mul(x, y))
        return add(inner(2.0), inner(3.0))

    assert float(outer(5.0)) == 25 and float(outer(1.0)) == 5
    closed = outer.trace(1.0).jaxpr
    assert [len(e.invars) for e in closed.eqns] == [2, 2, 2]
    assert not any(isinstance(c, JitTracer) for c in closed.consts)


def test_captured_arrays_are_inputs():
    mine, theirs = put(np.arange(5)), np.arange(5, dtype=f32)
    f = steno.jit(lambda x: add(mul(mine, theirs), x))
    assert value(f(1.0)) == [1, 2, 5, 10, 17]
    closed = f.trace(1.0).jaxpr
    assert closed.consts[0] is mine and len(closed.consts) == 2
    theirs[:] = 0  # snapshotted when traced
    assert value(f(1.0)) == [1, 2, 5, 10, 17]


def test_escaped_tracer_is_reported():
    kept = []
    f = steno.jit(lambda x: kept.append(x) or x)
    f(1.0)
    with pytest.raises(errors.UnexpectedTracerError):
        steno.jit(lambda y: add(y, kept[0]))(1.0)
    with pytest.raises(errors.UnexpectedTracerError):
        steno.jit(lambda y: y)(kept[0])


# stages


def test_stages():
    f = steno.jit(lambda x, n, y: {"a": mul(x, y), "b": [x] * n}, static_argnums=1, donate_argnums=0)
    x = put([1, 2])
    traced = f.trace(x, 2, y=2.0)
    assert str(traced.jaxpr) == "{ lambda ; a:f32[2] b:f32[]. let c:f32[2] = mul a b in (c, a, a) }"
    assert traced.fun_name == "<lambda>"
    assert repr(traced.in_tree) == "PyTreeDef(((*,), {'y': *}))" and repr(traced.out_tree) == "PyTreeDef({'a': *, 'b': [*, *]})"
    assert repr(traced.in_avals) == "((ShapedArray(float32[2]),), {'y': ShapedArray(float32[], weak_type=True)})"
    assert traced.args_info[0][0].donated and not traced.args_info[1]["y"].donated and traced.donate_argnums == (0,)
    assert traced.out_info["a"] == steno.ShapeDtypeStruct((2,), "float32")
    assert traced.jaxpr.debug_info.arg_names == ("x", "y")
    assert traced.jaxpr.debug_info.result_paths == ("result['a']", "result['b'][0]", "result['b'][1]")
    lowered = traced.lower()
    assert lowered.out_tree == traced.out_tree and lowered.as_text("jaxpr") == str(traced.jaxpr)
    assert lowered.cost_analysis()["flops"] == 2 and lowered.cost_analysis()["bytes accessed"] == 8 + 4 + 24
    compiled = lowered.compile()
    for _ in range(2):
        x = put([1, 2])
        assert value(compiled(x, y=3.0)) == {"a": [3, 6], "b": [[1, 2], [1, 2]]} and x.is_deleted()
    assert compiled.memory_analysis().argument_size_in_bytes == 12 and compiled.memory_analysis().output_size_in_bytes == 24
    assert repr(compiled.output_shardings["a"]) == "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)"
    with pytest.raises(TypeError, match=r"Argument 'x' compiled with float32\[2\] and called with float32\[3\]"):
        compiled(put([1, 2, 3]), y=3.0)
    with pytest.raises(TypeError, match="pytree does not match"):
        compiled([x], y=3.0)
    with pytest.raises(TypeError, match="Cannot apply JAX transformations.* JitTracer"):
        steno.jit(lambda x: compiled(x, y=1.0))(put([1, 2]))
    with pytest.raises(ValueError, match="lowering_platforms"):
        traced.lower(lowering_platforms=("tpu",))


def test_tracing_with_shapes_only():
    spec = steno.ShapeDtypeStruct((3,), "float32")
    f = steno.jit(lambda x: add(x, x))
    assert f.eval_shape(spec) == spec == steno.eval_shape(lambda x: neg(x), spec)
    assert value(f.lower(spec).compile()(put([1, 2, 3]))) == [2, 4, 6]
    assert steno.eval_shape(lambda x: (x, None, 1.0), np.ones(3)) == (spec, None, steno.ShapeDtypeStruct((), "float32", weak_type=True))
    assert repr(spec) == "ShapeDtypeStruct(shape=(3,), dtype=float32)" and hash(spec) == hash(steno.ShapeDtypeStruct([3], f32))
    assert (spec.ndim, spec.size, len(spec), spec.update(shape=(2,)).shape) == (1, 3, 3, (2,))
    closed, shapes = steno.make_jaxpr(lambda x, n: add(x, x), static_argnums=1, return_shape=True)(1.0, 2)
    assert str(closed) == "{ lambda ; a:f32[]. let b:f32[] = add a a in (b,) }" and shapes.weak_type


def test_fields_of_a_dead_function():
    traced = steno.jit(lambda x: neg(x)).trace(1.0)
    gc.collect()
    assert float(traced.lower().compile()(2.0)) == -2


# why it was traced again


def test_explanations():
    @steno.jit
    def step(x, y):
        return add(x, x)

    step(put([1, 2]), 1.0)
    step(put([1, 2, 3]), 1.0)
    step(put([1, 2, 3]), put(1))
    step(put([[1, 2, 3]]), put(1))
    step({"a": put(1)}["a"], put(1))
    step(put([1], np.int32), put(1))
    step(x=put([1]), y=put(1))
    with steno.enable_x64():
        step(put([1]), put(1))
    kinds = [[(c.kind, c.path, c.old, c.new) for c in r.changes] for r in step.traces]
    assert kinds[0] == [] and step.traces[0].first
    assert kinds[1] == [("shape", "x", "(2,)", "(3,)")]
    assert kinds[2] == [("weak type", "y", "weak float32[]", "float32[]")]
    assert kinds[3] == [("rank", "x", "(3,)", "(1, 3)")]
    assert kinds[5][0][:2] in [("dtype", "x"), ("shape", "x")]
    assert kinds[6][0][:2] == ("arguments", "the call") and ("config", "enable_x64", "'default'", "True") in kinds[7]
    assert all(r.trace_seconds > 0 and r.call.startswith(__file__) for r in step.traces)
    text = steno.explain_cache_misses(step)
    assert text.splitlines()[0].startswith(f"step at {__file__}")
    assert "x: (2,) became (3,)" in text and "weak float32[] became float32[]" in text and "a Python number has a weak type" in text


def test_explanations_of_static_values():
    f = steno.jit(lambda x, n: x, static_argnums=1)
    f(1.0, 2), f(1.0, 3)
    assert [(c.kind, c.path, c.old, c.new) for c in f.traces[1].changes] == [("static", "n", "2", "3")]
    assert "static argument n was 2, is 3" in steno.explain_cache_misses(f)


def test_seven_shapes_make_advice_to_pad():
    f = steno.jit(lambda x: neg(x))
    for n in range(1, 8):
        f(np.ones(n, f32))
    assert "advice: x came in 7 shapes" in steno.explain_cache_misses(f) and "pad it" in steno.explain_cache_misses(f)


def test_a_function_made_anew_each_time():
    for _ in range(3):
        f = steno.jit(lambda x: neg(x))
        f(1.0)
    (record,) = f.traces
    assert "the function object is new" in record.reason and "define it once" in record.reason


def test_functions_that_die_at_once_are_new_each_time(caplog):
    with caplog.at_level(logging.WARNING, "steno"), steno.explain_cache_misses(True):
        for _ in range(3):
            steno.jit(lambda x: neg(x))(1.0)
    assert caplog.text.count("another function defined on the same line") == 2 and "seen 2 times before" in caplog.text
    caplog.clear()
    f = lambda x: neg(x)  # noqa: E731
    with caplog.at_level(logging.WARNING, "steno"), steno.explain_cache_misses(True):
        steno.jit(f)(1.0)
        steno.jit(f, keep_unused=True)(1.0)
    assert caplog.text.count("first call") == 2


def test_log(caplog):
    f = steno.jit(lambda x: neg(x))
    with caplog.at_level(logging.WARNING, "steno"), steno.explain_cache_misses(True):
        f(1.0)
        f(put(1))
    assert "TRACING CACHE MISS" in caplog.text and "weak float32[] became float32[]" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "steno"), steno.log_compiles():
        f(put([1]))
    assert "Finished tracing" in caplog.text


def test_explain_needs_a_jitted_function():
    with pytest.raises(TypeError, match="expected a jitted function or a bool"):
        steno.explain_cache_misses(3)
    assert "has not been traced yet" in steno.explain_cache_misses(steno.jit(lambda x: x))
    assert retrace.advice(None, []) == []


# values that must not be


def test_debug_nans():
    f = steno.jit(lambda x: neg(add(x, x)))
    g = steno.jit(lambda x: neg(add(x, neg(x))))
    with steno.debug_nans(), pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in add at .*test_jit.py"):
        g(np.array([1, np.inf], f32))
    with steno.debug_nans(), pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in jit.*in the input x"):
        f(np.array([1, np.nan], f32))
    with steno.debug_infs(), pytest.raises(FloatingPointError, match=r"invalid value \(inf\)"):
        f(np.array([1, np.inf], f32))
    with steno.debug_nans():
        assert value(f(put([1, 2]))) == [-2, -4]


# devices


def test_devices():
    (device,) = steno.devices()
    assert (repr(device), str(device), device.platform, device.id) == ("CpuDevice(id=0)", "cpu:0", "cpu", 0)
    assert steno.devices("cpu") == steno.local_devices() and steno.device_count() == 1 and steno.default_backend() == "cpu"
    x = steno.device_put({"a": [1, np.ones(3)]}, device)
    assert x["a"][0].weak_type and x["a"][1].dtype == f32 and x["a"][1].devices() == {device} and x["a"][1].device is device
    assert isinstance(x["a"][1], steno.Array) and not isinstance(np.ones(3), steno.Array)
    assert isinstance(steno.device_get(x)["a"][1], np.ndarray) and steno.device_get("a") == "a"
    assert steno.block_until_ready({"x": x, "b": "c"})["b"] == "c"
    y = put([1, 2])
    z = steno.device_put(y, donate=True)
    assert y.is_deleted() and value(z) == [1, 2]
    a = np.ones(3, f32)
    b = steno.device_put(a)
    a[:] = 5
    assert value(b) == [1, 1, 1]
    assert steno.NamedSharding(steno.make_mesh((1,), ("x",)), steno.P("x")).spec == steno.P("x")


def test_a_hit_runs_no_python_of_steno():
    f = steno.jit(lambda d: {"a": add(d["x"][0], d["y"]), "b": d["x"][1]})
    d = {"x": [put(1), 2.0], "y": np.ones(3, f32)}
    f(d)
    if not f._entries():
        pytest.skip("the backend has no native programs")
    events = []
    sys.setprofile(lambda frame, event, arg: events.append((event, frame.f_code.co_name)))
    try:
        f(d)
    finally:
        sys.setprofile(None)
    assert [e for e in events if e[0] == "call"] == []


def test_debug_nans_of_eager_ops():
    x = np.array([1, np.inf], f32)
    assert value(add(x, x)) == [2, float("inf")]
    with steno.debug_nans(), pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in add"):
        add(x, -x)
    assert np.isnan(np.asarray(add(x, -x))[1])
