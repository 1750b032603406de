"""For programs that look into recorded programs."""

from steno.extend import core as core
