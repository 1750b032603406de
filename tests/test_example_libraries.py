"""example_libraries.stax and optimizers: the numbers of the real JAX, and what must hold without it."""

from __future__ import annotations

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Key, Ref, differences, peer, run_here

import steno
from steno import numpy as jnp, random
from steno.example_libraries import optimizers, stax

needs_jax = pytest.mark.skipif(peer() is None, reason=NO_JAX)
X = np.random.default_rng(0).standard_normal((2, 5, 4, 2)).astype(np.float32)
VARIABLES = {
    "stax": Ref("jax.example_libraries.stax"),
    "op": Ref("jax.example_libraries.optimizers"),
    "key": Key(np.array([1, 2], np.uint32)),
    "x": Arr(X),
}
LAYERS = (
    "stax.Conv(3, (2, 2), (2, 1), 'SAME')",
    "stax.ConvTranspose(3, (2, 3), (2, 1))",
    "stax.BatchNorm()",
    "stax.AvgPool((2, 2), (1, 2), 'SAME')",
    "stax.MaxPool((2, 3), spec='NHWC')",
    "stax.serial(stax.FanOut(2), stax.parallel(stax.serial(stax.Flatten, stax.Dense(3), stax.Gelu), stax.Flatten), stax.FanInConcat())",
)
METHODS = ("sgd(0.1)", "momentum(0.1, 0.9)", "nesterov(0.1, 0.9)", "adagrad(0.1)", "rmsprop(0.1)", "rmsprop_momentum(0.1)", "adam(0.1)",
           "adamax(0.1)", "sm3(0.1)")  # fmt: skip
# one program for all: what takes time is JAX's compilation
MADE = "(lambda layer: (lambda p: [p, layer[1](p, x)])(layer[0](key, x.shape)[1]))({})"
TWO_STEPS = "(lambda o: o.params_fn(o.update_fn(1, x * x, o.update_fn(0, x, o.init_fn(x)))))(op.{})"
SCHEDULES = ("exponential_decay(0.1, 3, 2.0)", "inverse_time_decay(0.1, 3, 2.0)", "inverse_time_decay(0.1, 3, 2.0, True)",
             "polynomial_decay(1.0, 5, 0.1, 2.0)", "piecewise_constant([2, 4], [1.0, 0.5, 0.1])")  # fmt: skip


@needs_jax
def test_numbers_are_jax_s():
    parts = [MADE.format(layer) for layer in LAYERS] + [TWO_STEPS.format(m) for m in METHODS]
    parts += [f"jnp.float32(op.{s}({i}))" for s in SCHEDULES for i in (0, 4, 9)]
    parts.append("stax.serial(stax.Dropout(0.5), stax.Dropout(0.9))[1]([(), ()], x, rng=key)")
    call = Expr(f"jax.jit(lambda key, x: [{', '.join(parts)}])(key, x)", **VARIABLES)
    (got,), (want,) = run_here([call]), peer().batch([call])
    found = differences(got, want, rtol=2e-5, atol=2e-6)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("method", METHODS)
def test_methods_descend(method):
    init, update, params = eval(f"optimizers.{method}")
    start = {"a": jnp.ones(2), "b": (jnp.full((2, 2), 0.5), jnp.float32(2.0))}
    loss = lambda p: sum((v**2).sum() for v in steno.tree.leaves(p))  # noqa: E731
    step = steno.jit(lambda i, s: update(i, steno.grad(loss)(params(s)), s))
    state = init(start)
    for i in range(30):
        state = step(i, state)
    assert steno.tree.structure(params(state)) == steno.tree.structure(start)
    assert loss(params(state)) < 0.6 * loss(start)


def test_states_are_stored_and_found_again():
    state = optimizers.momentum(0.1, 0.9).init_fn([{"w": jnp.ones(2)}, jnp.zeros(3)])
    marked = optimizers.unpack_optimizer_state(state)
    assert all(isinstance(leaf, optimizers.JoinPoint) for leaf in steno.tree.leaves(marked))
    assert steno.tree.structure(optimizers.pack_optimizer_state(marked)) == steno.tree.structure(state)


def test_gradients_are_clipped():
    tree = (jnp.array([3.0]), {"a": jnp.array([4.0])})
    np.testing.assert_allclose(optimizers.l2_norm(tree), 5.0)
    np.testing.assert_allclose(optimizers.l2_norm(optimizers.clip_grads(tree, 2.0)), 2.0, rtol=1e-6)
    np.testing.assert_array_equal(optimizers.clip_grads(tree, 9.0)[0], [3.0])


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (TypeError, lambda: optimizers.sgd(0.1).update_fn(0, (1.0,), optimizers.sgd(0.1).init_fn(1.0))),
        (TypeError, lambda: optimizers.pack_optimizer_state([1.0])),
        (TypeError, lambda: optimizers.make_schedule(jnp.ones(2))),
        (ValueError, lambda: optimizers.piecewise_constant([1], [1.0])),
        (ValueError, lambda: optimizers.piecewise_constant([[1]], [1.0, 2.0])),
        (ValueError, lambda: stax.Dropout(0.5)[1]((), jnp.ones(2))),
    ],
)
def test_errors(error, call):
    with pytest.raises(error):
        call()


def test_networks_learn():
    init, apply = stax.serial(stax.Dense(8), stax.Tanh, stax.Dense(1))
    shape, params = init(random.key(0), (-1, 1))
    assert shape == (-1, 1)
    x = jnp.linspace(-1, 1, 16)[:, None]
    opt = optimizers.adam(0.05)
    loss = lambda p: jnp.mean((apply(p, x) - jnp.sin(3 * x)) ** 2)  # noqa: E731
    step = steno.jit(lambda i, s: opt.update_fn(i, steno.grad(loss)(opt.params_fn(s)), s))
    state = opt.init_fn(params)
    for i in range(200):
        state = step(i, state)
    assert loss(opt.params_fn(state)) < 0.02
