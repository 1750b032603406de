from steno.flatten_util import ravel_pytree as ravel_pytree
