"""`jax.extend.sharding`, of which a program for one device needs nothing."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(__name__, {})
