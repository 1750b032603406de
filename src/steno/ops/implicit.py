"""custom_linear_solve and custom_root: solutions of equations, computed by programs of the user's and differentiated through the equations.

Both take the constants of each of their programs, then a right-hand side or a first guess; results are the solution, then whatever else the
solver gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from steno.core.aval import ShapedArray
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr
from steno.core.op import Op
from steno.ops.arithmetic import neg
from steno.ops.control import check_types, evaluate, is_nonzero, made, split, union
from steno.transforms.batching import batch_jaxpr
from steno.transforms.forward import jvp_jaxpr
from steno.transforms.rules import Axis, Linear, Zero, add, instantiate, to_front, zero_of


class LinearSolve(NamedTuple):
    """The programs of `custom_linear_solve`: x --> A x, x --> A^T x, b --> solution of A x = b, b --> solution of A^T x = b; or one thing
    for each of them. The programs for A^T may be missing (None)."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> LinearSolve:
        return LinearSolve(self.vecmat, self.matvec, self.transpose_solve, self.solve)


class Root(NamedTuple):
    """The programs of `custom_root`: f; guess --> root of f; root, y --> solution t of f'(root) t = y. Or one thing for each of them."""

    f: Any
    solve: Any
    tangent_solve: Any


def _programs(params: dict[str, Any]) -> list[ClosedJaxpr]:
    return [j for j in params["jaxprs"] if j is not None]


def _solve(args: Sequence[Any], const_lengths: Any, jaxprs: Any) -> tuple[ClosedJaxpr, list[Any]]:
    """The program that is run, and its operands."""
    constants = split(args, *const_lengths)
    return jaxprs.solve, [*constants[jaxprs.index(jaxprs.solve)], *constants[-1]]


def _typ(*avals: ShapedArray, const_lengths: Any, jaxprs: Any) -> list[ShapedArray]:
    solve, operands = _solve(avals, const_lengths, jaxprs)
    check_types("operands of the program `solve`", operands, solve.in_avals)
    return solve.out_avals


def _oracle(*args: np.ndarray, const_lengths: Any, jaxprs: Any) -> list[np.ndarray]:
    solve, operands = _solve(args, const_lengths, jaxprs)
    return interpret(solve, operands)


def _expand(*args: Any, const_lengths: Any, jaxprs: Any) -> list[Any]:
    solve, operands = _solve(args, const_lengths, jaxprs)
    return evaluate(solve, operands)


def _change(program: ClosedJaxpr, constants: Sequence[Any], tangents: Sequence[Any], at: Sequence[Any]) -> list[Any]:
    """The tangents of the program's results at `at` when its constants vary."""
    nonzero = [*is_nonzero(tangents), *[False] * len(at)]
    both, out_nonzero = jvp_jaxpr(program, nonzero)
    out = evaluate(both, [*constants, *at, *made(tangents, nonzero[: len(tangents)])])
    moved = iter(out[len(out_nonzero) :])
    return [next(moved) if nz else zero_of(y) for nz, y in zip(out_nonzero, out, strict=False)]


# custom_linear_solve


def _linear_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, const_lengths: LinearSolve, jaxprs: LinearSolve
) -> tuple[list[Any], list[Any]]:
    """A dx = db - dA x. The solver's own constants are no part of the equation."""
    out = custom_linear_solve(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    constants, changes = split(primals, *const_lengths), split(tangents, *const_lengths)
    n = len(constants[-1])
    rhs = changes[-1]
    if any(is_nonzero(changes[0])):
        moved = _change(jaxprs.matvec, constants[0], changes[0], out[:n])
        rhs = [add(db, neg(da) if type(da) is not Zero else da) for db, da in zip(rhs, moved, strict=True)]
    if not any(is_nonzero(rhs)):
        return out, [zero_of(y) for y in out]
    unchanged = primals[: len(primals) - n]
    dx = custom_linear_solve(*unchanged, *map(instantiate, rhs), const_lengths=const_lengths, jaxprs=jaxprs)[:n]
    return out, [*dx, *(zero_of(y) for y in out[n:])]


def _linear_transpose(cts: Sequence[Any], *args: Any, const_lengths: LinearSolve, jaxprs: LinearSolve) -> list[Any]:
    if jaxprs.transpose_solve is None:
        raise TypeError(
            "transpose_solve required for backwards mode automatic differentiation of custom_linear_solve: give it the argument "
            "`transpose_solve`, or `symmetric=True` if the matrix is its own transpose"
        )
    constants = split(args, *const_lengths)
    b = constants.pop()
    if any(type(x) is Linear for c in constants for x in c):
        raise NotImplementedError("transpose of custom_linear_solve: it is linear in b alone")
    back = [x for c in LinearSolve(*constants).transposed() for x in c]
    n = len(b)
    out = custom_linear_solve(*back, *map(instantiate, cts[:n]), const_lengths=const_lengths.transposed(), jaxprs=jaxprs.transposed())
    return [*[None] * len(back), *(ct if type(x) is Linear else None for ct, x in zip(out[:n], b, strict=True))]


def _linear_batch(
    axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, const_lengths: LinearSolve, jaxprs: LinearSolve
) -> tuple[list[Any], list[int | None]]:
    batched = split([d is not None for d in dims], *const_lengths)
    xs = batched[-1]
    n = len(xs)
    while True:
        found = xs
        for j, c in zip(jaxprs, batched, strict=False):
            if j is not None:
                found = union(found, batch_jaxpr(j, axis, [*c, *found])[1][:n])
        if found == xs:
            break
        xs = found

    def each(j: ClosedJaxpr | None, c: list[bool]) -> Any:
        if j is None:
            return None
        return batch_jaxpr(j, axis, [*c, *xs], [*xs, *[False] * (len(j.jaxpr.outvars) - n)])

    parts = [each(j, c) for j, c in zip(jaxprs, batched, strict=False)]
    wanted = [*(d is not None for d in dims[: len(dims) - n]), *xs]
    moved = [to_front(x, d, axis.size) if w else x for x, d, w in zip(args, dims, wanted, strict=True)]
    programs = LinearSolve(*(p if p is None else p[0] for p in parts))
    out = custom_linear_solve(*moved, const_lengths=const_lengths, jaxprs=programs)
    return out, [0 if b else None for b in parts[2][1]]


custom_linear_solve = Op(
    "custom_linear_solve",
    typ=_typ,
    oracle=_oracle,
    expand=_expand,
    multiple_results=True,
    jvp=_linear_jvp,
    transpose=_linear_transpose,
    batch=_linear_batch,
    effects=lambda *avals, jaxprs, **_: jaxprs.solve.effects,
    subprograms=_programs,
)
"""const_lengths, jaxprs: `LinearSolve`s."""


# custom_root


def _root_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, const_lengths: Root, jaxprs: Root) -> tuple[list[Any], list[Any]]:
    """f(root) = 0 all along: f' dx = - df. The solver's own constants, and the guess, are no part of the equation."""
    out = custom_root(*primals, const_lengths=const_lengths, jaxprs=jaxprs)
    constants, changes = split(primals, *const_lengths), split(tangents, *const_lengths)
    root = out[: len(constants[-1])]
    rhs = _change(jaxprs.f, constants[0], changes[0], root) if any(is_nonzero(changes[0])) else [zero_of(x) for x in root]
    if not any(is_nonzero(rhs)):
        return out, [zero_of(y) for y in out]
    dx = evaluate(jaxprs.tangent_solve, [*constants[2], *root, *(neg(r) if type(r) is not Zero else instantiate(r) for r in rhs)])
    return out, [*dx, *(zero_of(y) for y in out[len(root) :])]


def _root_batch(
    axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, const_lengths: Root, jaxprs: Root
) -> tuple[list[Any], list[int | None]]:
    f, solve, tangent_solve, xs = split([d is not None for d in dims], *const_lengths)
    n = len(xs)
    while True:
        found = union(xs, batch_jaxpr(jaxprs.solve, axis, [*solve, *xs])[1][:n], batch_jaxpr(jaxprs.f, axis, [*f, *xs])[1])
        found = union(found, batch_jaxpr(jaxprs.tangent_solve, axis, [*tangent_solve, *found, *found])[1])
        if found == xs:
            break
        xs = found
    solver, out_batched = batch_jaxpr(jaxprs.solve, axis, [*solve, *xs], [*xs, *[False] * (len(jaxprs.solve.jaxpr.outvars) - n)])
    programs = Root(
        batch_jaxpr(jaxprs.f, axis, [*f, *xs], xs)[0], solver, batch_jaxpr(jaxprs.tangent_solve, axis, [*tangent_solve, *xs, *xs], xs)[0]
    )
    wanted = [*f, *solve, *tangent_solve, *xs]
    moved = [to_front(x, d, axis.size) if w else x for x, d, w in zip(args, dims, wanted, strict=True)]
    out = custom_root(*moved, const_lengths=const_lengths, jaxprs=programs)
    return out, [0 if b else None for b in out_batched]


custom_root = Op(
    "custom_root",
    typ=_typ,
    oracle=_oracle,
    expand=_expand,
    multiple_results=True,
    jvp=_root_jvp,
    batch=_root_batch,
    effects=lambda *avals, jaxprs, **_: jaxprs.solve.effects,
    subprograms=_programs,
)
"""const_lengths, jaxprs: `Root`s."""
