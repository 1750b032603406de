"""Functions with derivative rules of their own: custom_jvp, custom_vjp, custom_gradient, closure_convert."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from steno._native import ShapedArray, current_trace
from steno.core import dtypes, source
from steno.core.aval import HasAval, typeof
from steno.core.boundary import boundary
from steno.core.config import config, enable_x64
from steno.core.errors import UnexpectedTracerError
from steno.core.jaxpr import DebugInfo, eval_jaxpr
from steno.core.op import OPS
from steno.core.pytree import treedef_tuple
from steno.core.refs import is_ref
from steno.core.trace import Tracer, trace_to_jaxpr
from steno.tracing import argument_names, check_references
from steno.transforms.custom import (
    AbstractCustomJvp,
    AbstractCustomVjp,
    CustomRulesError as CustomRulesError,
    Pull,
    call_custom_jvp,
    call_custom_vjp,
    custom_jvp_call as custom_jvp_call_p,
    custom_vjp_call as custom_vjp_call_p,
)
from steno.transforms.custom_linear import call_linear
from steno.transforms.logs import record_log
from steno.transforms.programs import logging
from steno.transforms.rules import Zero, add, as_array, as_value, is_differentiable, materialize, tangent_aval
from steno.tree_util import Partial, PyTreeDef, tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten

# What rules see


@final
class SymbolicZero(HasAval):
    """A tangent or cotangent that is zero, as rules with `symbolic_zeros=True` get and may return it."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    def instantiate(self) -> Any:
        """The zeros."""
        return materialize(Zero(self.aval))

    def __repr__(self) -> str:
        return self.__class__.__name__


@final
class CustomVJPPrimal:
    """An argument as a fwd function with `symbolic_zeros=True` gets it: its value, and whether derivatives by it are wanted."""

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value}, perturbed={self.perturbed})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """A tree of CustomVJPPrimals --> the tree of their values. TypeError for other leaves."""

    def value(leaf: Any) -> Any:
        if not isinstance(leaf, CustomVJPPrimal):
            raise TypeError(f"unexpected leaf of type {type(leaf)}, wanted a CustomVJPPrimal")
        return leaf.value

    return tree_map(value, tree)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of a value."""
    aval = tangent_aval(typeof(val))
    return SymbolicZero(aval) if symbolic_zeros else materialize(Zero(aval))


def _shown(t: Any, symbolic_zeros: bool) -> Any:
    """A tangent or cotangent for a user's rule."""
    if type(t) is Zero:
        return SymbolicZero(t.aval) if symbolic_zeros else materialize(t)
    return as_array(t)


# Arguments


@functools.lru_cache(maxsize=1024)
def _signature(fun: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


def as_positional(kind: str, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments by position, defaults included but those of keyword-only parameters. TypeError if that is impossible."""
    try:
        signature = _signature(fun)
    except TypeError:  # an unhashable callable
        signature = inspect.signature(fun)
    if signature is None:
        if kwargs:
            raise TypeError(f"the {kind} function {_name(fun)} has no signature, so it takes no keyword arguments; got {sorted(kwargs)}")
        return args
    about = f"The input arguments to the {kind}-decorated function {_name(fun)} could not be resolved to positional-only arguments."
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as err:
        raise TypeError(f"{about} Binding failed with the error:\n{err}") from None
    bound.apply_defaults()
    unplaced = [k for k in bound.kwargs if k in kwargs]
    if unplaced:
        raise TypeError(
            f"{about} Binding failed with the error:\nThe following keyword arguments could not be resolved to positions: "
            f"{', '.join(unplaced)}"
        )
    return bound.args


def _name(fun: Any) -> str:
    return source.function_name(fun)


def _positions(fun: Callable[..., Any], argnums: Any, argnames: Any) -> tuple[int, ...]:
    """nondiff_argnums and nondiff_argnames as positions."""
    out: list[int] = [argnums] if isinstance(argnums, int) else list(argnums)
    names = [argnames] if isinstance(argnames, str) else list(argnames)
    if names:
        parameters = list(inspect.signature(fun).parameters)
        for n in names:
            if n not in parameters:
                raise ValueError(f"nondiff_argnames={argnames}: {_name(fun)} has no argument {n!r}")
            if parameters.index(n) not in out:
                out.append(parameters.index(n))
    return tuple(sorted(out))


@final
class Split:
    """The arguments of a call, without those that are not differentiated: these are fixed."""

    __slots__ = ("count", "fixed", "leaves", "positions", "tree")

    def __init__(self, args: tuple[Any, ...], nondiff: Sequence[int]) -> None:
        for k in nondiff:
            if not -len(args) <= k < len(args):
                raise ValueError(f"nondiff_argnums: there is no argument {k} among {len(args)}")
        fixed = sorted(k % len(args) for k in nondiff)
        self.count = len(args)
        self.fixed = [args[k] for k in fixed]
        self.positions = [k for k in range(len(args)) if k not in fixed]
        self.leaves, self.tree = tree_flatten(tuple(args[k] for k in self.positions))

    def merged(self, differentiated: Sequence[Any]) -> list[Any]:
        """All arguments, given those that are differentiated."""
        given, fixed = iter(differentiated), iter(self.fixed)
        return [next(given) if k in self.positions else next(fixed) for k in range(self.count)]

    def values(self, kind: str) -> list[Any]:
        """The leaves as values, once: a program that records the call keeps this object, and must not keep the tracers with it. TypeError
        for one that is none."""
        leaves, self.leaves = self.leaves, ()
        out = []
        for k, x in enumerate(leaves):
            try:
                out.append(as_value(x))
            except TypeError:
                raise TypeError(
                    f"Error interpreting argument to {kind}_call as a JAX value. The problematic value is of type {type(x)} and was passed "
                    f"to {kind}_call at position {k}."
                ) from None
        return out


class Decorated:
    """A function with rules of its own. Methods that set rules (`defjvp`, `def_vmap`, ...) and that it has not itself are those of the
    function it was made of, if that has such."""

    fun: Callable[..., Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("def") and isinstance(self.fun, Decorated):
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


# custom_jvp


@final
class custom_jvp(Decorated):
    """A function with a rule for its forward-mode derivative, from which reverse mode follows too.

    `f.defjvp(rule)`: `rule(primals, tangents) -> (result, tangent of the result)`, where `primals` and `tangents` are tuples of the
    arguments; it must be linear in the tangents. `f.defjvps(*rules)`: one rule for each argument, `rule(tangent, result, *primals)`, whose
    results are added (None: no derivative).

    nondiff_argnums, nondiff_argnames    arguments that are not differentiated, such as functions: the rule gets them first, in order

    Keyword arguments are turned into positional ones. AttributeError if it is called before it has a rule."""

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()) -> None:
        source.wraps(fun)(self)
        self.fun = fun
        self.nondiff_argnums = _positions(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule; gives it back, so that it may be used as a decorator. With `symbolic_zeros` tangents that are zero are
        SymbolicZeros instead of arrays."""
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets one rule for each argument. TypeError if there are arguments that are not differentiated."""
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            if len(jvps) != len(primals):
                raise ValueError(f"defjvps of {_name(self.fun)}: {len(jvps)} rules were given for {len(primals)} arguments")
            out = self(*primals)
            total: Any = None
            for f, t in zip(jvps, tangents, strict=True):
                if f is not None:
                    part = f(t, out, *primals)
                    total = part if total is None else tree_map(lambda a, b: add(as_value(a), as_value(b)), total, part)
            if total is None:
                total = tree_map(lambda y: materialize(Zero(tangent_aval(typeof(y)))), out)
            return out, total

        self.defjvp(rule)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {_name(self.fun)} using defjvp.")
        args = as_positional("custom_jvp", self.fun, args, kwargs)
        if current_trace() is None:
            return self.fun(*args)
        split = Split(args, self.nondiff_argnums)
        split.fixed = [tree_map(_without_derivative, x) for x in split.fixed]
        call = _JvpCall(self.fun, self.jvp, split, self.symbolic_zeros)
        outs = call_custom_jvp(call, split.values("custom_jvp"))
        return tree_unflatten(call.out_tree, map(as_array, outs))


def _without_derivative(x: Any) -> Any:
    return OPS["stop_gradient"](x) if isinstance(x, Tracer) else x


@final
class _JvpCall(AbstractCustomJvp):
    """`fun` and `jvp` as functions of the leaves of the differentiated arguments. The rule may run much later than the function was called;
    it has the dtypes that were there then, `x64`."""

    __slots__ = ("fun", "jvp", "name", "out_tree", "rule_name", "split", "symbolic_zeros", "x64")

    out_tree: PyTreeDef

    def __init__(self, fun: Callable[..., Any], jvp: Callable[..., Any], split: Split, symbolic_zeros: bool) -> None:
        self.fun, self.jvp, self.split, self.symbolic_zeros = fun, jvp, split, symbolic_zeros
        self.name, self.rule_name, self.x64 = _name(fun), _name(jvp), config.jax_enable_x64

    def run(self, *args: Any) -> list[Any]:
        out = source.call(self.fun, *self.split.merged(tree_unflatten(self.split.tree, map(as_array, args))))
        outs, self.out_tree = tree_flatten(out)
        return [as_value(y) for y in outs]

    def rule(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        tree = self.split.tree
        given = [_shown(t, self.symbolic_zeros) for t in tangents]
        with enable_x64(self.x64):
            pair = source.call(self.jvp, *self.split.fixed, tree_unflatten(tree, map(as_array, primals)), tree_unflatten(tree, given))
        about = f"Custom JVP rule {self.rule_name} for function {self.name}"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"{about} must produce a pair (list or tuple of length two) representing primal and tangent outputs, but got {pair}."
            )
        outs, out_tree = tree_flatten(pair[0])
        out_tangents, tangent_tree = tree_flatten(pair[1])
        if out_tree != tangent_tree:
            raise TypeError(
                f"{about} must produce primal and tangent outputs with equal container (pytree) structures, but got {out_tree} and "
                f"{tangent_tree} respectively."
            )
        check_structure(about, self, out_tree)
        outs = [as_value(y) for y in outs]
        return outs, [_tangent(t, typeof(y)) for t, y in zip(out_tangents, outs, strict=True)]


def check_structure(about: str, call: _JvpCall | _VjpCall, tree: PyTreeDef) -> None:
    """Remembers the structure of a rule's primal output. TypeError if the function has run already and its result has another one."""
    known = getattr(call, "out_tree", None)
    if known is not None and known != tree:
        raise TypeError(f"{about}: the primal output must have the structure of the function's own, which is {known}, but has {tree}")
    call.out_tree = tree


def _tangent(t: Any, aval: ShapedArray) -> Any:
    """What a rule returned as tangent of a value of that type. TypeError if it has another type."""
    wanted = tangent_aval(aval)
    if type(t) is SymbolicZero or type(t) is Zero:
        return Zero(wanted)
    got = typeof(t)
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        raise TypeError(
            "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and dtypes. Expected "
            f"{wanted.str_short()} (tangent type of {aval.str_short()}) but got {got.str_short()}."
        )
    return Zero(wanted) if wanted.dtype == dtypes.float0 else as_value(t)


# custom_vjp


@final
class custom_vjp(Decorated):
    """A function with a rule for its reverse-mode derivative.

    `f.defvjp(fwd, bwd)`: `fwd(*args) -> (result, residuals)` runs instead of the function when it is differentiated, `bwd(residuals,
    cotangent) -> tuple of cotangents`, one for each argument (None: zeros), in the backward pass.

    nondiff_argnums, nondiff_argnames    arguments that are not differentiated, such as functions: `fwd` gets them in their places, `bwd`
                                         first, in order. They may not hold tracers

    Keyword arguments are turned into positional ones. Forward mode is refused with a TypeError."""

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()) -> None:
        source.wraps(fun)(self)
        self.fun = fun
        self.nondiff_argnums = _positions(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False
        self.logs = False

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Sets the rules.

        symbolic_zeros    `fwd` gets its arguments as CustomVJPPrimals, which tell whether derivatives by them are wanted, and `bwd`
                          SymbolicZeros for cotangents that are zero; both may return SymbolicZeros
        optimize_remat    promises that `fwd`'s first result is the function's, so that it may be computed alone where the residuals are
                          not needed: in what a `checkpoint` does first"""
        self.fwd, self.bwd, self.symbolic_zeros, self.optimize_remat = fwd, bwd, symbolic_zeros, optimize_remat
        self.logs = False

    def defvjp_with_logs(
        self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False, optimize_remat: bool = False
    ) -> None:
        """Sets the rules, as `defvjp`, but `bwd` returns a pair: the cotangents, and a dict of values to be logged (or None). They are
        given by `with_logs` of the function that `vjp` returns, and dropped elsewhere."""
        self.defvjp(fwd, bwd, symbolic_zeros, optimize_remat)
        self.logs = True

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {_name(self.fun)} using defvjp.")
        args = as_positional("custom_vjp", self.fun, args, kwargs)
        split = Split(args, self.nondiff_argnums)
        for leaf in tree_leaves(split.fixed):
            if isinstance(leaf, Tracer):
                raise UnexpectedTracerError(
                    "Found a JAX Tracer object passed as an argument to a custom_vjp function in a position indicated by nondiff_argnums "
                    "as non-differentiable. Such arguments are for what cannot hold tracers, like functions; pass arrays as ordinary "
                    "arguments, and return None for them from the bwd rule."
                )
        if any(map(is_ref, split.leaves)):
            tree = treedef_tuple([split.tree, tree_structure({})])
            check_references(self.fun, split.leaves, lambda: argument_names(self.fun, tree, split.positions), "custom_vjp")
        if current_trace() is None:
            return self._without_refs(self.fun(*args))
        call = _VjpCall(self, split)
        outs = call_custom_vjp(call, split.values("custom_vjp"))
        return tree_unflatten(call.out_tree, map(as_array, self._without_refs(outs)))

    def _without_refs(self, out: Any) -> Any:
        """ValueError if a reference to a mutable array is returned."""
        for y in tree_leaves(out):
            if is_ref(y):
                raise ValueError(
                    f"custom_vjp function {_name(self.fun)} returned a mutable array reference of type {y.aval}: return its value, "
                    "`ref[...]`, instead"
                )
        return out


_NUMBERS: Final = (bool, int, float, complex)


@final
class _VjpCall(AbstractCustomVjp):
    """`fun`, `fwd` and `bwd` as functions of the leaves of the differentiated arguments. `x64`: as in `_JvpCall`."""

    __slots__ = ("bwd_name", "fwd_name", "name", "optimize_remat", "out_tree", "owner", "split", "symbolic_zeros", "x64")

    out_tree: PyTreeDef

    def __init__(self, owner: custom_vjp, split: Split) -> None:
        self.owner, self.split, self.symbolic_zeros = owner, split, owner.symbolic_zeros
        self.optimize_remat, self.x64 = owner.optimize_remat, config.jax_enable_x64
        self.name, self.fwd_name, self.bwd_name = _name(owner.fun), _name(owner.fwd), _name(owner.bwd)

    def run(self, *args: Any) -> list[Any]:
        out = source.call(self.owner.fun, *self.split.merged(tree_unflatten(self.split.tree, map(as_array, args))))
        outs, self.out_tree = tree_flatten(out)
        return [as_value(y) for y in outs]

    def fwd(self, primals: Sequence[Any], nonzero: Sequence[bool]) -> tuple[list[Any], list[Any], Pull]:
        given = [as_array(x) for x in primals]
        if self.symbolic_zeros:
            given = [CustomVJPPrimal(x, nz) for x, nz in zip(given, nonzero, strict=True)]
        with enable_x64(self.x64):
            pair = source.call(self.owner.fwd, *self.split.merged(tree_unflatten(self.split.tree, given)))
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"Custom VJP fwd rule {self.fwd_name} for function {self.name} must produce a pair (list or tuple of length two): the "
                f"primal output, with the structure of the function's own, and residuals, which are handed to the bwd rule; got {pair}."
            )
        outs, out_tree = tree_flatten(pair[0])
        check_structure(f"Custom VJP fwd rule {self.fwd_name} for function {self.name}", self, out_tree)
        residuals, residual_tree = tree_flatten(pair[1])
        numbers = {k: x for k, x in enumerate(residuals) if type(x) in _NUMBERS}
        residuals = [x for k, x in enumerate(residuals) if k not in numbers]
        for x in residuals:
            if is_ref(x) and not any(x is y for y in primals):
                raise ValueError(
                    f"the custom_vjp fwd function {self.fwd_name} for {self.name} returned a residual that is a mutable array reference of "
                    f"type {x.aval}, but none of its arguments: return its value, `ref[...]`, instead"
                )
        outs = [as_value(y) for y in outs]
        in_avals = [typeof(x) for x in primals]
        bwd = functools.partial(self._bwd, residual_tree, numbers, out_tree, in_avals)
        functools.update_wrapper(bwd, self.owner.bwd or bwd)
        return outs, [as_value(x) for x in residuals], bwd

    def _bwd(
        self,
        residual_tree: PyTreeDef,
        numbers: dict[int, Any],
        out_tree: PyTreeDef,
        in_avals: Sequence[ShapedArray],
        residuals: Sequence[Any],
        cts: Sequence[Any],
    ) -> list[Any]:
        """`numbers`: the residuals that are Python numbers, by position. They stay what they are, so that the rule may branch on them."""
        given = [_shown(ct, self.symbolic_zeros) for ct in cts]
        arrays = map(as_array, residuals)
        kept = tree_unflatten(residual_tree, [numbers[k] if k in numbers else next(arrays) for k in range(residual_tree.num_leaves)])
        before, logging.on = logging.on, False  # the pass that logs is the one around the rule, not one inside
        try:
            with enable_x64(self.x64):
                out = source.call(self.owner.bwd, *self.split.fixed, kept, tree_unflatten(out_tree, given))
        finally:
            logging.on = before
        if self.owner.logs:
            out = self._logged(out)
        return self._cotangents(tuple(out) if isinstance(out, list) else out, in_avals)

    def _logged(self, pair: Any) -> Any:
        """The cotangents, of a pair with what is logged."""
        about = f"Custom VJP bwd rule {self.bwd_name} for function {self.name}, set by defvjp_with_logs"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"{about}, must produce a pair (list or tuple of length two): cotangents and a dict of logs; got {pair}")
        record_log(about, pair[1])
        return pair[0]

    def _cotangents(self, out: Any, in_avals: Sequence[ShapedArray]) -> list[Any]:
        """The leaves of what bwd returned. None stands for zeros below it, an array for itself at all leaves below. TypeError or
        ValueError if they do not fit."""
        in_tree = self.split.tree
        _, got = tree_flatten(out)
        wrong = TypeError(
            "Custom VJP bwd rule must produce an output with the same container (pytree) structure as the args tuple of the primal "
            "function, and in particular must produce a tuple of length equal to the number of arguments to the primal function, but got "
            f"bwd output structure {got} for primal input structure {in_tree}."
        )
        if not isinstance(out, tuple):
            raise wrong
        leaves: list[Any] = []
        children = in_tree.children()
        if len(out) != len(children):
            raise wrong
        for ct, child in zip(out, children, strict=True):
            if ct is None:
                leaves += [None] * child.num_leaves
                continue
            try:
                leaves += _flatten_up_to(child, ct)
            except ValueError:
                raise wrong from None
        return [self._cotangent(k, ct, a) for k, (ct, a) in enumerate(zip(leaves, in_avals, strict=True))]

    def _cotangent(self, k: int, ct: Any, aval: ShapedArray) -> Any:
        wanted = tangent_aval(aval)
        symbolic = type(ct) is SymbolicZero or type(ct) is Zero
        if ct is None or not is_differentiable(aval):
            return Zero(wanted)
        got = ct.aval if symbolic else typeof(ct)
        if got.dtype == dtypes.float0:
            return Zero(wanted)
        if got.shape != wanted.shape:
            if config._state.disable_bwd_checks or config._state.custom_vjp_disable_shape_check:
                return Zero(got) if symbolic else as_value(ct)
            hint = ". Consider just returning a None here, which stands for a zero of the right shape" if symbolic else ""
            raise ValueError(
                f"Custom VJP bwd rule {self.bwd_name} must produce an output with the same type as the args tuple of the primal function, "
                f"but at output[{k}] the bwd rule attached to {source.function_info(self.owner.fun)} produced an output of type "
                f"{got.str_short()} corresponding to an input of type {aval.str_short()}, so the shapes do not match{hint}"
            )
        if symbolic:
            return Zero(wanted)
        ct = as_value(ct)
        if got.dtype != wanted.dtype:
            ct = OPS["convert_element_type"](ct, new_dtype=wanted.dtype, weak_type=False, sharding=None)
        return ct


def _flatten_up_to(tree: PyTreeDef, ct: Any) -> list[Any]:
    """The leaves of a cotangent in which None or an array may stand for a subtree. ValueError if the structures differ."""
    leaves, got = tree_flatten(ct, is_leaf=lambda x: x is None)
    out: list[Any] = []
    for leaf, below in zip(leaves, got.flatten_up_to(tree_unflatten(tree, [_Leaf()] * tree.num_leaves)), strict=True):
        out += [leaf] * len(tree_leaves(below))
    return out


class _Leaf:
    __slots__ = ()


# custom_gradient


def custom_gradient(fun: Any = None, *, with_logs: bool = False, remat: bool = False, with_accums: Any = None) -> Any:
    """`fun(*args)` returns (result, vjp), where `vjp(cotangent)` gives the cotangent of the one argument, or the tuple of those of several:
    the function of the result with that derivative in reverse mode. `with_logs`: `vjp` returns a pair of these and a dict of values to be
    logged, as for `custom_vjp.defvjp_with_logs`."""
    if remat or with_accums is not None:
        raise NotImplementedError("custom_gradient: remat and with_accums")
    if fun is None:
        return functools.partial(custom_gradient, with_logs=with_logs)

    @custom_vjp
    @source.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)[0]

    def fwd(*args: Any) -> tuple[Any, Any]:
        out, rule = fun(*args)
        outs, out_tree = tree_flatten(out)
        avals = [tangent_aval(typeof(y)) for y in outs]
        ct_tree: PyTreeDef | None = None

        def flat_rule(*cts: Any) -> list[Any]:
            nonlocal ct_tree
            out = rule(tree_unflatten(out_tree, cts))
            if with_logs and (not isinstance(out, tuple | list) or len(out) != 2):
                raise TypeError(f"custom_gradient(with_logs=True): the vjp function must return a pair, cotangents and logs; got {out}")
            leaves, ct_tree = tree_flatten(out)
            return leaves

        closed = trace_to_jaxpr(flat_rule, avals, DebugInfo("custom_gradient", source.function_info(fun)))
        assert ct_tree is not None
        jaxpr, tree, single = closed.jaxpr, ct_tree, len(args) == 1

        def recorded(consts: list[Any], ct: Any) -> Any:
            out = tree_unflatten(tree, eval_jaxpr(jaxpr, consts, *tree_leaves(ct)))
            cts, *logs = out if with_logs else (out,)
            cts = (cts,) if single and not isinstance(cts, tuple | list) else cts
            return (cts, *logs) if with_logs else cts

        return out, Partial(recorded, closed.consts)

    define = wrapped.defvjp_with_logs if with_logs else wrapped.defvjp
    define(fwd, lambda recorded, ct: recorded(ct))
    return wrapped


# closure_convert


@boundary
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """`fun`, recorded for arguments of the types of `example_args`, as a function that takes the differentiable values `fun` closes over as
    further arguments; and the list of those."""
    leaves, in_tree = tree_flatten(example_args)
    out_tree: PyTreeDef | None = None

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_tree
        outs, out_tree = tree_flatten(fun(*tree_unflatten(in_tree, xs)))
        return outs

    closed = trace_to_jaxpr(flat, [typeof(x) for x in leaves], DebugInfo("closure_convert", source.function_info(fun)))
    hoisted = [isinstance(c, Tracer) and is_differentiable(c.aval) for c in closed.consts]
    values = [c for c, h in zip(closed.consts, hoisted, strict=True) if h]
    assert out_tree is not None
    result_tree = out_tree

    def converted(*args: Any) -> Any:
        given = args[len(args) - len(values) :]
        xs, tree = tree_flatten(args[: len(args) - len(values)])
        if tree != in_tree:
            raise TypeError(f"The inputs to the closure produced by closure_convert must have the structure {in_tree}, got {tree}")
        more = iter(given)
        consts = [next(more) if h else c for c, h in zip(closed.consts, hoisted, strict=True)]
        return tree_unflatten(result_tree, eval_jaxpr(closed.jaxpr, consts, *xs))

    return converted, values


# linear_call


@boundary
def linear_call(fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any) -> Any:
    """`fun(residual_args, linear_args)`, which is linear in the latter; its transpose is `fun_transpose(residual_args, cotangent)`.

    TypeError if that gives another structure than `linear_args`, ValueError if it gives other types."""
    residuals, residual_tree = tree_flatten(residual_args)
    linear, linear_tree = tree_flatten(linear_args)
    residuals, linear = [as_value(x) for x in residuals], [as_value(x) for x in linear]
    out_tree: PyTreeDef | None = None
    given_tree: PyTreeDef | None = None

    def forward(*xs: Any) -> list[Any]:
        nonlocal out_tree
        out = fun(tree_unflatten(residual_tree, xs[: len(residuals)]), tree_unflatten(linear_tree, xs[len(residuals) :]))
        outs, out_tree = tree_flatten(out)
        return outs

    def backward(*xs: Any) -> list[Any]:
        nonlocal given_tree
        assert out_tree is not None
        out = fun_transpose(tree_unflatten(residual_tree, xs[: len(residuals)]), tree_unflatten(out_tree, xs[len(residuals) :]))
        outs, given_tree = tree_flatten(out)
        return outs

    in_avals, linear_avals = [x.aval for x in residuals], [x.aval for x in linear]
    callee = trace_to_jaxpr(forward, [*in_avals, *linear_avals], DebugInfo("linear_call", source.function_info(fun)))
    transpose = trace_to_jaxpr(
        backward, [*in_avals, *callee.out_avals], DebugInfo("linear_call transpose", source.function_info(fun_transpose))
    )
    if given_tree != linear_tree:
        raise TypeError(
            f"transpose output pytree structure must match that of linear inputs, got output structure {given_tree} and input structure "
            f"{linear_tree}."
        )
    for got, wanted in zip(transpose.out_avals, linear_avals, strict=True):
        if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
            raise ValueError(f"linear_call: expected cotangent type {wanted.str_short()} but got {got.str_short()}")
    assert out_tree is not None
    return tree_unflatten(out_tree, map(as_array, call_linear(callee, transpose, residuals, linear)))


__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p", "custom_vjp",
    "custom_vjp_call_p", "custom_vjp_primal_tree_values", "linear_call", "zero_from_primal",
]  # fmt: skip
