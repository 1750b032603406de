"""What widely used libraries import from `jax._src`, JAX's private modules, although JAX promises nothing there.

Only names are here that have a public meaning in steno, or whose meaning follows from the library's use. There is nothing else: importing
a private module or name that is not here fails as any other does."""

from steno.core.on_demand import on_demand

_MODULES = "ad_util checkify compiler core dispatch dtypes flatten_util pjit state traceback_util tree_util"
__getattr__, __dir__ = on_demand(__name__, {}, _MODULES.split())
