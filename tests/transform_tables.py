"""Programs of derivatives, maps and custom rules for `test_transforms_against_jax`. Each line is an expression over `jax jnp lax np` and
the variables; a block that ends in `out = ...` is run as statements."""

from __future__ import annotations

from typing import Any

import numpy as np
from peer import Arr

x3 = np.array([0.5, -1.25, 2.0], np.float32)
x23 = np.array([[0.3, -0.7, 1.1], [2.0, 0.25, -1.5]], np.float32)
w33 = np.array([[0.5, -0.2, 0.1], [0.3, 0.9, -0.4], [-0.6, 0.2, 0.7]], np.float32)
z2 = np.array([0.5 + 1j, -1.0 - 0.25j], np.complex64)
i3 = np.array([1, 2, 3], np.int32)

VARIABLES: dict[str, Any] = {"x": Arr(x3), "m": Arr(x23), "w": Arr(w33), "z": Arr(z2), "i": Arr(i3)}

DERIVATIVES = """
jax.grad(lambda x: jnp.sin(x) * x)(1.)
jax.grad(jax.grad(lambda x: jnp.sin(x) * x))(1.)
jax.grad(jax.grad(jax.grad(jax.jit(lambda x: jnp.sin(x) * x * x))))(1.)
jax.grad(lambda x: (jnp.sin(x) * x).sum())(x)
jax.grad(lambda x: 3.)(x)
jax.grad(lambda x: 0. * x.sum())(x)
jax.grad(lambda x, y: (x * y).sum(), argnums=1)(x, 2.)
jax.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, 2.)
jax.grad(lambda x, y: (x * y).sum(), argnums=[1, 0])(x, 2.)
jax.grad(lambda x, y: (x * y).sum(), argnums=-1)(x, x)
jax.grad(lambda d: (d['a'] * jnp.exp(d['b'])).sum())({'a': x, 'b': 2.})
jax.grad(lambda t: (t[0] * t[1][0]).sum())((x, [x, None]))
jax.value_and_grad(lambda x: (x * x).sum())(x)
jax.value_and_grad(lambda x: ((x * x).sum(), {'aux': x}), has_aux=True)(x)
jax.grad(lambda x: ((x * x).sum(), 'text'), has_aux=True)(x)
jax.grad(lambda x, n: (x * n).sum())(x, n=3.)
jax.grad(lambda x: (x * 1.).sum(), allow_int=True)(i)
jax.grad(lambda x, i: (x * i).sum(), argnums=(0, 1), allow_int=True)(x, i)
jax.grad(lambda x: x * x if x > 0 else -x)(3.)
jax.grad(lambda x: sum(x for _ in range(int(x))))(3.)
jax.grad(lambda x: lax.stop_gradient(x) * x)(3.)
jax.grad(lambda z: (z * z).real.sum())(z)
jax.grad(lambda z: jnp.abs(z).sum())(z)
jax.grad(lambda z: z * z, holomorphic=True)(1. + 2j)
jax.grad(lambda x: (x * (1 + 2j)).imag.sum())(x)
jax.jvp(lambda x: jnp.sin(x) * x, (1.,), (2.,))
jax.jvp(lambda x, y: {'a': x * y, 'b': x}, (x, 2.), (x, 1.))
jax.jvp(lambda x, y: (x * y, x), [x, 2.], [x, 1.])
jax.jvp(lambda x: (x * x, x + 1), (x,), (x,), has_aux=True)
jax.jvp(lambda n, x: n * x, (3, 2.), (np.zeros((), jax.dtypes.float0), 1.))
jax.jvp(lambda x: x.astype(int), (x,), (x,))[0]
jax.jvp(jax.jit(lambda x, y: (x * y, y)), (x, 2.), (x, 0.))
jax.linearize(lambda x: jnp.sin(x) * x, 1.)[1](2.)
jax.linearize(lambda x: {'a': x * 2, 'b': 3.}, x)[1](x)
jax.linearize(lambda x: (x * x, x), x, has_aux=True)[2]
jax.linearize(jax.jit(lambda x: jnp.sin(x) * x), 1.)[1](2.)
jax.jit(jax.linearize(lambda x: jnp.sin(x) * x, 1.)[1])(2.)
jax.vjp(lambda x, y: x * y, x, 2.)[1](x)
jax.vjp(lambda x: {'a': x * 2, 'b': (x, 3)}, x)[1]({'a': x, 'b': (x, np.zeros((), jax.dtypes.float0))})
jax.vjp(lambda x: (x * x, x), x, has_aux=True)[2]
jax.vjp(lambda n, x: n * x, 3, 2.)[1](1.)
jax.jit(jax.vjp(lambda x: jnp.sin(x) * x, 1.)[1])(2.)
jax.jit(lambda x: jax.vjp(lambda x: jnp.sin(x) * x, x))(1.)[1](2.)
jax.linear_transpose(lambda x: x * 2 + x, x)(x)
jax.linear_transpose(lambda x, y: x * 2 + y, x, x)(x)
jax.linear_transpose(lambda x: jnp.sin(3.) * x, jax.ShapeDtypeStruct((3,), np.float32))(x)
jax.linear_transpose(jax.jit(lambda x: jnp.sin(3.) * x), x)(x)
jax.linear_transpose(lambda i: i * 2, i)(i)
jax.jacfwd(lambda x: jnp.sin(x) * x.sum())(x)
jax.jacrev(lambda x: jnp.sin(x) * x.sum())(x)
jax.jacobian(lambda x: jnp.sin(x) * x.sum())(x)
jax.jacfwd(lambda d: {'p': d['a'] * d['b'], 'q': d['b'].sum()})({'a': x, 'b': x})
jax.jacrev(lambda d: {'p': d['a'] * d['b'], 'q': d['b'].sum()})({'a': x, 'b': x})
jax.jacfwd(lambda x, y: jnp.outer(x, y), argnums=(0, 1))(x, x)
jax.jacrev(lambda x, y: jnp.outer(x, y), argnums=(0, 1))(x, x)
jax.jacfwd(lambda x: (x * x, x), has_aux=True)(x)
jax.jacrev(lambda x: (x * x, x), has_aux=True)(x)
jax.jacfwd(lambda x: jnp.ones(2))(x)
jax.jacrev(lambda x: jnp.ones(2))(x)
jax.jacfwd(lambda z: z * z, holomorphic=True)(z)
jax.jacrev(lambda z: z * z, holomorphic=True)(z)
jax.jacfwd(lambda x: x * 1j)(1.)
jax.hessian(lambda x: (jnp.sin(x) * x * x.sum()).sum())(x)
jax.hessian(lambda x, y: (x * x * y).sum(), argnums=(0, 1))(x, x)
jax.jit(jax.hessian(lambda x: jnp.exp(x).sum() * x.sum()))(x)
jax.hessian(jax.jit(lambda x: jnp.exp(x).sum() * x.sum()))(x)
jax.jacfwd(jax.jacfwd(jax.jacrev(lambda x: (x * x * x).sum())))(x)
jax.fwd_and_bwd(lambda x, y: jnp.sin(x) * y, argnums=(0, 1))[0](x, 2.)[0]
(lambda fb: fb[1](fb[0](x, 2.)[1], x))(jax.fwd_and_bwd(lambda x, y: jnp.sin(x) * y, argnums=(0, 1)))
(lambda fb: fb[1](fb[0](x, 2.)[1], x))(jax.fwd_and_bwd(lambda x, y: jnp.sin(x) * y, argnums=1, jitted=False))
jax.grad(lambda x: jax.jvp(lambda y: (y * y * y).sum(), (x,), (x,))[1])(x)
jax.jvp(jax.grad(lambda x: (x * x * x).sum()), (x,), (x,))
jax.grad(lambda x: jax.vjp(lambda y: y * y * y, x)[1](x)[0].sum())(x)
jax.grad(lambda x: jax.linearize(lambda y: y * y * y, x)[1](x).sum())(x)
jax.grad(lambda x: jax.grad(lambda y: x * y * y)(x))(3.)
jax.grad(lambda x: x * jax.grad(lambda y: x + y)(1.))(3.)
jax.jvp(lambda x: x * jax.jvp(lambda y: x + y, (1.,), (1.,))[1], (3.,), (1.,))
jax.grad(lambda x: jax.jit(lambda y: x * y)(x) * x)(3.)
jax.grad(jax.jit(lambda x: jax.jit(lambda y: jnp.sin(y) * x)(x)))(3.)
jax.grad(jax.jit(lambda x, n: (x * n, n)[0], static_argnums=1))(3., 2)
jax.grad(jax.jit(lambda x, i: (x * i).sum()))(x, i)
jax.grad(lambda w: jnp.tanh(jnp.dot(m, w)).sum())(w)
jax.grad(lambda x: jnp.where(x > 0, x, 0.).sum())(x)
jax.grad(lambda x: jnp.maximum(x, 0.5).sum())(x)
"""

MAPS = """
jax.vmap(lambda x: x * 2)(x)
jax.vmap(lambda a, b: a * b)(m, m)
jax.vmap(lambda a, b: a * b, in_axes=(0, None))(m, x)
jax.vmap(lambda a, b: a * b, in_axes=(1, 0))(m, x)
jax.vmap(lambda a, b: a * b, in_axes=(-1, None))(m, 3.)
jax.vmap(lambda a: a, in_axes=1)(m)
jax.vmap(lambda a: a, in_axes=1, out_axes=1)(m)
jax.vmap(lambda a: a, out_axes=-1)(m)
jax.vmap(lambda a: (a, a.sum()), out_axes=(1, 0))(m)
jax.vmap(lambda a: {'p': a, 'q': [a, 1]}, out_axes={'p': 1, 'q': 0})(m)
jax.vmap(lambda a: 3.)(m)
jax.vmap(lambda d: d['a'] * d['b'], in_axes=({'a': 0, 'b': None},))({'a': m, 'b': 2.})
jax.vmap(lambda a, *, k: a * k)(m, k=x[:2])
jax.vmap(lambda a: a, in_axes=None, axis_size=3)(x)
jax.vmap(lambda: 1., axis_size=4)()
jax.vmap(lambda a, b: a, in_axes=(0, None))(m, None)
jax.vmap(jax.vmap(lambda a, b: a * b, in_axes=(0, None)), in_axes=(None, 0))(x, x)
jax.vmap(jax.vmap(lambda a: a.sum()), in_axes=2)(jnp.ones((2, 3, 4)))
jax.vmap(jnp.dot, in_axes=(0, None))(m, x)
jax.vmap(jax.jit(lambda a, b: jnp.sin(a) * b), in_axes=(1, None))(w, x)
jax.jit(jax.vmap(lambda a: jnp.sin(a).sum()))(m)
jax.vmap(jax.grad(lambda a, b: (a * b * b).sum(), argnums=(0, 1)), in_axes=(0, None))(m, x)
jax.grad(lambda x: jax.vmap(lambda a: a * x)(m).sum())(x)
jax.vmap(jax.hessian(lambda a: (a * a * a).sum()))(m)
jax.vmap(lambda a: jax.jvp(jnp.sin, (a,), (a,)))(m)
jax.vmap(jax.value_and_grad(lambda a: (a * a).sum()))(m)
jax.vmap(lambda a: jax.lax.stop_gradient(a) * a)(m)
jax.vmap(lambda k: jax.random.uniform(k, (2,)))(jax.random.split(jax.random.key(3), 3))
jax.vmap(lambda a: a.astype(jnp.int32))(m)
"""

COLLECTIVES = """
lax.psum(x, 'i')
lax.psum(2, 'i')
x * lax.psum(1, 'i')
lax.psum({'a': x, 'b': x.sum()}, 'i')
x + lax.psum(jnp.float32(2.), 'i')
lax.psum(x > 0, 'i')
lax.pmean(x, 'i')
lax.pmean(x.astype(int), 'i')
lax.pmax(x, 'i')
lax.pmin(x, 'i')
x + lax.pmax(2., 'i')
lax.ppermute(x, 'i', [(0, 1), (1, 2), (2, 0)])
lax.pshuffle(x, 'i', [2, 0, 1])
lax.pswapaxes(x, 'i', 0)
lax.all_gather(x, 'i')
lax.all_gather(x, 'i', axis=1)
lax.all_gather(x, 'i', tiled=True)
lax.all_gather(x, 'i', axis=-1)
(x.sum(), lax.all_gather(jnp.arange(2), 'i'))
lax.all_to_all(x, 'i', 0, 0)
lax.all_to_all(jnp.outer(x, jnp.arange(2.)), 'i', 0, 1)
lax.all_to_all(jnp.outer(x, jnp.arange(2.)), 'i', 0, 1, tiled=True)
lax.psum_scatter(x, 'i')
lax.psum_scatter(jnp.concatenate([x, x]), 'i', tiled=True)
lax.axis_index('i')
lax.axis_size('i')
jax.vmap(lambda a: lax.psum(a, ('i', 'j')), axis_name='j')(x)
jax.vmap(lambda a: lax.psum(a, 'i'), axis_name='j')(x)
jax.vmap(lambda a: lax.axis_index(('i', 'j')), axis_name='j')(x)
jax.vmap(lambda a: lax.axis_index(('j', 'i')), axis_name='j')(x)
jax.vmap(lambda a: lax.axis_size(('i', 'j')), axis_name='j')(x)
jax.vmap(lambda a: lax.psum(a, 'i'), axis_name='i')(x)
jax.vmap(lambda a: lax.all_gather(a, 'i'), axis_name='j')(x)
jax.vmap(lambda a: lax.ppermute(a, 'i', [(0, 1), (1, 2), (2, 0)]), axis_name='j')(x)
jax.jit(lambda x: lax.psum(x, 'i') * lax.axis_index('i'))(x)
jax.grad(lambda x: lax.psum((x * x).sum(), 'i'))(x)
jax.grad(lambda x: lax.pmean((x * x).sum(), 'i'))(x)
jax.grad(jax.jit(lambda x: lax.psum((x * x).sum(), 'i')))(x)
jax.grad(lambda x: (lax.all_gather(x * x, 'i') * jnp.arange(3.)).sum())(x)
jax.grad(lambda x: (lax.ppermute(x * x, 'i', [(0, 1), (1, 2), (2, 0)]) * lax.axis_index('i')).sum())(x)
jax.grad(lambda x: (lax.psum_scatter(x * x, 'i') * lax.axis_index('i')).sum())(x)
jax.checkpoint(lambda x: lax.psum(jnp.sin(x), 'i'))(x)
jax.grad(jax.checkpoint(lambda x: lax.psum(jnp.sin(x), 'i').sum()))(x)
lax.scan(lambda c, a: (c + lax.psum(a, 'i'), c), 0., x)
"""

CUSTOM = [
    """
f = jax.custom_jvp(lambda x, y: jnp.sin(x) * y)
f.defjvp(lambda p, t: (f(*p), 5. * t[0] + t[1]))
out = (f(1., 2.), jax.grad(f, (0, 1))(1., 2.), jax.jvp(f, (1., 2.), (1., 3.)), jax.grad(jax.jit(f), (0, 1))(1., 2.),
       jax.vmap(f)(x, x), jax.vmap(jax.grad(f, (0, 1)))(x, x), jax.grad(lambda x: jax.vmap(f, (0, None))(x, 2.).sum())(x),
       jax.jit(jax.vmap(jax.grad(jax.jit(f))))(x, x), jax.vmap(jax.jit(jax.grad(f))) (x, x), jax.hessian(f)(1., 2.),
       jax.grad(jax.checkpoint(f))(1., 2.), f(x=1., y=2.), f(1., y=2.))
""",
    """
f = jax.custom_jvp(lambda x, y: jnp.sin(x) * y)
f.defjvps(lambda g, out, x, y: 7 * g, None)
out = (jax.grad(f, (0, 1))(1., 2.), jax.jvp(f, (1., 2.), (1., 1.))[0])
""",
    """
f = jax.custom_jvp(lambda x, n: x * n, nondiff_argnums=(1,))
f.defjvp(lambda n, p, t: (f(p[0], n), t[0] * n * 10))
out = (jax.grad(f)(1., 3), jax.jit(lambda x: jax.grad(f)(x, 3))(1.), jax.vmap(lambda x: f(x, 3))(x), jax.grad(lambda n: f(1., n))(3.),
       jax.jit(lambda x, n: f(x, n))(1., 3.), jax.vmap(jax.grad(f), (0, None))(x, 2))
""",
    """
f = jax.custom_jvp(lambda g, x: g(x), nondiff_argnums=(0,))
f.defjvp(lambda g, p, t: (g(p[0]), t[0] * 100))
out = jax.grad(lambda x: f(lambda y: y * 2, x))(1.)
""",
    """
seen = []
f = jax.custom_jvp(lambda x, y: x * y)
def rule(p, t):
    seen.append([type(v).__name__ == 'SymbolicZero' for v in t])
    return f(*p), t[0] if not seen[-1][0] else 0. * p[0]
f.defjvp(rule, symbolic_zeros=True)
out = (jax.grad(f)(1., 2.), jax.grad(f, 1)(1., 2.), jax.grad(jax.jit(f))(1., 2.), jax.jvp(f, (1., 2.), (1., 1.)), seen)
""",
    """
f = jax.custom_jvp(lambda x: x if x > 0 else -x)
f.defjvp(lambda p, t: (f(p[0]), t[0] * (3 if p[0] > 0 else 4)))
out = (jax.grad(f)(1.), jax.grad(f)(-1.))
""",
    """
f = jax.custom_jvp(lambda n, x: {'a': x * n, 'b': n})
f.defjvp(lambda p, t: (f(*p), {'a': t[1] * 50., 'b': np.zeros((), jax.dtypes.float0)}))
out = (jax.grad(lambda n, x: f(n, x)['a'], 1)(3, 1.), jax.jit(jax.grad(lambda n, x: f(n, x)['a'], 1))(3, 1.))
""",
    """
f = jax.custom_jvp(lambda x: jnp.sin(x))
f.defjvp(lambda p, t: (jnp.cos(p[0]), jnp.exp(p[0]) * t[0]))
out = (f(1.), jax.value_and_grad(f)(1.), jax.value_and_grad(jax.jit(f))(1.), jax.vmap(jax.value_and_grad(f))(x))
""",
    """
f = jax.custom_vjp(lambda x, y: jnp.sin(x) * y)
f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda r, g: (g * r[0] * 10, g * r[1] * 100))
out = (f(1., 2.), jax.grad(f, (0, 1))(1., 2.), jax.grad(jax.jit(f), (0, 1))(1., 2.), jax.jacrev(f)(1., 2.), jax.vmap(f)(x, x),
       jax.vmap(jax.grad(f, (0, 1)), (0, None))(x, 2.), jax.grad(lambda x, y: jax.vmap(f, (0, None))(x, y).sum(), (0, 1))(x, 2.),
       jax.grad(jax.jit(lambda x, y: jax.vmap(f, (0, None))(x, y).sum()), (0, 1))(x, 2.), jax.grad(jax.grad(f))(1., 2.),
       jax.grad(lambda x, y: jax.vmap(jax.jit(f), (0, None))(x, y).sum(), (0, 1))(x, 2.), f(1., y=2.),
       jax.grad(lambda x: jax.vmap(jax.vmap(f, (0, None)), (0, None))(x, 2.).sum())(m), jax.grad(jax.checkpoint(f))(1., 2.),
       jax.grad(lambda x: lax.scan(lambda c, _: (f(c, 2.), c), x, None, length=3)[0])(1.))
""",
    """
f = jax.custom_vjp(lambda n, x: x ** n, nondiff_argnums=(0,))
f.defvjp(lambda n, x: (x ** n, x), lambda n, r, g: (g * n * 100,))
g = jax.custom_vjp(lambda x, n: x * n, nondiff_argnames=('n',))
g.defvjp(lambda x, n: (x * n, x), lambda n, r, ct: (ct * n * 100,))
out = (jax.grad(f, 1)(3, 2.), jax.jit(jax.grad(lambda x: f(3, x)))(2.), jax.grad(g)(2., 3))
""",
    """
f = jax.custom_vjp(lambda d, y: d['a'] * d['b'] * y)
f.defvjp(lambda d, y: (d['a'] * d['b'] * y, None), lambda r, g: ({'a': g, 'b': None}, None))
h = jax.custom_vjp(lambda d, y: d['a'] * d['b'] * y)
h.defvjp(lambda d, y: (d['a'] * d['b'] * y, None), lambda r, g: [None, g])
out = (jax.grad(f, (0, 1))({'a': 1., 'b': 2.}, 3.), jax.grad(h, (0, 1))({'a': 1., 'b': 2.}, 3.))
""",
    """
seen = []
f = jax.custom_vjp(lambda x, y: (x * y, x))
def fwd(x, y):
    seen.append((x.perturbed, y.perturbed))
    return (x.value * y.value, x.value), (x.value, y.value)
def bwd(r, g):
    seen.append([type(v).__name__ == 'SymbolicZero' for v in g])
    return (g[0] * 5, g[0] * 6)
f.defvjp(fwd, bwd, symbolic_zeros=True)
out = (jax.grad(lambda x: f(x, 2.)[0])(1.), jax.grad(lambda y: f(1., y)[0])(2.), jax.grad(jax.jit(lambda x: f(x, 2.)[0]))(1.), seen)
""",
    """
f = jax.custom_vjp(lambda n, x: (x * n, n))
f.defvjp(lambda n, x: ((x * n, n), n), lambda r, g: (None, g[0] * r * 10))
h = jax.custom_vjp(lambda n, x: x * n)
h.defvjp(lambda n, x: (x * n, n), lambda r, g: (np.zeros((), jax.dtypes.float0), g * r * 10))
out = (jax.grad(lambda x: f(3, x)[0])(2.), jax.grad(lambda x: jax.jit(f)(3, x)[0])(2.), jax.grad(h, 1)(3, 2.))
""",
    """
f = jax.custom_gradient(lambda x: (x ** 2, lambda g: (g * x,)))
h = jax.custom_gradient(lambda x, y: (x * y, lambda g: (g * y, g * x * 10)))
k = jax.custom_gradient(lambda x: (x ** 2, lambda g: g * x))
out = (f(3.), jax.grad(f)(3.), jax.grad(h, (0, 1))(3., 4.), jax.grad(k)(3.), jax.jit(jax.vmap(jax.grad(k)))(x))
""",
    """
def solve(g, y):
    f, hoisted = jax.closure_convert(g, y)
    return inner(f, y, *hoisted)
inner = jax.custom_vjp(lambda f, y, *h: f(y, *h), nondiff_argnums=(0,))
inner.defvjp(lambda f, y, *h: (f(y, *h), (y, h)), lambda f, r, ct: (ct * 10, *[ct * 100 for _ in r[1]]))
out = jax.grad(lambda c, y: solve(lambda v: v * c * 2., y), (0, 1))(3., 4.)
""",
    """
f = jax.custom_batching.custom_vmap(lambda x, y: jnp.sin(x) * y)
seen = []
@f.def_vmap
def rule(size, batched, x, y):
    seen.append((size, batched, np.shape(x), np.shape(y)))
    return jnp.cos(x) * y, True
out = (f(1., 2.), jax.vmap(f)(x, x), jax.vmap(f, (0, None))(x, 2.), jax.vmap(f, (1, None))(m, 2.), jax.vmap(jax.vmap(f))(m, m),
       jax.jit(jax.vmap(f))(x, x), jax.vmap(jax.jit(f))(x, x), jax.jvp(f, (1., 2.), (1., 1.)),
       jax.jvp(jax.vmap(f), (x, x), (x, x)), jax.vmap(lambda a: jax.jvp(f, (a, 2.), (1., 1.)))(x), f(1., y=2.), seen[:4])
""",
    """
call = jax.custom_derivatives.linear_call
div = lambda x, d: call(lambda r, x: x / r, lambda r, t: t / r * 10, d, x)
d = lambda t: call(lambda r, d: d['a'] * r[0] + d['b'], lambda r, t: {'a': t * r[0], 'b': t}, (2.,), t)
out = (div(6., 3.), jax.grad(div)(6., 3.), jax.jit(jax.grad(div))(6., 3.), jax.jvp(lambda x: div(x, 3.), (6.,), (1.,)),
       jax.linear_transpose(lambda x: div(x, 3.), 6.)(1.), jax.grad(d)({'a': 1., 'b': 2.}),
       jax.linear_transpose(lambda t: jax.linear_transpose(lambda x: div(x, 3.), 6.)(t)[0], 6.)(1.))
""",
    """
f = jax.custom_batching.sequential_vmap(lambda x, y: x * y)
out = (jax.vmap(f, (0, None))(x, 2.), jax.vmap(f)(x, x), jax.jit(jax.vmap(f))(x, x), f(2., 3.))
""",
]

REMAT = """
jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(1.)
jax.grad(jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))))(1.)
jax.value_and_grad(jax.checkpoint(lambda x: (jnp.sin(x) * x).sum()))(x)
jax.grad(jax.checkpoint(jax.jit(lambda x: (jnp.sin(x) * x).sum())))(x)
jax.jit(jax.grad(jax.checkpoint(lambda x: (jnp.sin(x) * x).sum())))(x)
jax.grad(jax.jit(jax.checkpoint(lambda x: (jnp.sin(x) * x).sum())))(x)
jax.vmap(jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))))(x)
jax.grad(lambda x: jax.vmap(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(x).sum())(x)
jax.hessian(jax.checkpoint(lambda x: (jnp.sin(x) * x.sum()).sum()))(x)
jax.jvp(jax.checkpoint(jnp.sin), (x,), (x,))
jax.checkpoint(lambda x, n: x ** n if n > 2 else x, static_argnums=(1,))(x, 3)
jax.grad(jax.checkpoint(lambda x, n: (x ** n if n > 2 else x).sum(), static_argnums=(1,)))(x, 3)
jax.grad(jax.checkpoint(lambda d, *, k: (d['a'] * d['b']).sum() * k))({'a': x, 'b': x}, k=2.)
jax.grad(jax.checkpoint(lambda w: jnp.tanh(jnp.dot(m, w)).sum(), policy=jax.checkpoint_policies.everything_saveable))(w)
jax.grad(jax.checkpoint(lambda w: jnp.tanh(jnp.dot(m, w)).sum(), policy=jax.checkpoint_policies.dots_saveable))(w)
jax.grad(jax.checkpoint(lambda w: jnp.tanh(jnp.dot(m, w)).sum(), policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable))(w)
jax.grad(jax.checkpoint(jax.jit(lambda w: jnp.tanh(jnp.dot(m, w)).sum()), policy=jax.checkpoint_policies.dots_saveable))(w)
jax.grad(lambda x: lax.scan(jax.checkpoint(lambda c, _: (jnp.sin(c), None)), x, None, length=4)[0])(1.)
jax.grad(jax.checkpoint(lambda x: lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=4)[1].sum()))(1.)
jax.grad(jax.checkpoint(lambda x: jax.checkpoint(jnp.sin)(jax.checkpoint(jnp.cos)(x))))(1.)
jax.grad(lambda c: jax.checkpoint(lambda x: jnp.sin(x) * c)(2.) * c)(3.)
"""

ERRORS = """
jax.grad(lambda x: x)(x)
jax.grad(lambda x: (x, x))(1.)
jax.grad(lambda x: {'a': x})(1.)
jax.grad(lambda x: None)(1.)
jax.grad(lambda x: 'a')(1.)
jax.grad(lambda x: x * 1.)(1)
jax.grad(lambda x: (x * 1.).sum())(i)
jax.grad(lambda x: (x * 1.).sum())(x > 0)
jax.grad(lambda x: 1.)('s')
jax.grad(lambda x: 1.)([object()])
jax.grad(lambda x: (x * 2).astype(int))(1.)
jax.grad(lambda x: x * 1j)(1.)
jax.grad(lambda x: x * 1j, holomorphic=True)(1.)
jax.grad(lambda x: x.real, holomorphic=True)(1j)
jax.grad(lambda x: x, argnums=1)(1.)
jax.grad(lambda x, y: x, argnums=(0, 2))(1., 2.)
jax.grad(lambda x, y: x * y, argnums=-3)(1., 2.)
jax.grad(lambda x: x)(x=1.)
jax.grad(3)
jax.grad(lambda x: x, has_aux=True)(1.)
jax.grad(lambda x: (x, 1, 2), has_aux=True)(1.)
jax.grad(lambda x: x, reduce_axes=('a',))(1.)
jax.grad(lambda x: x * float(x))(3.)
jax.grad(lambda x: x * complex(x))(3.)
jax.grad(lambda x: np.sin(x))(3.)
jax.grad(lambda x: x.tolist())(3.)
jax.jit(jax.grad(lambda x: x if x > 0 else -x))(3.)
jax.jvp(lambda x: x, (1.,), (1., 2.))
jax.jvp(lambda x: x, 1., 1.)
jax.jvp(lambda x: x, (1.,), (1,))
jax.jvp(lambda x: x, (x,), (1.,))
jax.jvp(lambda x: x, (1,), (1,))
jax.vjp(lambda x: (x, x), 1.)[1](1.)
jax.vjp(lambda x: x, x)[1](1.)
jax.vjp(lambda x: x, x)[1](i)
jax.vjp(lambda x: x, x)[1](None)
jax.vjp(lambda x: x, x)[1](x, x)
jax.vjp(lambda x: x, x, has_aux=True)
jax.vjp(lambda x: x, 's')
jax.linearize(lambda x: x, 1.)[1](x)
jax.linearize(lambda x: x, 1.)[1](1., 2.)
jax.linear_transpose(lambda x: x * 2, x)(jnp.ones(4))
jax.linear_transpose(lambda x: jnp.sin(x), x)(x)
jax.linear_transpose(lambda x: x * 2, x)((x, x))
jax.linear_transpose(lambda x: x * 2., i)(x)
jax.jacfwd(lambda x: x * 1j)(1j)
jax.jacrev(lambda x: x * 1j)(1.)
jax.jacfwd(lambda x: x * 1.)(1)
jax.jacrev(lambda x: x * 1.)(1)
jax.jacfwd(lambda x: x * 1., holomorphic=True)(1.)
jax.jacrev(lambda x: x.real, holomorphic=True)(1j)
jax.jacfwd(lambda x: x.real, holomorphic=True)(1j)
jax.jacfwd(lambda x: x, argnums=2)(1j)
jax.hessian(lambda x: x)(1j)
jax.vmap(lambda x: x)(1.)
jax.vmap(lambda x: x, in_axes=(0, 0))(m)
jax.vmap(lambda x: x, in_axes=2)(m)
jax.vmap(lambda x: x, in_axes=-3)(m)
jax.vmap(lambda x: x, in_axes=None)(m)
jax.vmap(lambda x: x, in_axes='a')(m)
jax.vmap(lambda x: x, in_axes=('a',))(m)
jax.vmap(lambda x: x, in_axes=(1.,))(m)
jax.vmap(lambda x: x, in_axes={'a': 0})(m)
jax.vmap(lambda x: x, in_axes=({'a': 0},))({'b': m})
jax.vmap(lambda x: x, in_axes=((0, 0),))((m, m, m))
jax.vmap(lambda x, y: x)(m, jnp.ones(3))
jax.vmap(lambda x, y: x)({'a': m, 'b': jnp.ones((2, 5))}, [jnp.ones(3), jnp.ones(4)])
jax.vmap(lambda x, y, z: x)(m, m, jnp.ones((4, 5)))
jax.vmap(lambda x: x, axis_size=5)(m)
jax.vmap(lambda: 1)()
jax.vmap(lambda x: x, out_axes=5)(m)
jax.vmap(lambda x: x, out_axes=-5)(m)
jax.vmap(lambda x: x, out_axes=None)(m)
jax.vmap(lambda x: x, out_axes=(0, 0))(m)
jax.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(m)
jax.vmap(lambda x: {'a': x}, out_axes={'b': 0})(m)
jax.vmap(lambda x: x, out_axes='s')(m)
jax.vmap(lambda x: (x, x), out_axes=[0, 1])(m)
jax.vmap(3)
jax.vmap(lambda x: x)('s')
jax.vmap(lambda x: 's')(m)
jax.vmap(lambda x: x if x > 0 else -x)(x)
jax.vmap(lambda x: float(x))(x)
jax.vmap(lambda x: np.sin(x))(x)
jax.vmap(lambda x: [1, 2, 3][x])(i)
lax.psum(x, 'i')
jax.vmap(lambda x: lax.psum(x, 'j'), axis_name='i')(x)
jax.jit(lambda x: lax.psum(x, 'j'))(x)
lax.axis_index('i')
jax.vmap(jax.grad(lambda x: lax.pmax(x * x, 'i')), axis_name='i')(x)
jax.custom_jvp(jnp.sin)(1.)
jax.custom_vjp(jnp.sin)(1.)
jax.custom_batching.custom_vmap(jnp.sin)(1.)
jax.checkpoint(lambda x, n: x, static_argnums=(5,))(1., 2)
jax.grad(jax.checkpoint(lambda x: x if x > 0 else -x))(1.)
(lambda saved: (jax.grad(lambda x: (saved.append(x), x)[1])(1.), saved[0] + 1))([])
(lambda saved: (jax.vmap(lambda x: (saved.append(x), x)[1])(x), saved[0] + 1))([])
(lambda saved: (jax.jvp(lambda x: (saved.append(x), x)[1], (1.,), (1.,)), jnp.sin(saved[0])))([])
(lambda saved: (jax.grad(lambda x: (saved.append(x), x)[1])(1.), jax.jit(lambda y: saved[0] + y)(1.)))([])
"""

CUSTOM_ERRORS = [
    "f.defjvp(lambda p, t: ({'a': p[0]}, {'b': t[0]}))",
    "f.defjvp(lambda p, t: p[0])",
    "f.defjvp(lambda p, t: ({'a': p[0]}, {'a': jnp.ones(3)}))",
    "f.defjvp(lambda p, t: ({'a': p[0]}, {'a': 1}))",
    "f.defjvp(lambda p, t: ({'a': p[0]}, {'a': jnp.float16(1)}))",
    "f.defjvp(lambda p, t: ({'a': p[0]}, {'a': jnp.cos(t[0])}))",
    "f.defjvps(lambda g, out, x: g, None)",
    "g.defvjp(lambda x: x, lambda r, ct: (ct,))",
    "g.defvjp(lambda x: ({'a': x}, None), lambda r, ct: None)",
    "g.defvjp(lambda x: ({'a': x}, None), lambda r, ct: ct['a'])",
    "g.defvjp(lambda x: ({'a': x}, None), lambda r, ct: (ct['a'], ct['a']))",
    "g.defvjp(lambda x: ({'a': x}, None), lambda r, ct: ((ct['a'], ct['a']),))",
    "g.defvjp(lambda x: ({'a': x}, None), lambda r, ct: (jnp.ones(3),))",
    "g.defvjp(lambda x: ({'a': x}, None), lambda r, ct: ('s',))",
    "g.defvjp(lambda x: ({'a': x}, None), lambda r, ct: (ct['a'],)); out = jax.jvp(g, (1.,), (1.,))",
    "g.defvjp(lambda x: ({'a': x}, None), lambda r, ct: (ct['a'],)); out = jax.jvp(jax.jit(g), (1.,), (1.,))",
]
