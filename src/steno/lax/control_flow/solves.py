"""custom_linear_solve and custom_root: solvers of the user's, with derivatives that do not go through their iterations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from steno.core.aval import ShapedArray
from steno.core.boundary import boundary
from steno.core.pytree import treedef_tuple
from steno.derivatives import linearize
from steno.lax.control_flow.bodies import Body, body_of, operands_of
from steno.ops.control import evaluate
from steno.ops.implicit import LinearSolve, Root, custom_linear_solve as linear_solve_p, custom_root as root_p
from steno.transforms.backward import transpose_jaxpr
from steno.transforms.discharge import has_ref
from steno.tree_util import PyTreeDef, tree_flatten, tree_unflatten


@boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The x with `matvec(x) == b` that `solve(matvec, b)` finds, for a linear function matvec. Derivatives come from the equation: by
    `solve` again in forward mode, by `transpose_solve` in reverse mode.

    transpose_solve    `transpose_solve(vecmat, b)` solves the transposed equation
    symmetric          matvec is its own transpose: `solve` serves for both, unless `transpose_solve` is given
    has_aux            solvers return a pair: the solution, and something that has no derivative

    ValueError if results have other shapes than b, TypeError if they have another structure."""
    rhs, tree = _values("custom_linear_solve", "b", b)
    avals = [x.aval for x in rhs]
    args_tree = treedef_tuple([tree])
    forward = body_of(matvec, args_tree, avals, "custom_linear_solve")
    _check_linear("matvec", forward.out_tree, tree, forward.out_avals, avals)
    solver, aux_tree = _solver("solve", solve, matvec, tree, avals, has_aux)
    backward, back_solver = None, None
    if symmetric:
        backward, vecmat, transpose_solve = forward, matvec, transpose_solve or solve
    elif transpose_solve is not None:
        n = len(forward.consts)
        program, _ = transpose_jaxpr(forward.closed, [False] * n + [True] * len(avals), [True] * len(avals), True)
        backward = Body(program, forward.consts, tree)

        def vecmat(x: Any) -> Any:
            return tree_unflatten(tree, evaluate(program, [*forward.consts, *tree_flatten(x)[0]]))

    if transpose_solve is solve and symmetric:
        back_solver = solver
    elif transpose_solve is not None:
        back_solver, _ = _solver("transpose_solve", transpose_solve, vecmat, tree, avals, has_aux)
    bodies = (forward, backward, solver, back_solver)
    consts = [c for body in bodies if body is not None for c in body.consts]
    out = linear_solve_p(
        *consts,
        *rhs,
        const_lengths=LinearSolve(*(0 if body is None else len(body.consts) for body in bodies)),
        jaxprs=LinearSolve(*(None if body is None else body.closed for body in bodies)),
    )
    return _with_aux(out, tree, aux_tree)


def _values(name: str, what: str, tree: Any) -> tuple[list[Any], PyTreeDef]:
    """The leaves of an argument, which are arrays. TypeError for references."""
    leaves, structure = operands_of(name, tree)
    if has_ref(leaves):
        raise TypeError(f"{name}: {what} must hold arrays, got a reference to a mutable array: read it with `ref[...]` first")
    return leaves, structure


def _solver(
    name: str, fun: Callable[..., Any], first: Callable[..., Any], tree: PyTreeDef, avals: Sequence[ShapedArray], has_aux: bool
) -> tuple[Body, PyTreeDef | None]:
    """`fun(first, b)` as a program, and the structure of what it gives besides."""
    body = body_of(functools.partial(fun, first), treedef_tuple([tree]), avals, "custom_linear_solve")
    got, aux_tree = _solution(name, body, has_aux)
    _check_linear(name, got, tree, body.out_avals[: got.num_leaves], avals)
    return body, aux_tree


def _solution(name: str, body: Body, has_aux: bool) -> tuple[PyTreeDef, PyTreeDef | None]:
    """The structures of the solution and of what comes with it. ValueError unless the two are a pair."""
    if not has_aux:
        return body.out_tree, None
    pair = body.out_tree.children()
    if len(pair) != 2 or body.out_tree.node_data()[0] is not tuple:
        raise ValueError(
            f"{name}() produced a pytree with structure {body.out_tree}, but a pytree tuple with auxiliary output was expected because "
            "has_aux was set to True."
        )
    return pair[0], pair[1]


def _check_linear(name: str, got: PyTreeDef, wanted: PyTreeDef, avals: Sequence[ShapedArray], b: Sequence[ShapedArray]) -> None:
    if [a.shape for a in avals] != [a.shape for a in b]:
        raise ValueError(f"{name}() output shapes must match b, got {[a.shape for a in avals]} and {[a.shape for a in b]}")
    if got != wanted:
        raise TypeError(f"{name}() output pytree structure must match b, got {got} and {wanted}.")


def _with_aux(out: Sequence[Any], tree: PyTreeDef, aux_tree: PyTreeDef | None) -> Any:
    x = tree_unflatten(tree, out[: tree.num_leaves])
    return x if aux_tree is None else (x, tree_unflatten(aux_tree, out[tree.num_leaves :]))


@boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """The x with `f(x) == 0` that `solve(f, initial_guess)` finds. Derivatives by what f closes over come from the equation: they do not go
    through the solver.

    tangent_solve    `tangent_solve(g, y)`, where g is linear, gives the x with `g(x) == y`; for reverse mode it must be linear in y (for an
                     iteration use `custom_linear_solve`)
    has_aux          `solve` returns a pair: the root, and something that has no derivative

    TypeError if results have another structure than the guess."""
    guess, tree = _values("custom_root", "initial_guess", initial_guess)
    avals = [x.aval for x in guess]
    args_tree = treedef_tuple([tree])
    function = body_of(f, args_tree, avals, "custom_root")
    _check_root("f", function.out_tree, tree, "initial_guess")
    solver = body_of(functools.partial(solve, f), args_tree, avals, "custom_root")
    got, aux_tree = _solution("solve", solver, has_aux)
    _check_root("solve", got, tree, "initial_guess")

    def at_root(x: Any, y: Any) -> Any:
        _, g = linearize(f, x)
        return tangent_solve(g, y)

    tangent = body_of(at_root, treedef_tuple([tree, tree]), [*avals, *avals], "custom_root")
    _check_root("tangent_solve", tangent.out_tree, tree, "x")
    bodies = (function, solver, tangent)
    out = root_p(
        *(c for body in bodies for c in body.consts),
        *guess,
        const_lengths=Root(*(len(body.consts) for body in bodies)),
        jaxprs=Root(*(body.closed for body in bodies)),
    )
    return _with_aux(out, tree, aux_tree)


def _check_root(name: str, got: PyTreeDef, wanted: PyTreeDef, what: str) -> None:
    if got != wanted:
        raise TypeError(f"{name}() output pytree structure must match {what}, got {got} and {wanted}.")
