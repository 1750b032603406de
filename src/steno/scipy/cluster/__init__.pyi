# Made by `make stubs`.
from steno.scipy.cluster import vq as vq


