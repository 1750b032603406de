"""Logistic regression by Newton's method: the Hessian by `jax.hessian`, standard errors from its inverse."""

import jax
import jax.numpy as jnp


def negative_log_posterior(weights, x, y, precision=0.1):
    logits = x @ weights
    return jnp.sum(jnp.logaddexp(0.0, logits) - y * logits) + 0.5 * precision * weights @ weights


@jax.jit
def newton_step(weights, x, y):
    gradient = jax.grad(negative_log_posterior)(weights, x, y)
    hessian = jax.hessian(negative_log_posterior)(weights, x, y)
    step = jax.scipy.linalg.solve(hessian, gradient, assume_a="pos")
    return weights - step, hessian, gradient @ step / 2


def main(n=500):
    features, labels = jax.random.split(jax.random.key(42))
    truth = jnp.array([0.5, -2.0, 1.0, 0.0])
    x = jnp.column_stack([jnp.ones(n), jax.random.normal(features, (n, 3))])
    y = jax.random.bernoulli(labels, jax.nn.sigmoid(x @ truth)).astype(jnp.float32)

    weights = jnp.zeros(4)
    for iteration in range(20):
        weights, hessian, decrement = newton_step(weights, x, y)
        print(f"iteration {iteration}: Newton decrement {decrement:.1e}")
        if decrement < 1e-3:
            break
    error = jnp.sqrt(jnp.diag(jnp.linalg.inv(hessian)))
    for name, w, e, t in zip(["intercept", "a", "b", "c"], weights, error, truth):
        print(f"{name:>9s} {w:7.3f} +- {e:.3f}   (true {t:.1f})")
    accuracy = jnp.mean((x @ weights > 0) == (y > 0.5))
    print(f"accuracy {accuracy:.3f}")
    return weights, error


if __name__ == "__main__":
    main()
