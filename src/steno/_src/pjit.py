from steno.ops.structural import jit as jit_p  # noqa: F401 - JAX's name of the op
