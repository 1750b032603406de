"""Types, ops, traces and recorded programs. Knows no particular op and no backend."""
