"""checkpoint (remat): trading memory for computing again, with policies; and what a function keeps for its backward pass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from steno._native import ShapedArray, config_token, current_trace, global_config_token
from steno.core import source
from steno.core.aval import typeof
from steno.core.boundary import boundary
from steno.core.jaxpr import ClosedJaxpr, DebugInfo, JaxprEqn, eval_jaxpr
from steno.core.op import OPS, Op
from steno.core.trace import JaxprTrace, JitTracer, Tracer, set_current_trace
from steno.tracing import argument_names, parameters, trace_tree
from steno.transforms.axes import bound_axes
from steno.transforms.custom import hoist_tracers
from steno.transforms.linearize import linearize_flat
from steno.transforms.remat import name as name_p, remat as remat_p
from steno.transforms.rules import as_array, as_value, is_differentiable
from steno.tree_util import PyTreeDef, tree_flatten, tree_map, tree_unflatten

# checkpoint


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: Any = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: Any = (),
    static_argnames: Any = (),
    concrete: bool = False,
) -> Callable[..., Any]:
    """`fun`, of which the backward pass keeps only the arguments and what `policy` says, and computes the rest again.

    policy            `policy(op, *operand avals, **params)`, asked for each op: whether its results are kept. See `checkpoint_policies`
    prevent_cse       False: what is computed again may be shared with the forward pass, where that makes no difference to memory (in a
                      `scan`, whose body keeps nothing else)
    static_argnums, static_argnames    arguments that are Python values to the function

    ValueError for static_argnums that a call does not have.

    >>> steno.grad(steno.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    if fun is None:
        return functools.partial(
            checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums, static_argnames=static_argnames
        )
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    if concrete:
        raise NotImplementedError("checkpoint: the argument concrete is deprecated; use static_argnums")
    inner: Any = fun
    positions = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    programs: dict[Any, tuple[ClosedJaxpr, PyTreeDef]] = {}
    prevent = prevent_cse if isinstance(prevent_cse, bool) else any(prevent_cse)

    @source.wraps(fun)
    @boundary
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        static = _static_positions(inner, positions, names, args)
        fixed = [(k, args[k]) for k in sorted(static)] + [(k, kwargs[k]) for k in sorted(kwargs) if k in names]
        dynamic = tuple(x for k, x in enumerate(args) if k not in static)
        named = {k: v for k, v in kwargs.items() if k not in names}
        leaves, tree = tree_flatten((dynamic, named))
        values = [_value(x) for x in leaves]
        avals = tuple(x.aval for x in values)

        def call(*given: Any, **more: Any) -> Any:
            rest = iter(given)
            chosen = dict(fixed)
            full = [chosen[k] if k in static else next(rest) for k in range(len(args))]
            return inner(*full, **more, **{k: v for k, v in fixed if isinstance(k, str)})

        key: Any = (tree, avals, tuple((k, type(v), v) for k, v in fixed), global_config_token(), config_token(), bound_axes())
        try:
            found = programs.get(key)
        except TypeError:  # a static value that cannot be hashed
            found, key = None, None
        if found is None:
            kept = [k for k in range(len(args)) if k not in static]
            found = trace_tree(call, tree, avals, "checkpoint / remat", user_fun=inner, positions=kept)
            if key is not None and not any(isinstance(c, Tracer) for c in found[0].consts):
                programs[key] = found
        if current_trace() is None:  # op by op: to compile it would not pay
            return tree_unflatten(found[1], map(as_array, eval_jaxpr(found[0].jaxpr, found[0].consts, *values)))
        closed, consts = hoist_tracers(found[0])
        outs = remat_p(*consts, *values, jaxpr=closed, prevent_cse=prevent, differentiated=False, policy=policy)
        return tree_unflatten(found[1], outs)

    return checkpointed


remat = checkpoint


def _value(x: Any) -> Any:
    try:
        return as_value(x)
    except TypeError:
        raise TypeError(f"Argument '{x}' of type {type(x)} is not a valid JAX type") from None


def _static_positions(fun: Callable[..., Any], positions: Sequence[int], names: Sequence[str], args: tuple[Any, ...]) -> set[int]:
    n = len(args)
    if any(not -n <= k < n for k in positions):
        raise ValueError(
            "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` can only take integer values greater than or equal to "
            f"`-len(args)` and less than `len(args)`, but got {tuple(positions)}, while `len(args)` = {n}"
        )
    static = {k % n for k in positions}
    known = parameters(fun) if names else None
    if known is not None:
        static |= {k for k, p in enumerate(known.positional) if p in names and k < n}
    return static


def checkpoint_name(x: Any, name: str) -> Any:
    """`x` itself, every leaf under a name that policies such as `save_only_these_names` refer to."""
    return tree_map(lambda leaf: name_p(as_array(leaf), name=name), x)


# Policies


class Saveable:
    """What a policy may return instead of True."""

    def __bool__(self) -> bool:
        return True


class Recompute:
    """What a policy may return instead of False."""

    def __bool__(self) -> bool:
        return False


@final
class Offloadable:
    """What a policy may return for values that are to be kept elsewhere: there is one memory, so they are kept."""

    def __init__(self, src: str, dst: str) -> None:
        self.src, self.dst = src, dst


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Keeps everything, as if there were no checkpoint."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Computes everything again, as without a policy."""
    return False


def dots_saveable(prim: Op, *_: Any, **__: Any) -> bool:
    """Keeps the results of contractions."""
    return prim is OPS["dot_general"] or prim is OPS.get("conv_general_dilated")


def dots_with_no_batch_dims_saveable(prim: Op, *_: Any, **params: Any) -> bool:
    """Keeps the results of contractions without batch axes."""
    if prim is not OPS["dot_general"]:
        return False
    _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable[..., Any]:
    """Keeps the results of contractions without batch axes, elsewhere."""

    def policy(prim: Op, *avals: Any, **params: Any) -> Any:
        return Offloadable(offload_src, offload_dst) if dots_with_no_batch_dims_saveable(prim, *avals, **params) else Recompute()

    return policy


def save_anything_except_these_names(*names_not_to_save: str) -> Callable[..., Any]:
    """Keeps everything but values with one of these names."""
    names = frozenset(names_not_to_save)
    return lambda prim, *_, **params: not (prim is name_p and params["name"] in names)


def save_any_names_but_these(*names_not_to_save: str) -> Callable[..., Any]:
    """Keeps values with names, other than these."""
    names = frozenset(names_not_to_save)

    def policy(prim: Op, *_: Any, **params: Any) -> bool:
        return prim is name_p and params["name"] not in names

    return policy


def save_only_these_names(*names_which_can_be_saved: str) -> Callable[..., Any]:
    """Keeps values with one of these names."""
    names = frozenset(names_which_can_be_saved)

    def policy(prim: Op, *_: Any, **params: Any) -> bool:
        return prim is name_p and params["name"] in names

    return policy


def save_from_both_policies(policy_1: Callable[..., Any], policy_2: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps what either policy keeps."""

    def policy(prim: Op, *avals: Any, **params: Any) -> Any:
        return policy_1(prim, *avals, **params) or policy_2(prim, *avals, **params)

    return policy


def save_and_offload_only_these_names(
    *, names_which_can_be_saved: Sequence[str], names_which_can_be_offloaded: Sequence[str], offload_src: str, offload_dst: str
) -> Callable[..., Any]:
    """Keeps values with one of the names of either list, those of the second elsewhere. ValueError if a name is in both."""
    saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    if both := saved & offloaded:
        raise ValueError(f"The names should be exclusive and should not intersect in `names_which_can_be_saved` and "
                         f"`names_which_can_be_offloaded`. Got {sorted(both)} in both")  # fmt: skip

    def policy(prim: Op, *_: Any, **params: Any) -> Any:
        if prim is name_p and params["name"] in saved:
            return Saveable()
        if prim is name_p and params["name"] in offloaded:
            return Offloadable(offload_src, offload_dst)
        return Recompute()

    return policy


@final
class _Policies:
    """`checkpoint_policies`: what `checkpoint(policy=...)` may be given."""

    everything_saveable = staticmethod(everything_saveable)
    nothing_saveable = staticmethod(nothing_saveable)
    dots_saveable = staticmethod(dots_saveable)
    checkpoint_dots = staticmethod(dots_saveable)
    dots_with_no_batch_dims_saveable = staticmethod(dots_with_no_batch_dims_saveable)
    checkpoint_dots_with_no_batch_dims = staticmethod(dots_with_no_batch_dims_saveable)
    offload_dot_with_no_batch_dims = staticmethod(offload_dot_with_no_batch_dims)
    save_anything_except_these_names = staticmethod(save_anything_except_these_names)
    save_any_names_but_these = staticmethod(save_any_names_but_these)
    save_only_these_names = staticmethod(save_only_these_names)
    save_from_both_policies = staticmethod(save_from_both_policies)
    save_and_offload_only_these_names = staticmethod(save_and_offload_only_these_names)


checkpoint_policies: Final = _Policies()


# What is kept


def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[ShapedArray, str]]:
    """The type of each value that `fun`'s backward pass reads, and where it comes from."""
    leaves, tree = tree_flatten((args, kwargs))
    names = argument_names(fun, tree)
    trace = JaxprTrace(DebugInfo("saved_residuals", source.function_info(fun)))
    inputs = [trace.argument(typeof(x)) for x in leaves]

    def flat(*xs: Any) -> tuple[list[Any], list[Any]]:
        given, named = tree_unflatten(tree, xs)
        return [as_array(y) for y in tree_flatten(fun(*given, **named))[0]], []

    with set_current_trace(trace):
        _, _, program, _ = linearize_flat(flat, inputs, [is_differentiable(x.aval) for x in inputs])
    maker = {v: k for k, e in enumerate(trace.eqns) for v in e.outvars}
    constants: list[tuple[ShapedArray, str]] = []
    arguments: list[tuple[int, ShapedArray, str]] = []
    made: list[tuple[int, ShapedArray, str]] = []
    for c in program.consts:
        atom = c.atom if type(c) is JitTracer and c._trace is trace else None
        if atom in trace.invars:
            k = trace.invars.index(atom)
            arguments.append((k, c.aval, f"from the argument {names[k]}"))
        elif atom in maker:
            made.append((maker[atom], c.aval, _made_by(trace.eqns[maker[atom]])))
        else:
            constants.append((typeof(c), "from a constant"))
    found = [(aval, where) for part in (arguments, made) for _, aval, where in sorted(part, key=lambda r: r[0])]
    return [*constants, *found]


def _made_by(e: JaxprEqn) -> str:
    at = source.summary(e.place)
    if e.op is name_p:
        return f"named '{e.params['name']}' from {at}"
    if e.op.name == "jit":
        return f"output of jitted function '{e.params['name']}' from {at}"
    return f"output of {e.op.name} from {at}"


def print_saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints `saved_residuals`, one a line."""
    for aval, where in saved_residuals(fun, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {where}")


__all__ = [
    "Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_policies", "name_p",
    "print_saved_residuals", "remat", "saved_residuals",
]  # fmt: skip
