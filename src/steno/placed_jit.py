"""Jitted functions whose results say where they lie: `jit(..., out_shardings=...)`."""

from __future__ import annotations

import functools
from typing import Any, final

from steno._native import JitFunction
from steno.core import source
from steno.core.boundary import boundary
from steno.device import laid_out, places_of
from steno.tree_util import tree_map


@final
class PlacedJit:
    """A jitted function, the results of which are laid out so: a tree, or the upper part of one, of Shardings, PartitionSpecs of the mesh
    that is set, or None where nothing is said. ValueError for what does not fit."""

    def __init__(self, jitted: JitFunction, out_shardings: Any) -> None:
        self._jitted, self._out_shardings = jitted, out_shardings
        source.wraps(jitted)(self)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return laid_out("jit", self._jitted(*args, **kwargs), self._out_shardings)

    @boundary
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The types of the results, which say where these are to lie."""
        out = self._jitted.eval_shape(*args, **kwargs)
        places = iter(places_of("jit", out, self._out_shardings))
        return tree_map(lambda s: s.update(sharding=next(places)), out)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jitted, name)

    def __repr__(self) -> str:
        return repr(self._jitted)
