"""`jax.lib`, which has no public names but the version of what runs programs."""

from steno.core.on_demand import on_demand as _on_demand
from steno.version import __version__ as __version__

__getattr__, __dir__ = _on_demand(__name__, {})
