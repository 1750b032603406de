"""Programs that outlive the process: `export(jit(f))(*args)` traces, `serialize()` gives bytes, `deserialize` the program again.

What is kept is the jaxpr with its constants; machine code is made where it runs. Shapes may be symbolic (`symbolic_shape`): a call finds
the sizes from its arguments, and is compiled for them when they first occur. Functions with derivatives or batching rules of their own
are replaced by what they compute, so that derivatives are exported on request: `serialize(vjp_order=1)`."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ArrayImpl, JitFunction, ShapedArray
from steno.api import jit
from steno.core import dtypes
from steno.core.aval import TypedScalar, typeof
from steno.core.interpret import expansion, to_array
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, eval_jaxpr, literal_value
from steno.core.on_demand import on_demand
from steno.core.record import record
from steno.core.symbolic import (
    DimExpr,
    SymbolicScope as SymbolicScope,
    is_symbolic_dim as is_symbolic_dim,
    made,
    symbolic_dim_bounds as symbolic_dim_bounds,
    symbolic_shape as symbolic_shape,
)
from steno.core.trace import trace_to_jaxpr
from steno.derivatives import vjp
from steno.refinement import (
    argument_names,
    evaluate,
    scope_of,
    solve,
    symbolic_args_specs as symbolic_args_specs,
)
from steno.stages import ShapeDtypeStruct
from steno.transforms.rules import is_differentiable
from steno.tree_util import PyTreeDef, tree_flatten, tree_structure, tree_unflatten

minimum_supported_calling_convention_version = 1
maximum_supported_calling_convention_version = 1
_MAGIC: Final = b"steno.export.1\n"
_SOLVED_LIMIT: Final = 4096
_REPLACED: Final = frozenset(("custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "custom_lin"))


@final
@record(frozen=True)
class DisabledSafetyCheck:
    """A check to be left out: accepted, there are none of the kinds JAX has."""

    name: str

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        return cls(f"custom_call:{target_name}")


@final
class Exported:
    """A traced function that can be called, also under transformations that need no derivative of it, and serialised."""

    platforms = ("cpu",)
    nr_devices = 1
    calling_convention_version = 1

    def __init__(self, name: str, closed: ClosedJaxpr, in_tree: PyTreeDef, out_tree: PyTreeDef, checks: Any, derivative: Any) -> None:
        self.fun_name, self.jaxpr, self.in_tree, self.out_tree = name, closed, in_tree, out_tree
        self.disabled_safety_checks = tuple(checks)
        self._derivative = derivative
        self._names = argument_names(in_tree)
        self._scope = scope_of(name, closed.in_avals, self._names)
        if self._scope is not None:
            solve(name, [a.shape for a in closed.in_avals], None, self._names)
        self._solved: dict[Any, dict[str, Any]] = {}
        self._call = jit(self._evaluate)

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """The types of the flat arguments."""
        return tuple(self.jaxpr.in_avals)

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """The types of the flat results."""
        return tuple(self.jaxpr.out_avals)

    @property
    def ordered_effects(self) -> tuple[Any, ...]:
        return ()

    @property
    def unordered_effects(self) -> tuple[Any, ...]:
        return ()

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        return tuple(range(len(self.jaxpr.in_avals)))

    def mlir_module(self) -> str:
        """NotImplementedError: what is exported is a jaxpr, `exported.jaxpr`."""
        raise NotImplementedError("Exported.mlir_module: steno has no MLIR; the program is the jaxpr `exported.jaxpr`")

    def _evaluate(self, *leaves: Any) -> list[Any]:
        if self._scope is None:
            return eval_jaxpr(self.jaxpr.jaxpr, self.jaxpr.consts, *leaves)
        return evaluate(self.jaxpr.jaxpr, self.jaxpr.consts, leaves, self._sizes(tuple(typeof(x).shape for x in leaves)))

    def _sizes(self, shapes: tuple[tuple[Any, ...], ...]) -> dict[str, Any]:
        """The variables' values for arguments of these shapes."""
        found = self._solved.get(shapes)
        if found is None:
            if len(self._solved) >= _SOLVED_LIMIT:
                self._solved.clear()
            found = self._solved[shapes] = solve(self.fun_name, [a.shape for a in self.jaxpr.in_avals], shapes, self._names)
        return found

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The function. ValueError for arguments of other types or another structure than it was exported for, and for shapes that symbolic
        ones cannot be."""
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(f"{self.fun_name}: it was exported for arguments of the structure {self.in_tree}, and is called with {tree}")
        for k, (x, wanted) in enumerate(zip(leaves, self.jaxpr.in_avals, strict=True)):
            got = typeof(x)
            fits = got.ndim == wanted.ndim if self._scope is not None else got.shape == wanted.shape
            if not fits or got.dtype != wanted.dtype:
                raise ValueError(
                    f"{self.fun_name}: argument {k} of the flat arguments is of type {got.str_short()}, and it was exported for "
                    f"{wanted.str_short()}"
                )
        if self._scope is not None:
            self._sizes(tuple(typeof(x).shape for x in leaves))  # so that what does not fit is said of the call, and not of the program
        return tree_unflatten(self.out_tree, self._call(*leaves))

    def has_vjp(self) -> bool:
        """Whether the derivative was exported too."""
        return self._derivative is not None

    def vjp(self) -> Exported:
        """The derivative: a function of the flat arguments and the cotangents of the flat results that gives those of the flat arguments.
        ValueError if it was not serialised."""
        if self._derivative is None:
            raise ValueError(f"{self.fun_name}: no derivative was exported; serialize(vjp_order=1) adds it")
        if not isinstance(self._derivative, Exported):
            self._derivative = self._derivative()
        return self._derivative

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """Bytes for `deserialize`, with `vjp_order` derivatives. NotImplementedError for programs with callbacks and the like."""
        out = io.BytesIO()
        out.write(_MAGIC)
        _Pickler(out).dump(self._parts(vjp_order))
        return bytearray(out.getvalue())

    def _parts(self, vjp_order: int) -> tuple[Any, ...]:
        derivative = None if vjp_order == 0 else self.vjp()._parts(vjp_order - 1)
        checks = tuple(c.name for c in self.disabled_safety_checks)
        return self.fun_name, self.jaxpr, _samples(self.in_tree), _samples(self.out_tree), checks, derivative

    def __repr__(self) -> str:
        return f"Exported({self.fun_name}: {', '.join(a.str_short() for a in self.in_avals)})"


def _samples(tree: PyTreeDef) -> Any:
    """A structure as a tree of numbers."""
    return tree_unflatten(tree, range(tree.num_leaves))


def export(
    fun_jit: Any, *, platforms: Sequence[str] | None = None, disabled_checks: Sequence[DisabledSafetyCheck] = (), **ignored: Any
) -> Any:
    """A function that takes `fun_jit`'s arguments (or ShapeDtypeStructs) and gives the `Exported` program. ValueError for a function that
    is not jitted, NotImplementedError for another platform than cpu."""
    if not isinstance(fun_jit, JitFunction):
        raise ValueError(f"export: the function must be the result of jit, got {fun_jit!r}")
    if platforms is not None and tuple(platforms) != ("cpu",):
        raise NotImplementedError(f"export: programs are for the platform cpu, got platforms={tuple(platforms)}")

    def exporter(*args: Any, **kwargs: Any) -> Exported:
        shaped, tree = tree_flatten((args, kwargs))
        scope_of(fun_jit.__name__, shaped, argument_names(tree))
        traced = fun_jit.trace(*args, **kwargs)
        return exported(traced.fun_name, traced.jaxpr, traced.in_tree, traced.out_tree, disabled_checks)

    return exporter


def exported(name: str, closed: ClosedJaxpr, in_tree: PyTreeDef, out_tree: PyTreeDef, checks: Any = ()) -> Exported:
    """A traced function as what can be serialised."""

    def derivative() -> Exported:
        n = len(closed.in_avals)
        varying = [k for k, a in enumerate(closed.in_avals) if is_differentiable(a)]

        def run(*leaves: Any) -> list[Any]:
            primals, cts = list(leaves[:n]), leaves[n:]

            def of_varying(*xs: Any) -> list[Any]:
                full = list(primals)
                for k, x in zip(varying, xs, strict=True):
                    full[k] = x
                outs = eval_jaxpr(closed.jaxpr, closed.consts, *full)
                return [y for y, a in zip(outs, closed.out_avals, strict=True) if is_differentiable(a)]

            _, pullback = vjp(of_varying, *(primals[k] for k in varying))
            found = dict(zip(varying, pullback(list(cts)), strict=True))
            return [found[k] for k in varying]

        cts = [ShapeDtypeStruct(a.shape, a.dtype) for a in closed.out_avals if is_differentiable(a)]
        specs = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in closed.in_avals]
        traced = jit(run).trace(*specs, *cts)
        return exported(f"{name}_vjp", traced.jaxpr, traced.in_tree, traced.out_tree, checks)

    return Exported(name, plain(closed), in_tree, out_tree, checks, derivative)


def plain(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without functions that bring derivatives or batching rules of their own: what they compute stands in their place."""

    def run(*args: Any) -> list[Any]:
        env: dict[Any, Any] = dict(zip((*closed.constvars, *closed.invars), (*closed.consts, *args), strict=True))
        read = lambda a: literal_value(a) if type(a) is Literal else env[a]  # noqa: E731
        for e in closed.eqns:
            operands = [read(a) for a in e.invars]
            if e.op.name in _REPLACED and e.op.expand is not None:
                inner = trace_to_jaxpr(expansion(e.op, e.params), [a.aval for a in e.invars])
                inner = plain(inner)
                outs = eval_jaxpr(inner.jaxpr, inner.consts, *operands)
            else:
                out = e.op(*operands, **{k: _plain_param(v) for k, v in e.params.items()})
                outs = out if e.op.multiple_results else [out]
            env.update(zip(e.outvars, outs, strict=True))
        return [read(a) for a in closed.outvars]

    return trace_to_jaxpr(run, closed.in_avals, closed.debug_info)


def _plain_param(value: Any) -> Any:
    if isinstance(value, ClosedJaxpr):
        return plain(value)
    if type(value) in (tuple, list):
        return type(value)(map(_plain_param, value))
    return value


# Bytes: a pickle of steno's and NumPy's types alone, read by an unpickler that knows no others.


def _literal(value: np.generic, aval: ShapedArray) -> Literal:
    return Literal(value, aval)


def _aval(shape: tuple[int, ...], dtype: Any, weak_type: bool) -> ShapedArray:
    return ShapedArray(shape, dtype, weak_type)


def _dimension(scope: SymbolicScope, terms: Any) -> Any:
    return made(scope, terms)


def _array(value: np.ndarray, aval: ShapedArray) -> ArrayImpl:
    return to_array(value, aval)


def _program(counts: Any, constvars: Any, invars: Any, outvars: Any, eqns: Any) -> Jaxpr:
    variables = [Var(a) for a in counts]
    at = lambda a: variables[a] if type(a) is int else a  # noqa: E731
    return Jaxpr(
        [at(v) for v in constvars],
        [at(v) for v in invars],
        [at(v) for v in outvars],
        [JaxprEqn(op, [at(a) for a in ins], [at(v) for v in outs], params, effects) for op, ins, outs, params, effects in eqns],
    )


def _numbered(j: Jaxpr) -> tuple[Any, ...]:
    """A program with numbers for variables."""
    numbers: dict[Any, int] = {}
    at = lambda a: a if type(a) is Literal else numbers.setdefault(a, len(numbers))  # noqa: E731
    parts = (
        [at(v) for v in j.constvars],
        [at(v) for v in j.invars],
        [at(v) for v in j.outvars],
        [(e.op, [at(a) for a in e.invars], [at(v) for v in e.outvars], e.params, e.effects) for e in j.eqns],
    )
    return ([v.aval for v in numbers], *parts)


@final
class _Pickler(pickle.Pickler):
    def __init__(self, out: Any) -> None:
        super().__init__(out, protocol=5)

    def reducer_override(self, x: Any) -> Any:
        kind = type(x)
        if kind is ClosedJaxpr:
            return ClosedJaxpr, (x.jaxpr, x.consts)
        if kind is Jaxpr:
            return _program, _numbered(x)
        if kind is Literal:
            return _literal, (x.val, x.aval)
        if kind is ShapedArray:
            return _aval, (x.shape, x.dtype, x.weak_type)
        if kind is ArrayImpl:
            return _array, (np.asarray(x._value), x.aval)
        if kind is TypedScalar:
            return TypedScalar, (x.value, x.aval)
        if kind is DimExpr:
            return _dimension, (x.scope, x.terms)
        if kind is SymbolicScope:
            return SymbolicScope, ([c.text for c in x.constraints],)
        if callable(x) and not isinstance(x, type) and not (getattr(x, "__module__", None) or "").startswith(_TRUSTED):
            raise NotImplementedError(f"Exported.serialize: the program holds the Python function {x!r}, which cannot be kept in bytes")
        return NotImplemented


_TRUSTED: Final = ("steno.", "numpy", "ml_dtypes")
_BUILTINS: Final = frozenset(
    ("frozenset", "set", "list", "tuple", "dict", "complex", "slice", "int", "float", "bool", "range", "bytearray")
)
_trees: dict[str, tuple[type, Any]] = {}
"""Classes of nodes that programs' arguments and results may have, by the names they are serialised under."""


@final
class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        fine = (module == "builtins" and name in _BUILTINS) or (module, name) in _CLASSES or f"{module}.{name}" in _trees
        trusted = module.split(".")[0] in ("numpy", "ml_dtypes") and name in _NUMPY
        if fine or trusted:
            return super().find_class(module, name)
        if module.split(".")[:2] in _OWN and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) or name in ("_op_named", "_key_dtype"):
                return found
        raise pickle.UnpicklingError(f"deserialize: the bytes name {module}.{name}, which is no part of a program")


_CLASSES: Final = frozenset(
    (("collections", "OrderedDict"), *((__name__, f.__name__) for f in (_literal, _aval, _array, _dimension, _program)))
)
_OWN: Final = (["steno", "core"], ["steno", "ops"], ["steno", "lax"], ["steno", "transforms"], ["steno", "_native"])
_NUMPY: Final = frozenset(
    ("dtype", "ndarray", "_reconstruct", "_frombuffer", "scalar", *dir(np.dtypes), *(t.__name__ for t in np.sctypeDict.values()),
     *(d.name for d in dtypes.NARROW_FLOATS), "bfloat16", "int2", "int4", "uint2", "uint4")
)  # fmt: skip


def deserialize(blob: bytes | bytearray) -> Exported:
    """The program in bytes that `serialize` made. ValueError for other bytes."""
    if not bytes(blob[: len(_MAGIC)]) == _MAGIC:
        raise ValueError("deserialize: these bytes were not made by Exported.serialize of this version")
    return _from_parts(_Unpickler(io.BytesIO(blob[len(_MAGIC) :])).load())


def _from_parts(parts: Any) -> Exported:
    name, closed, in_tree, out_tree, checks, derivative = parts
    return Exported(
        name,
        closed,
        tree_structure(in_tree),
        tree_structure(out_tree),
        [DisabledSafetyCheck(c) for c in checks],
        None if derivative is None else _from_parts(derivative),
    )


def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Lets programs whose arguments or results hold this namedtuple be serialised. Returns it."""
    return register_pytree_node_serialization(nodetype, serialized_name=serialized_name)


def register_pytree_node_serialization(nodetype: type, *, serialized_name: str, **functions: Any) -> type:
    """Lets programs whose arguments or results hold nodes of this class be serialised: by pickling empty nodes. Returns it. ValueError if
    the name is taken."""
    where = f"{nodetype.__module__}.{nodetype.__qualname__}"
    if where in _trees or any(name == serialized_name for _, name in _trees.values()):
        raise ValueError(f"register_pytree_node_serialization: {serialized_name!r} or the class {nodetype} is registered already")
    _trees[where] = nodetype, serialized_name
    return nodetype


def default_export_platform() -> str:
    """The platform that programs are exported for."""
    return "cpu"


__getattr__, __dir__ = on_demand(__name__, {})
