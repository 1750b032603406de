"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import inspect

import numpy as np

import steno
import steno.numpy as jnp
from steno import lax, nn, random

NAMES = {"steno": steno, "jnp": jnp, "lax": lax, "nn": nn, "random": random, "np": np}
FACES = (steno, steno.tree, steno.debug, jnp, jnp.linalg, jnp.fft, lax, random, nn)


def test_examples():
    """What an example prints may end in other spaces, and nothing else."""
    parser, runner, known = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False), set()
    for face in FACES:
        for name in dir(face):
            value = getattr(face, name)
            doc = value.__doc__ if not name.startswith("_") and callable(value) else None
            if getattr(value, "__module__", None) == "numpy":
                continue
            if isinstance(doc, str) and ">>>" in doc and doc not in known:
                known.add(doc)
                place = inspect.unwrap(value)
                test = parser.get_doctest(doc, dict(NAMES), f"{face.__name__}.{name}", getattr(place, "__module__", None), 0)
                runner.run(test)
    assert len(known) >= 100
    assert runner.failures == 0
