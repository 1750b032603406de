"""scipy.cluster: clustering."""

from steno.scipy.cluster import vq as vq

__all__ = ["vq"]
