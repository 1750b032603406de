# Made by `make stubs`.
from steno.scipy.sparse import linalg as linalg


