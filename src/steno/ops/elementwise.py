"""The elementwise families, all of them: importing this declares their ops."""

from __future__ import annotations

from steno.ops import arithmetic, bitwise, compare, convert, divisors, transcendental

FAMILIES = (arithmetic, bitwise, compare, convert, divisors, transcendental)
