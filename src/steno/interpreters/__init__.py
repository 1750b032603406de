"""What programs that define ops of their own import, by the names of `jax.interpreters`."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(__name__, {}, submodules=("ad", "batching", "mlir", "partial_eval", "pxla", "xla"))
