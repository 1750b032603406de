"""What libraries on top need: recorded programs, ops of their own, and other pieces of the inside that stay as they are."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(__name__, {}, submodules=("backend", "core", "linear_util", "random", "sharding", "source_info_util"))
