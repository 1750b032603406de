"""jaxopt, tinygp, mctx, ott, jraph, evosax: a call of each."""

import jax
import jax.numpy as jnp
import jaxopt
import jraph
import mctx
from evosax.algorithms import CMA_ES
from ott.geometry import pointcloud
from ott.solvers import linear
from tinygp import GaussianProcess, kernels

A = jax.random.normal(jax.random.key(0), (20, 3))
assert jaxopt.LBFGS(lambda w: jnp.mean((A @ w - 1) ** 2), maxiter=50).run(jnp.zeros(3)).state.error < 1e-2
box = jaxopt.ProjectedGradient(lambda x: jnp.sum((x - 2) ** 2), jaxopt.projection.projection_box)
assert jnp.allclose(box.run(jnp.zeros(2), hyperparams_proj=(0.0, 1.0)).params, 1)
implicit = jax.grad(lambda t: jaxopt.GradientDescent(lambda x, t: (x - t) ** 2, maxiter=50).run(0.0, t).params)
assert jnp.allclose(implicit(1.5), 1)

x = jnp.linspace(0, 1, 20)
process = GaussianProcess(kernels.ExpSquared(0.3), x, diag=1e-3)
assert jnp.allclose(process.condition(jnp.sin(6 * x), jnp.array([0.5])).gp.mean, jnp.sin(3.0), atol=0.02)


def recurrent(params, key, action, embedding):
    reward = (action == 1).astype(jnp.float32)
    return mctx.RecurrentFnOutput(reward=reward, discount=jnp.ones(1) * 0.9, prior_logits=jnp.zeros((1, 3)), value=jnp.zeros(1)), embedding


root = mctx.RootFnOutput(prior_logits=jnp.zeros((1, 3)), value=jnp.zeros(1), embedding=jnp.zeros((1, 2)))
search = jax.jit(lambda key: mctx.muzero_policy((), key, root, recurrent, num_simulations=16, dirichlet_fraction=0.0).action_weights)
assert search(jax.random.PRNGKey(0)).argmax() == 1

clouds = (jax.random.normal(jax.random.key(k), (10 + k, 2)) for k in (0, 1))
assert jax.jit(lambda g: linear.solve(g).reg_ot_cost)(pointcloud.PointCloud(*clouds, epsilon=0.5)) > 0

graph = jraph.GraphsTuple(
    nodes=jnp.ones((3, 2)),
    edges=jnp.ones((2, 1)),
    senders=jnp.array([0, 1]),
    receivers=jnp.array([1, 2]),
    n_node=jnp.array([3]),
    n_edge=jnp.array([2]),
    globals=jnp.zeros((1, 1)),
)
net = jraph.GraphNetwork(lambda e, s, r, g: e + s.sum(-1, keepdims=True), lambda n, s, r, g: n + r.sum(-1, keepdims=True))
assert jax.jit(net)(graph).nodes.sum() == 18

strategy = CMA_ES(population_size=8, solution=jnp.zeros(3))
parameters = strategy.default_params
state = strategy.init(jax.random.key(0), jnp.zeros(3), parameters)
for i in range(30):
    candidates, state = strategy.ask(jax.random.key(i), state, parameters)
    state, _ = strategy.tell(jax.random.key(i), candidates, jnp.sum((candidates - 1) ** 2, -1), state, parameters)
assert state.best_fitness < 0.1
