"""Distributions by rejection: loops that go on until every number is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def _missing(name: str, needs: str) -> Callable[..., NoReturn]:
    def fun(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"random.{name} is not implemented: it needs {needs}")

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"Not implemented: needs {needs}."
    return fun


_LOOPS = "while loops"
ball = _missing("ball", _LOOPS)
beta = _missing("beta", _LOOPS)
binomial = _missing("binomial", _LOOPS)
chisquare = _missing("chisquare", _LOOPS)
dirichlet = _missing("dirichlet", _LOOPS)
f = _missing("f", _LOOPS)
gamma = _missing("gamma", _LOOPS)
generalized_normal = _missing("generalized_normal", _LOOPS)
loggamma = _missing("loggamma", _LOOPS)
multinomial = _missing("multinomial", _LOOPS)
poisson = _missing("poisson", _LOOPS)
t = _missing("t", _LOOPS)
multivariate_normal = _missing("multivariate_normal", "the Cholesky decomposition")
orthogonal = _missing("orthogonal", "the QR decomposition")
