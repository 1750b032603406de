"""Functions that apply functions: vectorize, frompyfunc, apply_along_axis."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from steno import lax
from steno.core.pytree import tree_map
from steno.mapping import vmap
from steno.numpy.operands import Array, ArrayLike, as_array, broadcast_shapes, canonical_axis, check_arraylike, check_rank_promotion
from steno.numpy.ufunc import ufunc

CoreDims = tuple[str, ...]

_NAME = r"\w+"
_DIMS = rf"(?:{_NAME}(?:,{_NAME})*,?)?"
_ARGUMENT = rf"\({_DIMS}\)"
_SIGNATURE = re.compile(rf"^{_ARGUMENT}(?:,{_ARGUMENT})*->{_ARGUMENT}(?:,{_ARGUMENT})*$")


def parse_signature(signature: str) -> tuple[list[CoreDims], list[CoreDims]]:
    """`(n,m),(m)->(n)` --> the core dimensions of each argument and each result. ValueError for another form."""
    text = signature.replace(" ", "")
    if not _SIGNATURE.match(text):
        raise ValueError(f"vectorize: expected a signature such as '(n,m),(m)->(n)', got {signature!r}")
    sides = text.split("->")
    inputs, outputs = ([tuple(re.findall(_NAME, argument)) for argument in re.findall(_ARGUMENT, side)] for side in sides)
    return inputs, outputs


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """`pyfunc`, a function of scalars (or of arrays with the core dimensions of a signature such as "(n,m),(m)->(n)"), broadcast over
    arrays.

    `excluded`: positions and names of arguments that are passed through, as None is. ValueError if shapes do not fit the signature."""
    if any(not isinstance(e, str | int) for e in excluded):
        raise TypeError(f"jax.numpy.vectorize can only exclude positions and names of arguments, got excluded={set(excluded)!r}")
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"vectorize: excluded={set(excluded)!r} contains negative numbers, which are no positions")
    about = f"on vectorized function with excluded={frozenset(excluded)} and signature={signature!r}"

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fixed_names = {k: v for k, v in kwargs.items() if k in excluded}
        if named := {k: v for k, v in kwargs.items() if k not in excluded}:
            raise TypeError(f"vectorize: arguments passed by keyword must be excluded ones, got {sorted(named)} {about}")
        if signature is not None and (nothing := {k for k, x in enumerate(args) if x is None and k not in excluded}):
            raise ValueError(f"vectorize: None has no core dimensions. Cannot pass None at locations {nothing} with {signature=}")
        mapped = [k for k, x in enumerate(args) if k not in excluded and x is not None]
        for k in mapped:
            check_arraylike("vectorize", args[k])
        xs = [as_array("vectorize", args[k], k) for k in mapped]
        inputs, outputs = parse_signature(signature) if signature is not None else ([()] * len(xs), None)
        if len(inputs) != len(xs):
            raise TypeError(f"vectorize: wrong number of positional arguments, expected {len(inputs)} mapped ones, got {len(xs)} {about}")
        sizes, batches = _core_sizes(xs, inputs, about)

        def call(*values: Array) -> Any:
            given = list(args)
            for k, v in zip(mapped, values, strict=True):
                given[k] = v
            out = pyfunc(*given, **fixed_names)
            if outputs is not None:
                _check_results(out, outputs, sizes, about)
            return out

        batch = broadcast_shapes(*batches)
        check_rank_promotion("vectorize", *batches)
        # an argument lacks the axes it has not, or has with size 1 where others have more: it is the same along them
        axes = [[d for d in range(len(batch)) if _has(own, batch, d)] for own in batches]
        for j, own in enumerate(batches):
            missing = len(batch) - len(own)
            xs[j] = lax.squeeze(xs[j], [d - missing for d in range(missing, len(batch)) if d not in axes[j]])
        function: Callable[..., Any] = call
        for d in reversed(range(len(batch))):
            function = vmap(function, tuple(0 if d in own else None for own in axes), axis_size=batch[d])
        return function(*xs)

    return wrapped


def _has(own: tuple[int, ...], batch: tuple[int, ...], d: int) -> bool:
    """Whether an argument's batch axes, aligned at the right, include axis d of the whole batch."""
    place = d - (len(batch) - len(own))
    return place >= 0 and (own[place] != 1 or batch[d] == 1)


def _core_sizes(xs: Sequence[Array], inputs: Sequence[CoreDims], about: str) -> tuple[dict[str, int], list[tuple[int, ...]]]:
    """The size of each core dimension, and each argument's other axes."""
    sizes: dict[str, int] = {}
    batches = []
    for x, dims in zip(xs, inputs, strict=True):
        n = len(dims)
        if x.ndim < n:
            raise ValueError(
                f"vectorize: input with shape {x.shape} does not have enough dimensions for the core dimensions {dims} {about}"
            )
        for name, size in zip(dims, x.shape[x.ndim - n :], strict=True):
            if name.isdigit():
                if int(name) != size:
                    raise ValueError(f"vectorize: core dimension {name!r} has size {size} {about}")
            elif sizes.setdefault(name, size) != size:
                raise ValueError(f"vectorize: inconsistent size for core dimension {name!r}: {sizes[name]} and {size} {about}")
        batches.append(x.shape[: x.ndim - n])
    return sizes, batches


def _check_results(out: Any, outputs: Sequence[CoreDims], sizes: dict[str, int], about: str) -> None:
    results = out if isinstance(out, tuple) else (out,)
    if len(outputs) > 1 and not isinstance(out, tuple):
        raise TypeError(f"vectorize: output must be a tuple, of {len(outputs)} results, got {out!r} {about}")
    if len(results) != len(outputs):
        raise TypeError(f"vectorize: wrong number of output arguments, expected {len(outputs)}, got {len(results)} {about}")
    for y, dims in zip(results, outputs, strict=True):
        shape = as_array("vectorize", y).shape
        if len(shape) != len(dims):
            raise ValueError(f"vectorize: output shape {shape} does not match the core dimensions {dims} {about}")
        for name, size in zip(dims, shape, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"vectorize: inconsistent size for core dimension {name!r}: {sizes[name]} and {size} {about}")


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Any:
    """`func1d` of each vector along an axis; the axes of its result take that axis's place."""
    x = as_array("apply_along_axis", arr)
    k = canonical_axis(axis, x.ndim)
    others = [d for d in range(x.ndim) if d != k]
    moved = lax.transpose(x, [*others, k])

    def one(v: Array) -> Any:
        return func1d(v, *args, **kwargs)

    function = one
    for _ in others:
        function = vmap(function)
    out = function(moved)

    def back(y: Array) -> Array:
        core = y.ndim - len(others)
        order = [*range(k), *range(len(others), len(others) + core), *range(k, len(others))]
        return lax.transpose(y, order)

    return tree_map(back, out)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A function of `nin` scalars with `nout` results as a `ufunc`."""
    return ufunc(func, nin, nout, identity=identity, call=vectorize(func, excluded=frozenset()))
