"""JAX's `example_libraries`: small libraries for neural networks and their optimization, `stax` and `optimizers`."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(__name__, {}, submodules=("optimizers", "stax"))
