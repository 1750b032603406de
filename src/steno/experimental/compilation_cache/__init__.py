"""The folder that keeps compiled code, by the names of `jax.experimental.compilation_cache`."""

from steno.experimental.compilation_cache import compilation_cache as compilation_cache
