"""Gradients of the numpy face against the real JAX: each row is a function of x (and y) and a point, float32.

A row whose ops have no derivative yet is an expected failure, so that rows become tests as rules arrive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Failure, assert_same, peer, run_here

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

ROWS: list[tuple[Any, ...]] = [
    ("jnp.logaddexp(x,y)", 1.0, 2.0),
    ("jnp.logaddexp2(x,y)", 1.0, 1.0),
    ("jnp.sinc(x)", [0.0, 0.5, 1.0, -2.0]),
    ("jnp.hypot(x,y)", 3.0, 4.0),
    ("jnp.linalg.norm(x)", [3.0, 4.0]),
    ("jnp.clip(x,0,1)", [-1.0, 0.0, 0.5, 1.0, 2.0]),
    ("jnp.maximum(x,0)", [-1.0, 0.0, 1.0]),
    ("jnp.abs(x)", [-1.0, 0.0, 1.0]),
    ("jnp.var(x)", [1.0, 2.0, 4.0]),
    ("jnp.std(x)", [1.0, 2.0, 4.0]),
    ("jnp.median(x)", [1.0, 5.0, 2.0, 7.0]),
    ("jnp.sort(x)*jnp.arange(3.)", [3.0, 1.0, 2.0]),
    ("jnp.max(x)", [1.0, 3.0, 3.0]),
    ("jnp.prod(x)", [2.0, 3.0, 0.0]),
    ("jnp.cumsum(x)*jnp.arange(3.)", [1.0, 2.0, 3.0]),
    ("jnp.cumprod(x)", [1.0, 2.0, 3.0]),
    ("jnp.where(x>0,x,0.)", [-1.0, 0.0, 2.0]),
    ("x[1:]**2", [1.0, 2.0, 3.0]),
    ("x[jnp.array([0,0,2])]*jnp.arange(3.)", [1.0, 2.0, 3.0]),
    ("x.at[1].set(y)", [1.0, 2.0, 3.0], 5.0),
    ("x.at[jnp.array([0,0])].add(y)", [1.0, 2.0, 3.0], 5.0),
    ("x.at[0].mul(y)", [1.0, 2.0, 3.0], 5.0),
    ("x%y", 5.5, 2.0),
    ("x//y", 5.5, 2.0),
    ("x**y", 2.0, 3.0),
    ("x**2", [0.0, 3.0]),
    ("x**0.5", [4.0]),
    ("jnp.power(x,y)", 0.0, 2.0),
    ("jnp.sqrt(x)", [4.0]),
    ("jnp.cbrt(x)", [8.0]),
    ("jnp.einsum('i,ij,j',x,jnp.ones((2,2)),x)", [1.0, 2.0]),
    ("x@x", [[1.0, 2.0], [3.0, 4.0]]),
    ("jnp.interp(x,jnp.arange(3.),y)", [0.5, 1.5], [1.0, 3.0, 2.0]),
    ("jnp.pad(x,1,mode='reflect')", [1.0, 2.0, 3.0]),
    ("jnp.convolve(x,y)", [1.0, 2.0, 3.0], [1.0, 1.0]),
    ("jnp.tile(x,2)*jnp.arange(4.)", [1.0, 2.0]),
    ("jnp.repeat(x,2)*jnp.arange(4.)", [1.0, 2.0]),
    ("jnp.roll(x,1)*jnp.arange(3.)", [1.0, 2.0, 3.0]),
    ("jnp.diag(x)*jnp.arange(4.).reshape(2,2)", [1.0, 2.0]),
    ("jnp.trace(x)", [[1.0, 2.0], [3.0, 4.0]]),
    ("jnp.tril(x)", [[1.0, 2.0], [3.0, 4.0]]),
    ("jnp.cross(x,y)", [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]),
    ("jnp.nan_to_num(x)", [1.0, np.inf]),
    ("jnp.round(x)", [1.2]),
    ("jnp.floor(x)", [1.2]),
    ("jnp.sign(x)", [1.2]),
    ("jnp.arctan2(x,y)", 1.0, 2.0),
    ("jnp.quantile(x,.3)", [1.0, 4.0, 2.0]),
    ("jnp.take(x,jnp.array([0,5]))", [1.0, 2.0]),
    ("jnp.take_along_axis(x,jnp.array([[1],[0]]),1)", [[1.0, 2.0], [3.0, 4.0]]),
    ("jnp.cov(x)", [[1.0, 2.0, 4.0], [3.0, 4.0, 1.0]]),
    ("jnp.linspace(x,y,3)", 1.0, 2.0),
    ("jnp.polyval(x,y)", [1.0, 2.0, 3.0], 2.0),
    ("jnp.unwrap(x)", [0.0, 7.0]),
    ("jnp.gradient(x)*jnp.arange(3.)", [1.0, 2.0, 4.0]),
    ("jnp.modf(x)[0]", [1.5]),
    ("jnp.copysign(x,y)", 2.0, -1.0),
    ("jnp.heaviside(x,.5)", [1.0]),
    ("jnp.fmax(x,y)", 1.0, 1.0),
    ("jnp.fmod(x,y)", 5.5, 2.0),
    ("jnp.exp2(x)", [1.0]),
    ("jnp.log10(x)", [10.0]),
    ("jnp.select([x>1],[x**2],x)", [1.0, 2.0]),
    ("jnp.average(x,weights=y)", [1.0, 2.0], [1.0, 3.0]),
    ("jnp.nanmean(x)", [1.0, np.nan, 3.0]),
    ("jnp.nanvar(x)", [1.0, np.nan, 3.0]),
    ("jnp.min(x,axis=0)", [[1.0, 2.0], [0.0, 2.0]]),
    ("jnp.ptp(x)", [1.0, 2.0, 5.0]),
    ("jnp.insert(x,1,y)", [1.0, 2.0], 5.0),
    ("jnp.outer(x,y)", [1.0, 2.0], [3.0, 4.0]),
    ("jnp.kron(x,y)", [1.0, 2.0], [3.0, 4.0]),
    ("jnp.piecewise(x,[x<1],[lambda x:x*2,lambda x:x*3])", [0.0, 2.0]),
    ("jnp.histogram(x)[1]", [0.0, 2.0]),
    ("jnp.i0(x)", [1.0]),
    ("jnp.searchsorted(x,1.5)*1.", [1.0, 2.0]),
    ("jnp.rot90(x)*jnp.arange(4.).reshape(2,2)", [[1.0, 2.0], [3.0, 4.0]]),
    ("jnp.ediff1d(x)", [1.0, 2.0, 4.0]),
    ("jnp.trapezoid(x)", [1.0, 2.0, 4.0]),
]


def gradient(source: str, *point: Any) -> Expr:
    names = ("x", "y")[: len(point)]
    arguments = {n: Arr(np.asarray(p, np.float32)) for n, p in zip(names, point, strict=True)}
    f = f"lambda {', '.join(names)}: jnp.sum({source})"
    return Expr(f"jax.grad({f}, argnums={tuple(range(len(names)))})({', '.join(names)})", **arguments)


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    server = peer()
    assert server is not None
    return server.batch([gradient(*row) for row in ROWS])


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row[0].replace(" ", "") for row in ROWS])
def test_gradient(answers: list[Any], number: int) -> None:
    call = gradient(*ROWS[number])
    (got,) = run_here([call])
    if isinstance(got, Failure) and "rule for" in got.message:
        pytest.xfail(got.message)
    assert not isinstance(answers[number], Failure), answers[number]
    assert_same(call, got, answers[number], rtol=2e-5, atol=1e-6)
