import jax
import jax.numpy as jnp


@jax.jit
def f(x):
    print("tracing, x is:", x)
    return x * 2


print(f(jnp.array(1.0)))
print(f(jnp.array(5.0)))
