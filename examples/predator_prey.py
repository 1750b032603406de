"""Lynxes and hares: the Lotka-Volterra equations are fitted to a century-old count by gradients through the solver of the equation."""

import jax
import jax.numpy as jnp
from jax.experimental.ode import odeint

# Thousands of pelts the Hudson's Bay Company bought, 1900 to 1920.
HARES = [30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1, 40.3, 57, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7]
LYNXES = [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4, 8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6]


def growth(state, t, rates):
    hares, lynxes = state
    return jnp.array([rates["birth"] - rates["eaten"] * lynxes, rates["feed"] * hares - rates["death"]]) * state


def trajectory(log_params, times):
    params = jax.tree.map(jnp.exp, log_params)
    return odeint(growth, params["start"], times, params["rates"], rtol=1e-5, atol=1e-5)


def loss(log_params, times, counts):
    return jnp.mean((jnp.log(trajectory(log_params, times)) - jnp.log(counts)) ** 2)


def main(steps=150):
    years = jnp.arange(21.0)
    counts = jnp.array([HARES, LYNXES]).T
    params = {"rates": {"birth": 0.6, "eaten": 0.03, "feed": 0.025, "death": 0.8}, "start": counts[0]}
    params = jax.tree.map(jnp.log, params)
    value_and_grad = jax.jit(jax.value_and_grad(loss))
    mean = square = jax.tree.map(jnp.zeros_like, params)
    for count in range(1, steps + 1):
        value, grads = value_and_grad(params, years, counts)
        mean = jax.tree.map(lambda m, g: 0.8 * m + 0.2 * g, mean, grads)
        square = jax.tree.map(lambda s, g: 0.95 * s + 0.05 * g**2, square, grads)
        params = jax.tree.map(lambda p, m, s: p - 0.01 * m / (jnp.sqrt(s) + 1e-8), params, mean, square)
        if count in (1, 50, 100, 150):
            print(f"step {count:3d}: loss {value:.3f}")
    rates = jax.tree.map(jnp.exp, params["rates"])
    print(", ".join(f"{name} {rate:.3f}" for name, rate in rates.items()))
    fine = trajectory(params, jnp.linspace(0.0, 20.0, 201))[:, 0]
    peak = (fine[1:-1] > fine[:-2]) & (fine[1:-1] > fine[2:])
    years_of_peaks = 1900 + 0.1 * (1 + jnp.flatnonzero(peak))
    print("hares peak in", ", ".join(f"{year:.0f}" for year in years_of_peaks))
    return value, years_of_peaks


if __name__ == "__main__":
    main()
