# Made by `make stubs`.
from steno.scipy.spatial import transform as transform


