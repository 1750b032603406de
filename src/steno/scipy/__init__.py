"""JAX's `scipy`: functions of SciPy on arrays of steno. Its modules are imported when they are first used."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(
    __name__,
    {},
    submodules=(
        "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial", "special", "stats",
    ),
)  # fmt: skip
