"""The ops, one record each, by file. JAX's functions of the name `ops`, `segment_sum` and its kind, are reached here too:
`steno/__init__.py` puts them here."""
