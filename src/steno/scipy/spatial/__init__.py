"""scipy.spatial: rotations."""

from steno.scipy.spatial import transform as transform

__all__ = ["transform"]
