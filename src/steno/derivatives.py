"""jvp, linearize, vjp and linear_transpose: derivatives of functions of pytrees, as maps.

A tangent or cotangent has its value's shape and dtype; for values that are neither floating nor complex numbers it has dtype float0. For a
complex number z = x + iy a real function's `grad` is df/dx - i df/dy, JAX's convention: cotangents are transposed, not conjugated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ArrayImpl, ShapedArray
from steno.ad import DidntWant, DontWant, GradRef, GradValue
from steno.core import dtypes, source
from steno.core.aval import is_value, typeof
from steno.core.boundary import boundary
from steno.core.jaxpr import ClosedJaxpr, DebugInfo, eval_jaxpr
from steno.core.names import JVP, TRANSPOSE, named
from steno.core.op import OPS
from steno.core.pytree import broadcast_prefix, equality_errors, keystr, treedef_tuple
from steno.core.refs import AbstractRef, is_ref, is_ref_type
from steno.saveable import NotSaveable, check_restored, kept_arguments, restored, saveable_flags, verbatim
from steno.tracing import argument_names, check_references
from steno.transforms.backward import backward
from steno.transforms.discharge import Discharged, discharged
from steno.transforms.forward import jvp_flat
from steno.transforms.linearize import linearize_flat
from steno.transforms.logs import with_logs
from steno.transforms.partial import partial_eval_flat
from steno.transforms.rules import (
    Linear,
    Zero,
    as_array,
    as_value,
    full,
    is_differentiable,
    materialize,
    tangent_aval,
)
from steno.tree_util import Partial, PyTreeDef, register_pytree_node, tree_flatten, tree_map, tree_structure, tree_unflatten

# Functions of flat values


def check_callable(fun: Any) -> None:
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")


def check_leaves(leaves: Sequence[Any]) -> list[Any]:
    """The leaves as arrays. TypeError for one that is none."""
    out = []
    for x in leaves:
        try:
            out.append(as_array(x))
        except TypeError:
            raise TypeError(f"Argument '{x}' of type {type(x)} is not a valid JAX type.") from None
    return out


def check_distinct(name: str, fun: Any, leaves: Sequence[Any], tree: PyTreeDef) -> None:
    """ValueError if the same reference to a mutable array is among the arguments twice."""
    check_references(fun, leaves, lambda: argument_names(fun, treedef_tuple([tree, tree_structure({})])), name)


@final
class Flat:
    """A function of the leaves of its positional arguments (structure `in_tree`) that returns its result's leaves, and those of what it
    gives besides; when it has run, `out_tree` and `aux_tree` are the structures."""

    __slots__ = ("aux_tree", "fun", "has_aux", "in_tree", "kwargs", "out_tree")

    out_tree: PyTreeDef
    aux_tree: PyTreeDef

    def __init__(self, fun: Callable[..., Any], in_tree: PyTreeDef, has_aux: bool, kwargs: dict[str, Any] | None = None) -> None:
        self.fun, self.in_tree, self.has_aux, self.kwargs = fun, in_tree, has_aux, kwargs or {}

    def __call__(self, *leaves: Any) -> tuple[list[Any], list[Any]]:
        out = self.fun(*tree_unflatten(self.in_tree, leaves), **self.kwargs)
        aux: Any = ()
        if self.has_aux:
            if not isinstance(out, tuple | list) or len(out) != 2:
                raise TypeError(
                    f"expected function with aux output to return a two-element tuple, but got type {type(out)} with value {out}"
                )
            out, aux = out
        outs, self.out_tree = tree_flatten(out)
        aux_leaves, self.aux_tree = tree_flatten(aux)
        return check_leaves(outs), aux_leaves

    def only_results(self, *leaves: Any) -> list[Any]:
        return self(*leaves)[0]

    def debug_info(self, traced_for: str) -> DebugInfo:
        return DebugInfo(traced_for, source.function_info(self.fun))


# jvp


@boundary
def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """`fun(*primals)` and its derivative along `tangents`: (result, tangent of the result), with `has_aux`, where `fun` returns a pair,
    followed by the second half of that.

    TypeError if the structures or dtypes of primals and tangents differ, ValueError if shapes do.

    >>> steno.jvp(jnp.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must be tuples or lists; "
            f"found {type(primals).__name__} and {type(tangents).__name__}."
        )
    xs, tree = tree_flatten(tuple(primals))
    ts, tangent_tree = tree_flatten(tuple(tangents))
    if tree != tangent_tree or isinstance(primals, tuple) is not isinstance(tangents, tuple):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree structure; primals have tree structure "
            f"{tree_structure(primals)} whereas tangents have tree structure {tree_structure(tangents)}."
        )
    xs = check_leaves(xs)
    check_distinct("jvp", fun, xs, tree)
    flat = Flat(fun, tree, has_aux)
    with named(JVP):
        outs, out_tangents, aux = jvp_flat(flat, xs, [_given_tangent(t, x) for t, x in zip(ts, xs, strict=True)])
    result = tree_unflatten(flat.out_tree, map(as_array, outs))
    tangent = tree_unflatten(flat.out_tree, map(materialize, out_tangents))
    return (result, tangent, tree_unflatten(flat.aux_tree, aux)) if has_aux else (result, tangent)


def _given_tangent(t: Any, x: Any) -> Any:
    """A user's tangent of `x` as a rule wants it. TypeError or ValueError if it does not fit."""
    wanted = tangent_aval(x.aval)
    dtype = t.dtype if isinstance(t, np.ndarray) and t.dtype == dtypes.float0 else typeof(t).dtype
    if dtype != wanted.dtype:
        raise TypeError(
            "primal and tangent arguments to jax.jvp do not match; dtypes must be equal, or in case of int/bool primal dtype the tangent "
            f"dtype must be float0. Got primal dtype {x.dtype} and so expected tangent dtype {wanted.dtype}, but got tangent dtype {dtype} "
            "instead."
        )
    if np.shape(t) != wanted.shape:
        raise ValueError(
            f"jvp called with different primal and tangent shapes; Got primal shape {wanted.shape} and tangent shape as {np.shape(t)}"
        )
    return Zero(wanted) if dtype == dtypes.float0 else as_array(t)


# linearize


@boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, in_nzs: Any = None) -> tuple[Any, ...]:
    """`fun(*primals)`, and the function from tangents of the primals to the result's tangent (a pytree: it may go through `jit`).

    `in_nzs`: a prefix of `primals` of bools: the tangents of arguments under False are taken for zero. With `has_aux`, where `fun`
    returns a pair, also the second half of that."""
    check_callable(fun)
    xs, tree = tree_flatten(primals)
    xs = check_leaves(xs)
    check_distinct("linearize", fun, xs, tree)
    flat = Flat(fun, tree, has_aux)
    varying = _varying(xs, in_nzs, primals)
    with named(JVP):
        outs, out_nonzero, program, aux = linearize_flat(flat, xs, varying, flat.debug_info("linearize"), (JVP,))
    avals = [x.aval for x in xs]
    linear = Pushforward(program, tree, flat.out_tree, avals, [typeof(y) for y in outs], varying, out_nonzero)
    result = tree_unflatten(flat.out_tree, map(as_array, outs)), Partial(linear, program.consts)
    return (*result, tree_unflatten(flat.aux_tree, aux)) if has_aux else result


def _varying(xs: Sequence[Any], in_nzs: Any, primals: tuple[Any, ...]) -> list[bool]:
    wanted = [True] * len(xs) if in_nzs is None else broadcast_prefix(tuple(in_nzs), primals)
    return [bool(w) and is_differentiable(x.aval) for x, w in zip(xs, wanted, strict=True)]


class _Derivative:
    """The linear program of a function at a point, with the types of the function's arguments and results."""

    __slots__ = ("in_avals", "in_nonzero", "in_tree", "out_avals", "out_nonzero", "out_tree", "program")

    def __init__(
        self,
        program: ClosedJaxpr,
        in_tree: PyTreeDef,
        out_tree: PyTreeDef,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        in_nonzero: Sequence[bool],
        out_nonzero: Sequence[bool],
    ) -> None:
        self.program = program.jaxpr
        self.in_tree, self.out_tree, self.in_avals, self.out_avals = in_tree, out_tree, in_avals, out_avals
        self.in_nonzero, self.out_nonzero = in_nonzero, out_nonzero


@final
class Pushforward(_Derivative):
    """The derivative of a function at a point: residuals and tangents of the arguments --> the result's tangent."""

    __slots__ = ()

    @property
    def args(self) -> tuple[Any, ...]:
        """What a `Partial` of it would have: the program of tangents."""
        return (self.program,)

    def __call__(self, residuals: Sequence[Any], *tangents: Any) -> Any:
        ts, tree = tree_flatten(tangents)
        if tree != self.in_tree:
            raise TypeError(f"expected {self.in_tree}, got {tree}")
        for t, a in zip(ts, self.in_avals, strict=True):
            wanted, got = tangent_aval(a), typeof(t)
            if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
                raise ValueError(
                    "linearized function called on tangent values inconsistent with the original primal values:\n"
                    f"Got tangent aval {got} for primal aval {a} but expected {wanted}."
                )
        given = [as_value(t) for t, nz in zip(ts, self.in_nonzero, strict=True) if nz]
        outs = iter(eval_jaxpr(self.program, residuals, *given))
        out = [next(outs) if nz else Zero(tangent_aval(a)) for a, nz in zip(self.out_avals, self.out_nonzero, strict=True)]
        return tree_unflatten(self.out_tree, map(materialize, out))

    def __repr__(self) -> str:
        return f"Pushforward({self.program.debug_info.func_src_info})"


# vjp


@boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = (), saveable_args: Any = True, in_nzs: Any = None
) -> tuple[Any, ...]:
    """`fun(*primals)`, and the function from a cotangent of the result to the tuple of cotangents of the primals (a pytree: it may go
    through `jit`). It keeps what the backward pass reads, and nothing else.

    `in_nzs`: a prefix of `primals` of bools: arguments under False get zeros. `saveable_args`: a tree of bools likewise: arguments under
    False are not kept for the backward pass, but are to be put into the list `args_res` of the returned function before it is called. With
    `has_aux`, where `fun` returns a pair, also the second half of that.

    >>> y, back = steno.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> back(1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if reduce_axes:
        raise NotImplementedError("reduce_axes argument to vjp is deprecated")
    xs, tree = tree_flatten(primals)
    xs = check_leaves(xs)
    check_distinct("vjp", fun, xs, tree)
    result, pullback, aux, aux_tree = vjp_of_leaves(fun, xs, tree, has_aux, _varying(xs, in_nzs, primals))
    if saveable_args is not True:
        pullback = pullback.without(saveable_flags(saveable_args, tree))
    return (result, pullback, tree_unflatten(aux_tree, aux)) if has_aux else (result, pullback)


def vjp_of_leaves(
    fun: Callable[..., Any], xs: Sequence[Any], tree: PyTreeDef, has_aux: bool, varying: Sequence[bool]
) -> tuple[Any, Partial, list[Any], PyTreeDef]:
    flat = Flat(fun, tree, has_aux)
    with named(JVP):
        outs, out_nonzero, program, aux = linearize_flat(flat, xs, varying, flat.debug_info("vjp"), (JVP,))
    pullback = Pullback(program, tree, flat.out_tree, [x.aval for x in xs], [typeof(y) for y in outs], varying, out_nonzero)
    pullback.arguments = verbatim(program.consts, xs)
    return tree_unflatten(flat.out_tree, map(as_array, outs)), VJP(pullback, program.consts), aux, flat.aux_tree


@final
class VJP(Partial):
    """The function from cotangents to gradients that `vjp` returns. `with_refs`: gradients are added to references instead. `args_res`:
    the arguments that the backward pass reads, a list that may be changed; NotNeeded() for others, NotSaveable() for those it was not to
    keep, and None for those that are to be put there later."""

    _args_res: Any = None

    @property
    def args_res(self) -> list[Any]:
        if self._args_res is None:
            self._args_res = kept_arguments(self.args[0], self.func.arguments, self.func.in_tree)
        return self._args_res

    @args_res.setter
    def args_res(self, arguments: Any) -> None:
        self._args_res = list(arguments)

    @property
    def opaque_residuals(self) -> list[Any]:
        """What the backward pass reads that is no argument."""
        return [r for r, k in zip(self.args[0], self.func.arguments, strict=True) if k is None]

    def residuals(self) -> list[Any]:
        given, f = self._args_res, self.func
        return self.args[0] if given is None else restored(self.args[0], f.arguments, given, f.in_tree, f.in_avals)

    def without(self, keep: Sequence[bool]) -> VJP:
        """This function, without the arguments that are not to be kept."""
        pairs = zip(self.args[0], self.func.arguments, strict=True)
        return VJP(self.func, [r if k is None or keep[k] else NotSaveable() for r, k in pairs], *self.args[1:])

    @boundary
    def __call__(self, *cts: Any) -> Any:
        residuals = self.residuals()
        check_restored(residuals, self.func.program.debug_info.func_src_info)
        return self.func(residuals, *self.args[1:], *cts)

    def with_logs(self, *cts: Any) -> tuple[Any, dict[Any, Any]]:
        """What a call of this function gives, and the dict of what backward rules log (`custom_vjp.defvjp_with_logs`). ValueError if two
        rules use the same key."""
        if self.func.kinds is not None:
            raise NotImplementedError("with_logs of a VJP function with references for its gradients")
        residuals = self.residuals()
        check_restored(residuals, self.func.program.debug_info.func_src_info)
        n = len(residuals)
        leaves, tree = tree_flatten(cts)

        def run(*xs: Any) -> list[Any]:
            return tree_flatten(self.func(xs[:n], *tree_unflatten(tree, xs[n:])))[0]

        outs, logs = with_logs(run, [*residuals, *leaves])
        return tree_unflatten(self.func.in_tree, map(as_array, outs)), logs

    def with_refs(self, *entries: Any) -> VJP:
        """This function, with one entry for each array among the arguments of the differentiated function: a reference, to which the
        gradient is added; `steno.ad.DontWant()`; anything else: the gradient is returned. Returned are `GradRef()`, `DidntWant()` for the
        first two. ValueError for entries of another structure."""
        pullback, residuals = self.func, self.residuals()
        leaves, tree = tree_flatten(entries)
        if tree != pullback.in_tree:
            raise ValueError(
                "unexpected arguments of a VJP function's `with_refs` method: the tree structures differ. There must be one entry for each "
                f"array among the arguments of {pullback.program.debug_info.func_src_info}, of the structure {pullback.in_tree}, got {tree}"
                + "".join(
                    f"\n  * entries{keystr(p)}: {y} for an argument that is {x}"
                    for p, x, y, _ in equality_errors(
                        tree_unflatten(pullback.in_tree, [_Leaf()] * pullback.in_tree.num_leaves), tree_map(lambda _: _Leaf(), entries)
                    )
                )
            )
        refs = [x for x in leaves if is_ref(x)]
        for x, a in zip(leaves, pullback.in_avals, strict=True):
            if is_ref(x) and (x.shape, x.dtype) != (a.shape, tangent_aval(a).dtype):
                raise ValueError(
                    f"with_refs: the gradient of an argument of type {a} requires a ref of type {AbstractRef(tangent_aval(a))}, got one of "
                    f"type {x.aval}"
                )
            if is_ref_type(a) and isinstance(x, GradValue):
                raise ValueError(
                    f"with_refs: the gradient of a reference of type {a} can't be returned as a value: give a reference for it"
                )
        kinds = tuple("ref" if is_ref(x) else "drop" if isinstance(x, DontWant) else "value" for x in leaves)
        return VJP(pullback.into(kinds), residuals, refs)


def _unflatten_vjp(func: Pullback, children: tuple[tuple[Any, ...], dict[str, Any]]) -> VJP:
    args, _ = children
    return VJP(func, *args)


register_pytree_node(VJP, lambda f: (((f.residuals(), *f.args[1:]), {}), f.func), _unflatten_vjp)


@final
class Pullback(_Derivative):
    """The transposed derivative of a function at a point: residuals and a cotangent of the result --> cotangents of the arguments."""

    __slots__ = ("arguments", "kinds")
    kinds: tuple[str, ...] | None
    """What becomes of each gradient: "value", "ref" or "drop"; None: all are values."""
    arguments: tuple[int | None, ...]
    """Which argument each residual is; None for those that are computed."""

    def __init__(self, *fields: Any) -> None:
        super().__init__(*fields)
        self.kinds, self.arguments = None, ()

    def into(self, kinds: tuple[str, ...]) -> Pullback:
        """The same, with the gradients of some arguments added to references."""
        out = object.__new__(Pullback)
        for name in _Derivative.__slots__:
            setattr(out, name, getattr(self, name))
        out.kinds, out.arguments = kinds, self.arguments
        return out

    def __call__(self, residuals: Sequence[Any], *args: Any) -> tuple[Any, ...]:
        refs: Sequence[Any] = ()
        if self.kinds is not None:
            refs, *args = args  # type: ignore[assignment]
        if len(args) != 1:
            info = self.program.debug_info
            raise TypeError(_MANY_COTANGENTS.format(fun=info.func_name, where=info.func_src_info, n=len(args)))
        cts, tree = tree_flatten(args[0])
        if tree != self.out_tree:
            raise ValueError(self._wrong_tree(args[0]))
        for ct, a in zip(cts, self.out_avals, strict=True):
            wanted, got = tangent_aval(a), typeof(ct)
            if (got.shape, got.dtype) != (wanted.shape, wanted.dtype) and not (
                wanted.dtype == dtypes.float0 and (got.shape, got.dtype) == (a.shape, a.dtype)
            ):
                raise ValueError(
                    f"unexpected JAX type (e.g. shape/dtype) for argument to VJP function: got {got.str_short()}, but expected "
                    f"{wanted.str_short()} because the corresponding output of the differentiated function had JAX type {a.str_short()}"
                )
        self._check_refs()
        if self.kinds is None:
            return tree_unflatten(self.in_tree, self.pull(residuals, cts))
        return tree_unflatten(self.in_tree, self._pull_into(residuals, cts, refs))

    def _check_refs(self) -> None:
        """ValueError if the gradient of a reference has no reference to go to."""
        for k, a in enumerate(self.in_avals):
            if is_ref_type(a) and self.in_nonzero[k] and (self.kinds is None or self.kinds[k] == "value"):
                raise ValueError(
                    f"the argument number {k} of the differentiated function {self.program.debug_info.func_src_info} is a reference of "
                    f"type {a}, so its gradient is added to a reference, but none was given: f_vjp.with_refs(grad_ref)(ct)"
                )

    def _pull_into(self, residuals: Sequence[Any], cts: Sequence[Any], refs: Sequence[Any]) -> list[Any]:
        """As `pull`, for `kinds`. The gradient of a reference that the function writes replaces what its reference holds, which was the
        gradient of what was written."""
        assert self.kinds is not None
        given = [as_value(ct) for ct, nz in zip(cts, self.out_nonzero, strict=True) if nz]
        closed = ClosedJaxpr(self.program, residuals)
        d = Discharged(closed, (), ())
        if any(is_ref_type(v.aval) for v in self.program.invars):
            d = discharged(closed, (False,) * len(self.program.invars))
        targets = iter(refs)
        target = [next(targets) if kind == "ref" else None for kind in self.kinds]
        varying = [t for t, nz in zip(target, self.in_nonzero, strict=True) if nz]
        finals = [Zero(v.aval) if varying[k] is None else OPS["get"](varying[k], access=None)
                  for k, v in zip(d.written, d.program.outvars[len(given) :], strict=True)]  # fmt: skip
        wanted = [kind != "drop" for kind, nz in zip(self.kinds, self.in_nonzero, strict=True) if nz]
        with named(TRANSPOSE):
            linear = [Linear(a) for a in d.program.in_avals]
            outs = backward(d.program.jaxpr, d.program.consts, linear, [*given, *finals], wanted=wanted)
        position = iter(range(len(outs)))
        result: list[Any] = []
        for kind, ref, a, nz in zip(self.kinds, target, self.in_avals, self.in_nonzero, strict=True):
            k = next(position) if nz else None
            ct = Zero(tangent_aval(a)) if k is None else outs[k]
            if kind == "value":
                result.append(_as_weak_as(materialize(ct), a) if nz else materialize(ct))
            elif kind == "drop":
                result.append(DidntWant())
            else:
                if k in d.written:
                    OPS["swap"](ref, materialize(ct), access=None)
                elif type(ct) is not Zero:
                    OPS["addupdate"](ref, as_array(ct), access=None)
                result.append(GradRef())
        return result

    def pull(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """The leaves of the cotangents of the arguments."""
        given = [as_value(ct) for ct, nz in zip(cts, self.out_nonzero, strict=True) if nz]
        linear = [Linear(tangent_aval(a)) for a, nz in zip(self.in_avals, self.in_nonzero, strict=True) if nz]
        with named(TRANSPOSE):
            outs = iter(backward(self.program, residuals, linear, given))
        return [
            _as_weak_as(materialize(next(outs)), a) if nz else materialize(Zero(tangent_aval(a)))
            for a, nz in zip(self.in_avals, self.in_nonzero, strict=True)
        ]

    def _wrong_tree(self, given: Any) -> str:
        original = tree_unflatten(self.out_tree, [_Leaf()] * self.out_tree.num_leaves)
        lines = [
            "unexpected tree structure.",
            "",
            "The argument to a VJP function returned by `jax.vjp` must match the pytree",
            f"structure of the differentiated function {self.program.debug_info.func_src_info}.",
            "",
            "But the tree structures differ:",
        ]
        for path, thing1, thing2, explanation in equality_errors(original, tree_map(lambda _: _Leaf(), given)):
            lines.append(f"  * out{keystr(path)} was {thing1} in the original output, but {thing2} here, so {explanation}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Pullback({self.program.debug_info.func_src_info})"


def _as_weak_as(ct: Any, aval: ShapedArray) -> Any:
    """A cotangent of the weak type of its argument."""
    if ct.aval.weak_type == aval.weak_type:
        return ct
    if isinstance(ct, ArrayImpl):
        return ct.with_aval(ct.aval.update(weak_type=aval.weak_type))
    return OPS["convert_element_type"](ct, new_dtype=ct.dtype, weak_type=aval.weak_type, sharding=None)


class _Leaf:
    __slots__ = ()


_MANY_COTANGENTS: Final = """
The function returned by `jax.vjp` applied to {fun} was called with {n} arguments
(it was defined as {where}), but it takes one: a cotangent of the function's result, with the result's structure.
For a function that returns a tuple (y, z) that is one tuple: f_vjp((y_bar, z_bar)), not f_vjp(y_bar, z_bar)."""


# linear_transpose


@boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()) -> Callable[..., Any]:
    """The transpose of a function that is linear in its arguments, of which `primals` give the types (arrays, ShapeDtypeStructs, or
    anything with a shape and a dtype): a function from a cotangent of the result to the tuple of cotangents of the arguments.

    TypeError if float arguments meet integer results or the other way round. Ops that are not linear: NotImplementedError when it is
    called."""
    check_callable(fun)
    if reduce_axes:
        raise NotImplementedError("reduce_axes argument to transpose is deprecated")
    xs, tree = tree_flatten(primals)
    avals = [
        typeof(x) if is_value(x) or not hasattr(x, "dtype") else ShapedArray(tuple(x.shape), dtypes.canonical(dtypes.as_dtype(x.dtype)))
        for x in xs
    ]
    flat = Flat(fun, tree, False)
    outs, program = partial_eval_flat(flat.only_results, avals, flat.debug_info("linear_transpose"))
    in_dtypes, out_dtypes = [a.dtype for a in avals], [typeof(y).dtype for y in outs]
    all_inexact = all(dtypes.kind(d) in "fc0" for d in in_dtypes + out_dtypes)
    if not all_inexact and not all(dtypes.kind(d) in "iu" for d in in_dtypes + out_dtypes):
        raise TypeError(
            "linear_transpose only supports [float, complex, or float0] -> [float, complex, or float0], and integer -> integer functions, "
            f"but got {in_dtypes} -> {out_dtypes}."
        )
    out_avals, out_tree = program.out_avals, flat.out_tree

    def transposed(ct: Any) -> tuple[Any, ...]:
        cts, ct_tree = tree_flatten(ct)
        if ct_tree != out_tree:
            raise TypeError(f"cotangent tree does not match function output, expected {out_tree} but got {ct_tree}")
        got = [typeof(c) for c in cts]
        if any((g.shape, g.dtype) != (a.shape, a.dtype) for g, a in zip(got, out_avals, strict=True)):
            raise TypeError(f"cotangent type does not match function output, expected {tuple(out_avals)} but got {cts}")
        given = [as_array(c) for c in cts]
        with named(TRANSPOSE):
            out = backward(program.jaxpr, program.consts, [Linear(a) for a in avals], given)
        zeros = [full(a.shape, 0, a.dtype) if type(x) is Zero else x for x, a in zip(out, avals, strict=True)]
        return tree_unflatten(tree, map(as_array, zeros))

    return Partial(transposed)
