"""Programs with symbolic sizes: how sizes follow from the shapes of arguments, and the program for known ones.

The sizes of a call are found from equations such as `2*n = 6`, one for each axis of each argument. A program is then evaluated op by
op, with the sizes in the place of expressions in its parameters, so that each op's rule of types says once more what its result is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from steno._native import ShapedArray
from steno.core.aval import TypedScalar, scalar_value, typeof
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, literal_value
from steno.core.pytree import broadcast_prefix, check_prefix, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten
from steno.core.size_bounds import not_negative
from steno.core.sizes import UnknownSize
from steno.core.symbolic import DimExpr, SymbolicScope, factor_value, symbolic_shape, term_variables
from steno.core.trace import trace_to_jaxpr
from steno.ops.dimension import dim_as_value
from steno.stages import ShapeDtypeStruct

Sizes = Mapping[str, Any]


def is_symbolic(shape: Sequence[Any]) -> bool:
    return any(isinstance(n, UnknownSize) for n in shape)


def argument_names(tree: Any) -> list[str]:
    """`args[0]`, `kwargs['x']`: for error messages."""
    leaves, _ = tree_flatten_with_path(tree_unflatten(tree, range(tree.num_leaves)))
    return [("args" if path[0].idx == 0 else "kwargs") + keystr(path[1:]) for path, _ in leaves]


def scope_of(fun: str, arguments: Sequence[Any], names: Sequence[str]) -> SymbolicScope | None:
    """The scope of all unknown sizes; None if there are none. ValueError if there are several."""
    first: SymbolicScope | None = None
    for a, name in zip(arguments, names, strict=True):
        for n in getattr(a, "shape", ()):
            if isinstance(n, DimExpr):
                first = n.scope if first is None else first
                first.check(n.scope, f"when exporting {fun}, in the shape of {name},", n)
    return first


def solve(fun: str, shapes: Sequence[Sequence[Any]], actual: Sequence[Sequence[Any]] | None, names: Sequence[str]) -> dict[str, Any]:
    """What the variables in `shapes` are where the arguments are of the `actual` shapes; those may hold sizes of another scope. ValueError
    if they do not fit. `actual` None: only whether all can be found, with arbitrary values."""
    equations = [
        (e, None if actual is None else actual[k][axis], f"{names[k]}.shape[{axis}]")
        for k, shape in enumerate(shapes)
        for axis, e in enumerate(shape)
        if isinstance(e, DimExpr) or actual is not None
    ]
    solver = _Solver(
        fun, ", ".join(f"{n}.shape = ({', '.join(map(str, s))})" for n, s in zip(names, shapes, strict=True) if is_symbolic(s))
    )
    left = [q for q in equations if isinstance(q[0], DimExpr)]
    while True:
        later = [q for q in left if not solver.step(*q)]
        if not later or len(later) == len(left):
            break
        left = later
    unsolved = set().union(*(e.variables() for e, _, _ in later)) - set(solver.sizes)
    if unsolved:
        raise ValueError(
            f"Cannot solve for values of dimension variables {unsolved} of {fun}: each must follow from one equation that is linear in it "
            f"once the others are known. The shapes are {solver.where}; left over are {', '.join(f'{e} for {at}' for e, _, at in later)}"
        )
    if actual is not None:
        solver.check(equations)
    return solver.sizes


class _Solver:
    def __init__(self, fun: str, where: str) -> None:
        self.fun, self.where = fun, where
        self.sizes: dict[str, Any] = {}

    def error(self, problem: str) -> ValueError:
        found = ", ".join(f"{n} = {v}" for n, v in self.sizes.items())
        return ValueError(
            f"{self.fun}: Input shapes do not match the polymorphic shapes specification. {problem}. The shapes are {self.where}; "
            f"found so far: {found or 'nothing'}"
        )

    def step(self, e: DimExpr, value: Any, at: str) -> bool:
        """Whether the equation is done with: it gives the one variable that it is linear in and the others do not tell, or has none."""
        rest: Any = 0
        unknown = []
        for term, c in e.terms:
            names = term_variables(term)
            if names <= self.sizes.keys():
                if value is not None:
                    for f, p in term:
                        c = c * factor_value(f, self.sizes) ** p
                    rest = rest + c
            else:
                unknown.append((term, c))
        if not unknown:
            return True
        if len(unknown) > 1 or len(unknown[0][0]) != 1 or unknown[0][0][0][1] != 1 or type(unknown[0][0][0][0]) is not str:
            return False
        ((name, _),), c = unknown[0]
        if value is None:
            self.sizes[name] = 1
            return True
        q, r = divmod(value - rest, c)
        if r != 0:
            raise self.error(f"Division had remainder {r} when computing the value of '{name}' from {at} (= {value}), which is to be {e}")
        if not _holds(q, 1):
            raise self.error(f"Expected value >= 1 for dimension variable '{name}', got {q} from {at} (= {value}), which is to be {e}")
        self.sizes[name] = q
        return True

    def check(self, equations: Iterable[tuple[Any, Any, str]]) -> None:
        scope = None
        for e, value, at in equations:
            wanted = e
            if isinstance(e, DimExpr):
                scope, wanted = e.scope, e.evaluate(self.sizes)
            if wanted != value:
                raise self.error(f"Found inconsistency between dimension size {at} (= {value}) and the specification '{e}' (= {wanted})")
        for c in () if scope is None else scope.constraints:
            if not c.surplus.variables() <= self.sizes.keys():
                continue  # about sizes that the arguments have not
            surplus = c.surplus.evaluate(self.sizes)
            if surplus != 0 if c.equal else not _holds(surplus, 0):
                raise self.error(
                    f"The symbolic shape constraint {c.text} is broken: {c.surplus} must be {'' if c.equal else 'at least '}0, got "
                    f"{surplus}"
                )


def _holds(n: Any, least: int) -> bool:
    """n >= least, for certain."""
    return not_negative(n - least)


# The program for known sizes


def evaluate(j: Jaxpr, consts: Sequence[Any], args: Sequence[Any], sizes: Sizes) -> list[Any]:
    """The program with these sizes, op by op."""
    env: dict[Any, Any] = dict(zip((*j.constvars, *j.invars), (*consts, *args), strict=True))
    read = lambda a: literal_value(a) if type(a) is Literal else env[a]  # noqa: E731
    for e in j.eqns:
        params = {k: refined(v, sizes) for k, v in e.params.items()}
        if e.op is dim_as_value and type(params["dim"]) is int:
            aval = e.op.typ(**params)
            env[e.outvars[0]] = TypedScalar(scalar_value(params["dim"], aval.dtype), aval)
            continue
        try:
            out = e.op(*map(read, e.invars), **params)
        except (TypeError, ValueError) as error:
            if type(error) not in (TypeError, ValueError):
                raise
            at = ", ".join(f"{n} = {v}" for n, v in sizes.items())
            raise type(error)(f"the exported program has no {e.op.name} for the sizes {at}: {error}") from error
        env.update(zip(e.outvars, out if e.op.multiple_results else [out], strict=True))
    return [read(a) for a in j.outvars]


def refined(value: Any, sizes: Sizes) -> Any:
    """A parameter of an op with sizes in the place of expressions, in programs it holds too."""
    kind = type(value)
    if kind is DimExpr:
        return value.evaluate(sizes)
    if kind is ShapedArray:
        return refined_aval(value, sizes)
    if kind is ClosedJaxpr:
        return refined_program(value, sizes)
    if kind is Jaxpr:
        return refined_program(ClosedJaxpr(value, []), sizes).jaxpr
    if isinstance(value, tuple) and any(refined(v, sizes) is not v for v in value):
        parts = [refined(v, sizes) for v in value]
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if kind is list:
        return [refined(v, sizes) for v in value]
    if kind is dict:
        return {k: refined(v, sizes) for k, v in value.items()}
    return value


def refined_aval(aval: Any, sizes: Sizes) -> Any:
    if not is_symbolic(aval.shape):
        return aval
    return aval.update(shape=tuple(n.evaluate(sizes) if isinstance(n, DimExpr) else n for n in aval.shape))


def refined_program(closed: ClosedJaxpr, sizes: Sizes) -> ClosedJaxpr:
    avals = [refined_aval(a, sizes) for a in closed.in_avals]
    return trace_to_jaxpr(lambda *xs: evaluate(closed.jaxpr, closed.consts, xs, sizes), avals, closed.debug_info)


# Arguments


def symbolic_args_specs(args: Any, shapes_specs: Any, constraints: Sequence[str] = (), scope: SymbolicScope | None = None) -> Any:
    """`args` with a ShapeDtypeStruct for each array, whose shape is that of `shapes_specs` there: texts for `symbolic_shape`, or None for
    the array's own shape, in a pytree that may be a prefix of `args`. All are of one scope. ValueError for one that is none, and for texts
    that do not fit the arrays."""
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError("symbolic_args_specs: constraints belong to the scope: give one of `scope` and `constraints`")
    leaves, tree = tree_flatten(args)
    is_leaf = lambda x: x is None  # noqa: E731
    if isinstance(shapes_specs, list) and isinstance(args, tuple):
        shapes_specs = tuple(shapes_specs)
    try:
        specs = broadcast_prefix(shapes_specs, args, is_leaf)
    except ValueError:
        check_prefix("export.symbolic_args_specs shapes_specs", shapes_specs, args, is_leaf)
        raise
    out = []
    for x, spec in zip(leaves, specs, strict=True):
        aval = typeof(x)
        out.append(ShapeDtypeStruct(symbolic_shape(spec, scope=scope, like=aval.shape), aval.dtype))
    return tree_unflatten(tree, out)


__all__ = [
    "argument_names", "evaluate", "is_symbolic", "refined", "refined_aval", "refined_program", "scope_of", "solve", "symbolic_args_specs",
]  # fmt: skip
