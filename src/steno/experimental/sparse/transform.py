"""`sparsify`: functions of dense arrays as functions of sparse ones.

The function is traced as one of dense arrays. Its ops are then evaluated one by one: those whose operands are dense as they are, the others
by a rule that keeps what is 0 unstored. An op without such a rule, or whose result has no zeros, raises NotImplementedError."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from steno import lax, numpy as jnp
from steno.api import make_jaxpr
from steno.core import source
from steno.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, literal_value
from steno.experimental.sparse import structure
from steno.experimental.sparse.bcoo import (
    BCOO,
    bcoo_extract,
    bcoo_sum_duplicates,
    bcoo_todense,
    bcoo_transpose,
    whole_batch,
    with_data,
    within,
)
from steno.experimental.sparse.products import bcoo_dot_general, bcoo_multiply_dense, bcoo_multiply_sparse
from steno.experimental.sparse.util import JAXSparse
from steno.stages import ShapeDtypeStruct
from steno.tree_util import tree_flatten, tree_unflatten

Array = Any
Value = Any  # an array, or a BCOO
Rule = Callable[..., Any]


def is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def as_bcoo(x: Any) -> Any:
    """Sparse arrays of every format in batched coordinates, others as they are."""
    return x.to_bcoo() if isinstance(x, JAXSparse) and not isinstance(x, BCOO) else x


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """f, where each argument may also be a sparse array; results are sparse where they follow from those. NotImplementedError for
    use_tracer, and, in a call, for ops that have no sparse rule."""
    if use_tracer:
        raise NotImplementedError("sparsify: use_tracer=True is not supported: functions are traced as functions of dense arrays")

    @source.wraps(f)
    def sparse(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs), is_leaf=is_sparse)
        values = [as_bcoo(x) if is_sparse(x) else jnp.asarray(x) for x in leaves]
        shapes = [ShapeDtypeStruct(x.shape, x.dtype, weak_type=not is_sparse(x) and x.aval.weak_type) for x in values]

        def of_leaves(*xs: Any) -> Any:
            args, kwargs = tree_unflatten(tree, xs)
            return f(*args, **kwargs)

        closed, out = make_jaxpr(of_leaves, return_shape=True)(*shapes)
        return tree_unflatten(tree_flatten(out)[1], evaluate(closed, values))

    return sparse


def evaluate(closed: ClosedJaxpr, values: Sequence[Value]) -> list[Value]:
    """The results of a program of dense arrays for some that are sparse."""
    jaxpr = closed.jaxpr
    env: dict[Any, Value] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, values, strict=True))

    def read(a: Any) -> Value:
        return literal_value(a) if type(a) is Literal else env[a]

    for e in jaxpr.eqns:
        operands = [read(a) for a in e.invars]
        if any(map(is_sparse, operands)):
            out = _rule(e)(e, *operands)
        else:
            out = e.op(*operands, **e.params)
        env.update(zip(e.outvars, out if e.op.multiple_results else [out], strict=True))
    return [read(a) for a in jaxpr.outvars]


def _rule(e: JaxprEqn) -> Rule:
    rule = RULES.get(e.op.name)
    if rule is None:
        raise NotImplementedError(
            f"sparsify: {e.op.name} has no rule for sparse arrays, or its result has no zeros; todense() makes arrays dense on purpose"
        )
    return rule


def _unique(mat: BCOO) -> BCOO:
    return mat if mat.unique_indices else bcoo_sum_duplicates(mat, nse=mat.nse)


def _elementwise(linear: bool) -> Rule:
    """The rule of a function of which 0 is a fixed point."""

    def rule(e: JaxprEqn, mat: BCOO) -> BCOO:
        mat = mat if linear else _unique(mat)
        return with_data(mat, e.op(mat.data, **e.params))

    return rule


def _integer_pow(e: JaxprEqn, mat: BCOO) -> BCOO:
    if e.params["y"] <= 0:
        raise NotImplementedError(f"sparsify: the power {e.params['y']} of a sparse array has no zeros")
    return _elementwise(False)(e, mat)


def _mul(e: JaxprEqn, x: Value, y: Value) -> BCOO:
    if is_sparse(x) and is_sparse(y):
        return bcoo_multiply_sparse(x, y)
    mat, dense = (x, y) if is_sparse(x) else (y, x)
    return with_data(mat, bcoo_multiply_dense(mat, dense))


def _div(e: JaxprEqn, x: Value, y: Value) -> BCOO:
    if is_sparse(y):
        raise NotImplementedError("sparsify: division by a sparse array")
    if jnp.ndim(y) == 0:
        return with_data(x, e.op(x.data, y))
    data, indices = whole_batch(x)
    stored = within(indices, x.sizes).reshape(*indices.shape[:-1], *(1,) * x.n_dense)
    met = bcoo_extract(x, y, assume_unique=True).data
    return with_data(x, e.op(data, jnp.where(stored, met, 1)))  # padding is not 0 / 0


def _sum(sign: int) -> Rule:
    def rule(e: JaxprEqn, x: Value, y: Value) -> Value:
        if not (is_sparse(x) and is_sparse(y)):
            x, y = (bcoo_todense(v) if is_sparse(v) else v for v in (x, y))
            return e.op(x, y)
        if sign < 0:
            y = with_data(y, -y.data)
        if x.shape != y.shape:
            raise NotImplementedError(f"sparsify: sums of {x!r} and {y!r}")
        n_batch, n_dense = min(x.n_batch, y.n_batch), min(x.n_dense, y.n_dense)
        x, y = (v.update_layout(n_batch=n_batch, n_dense=n_dense) for v in (x, y))
        (xd, xi), (yd, yi) = map(whole_batch, (x, y))
        return BCOO((jnp.concatenate([xd, yd], n_batch), jnp.concatenate([xi, yi.astype(xi.dtype)], n_batch)), shape=x.shape)

    return rule


def _dot_general(e: JaxprEqn, x: Value, y: Value) -> Value:
    wanted = e.outvars[0].aval.dtype
    out = bcoo_dot_general(x, y, dimension_numbers=e.params["dimension_numbers"])
    return out if out.dtype == wanted else out.astype(wanted)


def _structural(f: Callable[..., BCOO], *names: str) -> Rule:
    return lambda e, mat: f(mat, **{n: e.params[n] for n in names})


def _reduce_sum(e: JaxprEqn, mat: BCOO) -> Value:
    out = structure.bcoo_reduce_sum(mat, axes=e.params["axes"])
    return out if out.ndim else out.todense()


def _concatenate(e: JaxprEqn, *mats: Value) -> Value:
    if not all(map(is_sparse, mats)):
        raise NotImplementedError("sparsify: concatenation of sparse and dense arrays")
    return structure.bcoo_concatenate(mats, dimension=e.params["dimension"])


def _dynamic_slice(e: JaxprEqn, mat: Value, *starts: Array) -> BCOO:
    return structure.bcoo_dynamic_slice(mat, starts, e.params["slice_sizes"])


def _program(name: str) -> Rule:
    return lambda e, *values: evaluate(e.params[name], values)


def _branches(e: JaxprEqn, index: Array, *values: Value) -> list[Value]:
    return lax.switch(index, [functools.partial(_call, b) for b in e.params["branches"]], *values)


def _call(closed: ClosedJaxpr, *values: Value) -> list[Value]:
    return evaluate(closed, values)


def _scan(e: JaxprEqn, *values: Value) -> list[Value]:
    p = e.params
    c, n = p["num_consts"], p["num_consts"] + p["num_carry"]
    if any(map(is_sparse, values[n:])):
        raise NotImplementedError("sparsify: scan over the rows of a sparse array")

    def body(carry: Any, xs: Any) -> Any:
        out = evaluate(p["jaxpr"], [*values[:c], *carry, *xs])
        return out[: n - c], out[n - c :]

    carry, ys = lax.scan(body, list(values[c:n]), list(values[n:]), p["length"], reverse=p["reverse"], unroll=p["unroll"])
    return [*carry, *ys]


def _while(e: JaxprEqn, *values: Value) -> list[Value]:
    p = e.params
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    return lax.while_loop(
        lambda s: evaluate(p["cond_jaxpr"], [*values[:a], *s])[0], lambda s: evaluate(p["body_jaxpr"], [*values[a:b], *s]), list(values[b:])
    )  # fmt: skip


LINEAR: Final = ("copy", "neg", "real", "imag", "reduce_precision", "convert_element_type")
FIXED: Final = (
    "abs", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "conj", "erf", "expm1", "floor", "log1p", "round", "sign", "sin",
    "sinh", "sqrt", "square", "tan", "tanh",
)  # fmt: skip

RULES: Final[dict[str, Rule]] = {
    **{name: _elementwise(True) for name in LINEAR},
    **{name: _elementwise(False) for name in FIXED},
    "integer_pow": _integer_pow,
    "mul": _mul,
    "div": _div,
    "add": _sum(1),
    "add_any": _sum(1),
    "sub": _sum(-1),
    "dot_general": _dot_general,
    "transpose": _structural(bcoo_transpose, "permutation"),
    "reshape": _structural(structure.bcoo_reshape, "new_sizes", "dimensions"),
    "broadcast_in_dim": _structural(structure.bcoo_broadcast_in_dim, "shape", "broadcast_dimensions"),
    "squeeze": _structural(structure.bcoo_squeeze, "dimensions"),
    "rev": _structural(structure.bcoo_rev, "dimensions"),
    "slice": _structural(structure.bcoo_slice, "start_indices", "limit_indices", "strides"),
    "dynamic_slice": _dynamic_slice,
    "concatenate": _concatenate,
    "reduce_sum": _reduce_sum,
    "jit": _program("jaxpr"),
    "custom_jvp_call": _program("call_jaxpr"),
    "custom_vjp_call": _program("call_jaxpr"),
    "checkpoint": _program("jaxpr"),
    "cond": _branches,
    "scan": _scan,
    "while": _while,
}
"""What an op does to sparse operands, by its name: a function of the equation and the operands."""
