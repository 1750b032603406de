# Made by `make stubs`.
from steno.scipy import cluster as cluster, fft as fft, integrate as integrate, interpolate as interpolate, linalg as linalg, ndimage as ndimage, signal as signal, sparse as sparse, special as special, stats as stats


