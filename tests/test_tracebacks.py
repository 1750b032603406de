"""Tracebacks without steno's own frames, and the names that equations carry."""

from __future__ import annotations

import gc
import traceback
import weakref

import pytest

import steno
import steno.numpy as snp
from steno import lax
from steno.core.boundary import UnfilteredStackTrace
from steno.core.config import config, traceback_filtering


class Mine(Exception):
    pass


def fails(*_):
    raise Mine("here")


def _lines(err: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(err.__traceback__)]


def _raised(run, kind=Mine):
    with pytest.raises(kind) as info:
        run()
    return info.value


@steno.custom_jvp
def with_jvp(x):
    return x


with_jvp.defjvp(fails)


@steno.custom_vjp
def with_vjp(x):
    return x


with_vjp.defvjp(lambda x: (x, ()), fails)

X = 1.0
CALLS = {
    "jit": lambda: steno.jit(fails)(X),
    "lower": lambda: steno.jit(fails).lower(X),
    "make_jaxpr": lambda: steno.make_jaxpr(fails)(X),
    "eval_shape": lambda: steno.eval_shape(fails, X),
    "grad": lambda: steno.grad(fails)(X),
    "value_and_grad": lambda: steno.value_and_grad(fails)(X),
    "jacfwd": lambda: steno.jacfwd(fails)(X),
    "jacrev": lambda: steno.jacrev(fails)(X),
    "hessian": lambda: steno.hessian(fails)(X),
    "jvp": lambda: steno.jvp(fails, (X,), (X,)),
    "vjp": lambda: steno.vjp(fails, X),
    "linearize": lambda: steno.linearize(fails, X),
    "linear_transpose": lambda: steno.linear_transpose(fails, X)(X),
    "vmap": lambda: steno.vmap(fails)(snp.ones(2)),
    "checkpoint": lambda: steno.checkpoint(fails)(X),
    "cond": lambda: lax.cond(True, fails, fails, X),
    "switch": lambda: lax.switch(1, [fails, fails], X),
    "scan": lambda: lax.scan(fails, X, None, 3),
    "while_loop": lambda: lax.while_loop(lambda _: True, fails, X),
    "fori_loop": lambda: lax.fori_loop(0, 3, fails, X),
    "map": lambda: lax.map(fails, snp.ones(2)),
    "associative_scan": lambda: lax.associative_scan(fails, snp.ones(4)),
    "custom_root": lambda: lax.custom_root(fails, 0.0, lambda *_: 1.0, lambda *_: 1.0),
    "custom_linear_solve": lambda: lax.custom_linear_solve(fails, 1.0, lambda *_: 1.0),
    "custom_jvp": lambda: steno.jvp(with_jvp, (X,), (X,)),
    "custom_vjp": lambda: steno.grad(with_vjp)(X),
    "nested": lambda: steno.jit(lambda x: steno.vmap(steno.jit(fails))(x))(snp.ones(2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_only_frames_of_users(name):
    with traceback_filtering("auto"):
        err = _raised(CALLS[name])
    got = _lines(err)
    assert got[:3] == ["_raised", "<lambda>", "<lambda>" if name == "nested" else "fails"] and got[-1] == "fails"
    assert all(f.filename == __file__ for f in traceback.extract_tb(err.__traceback__))
    assert sum("JAX_TRACEBACK_FILTERING" in n for n in err.__notes__) == 1 and err.__cause__ is None


def test_modes():
    run = CALLS["nested"]
    with traceback_filtering("off"):
        err = _raised(run)
    assert "bounded" in _lines(err) and not hasattr(err, "__notes__")
    with traceback_filtering("remove_frames"):
        err = _raised(run)
    assert "bounded" not in _lines(err) and type(err.__cause__) is UnfilteredStackTrace and "bounded" in _lines(err.__cause__)
    with traceback_filtering("tracebackhide"):
        err = _raised(run)
    hidden = ["__tracebackhide__" in f.f_locals for f, _ in traceback.walk_tb(err.__traceback__)]
    own = [f.f_code.co_filename != __file__ for f, _ in traceback.walk_tb(err.__traceback__)]
    assert hidden == own and any(own)
    with pytest.raises(ValueError, match="traceback_filtering"):
        config.update("jax_traceback_filtering", "some")


def test_what_led_to_an_exception():
    @steno.jit
    def outer(x):
        try:
            steno.jit(fails)(x)
        except Mine as err:
            raise ValueError("outer") from err

    with traceback_filtering("auto"):
        err = _raised(lambda: outer(1.0), ValueError)
    assert _lines(err)[1:] == ["<lambda>", "outer"] and _lines(err.__cause__) == ["outer", "fails"]


def test_an_error_of_stenos_own():
    with traceback_filtering("auto"):
        err = _raised(lambda: steno.jit(lambda x: snp.dot(x, snp.ones(3)))(snp.ones(2)), TypeError)
    assert _lines(err) == ["_raised", "<lambda>", "<lambda>"]


def test_no_garbage():
    class Callable:
        def __call__(self):
            steno.jit(fails)(1.0)

    call = Callable()
    ref = weakref.ref(call)
    gc.collect()
    gc.disable()
    try:
        with traceback_filtering("auto"):
            try:
                call()
            except Mine:
                pass
        del call
        assert ref() is None
    finally:
        gc.enable()


# Names


def _stacks(f, *args):
    return [str(e.source_info.name_stack) for e in steno.make_jaxpr(f)(*args).eqns]


def _scoped(x):
    with steno.named_scope("a"), steno.named_scope("b"):
        return snp.sin(x)


def test_names_of_transformations():
    one = snp.ones(2)
    assert _stacks(_scoped, 1.0) == ["a/b"]
    assert _stacks(steno.named_scope("f")(steno.vmap(_scoped)), one) == ["f/vmap(a)/b"]
    assert _stacks(lambda x: steno.jvp(_scoped, (x,), (x,)), 1.0) == ["jvp(a)/b"] * 3
    assert _stacks(steno.grad(_scoped), 1.0) == ["jvp(a)/b"] * 2 + ["transpose(jvp(a))/b"]
    assert _stacks(steno.vmap(steno.grad(_scoped)), one) == ["vmap(jvp(a))/b"] * 2 + ["vmap(transpose(jvp(a)))/b"]
    assert _stacks(steno.vmap(lambda x: x + 1), one) == ["vmap()"]
    closed = steno.make_jaxpr(steno.grad(steno.jit(_scoped)))(1.0)
    assert [str(e.source_info.name_stack) for e in closed.eqns] == ["jvp()", "transpose(jvp())"]
    assert all(str(i.source_info.name_stack) == "a/b" for e in closed.eqns for i in e.params["jaxpr"].eqns)
    assert _stacks(steno.named_call(lambda x: x + 1, name="g"), 1.0) == ["g"]


def test_names_are_restored():
    def f(x):
        try:
            with steno.named_scope("lost"):
                steno.vmap(steno.grad(fails))(x)
        except Mine:
            pass
        return x + 1

    assert _stacks(f, snp.ones(2)) == [""]


def test_paths_of_operations():
    def f(x, flag):
        with steno.named_scope("s"):
            x = lax.while_loop(lambda v: v < 5.0, lambda v: v + 1.0, x)
            x = lax.cond(flag, snp.sin, snp.cos, x)
            return lax.scan(lambda c, _: (c * 2.0, None), x, None, 3)[0]

    text = steno.jit(f).lower(1.0, True).as_text("jaxpr", debug_info=True)
    for path in ("while/cond/lt", "while/body/add", "cond/branch_0_fun/cos", "cond/branch_1_fun/sin", "while/body/mul", "scan"):
        assert f'"jit(f)/s/{path}" at {__file__}' in text, path
    text = steno.jit(steno.grad(steno.jit(_scoped))).lower(1.0).as_text("hlo", debug_info=True)
    assert '"jit(_scoped)/jvp(jit(_scoped))/a/b/cos"' in text and '"jit(_scoped)/transpose(jvp(jit(_scoped)))/a/b/mul"' in text
    assert "loc " not in steno.jit(f).lower(1.0, True).as_text("stablehlo")
    assert "cond[" in steno.jit(f).lower(1.0, True).compiler_ir("hlo")
