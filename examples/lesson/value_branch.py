import jax


@jax.jit
def relu_wrong(x):
    if x > 0:
        return x
    return 0.0


try:
    relu_wrong(3.0)
except jax.errors.TracerBoolConversionError as err:
    print("error:", str(err).splitlines()[0][:80])
