"""steno: JAX's programming model on the CPU, with a compiler of its own."""
from steno.backends import reference as _reference
from steno.core.op import set_eager as _set_eager

_set_eager(_reference.eager)
