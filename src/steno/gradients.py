"""grad and its relatives: derivatives by chosen arguments, as values.

The conventions of tangents and cotangents are those of `derivatives`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from steno._native import ArrayImpl
from steno.api import jit
from steno.core import dtypes, source
from steno.core.aval import typed_scalar
from steno.core.boundary import boundary
from steno.core.names import JVP, VMAP, named
from steno.core.op import OPS
from steno.core.refs import is_ref
from steno.core.trace import Tracer
from steno.derivatives import Flat, check_callable, check_leaves, vjp, vjp_of_leaves
from steno.transforms.batching import batch_flat
from steno.transforms.forward import jvp_flat
from steno.transforms.rules import (
    Axis,
    as_array,
    full,
    is_differentiable,
    materialize,
    move_axis,
    reshape,
    to_front,
)
from steno.tree_util import PyTreeDef, tree_flatten, tree_unflatten

# Chosen arguments


def _argnums(argnums: Any) -> int | tuple[int, ...]:
    """An int, or a tuple of ints. TypeError if it is neither."""
    if isinstance(argnums, str):
        raise TypeError(f"argnums must be an int or a sequence of ints, got {argnums!r}: 'str' object cannot be interpreted as an integer")
    try:
        return operator.index(argnums)
    except TypeError:
        return tuple(map(operator.index, argnums))


def _choose(
    fun: Callable[..., Any], argnums: int | tuple[int, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`fun` as a function of the chosen positional arguments alone, and those. ValueError for positions there are not."""
    wanted = (argnums,) if isinstance(argnums, int) else argnums
    for k in wanted:
        if not -len(args) <= k < len(args):
            raise ValueError(
                "Positional argument indices, e.g. for `static_argnums`, must have value greater than or equal to -len(args) and less than "
                f"len(args), but got value {k} for len(args) == {len(args)}."
            )
    positions = [k % len(args) for k in wanted]
    if len(set(positions)) != len(positions):
        raise ValueError(f"argnums must not name an argument twice, got {argnums}")

    @source.wraps(fun)
    def chosen(*some: Any) -> Any:
        full_args = list(args)
        for k, x in zip(positions, some, strict=True):
            full_args[k] = x
        return fun(*full_args, **kwargs)

    return chosen, tuple(args[k] for k in positions)


def _check_enough(argnums: int | tuple[int, ...], args: tuple[Any, ...]) -> None:
    most = argnums if isinstance(argnums, int) else max(argnums)
    if most >= len(args):
        raise TypeError(
            f"differentiating with respect to argnums={argnums} requires at least {most + 1} positional arguments to be passed by the "
            f"caller, but got only {len(args)} positional arguments."
        )


# What may be differentiated


def _check_reverse_input(name: str, holomorphic: bool, allow_int: bool, x: Any) -> None:
    if is_ref(x):
        raise TypeError(
            f"{name} cannot differentiate with respect to a Ref, a reference to a mutable array (type {x.aval}): its gradient is "
            "accumulated in another reference, which the `with_refs` method of what steno.vjp returns takes. References among other "
            "arguments are fine"
        )
    d = x.dtype
    k = dtypes.kind(d)
    if k == "k":
        raise TypeError(f"{name} with input dtype {dtypes.name(d)} is not supported: keys have no derivatives")
    if holomorphic:
        if k != "c":
            raise TypeError(f"{name} with holomorphic=True requires inputs with complex dtype, but got {dtypes.name(d)}.")
    elif k in "biu" and not allow_int:
        raise TypeError(
            f"{name} requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got {dtypes.name(d)}. "
            "If you want to use Boolean- or integer-valued inputs, use vjp or set allow_int to True."
        )


def _check_reverse_output(name: str, holomorphic: bool, y: Any) -> None:
    d = y.dtype
    k = dtypes.kind(d)
    if holomorphic:
        if k != "c":
            raise TypeError(f"{name} with holomorphic=True requires outputs with complex dtype, but got {dtypes.name(d)}.")
    elif k == "c":
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {dtypes.name(d)}. "
            "For holomorphic differentiation, pass holomorphic=True. For differentiation of non-holomorphic functions involving complex "
            "outputs, use jax.vjp directly."
        )
    elif k != "f":
        raise TypeError(
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {dtypes.name(d)}. "
            "For differentiation of functions with integer outputs, use jax.vjp directly."
        )


def _check_forward_input(holomorphic: bool, x: Any) -> None:
    d = x.dtype
    k = dtypes.kind(d)
    if holomorphic:
        if k != "c":
            raise TypeError(f"jacfwd with holomorphic=True requires inputs with complex dtype, but got {dtypes.name(d)}.")
    elif k != "f":
        raise TypeError(
            f"jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got {dtypes.name(d)}. "
            "For holomorphic differentiation, pass holomorphic=True. For differentiation of non-holomorphic functions involving complex "
            "inputs or integer inputs, use jax.jvp directly."
        )


def _check_scalar(y: Any) -> None:
    about = "Gradient only defined for scalar-output functions. Output "
    if not isinstance(y, ArrayImpl | Tracer):
        raise TypeError(f"{about}was {y}.")
    if y.shape != ():
        one = "" if y.size != 1 else " take its one element with output.reshape(())" + (" or output[0]," if y.ndim == 1 else ",")
        raise TypeError(
            f"{about}had shape: {y.shape}. To get the gradient,{one} reduce the output to a scalar with output.sum(), or use jax.jacobian "
            "to differentiate a function with a non-scalar output."
        )


# grad


def value_and_grad(
    fun: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Any = (),
) -> Callable[..., tuple[Any, Any]]:
    """A function that gives `fun`'s value, a real scalar, and its gradient by the positional arguments `argnums`: of one argument's
    structure for an int, a tuple for a sequence.

    has_aux       `fun` returns (value, more), and the result is ((value, more), gradient)
    holomorphic   `fun` maps complex numbers to complex numbers, and has a complex derivative
    allow_int     integer and bool arguments are allowed, and get gradients of dtype float0

    TypeError for arguments or results that cannot be differentiated.

    >>> steno.value_and_grad(lambda x: x**2)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if reduce_axes:
        raise NotImplementedError("reduce_axes argument to grad is deprecated")
    argnums = _argnums(argnums)
    both = _ValueAndGrad(fun, argnums, has_aux, holomorphic, allow_int, "value_and_grad")

    @source.wraps(fun)
    @boundary
    def value_and_gradient(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return both(*args, **kwargs)

    return value_and_gradient


@final
class _ValueAndGrad:
    __slots__ = ("allow_int", "argnums", "fun", "has_aux", "holomorphic", "name")

    def __init__(
        self, fun: Callable[..., Any], argnums: int | tuple[int, ...], has_aux: bool, holomorphic: bool, allow_int: bool, name: str
    ) -> None:
        self.fun, self.argnums, self.has_aux = fun, argnums, has_aux
        self.holomorphic, self.allow_int, self.name = holomorphic, allow_int, name

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        _check_enough(self.argnums, args)
        chosen, primals = _choose(self.fun, self.argnums, args, kwargs)
        xs, tree = tree_flatten(primals)
        xs = check_leaves(xs)
        for x in xs:
            _check_reverse_input(self.name, self.holomorphic, self.allow_int, x)
        value, pullback, aux, aux_tree = vjp_of_leaves(chosen, xs, tree, self.has_aux, [is_differentiable(x.aval) for x in xs])
        _check_scalar(value)
        _check_reverse_output(self.name, self.holomorphic, value)
        gradient = pullback(full((), 1, value.dtype, value.weak_type))
        if isinstance(self.argnums, int):
            (gradient,) = gradient
        return ((value, tree_unflatten(aux_tree, aux)) if self.has_aux else value), gradient


def grad(
    fun: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Any = (),
) -> Callable[..., Any]:
    """A function that gives the gradient of `fun`, with `has_aux` the pair (gradient, more). See `value_and_grad`.

    >>> steno.grad(lambda x: x**3)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    check_callable(fun)
    if reduce_axes:
        raise NotImplementedError("reduce_axes argument to grad is deprecated")
    both = _ValueAndGrad(fun, _argnums(argnums), has_aux, holomorphic, allow_int, "grad")

    @source.wraps(fun)
    @boundary
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return gradient


# Jacobians


def _basis(xs: Sequence[Any]) -> list[Any]:
    """For each leaf the tangents along every element of every leaf: the unit vectors of all leaves together, in front."""
    total, begin = sum(x.size for x in xs), 0
    out = []
    for x in xs:
        shape = (total, x.size)
        row = OPS["iota"](dtype=dtypes.int32, shape=shape, dimension=0, sharding=None)
        column = OPS["iota"](dtype=dtypes.int32, shape=shape, dimension=1, sharding=None)
        if begin:
            column = OPS["add"](column, typed_scalar(begin, dtypes.int32))
        unit = OPS["convert_element_type"](OPS["eq"](row, column), new_dtype=x.dtype, weak_type=x.weak_type, sharding=None)
        out.append(reshape(unit, (total, *x.shape)))
        begin += x.size
    return out


def _split_axis(x: Any, dim: int, like: Sequence[Any]) -> list[Any]:
    """An array whose axis `dim` runs over all elements of the leaves `like` --> one for each leaf, with the leaf's axes in its place."""
    pieces = [x] if len(like) == 1 else OPS["split"](x, sizes=tuple(leaf.size for leaf in like), axis=dim)
    out = []
    for leaf, piece in zip(like, pieces, strict=True):
        out.append(reshape(piece, (*x.shape[:dim], *leaf.shape, *x.shape[dim + 1 :])))
    return out


def _jacobian_tree(outer: PyTreeDef, inner: PyTreeDef, entries: Sequence[Sequence[Any]]) -> Any:
    """Results by arguments: a tree of the results' structure whose leaves are trees of the arguments'."""
    return tree_unflatten(outer, [tree_unflatten(inner, map(as_array, row)) for row in entries])


def jacfwd(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """The Jacobian of `fun` by the positional arguments `argnums`, column by column in forward mode: best where there are more results
    than arguments. For a result of shape s and an argument of shape t an array of shape s + t, in the structure of results, then
    arguments.

    >>> steno.jacfwd(lambda x: x**2)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable(fun)
    argnums = _argnums(argnums)

    @source.wraps(fun)
    @boundary
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        chosen, primals = _choose(fun, argnums, args, kwargs)
        xs, tree = tree_flatten(primals)
        xs = check_leaves(xs)
        for x in xs:
            _check_forward_input(holomorphic, x)
        basis = _basis(xs)
        axis = Axis(None, sum(x.size for x in xs))
        flat = Flat(chosen, tree, has_aux)
        aux: list[Any] = []

        def push(*tangents: Any) -> list[Any]:
            nonlocal aux
            with named(JVP):
                outs, out_tangents, aux = jvp_flat(flat, xs, tangents)
            return [*outs, *map(materialize, out_tangents)]

        with named(VMAP):
            values, dims = batch_flat(push, axis, basis, [0] * len(basis))
        n = flat.out_tree.num_leaves
        outs, columns, dims = values[:n], values[n:], dims[n:]
        if holomorphic:
            for y in outs:
                if dtypes.kind(y.dtype) != "c":
                    raise TypeError(f"jacfwd with holomorphic=True requires outputs with complex dtype, but got {dtypes.name(y.dtype)}.")
        entries = []
        for c, d in zip(columns, dims, strict=True):
            c = move_axis(to_front(c, d, axis.size), 0, c.ndim - (d is not None))
            entries.append(_split_axis(c, c.ndim - 1, xs))
        inner = tree if not isinstance(argnums, int) else tree.children()[0]
        out = _jacobian_tree(flat.out_tree, inner, entries)
        return (out, tree_unflatten(flat.aux_tree, aux)) if has_aux else out

    return jacobian_function


def jacrev(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Callable[..., Any]:
    """The Jacobian of `fun` by the positional arguments `argnums`, row by row in reverse mode: best where there are more arguments than
    results. The structure is that of `jacfwd`.

    >>> steno.jacrev(lambda x: x.sum() * x)(jnp.array([1.0, 2.0]))
    Array([[4., 1.],
           [2., 5.]], dtype=float32)
    """
    check_callable(fun)
    argnums = _argnums(argnums)

    @source.wraps(fun)
    @boundary
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        chosen, primals = _choose(fun, argnums, args, kwargs)
        xs, tree = tree_flatten(primals)
        xs = check_leaves(xs)
        for x in xs:
            _check_reverse_input("jacrev", holomorphic, allow_int, x)
        value, pullback, aux, aux_tree = vjp_of_leaves(chosen, xs, tree, has_aux, [is_differentiable(x.aval) for x in xs])
        ys, out_tree = tree_flatten(value)
        for y in ys:
            _check_reverse_output("jacrev", holomorphic, y)
        basis = _basis(ys)
        axis = Axis(None, sum(y.size for y in ys))
        pull, residuals = pullback.func, pullback.args[0]
        constant: dict[int, Any] = {}

        def rows_of(*cts: Any) -> list[Any]:
            out = pull.pull(residuals, cts)
            constant.update((k, ct) for k, ct in enumerate(out) if isinstance(ct, np.ndarray))
            return [ct for k, ct in enumerate(out) if k not in constant]

        with named(VMAP):
            rows, dims = batch_flat(rows_of, axis, basis, [0] * len(basis))
        pairs: Iterator[tuple[Any, int | None]] = zip(rows, dims, strict=True)
        columns = []  # for each argument, the blocks of all results
        for k, x in enumerate(xs):
            if k in constant:
                columns.append([np.zeros((*y.shape, *x.shape), dtypes.float0) for y in ys])
            else:
                r, d = next(pairs)
                columns.append(_split_axis(to_front(r, d, axis.size), 0, ys))
        inner = tree if not isinstance(argnums, int) else tree.children()[0]
        entries = [[column[k] for column in columns] for k in range(len(ys))]
        out = tree_unflatten(out_tree, [tree_unflatten(inner, row) for row in entries])
        return (out, tree_unflatten(aux_tree, aux)) if has_aux else out

    return jacobian_function


def jacobian(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Callable[..., Any]:
    """`jacrev`."""
    return jacrev(fun, argnums=argnums, has_aux=has_aux, holomorphic=holomorphic, allow_int=allow_int)


def hessian(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable[..., Any]:
    """The second derivatives of `fun`: `jacfwd(jacrev(fun))`.

    >>> steno.hessian(lambda x: (x**3).sum())(jnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: Any, has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two functions, compiled unless `jitted` is False: `fwd(*args)` gives (result, residuals), with `has_aux` (result, residuals, more);
    `bwd(residuals, cotangent)` gives the cotangents of the arguments `argnums`: of one for an int, a tuple for a sequence."""
    check_callable(fun)
    argnums = _argnums(argnums)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        _check_enough(argnums, args)
        chosen, primals = _choose(fun, argnums, args, kwargs)
        return vjp(chosen, *primals, has_aux=has_aux)

    def bwd(residuals: Callable[..., Any], ct: Any) -> Any:
        cts = residuals(ct)
        return cts[0] if isinstance(argnums, int) else cts

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
