"""The price of an option and all its derivatives; implied volatility; and American options on a tree, differentiated as well."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.stats import norm

OPTION = {"spot": 100.0, "strike": 105.0, "time": 0.5, "rate": 0.03, "volatility": 0.25}


def call(spot, strike, time, rate, volatility):
    """Black and Scholes (1973)."""
    spread = volatility * jnp.sqrt(time)
    d = (jnp.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    return spot * norm.cdf(d) - strike * jnp.exp(-rate * time) * norm.cdf(d - spread)


def greeks(price, option):
    def f(option):
        return price(**option)

    gradient = jax.grad(f)(option)
    hessian = jax.jacfwd(jax.grad(f))(option)
    return {
        "delta": gradient["spot"],
        "gamma": hessian["spot"]["spot"],
        "vega": gradient["volatility"],
        "theta": -gradient["time"],
        "rho": gradient["rate"],
        "vanna": hessian["spot"]["volatility"],
    }


@jax.jit
@functools.partial(jnp.vectorize, excluded={1, 2, 3, 4})
def implied_volatility(price, spot, strike, time, rate):
    """By bisection: the price rises with the volatility."""

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        below = call(spot, strike, time, rate, middle) < price
        return lax.cond(below, lambda: (middle, high), lambda: (low, middle))

    return sum(lax.fori_loop(0, 25, halve, (0.001, 3.0))) / 2


@functools.partial(jax.jit, static_argnames="steps")
def american_put(spot, strike, time, rate, volatility, *, steps=200):
    """Backwards through a binomial tree (Cox, Ross and Rubinstein, 1979); at each node one may exercise."""
    dt = time / steps
    up = jnp.exp(volatility * jnp.sqrt(dt))
    chance = (jnp.exp(rate * dt) - 1 / up) / (up - 1 / up)
    power = 2.0 * jnp.arange(steps + 1) - steps

    def back(value, step):
        held = jnp.exp(-rate * dt) * (chance * jnp.roll(value, -1) + (1 - chance) * value)
        exercised = strike - spot * up ** (power + (steps - step))
        return jnp.maximum(held, exercised), None

    last = jnp.maximum(strike - spot * up**power, 0.0)
    value, _ = lax.scan(back, last, jnp.arange(steps)[::-1])
    return value[0]


def main():
    jitted = jax.jit(functools.partial(greeks, call))
    print(f"call {call(**OPTION):.4f}:", ", ".join(f"{name} {value:.4f}" for name, value in jitted(OPTION).items()))
    volatilities = jnp.array([0.1, 0.2, 0.4, 0.8])
    rest = [OPTION[k] for k in ("spot", "strike", "time", "rate")]
    found = implied_volatility(call(*rest, volatilities), *rest)
    print("implied volatilities", " ".join(f"{v:.3f}" for v in found))
    early, (delta, vega) = jax.value_and_grad(american_put, argnums=(0, 4))(*OPTION.values())
    european = call(**OPTION) - OPTION["spot"] + OPTION["strike"] * jnp.exp(-OPTION["rate"] * OPTION["time"])
    print(f"American put {early:.3f} (European {european:.3f}), delta {delta:.2f}, vega {vega:.1f}")
    return jnp.stack([*jitted(OPTION).values(), european, early, delta]), found


if __name__ == "__main__":
    main()
