"""Transformations of programs, generic over ops. Importing this sets the rules of the structural ops."""

from steno.transforms import calls as calls
