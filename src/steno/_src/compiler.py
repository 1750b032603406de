"""Compiling is behind steno's backends; a library that looks for JAX's functions here finds none."""
