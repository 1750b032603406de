"""Derivatives checked against finite differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from steno.core import dtypes
from steno.core.aval import typeof
from steno.core.interpret import to_array, to_ndarray
from steno.derivatives import jvp, vjp
from steno.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten

EPS: Final = 1e-4
_TOLERANCES: Final = {
    dtypes.bfloat16: 1e-1, dtypes.float16: 1e-2, dtypes.float32: 2e-3, dtypes.float64: 1e-5, dtypes.complex64: 2e-3,
    dtypes.complex128: 1e-5,
}  # fmt: skip


def _wide(x: Any) -> np.ndarray:
    """A leaf in double precision."""
    value = np.asarray(to_ndarray(x))
    return value.astype(np.complex128 if dtypes.kind(typeof(x).dtype) == "c" else np.float64)


def _like(x: Any, value: np.ndarray) -> Any:
    aval = typeof(x)
    return to_array(np.asarray(value).astype(aval.dtype), aval)


def _directions(seed: Sequence[int], like: Any) -> Any:
    """Random normal numbers in the structure, shapes and dtypes of `like`; the same each time."""
    count = itertools.count()

    def one(x: Any) -> Any:
        rng = np.random.default_rng([*seed, next(count)])
        value = rng.standard_normal(np.shape(x))
        if dtypes.kind(typeof(x).dtype) == "c":
            value = value + 1j * rng.standard_normal(np.shape(x))
        return _like(x, value)

    return tree_map(one, like)


def _moved(args: tuple[Any, ...], tangents: tuple[Any, ...], step: float) -> tuple[Any, ...]:
    leaves, tree = tree_flatten(args)
    moved = [_like(x, _wide(x) + step * _wide(t)) for x, t in zip(leaves, tree_leaves(tangents), strict=True)]
    return tree_unflatten(tree, moved)


def _representable(args: tuple[Any, ...], tangents: tuple[Any, ...], eps: float) -> tuple[Any, ...]:
    """Tangents that differ from those given by what rounding makes of a step of `eps` along them, so that the step is exact. Those that
    rounding changes by more than a tenth stay."""

    def one(x: Any, t: Any) -> Any:
        if not dtypes.is_inexact(typeof(x).dtype):
            return t
        step = (_wide(_like(x, _wide(x) + eps * _wide(t))) - _wide(_like(x, _wide(x)))) / eps
        return _like(x, np.where(np.abs(step - _wide(t)) <= 0.1 * np.abs(_wide(t)), step, _wide(t)))

    leaves, tree = tree_flatten(args)
    return tree_unflatten(tree, map(one, leaves, tree_leaves(tangents)))


def numerical_jvp(f: Callable[..., Any], args: tuple[Any, ...], tangents: tuple[Any, ...], eps: float = EPS) -> list[np.ndarray]:
    """The central difference of `f` along the tangents, leaf by leaf."""
    above, below = tree_leaves(f(*_moved(args, tangents, eps))), tree_leaves(f(*_moved(args, tangents, -eps)))
    with np.errstate(invalid="ignore"):  # equal infinities do not differ
        return [np.where(_wide(p) == _wide(q), 0, _wide(p) - _wide(q)) / (2 * eps) for p, q in zip(above, below, strict=True)]


def _tolerance(given: Any, leaf: Any) -> float:
    """What was given: a number, or a mapping from dtypes; None and missing dtypes stand for the usual one."""
    d = typeof(leaf).dtype
    if isinstance(given, Mapping):
        given = {np.dtype(k): v for k, v in given.items()}.get(d)
    return _TOLERANCES.get(d, 2e-3) if given is None else given


def _check_close(got: Any, wanted: np.ndarray, like: Any, atol: float | None, rtol: float | None, message: str) -> None:
    np.testing.assert_allclose(got, wanted, atol=_tolerance(atol, like), rtol=_tolerance(rtol, like), err_msg=message)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float = EPS,
    err_msg: str = "",
) -> None:
    """AssertionError unless `f_jvp(args, tangents)` gives `f`'s value and, along a random direction, the derivative that finite differences
    give. Tolerances depend on the dtypes if they are not given."""
    args = tuple(args)
    tangents = _representable(args, _directions([len(args), 1], args), eps)
    out, out_tangent = f_jvp(args, tangents)
    expected = f(*args)
    about = f"{err_msg}: " if err_msg else ""
    for y, w in zip(tree_leaves(out), tree_leaves(expected), strict=True):
        _check_close(_wide(y), _wide(w), w, atol, rtol, f"{about}the primal output")
    for t, w, y in zip(tree_leaves(out_tangent), numerical_jvp(f, args, tangents, eps), tree_leaves(expected), strict=True):
        if dtypes.is_inexact(typeof(y).dtype):
            _check_close(_wide(t), w, y, atol, rtol, f"{about}the tangent")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float = EPS,
    err_msg: str = "",
) -> None:
    """AssertionError unless `f_vjp(*args)` gives `f`'s value, and a pullback that agrees with finite differences along random
    directions."""
    args = tuple(args)
    out, pullback = f_vjp(*args)
    expected = f(*args)
    about = f"{err_msg}: " if err_msg else ""
    for y, w in zip(tree_leaves(out), tree_leaves(expected), strict=True):
        _check_close(_wide(y), _wide(w), w, atol, rtol, f"{about}the primal output")
    tangents = _representable(args, _directions([len(args), 1], args), eps)
    differences = numerical_jvp(f, args, tangents, eps)
    cts = _directions([len(args), 2], expected)
    pulled = pullback(cts)
    # the pairing is real: derivatives of functions that are not holomorphic are linear over the reals alone
    inner = sum(np.sum(_wide(ct) * _wide(t)).real for ct, t in zip(tree_leaves(pulled), tree_leaves(tangents), strict=True))
    wanted = sum(np.sum(_wide(ct) * d).real for ct, d in zip(tree_leaves(cts), differences, strict=True))
    narrowest = max(tree_leaves((args, expected)), key=lambda x: _tolerance(None, x))
    _check_close(inner, np.asarray(wanted), narrowest, atol, rtol, f"{about}the cotangents along a direction")


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Checks derivatives of `f` up to an order against finite differences, in forward mode ("fwd"), reverse mode ("rev"), and their
    combinations. AssertionError naming the modes where they disagree; ValueError for other modes."""
    args = tuple(args)
    names = (modes,) if isinstance(modes, str) else tuple(modes)
    if unknown := set(names) - {"fwd", "rev"}:
        raise ValueError(f"check_grads: modes must be 'fwd' or 'rev', got {sorted(unknown)}")
    step = EPS if eps is None else eps

    def forward(g: Callable[..., Any]) -> Callable[..., Any]:
        return lambda primals, tangents: jvp(g, primals, tangents)

    def check(g: Callable[..., Any], xs: tuple[Any, ...], rest: int, path: str) -> None:
        if "fwd" in names:
            here = f"{path}jvp of order {order - rest + 1}"
            check_jvp(g, forward(g), xs, atol, rtol, step, here)
            if rest > 1:
                tangents = _directions([rest, 3], xs)
                check(lambda *ys: jvp(g, ys, tangents)[1], xs, rest - 1, f"{here}, ")
        if "rev" in names:
            here = f"{path}vjp of order {order - rest + 1}"
            check_vjp(g, lambda *ys: vjp(g, *ys), xs, atol, rtol, step, here)
            if rest > 1:
                cts = _directions([rest, 4], g(*xs))
                check(lambda *ys: vjp(g, *ys)[1](cts), xs, rest - 1, f"{here}, ")

    check(f, args, order, "")


__all__ = ["check_grads", "check_jvp", "check_vjp"]
