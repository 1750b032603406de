"""What type checkers infer of programs that use steno: read by pyright in `make lint`, not run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np

import steno
import steno.numpy as jnp
from steno import Array, lax, nn, random
from steno.typing import ArrayLike

x = jnp.ones((3, 4))
assert_type(x, Array)
assert_type(x + 1, Array)
assert_type(2 * x @ x.T, Array)
assert_type(x[0], Array)
assert_type(x.shape, tuple[int, ...])
assert_type(x.sum(), Array)
assert_type(x.reshape(12), Array)
assert_type(x.astype(jnp.float16).mean(axis=0), Array)
assert_type(float(x.sum()), float)
assert_type(x < 1, Array)
assert_type(x.at[0].set(1.0), Array)

assert_type(jnp.sin(x), Array)
assert_type(jnp.add(x, 1), Array)
assert_type(jnp.add.reduce(x), Array)
assert_type(jnp.where(x > 0, x, 0), Array)
assert_type(jnp.where(x > 0), tuple[Array, ...])
assert_type(jnp.float32(1), Array)
assert_type(jnp.linalg.norm(x), Array)
assert_type(jnp.fft.fft(x), Array)
assert_type(jnp.zeros((2,), dtype="int32"), Array)
assert_type(jnp.stack([x, x]), Array)
assert_type(lax.exp(x), Array)
assert_type(nn.relu(x), Array)
assert_type(random.normal(random.key(0), (3,)), Array)
assert_type(random.split(random.key(0)), Array)


def loss(w: Array, x: ArrayLike) -> Array:
    return ((w * x) ** 2).sum()


compiled = steno.jit(loss)
assert_type(compiled(x, np.ones(4)), Array)
compiled.lower(x, 1.0).compile()
compiled(x)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@steno.jit
def double(x: Array) -> Array:
    return x * 2


assert_type(double(x), Array)


@steno.jit(static_argnames="n")
def power(x: Array, n: int = 2) -> Array:
    return x**n


assert_type(power(x, n=3), Array)
value, gradient = steno.value_and_grad(loss)(x, 1.0)
mapped: Callable[[Array, ArrayLike], Array] = steno.vmap(loss, in_axes=(0, None))
assert_type(mapped(x, 1.0), Array)


def step(carry: Array, row: Array) -> tuple[Array, Array]:
    return carry + row, carry.sum()


def turn(i: int, c: Array) -> Array:
    return c + i


assert_type(lax.scan(step, x[0], x), tuple[Array, Array])
assert_type(lax.fori_loop(0, 3, turn, x), Array)
assert_type(lax.cond(True, lambda: x, lambda: 2 * x), Array)
assert_type(steno.block_until_ready(x), Array)
assert_type(steno.device_count(), int)


class Model:
    @steno.jit
    def __call__(self, x: Array) -> Array:
        return x


tree: Any = steno.tree.map(lambda v: v + 1, {"a": x})
mesh = steno.make_mesh((1,), ("x",))
steno.device_put(x, steno.NamedSharding(mesh, steno.P("x")))
with steno.enable_x64(True):
    pass
