"""What widely used libraries import from `jax._src`, JAX's private modules, although JAX promises nothing there.

Only names are here that have a public meaning in steno, or whose meaning follows from the library's use. There is nothing else: importing
a private module or name that is not here fails as any other does."""
