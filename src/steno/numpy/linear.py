"""Products of vectors, matrices and tensors: all are dot_general, after permutations."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from steno import lax
from steno.core import dtypes
from steno.core.sizes import UnknownSize
from steno.lax import records as p
from steno.lax.contraction import canonical_precision
from steno.numpy import elementwise as e
from steno.numpy.manipulation import moveaxis
from steno.numpy.operands import (
    Array,
    ArrayLike,
    DTypeLike,
    as_array,
    broadcast_shapes,
    canonical_axis,
    check_arraylike,
    check_dtype,
    convert,
    no_out,
    promoted,
    strong,
)

Axes = Sequence[int]


def contract(fun: str, a: Any, b: Any, numbers: Any, precision: Any, preferred: Any) -> Array:
    """dot_general of operands in the dtype they promote to; the result has it too, unless `preferred` says otherwise."""
    x, y = promoted(fun, a, b)
    if x.aval.dtype == dtypes.bool_:
        x, y = strong(x), strong(y)
    d = x.aval.dtype if preferred is None else check_dtype(preferred, fun)
    out = lax.dot_general(x, y, numbers, precision, d)
    return out


def dot(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None, out_sharding: Any = None
) -> Array:
    """The product of two scalars, vectors or matrices; in general, sums over a's last and b's second-last axis.

    >>> jnp.dot(jnp.array([1, 2]), jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    x, y = as_array("dot", a, 0), as_array("dot", b, 1)
    if not x.ndim or not y.ndim:
        numbers: Any = (((), ()), ((), ()))
    else:
        numbers = (((x.ndim - 1,), (max(0, y.ndim - 2),)), ((), ()))
    return contract("dot", x, y, numbers, precision, preferred_element_type)


_MATRICES = (((1,), (0,)), ((), ()))


def matmul(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None, out_sharding: Any = None
) -> Array:
    """Matrix products in the last two axes, the leading ones broadcast; vectors are rows on the left and columns on the right.

    >>> jnp.matmul(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    x, y = as_array("matmul", a, 0), as_array("matmul", b, 1)
    ax, ay = x.aval, y.aval
    if len(ax.shape) == 2 and len(ay.shape) == 2 and ax.dtype == ay.dtype and ax.dtype != dtypes.bool_ and preferred_element_type is None:
        return p.dot_general_p(
            x, y, dimension_numbers=_MATRICES, precision=canonical_precision(precision), preferred_element_type=ax.dtype, out_sharding=None
        )
    for k, v in enumerate((x, y)):
        if v.ndim < 1:
            raise ValueError(f"matmul: operand {k} must not be a scalar, got shape {v.shape}")
    left_vector, right_vector = x.ndim == 1, y.ndim == 1
    left = x.shape[:-2]
    right = y.shape[:-2]
    if not left and not right:
        return contract("matmul", x, y, (((x.ndim - 1,), (0,)), ((), ())), precision, preferred_element_type)
    batch = broadcast_shapes(left, right)
    # batch axes that both have run together; one that a single side has is like an axis of its matrices
    shared_x, shared_y, shared, only_x, only_y = [], [], [], [], []
    for k in range(len(batch)):
        i, j = k - (len(batch) - len(left)), k - (len(batch) - len(right))
        has_x, has_y = i >= 0 and (left[i] != 1 or batch[k] == 1 and j < 0), j >= 0 and (right[j] != 1)
        if i >= 0 and j >= 0 and left[i] == right[j] != 1:
            shared_x.append(i)
            shared_y.append(j)
            shared.append(k)
        elif has_x:
            only_x.append((i, k))
        elif has_y or j >= 0 and i < 0:
            only_y.append((j, k))
    drop_x = [i for i in range(len(left)) if i not in shared_x and i not in [i for i, _ in only_x]]
    drop_y = [j for j in range(len(right)) if j not in shared_y and j not in [j for j, _ in only_y]]
    if drop_x or drop_y:
        x, shared_x = _squeezed(x, drop_x, shared_x)
        y, shared_y = _squeezed(y, drop_y, shared_y)
    contract_x, contract_y = x.ndim - 1, y.ndim - 1 if right_vector else y.ndim - 2
    out = contract("matmul", x, y, (((contract_x,), (contract_y,)), (tuple(shared_x), tuple(shared_y))), precision, preferred_element_type)
    # dot_general gives: shared, x's own axes (batch, row), y's own axes (batch, column)
    names = [
        *shared,
        *(k for _, k in only_x),
        *([] if left_vector else ["row"]),
        *(k for _, k in only_y),
        *([] if right_vector else ["column"]),
    ]
    wanted = [*range(len(batch)), *([] if left_vector else ["row"]), *([] if right_vector else ["column"])]
    out = lax.transpose(out, [names.index(n) for n in wanted if n in names])
    ones = [k for k in range(len(batch)) if k not in names]
    return lax.expand_dims(out, ones) if ones else out


def _squeezed(x: Array, drop: Axes, shared: Axes) -> tuple[Array, list[int]]:
    return (lax.squeeze(x, drop) if drop else x), [i - sum(d < i for d in drop) for i in shared]


def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """The product of the flattened arrays, a being conjugated."""
    x, y = as_array("vdot", a, 0), as_array("vdot", b, 1)
    x = e.conj(x) if dtypes.is_complex(x.aval.dtype) else x
    return dot(lax.reshape(x, (x.size,)), lax.reshape(y, (y.size,)), precision=precision, preferred_element_type=preferred_element_type)


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None, preferred_element_type: DTypeLike | None = None
) -> Array:
    """Products of vectors along an axis, x1 being conjugated; the other axes are broadcast."""
    x, y = as_array("vecdot", x1, 0), as_array("vecdot", x2, 1)
    if not x.ndim or not y.ndim:
        raise ValueError(f"vecdot: expected vectors, got shapes {x.shape} and {y.shape}")
    x, y = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"vecdot: the vectors have different lengths, {x.shape[-1]} and {y.shape[-1]}")
    x = e.conj(x) if dtypes.is_complex(x.aval.dtype) else x
    shape = broadcast_shapes(x.shape[:-1], y.shape[:-1])
    row = lax.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    column = lax.reshape(y, (*y.shape, 1))
    out = matmul(row, column, precision=precision, preferred_element_type=preferred_element_type)
    return lax.reshape(out, shape)


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices times vectors, the leading axes broadcast."""
    x, y = as_array("matvec", x1, 0), as_array("matvec", x2, 1)
    if x.ndim < 2 or y.ndim < 1:
        raise ValueError(f"matvec: expected matrices and vectors, got shapes {x.shape} and {y.shape}")
    out = matmul(x, lax.reshape(y, (*y.shape, 1)))
    return lax.reshape(out, out.shape[:-1])


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Vectors, conjugated, times matrices, the leading axes broadcast."""
    x, y = as_array("vecmat", x1, 0), as_array("vecmat", x2, 1)
    if x.ndim < 1 or y.ndim < 2:
        raise ValueError(f"vecmat: expected vectors and matrices, got shapes {x.shape} and {y.shape}")
    x = e.conj(x) if dtypes.is_complex(x.aval.dtype) else x
    out = matmul(lax.reshape(x, (*x.shape[:-1], 1, x.shape[-1])), y)
    return lax.reshape(out, (*out.shape[:-2], out.shape[-1]))


def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """Sums of products over the last axes."""
    x, y = as_array("inner", a, 0), as_array("inner", b, 1)
    if not x.ndim or not y.ndim:
        numbers: Any = (((), ()), ((), ()))
    else:
        numbers = (((x.ndim - 1,), (y.ndim - 1,)), ((), ()))
    return contract("inner", x, y, numbers, precision, preferred_element_type)


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """All products of elements of the flattened arrays.

    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    no_out("outer", out)
    x, y = promoted("outer", a, b)
    x, y = lax.reshape(x, (x.size,)), lax.reshape(y, (y.size,))
    shape = (x.size, y.size)
    return e.multiply(lax.broadcast_in_dim(x, shape, (0,)), lax.broadcast_in_dim(y, shape, (1,)))


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Sums of products over axes: a's last with b's first (so many), or lists of axes.

    >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 2)), axes=1)
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    x, y = as_array("tensordot", a, 0), as_array("tensordot", b, 1)
    if hasattr(axes, "__index__") and not isinstance(axes, list | tuple):
        n = operator.index(axes)
        if n > min(x.ndim, y.ndim):
            raise TypeError(f"tensordot: Number of tensordot axes, {n}, exceeds input ranks, of shapes {x.shape} and {y.shape}")
        if n < 0:
            raise ValueError(f"tensordot: the number of axes must not be negative, got {n}")
        numbers = (tuple(range(x.ndim - n, x.ndim)), tuple(range(n)))
    elif isinstance(axes, list | tuple) and len(axes) == 2:
        left, right = axes
        if hasattr(left, "__index__") and hasattr(right, "__index__"):
            left, right = (left,), (right,)
        if not (isinstance(left, list | tuple) and isinstance(right, list | tuple)):
            raise TypeError(f"tensordot: axes must be a number of axes, two axes, or two lists of axes, got {axes!r}")
        if len(left) != len(right):
            raise TypeError(f"tensordot: the two lists of axes must have equal lengths, got {left} and {right}")
        numbers = (tuple(canonical_axis(k, x.ndim) for k in left), tuple(canonical_axis(k, y.ndim) for k in right))
    else:
        raise TypeError(f"tensordot: axes must be a number of axes, two axes, or two lists of axes, got {axes!r}")
    return contract("tensordot", x, y, (numbers, ((), ())), precision, preferred_element_type)


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: each element of a times b, as blocks."""
    x, y = promoted("kron", a, b)
    n = max(x.ndim, y.ndim)
    x, y = lax.broadcast_to_rank(x, n), lax.broadcast_to_rank(y, n)
    shape = [m for pair in zip(x.shape, y.shape, strict=True) for m in pair]
    wide_x = lax.broadcast_in_dim(x, shape, range(0, 2 * n, 2))
    wide_y = lax.broadcast_in_dim(y, shape, range(1, 2 * n, 2))
    return lax.reshape(p.mul_p(wide_x, wide_y), [i * j for i, j in zip(x.shape, y.shape, strict=True)])


def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """The vector product along axes of size 3."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted("cross", a, b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError(f"cross: expected vectors of length 3, got shapes {x.shape} and {y.shape}")
    shape = broadcast_shapes(x.shape, y.shape)
    parts = [
        [
            lax.index_in_dim(lax.broadcast_in_dim(v, shape, range(len(shape) - v.ndim, len(shape))), k, len(shape) - 1, False)
            for k in range(3)
        ]
        for v in (strong(x), strong(y))
    ]
    (x0, x1, x2), (y0, y1, y2) = parts
    out = [p.sub_p(p.mul_p(s, t), p.mul_p(u, v)) for s, t, u, v in ((x1, y2, x2, y1), (x2, y0, x0, y2), (x0, y1, x1, y0))]
    return moveaxis(lax.stack(out, len(shape) - 1), -1, axisc)


# einsum


def _parse_interleaved(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """`x, [0, 1], y, [1, 2], [0, 2]` --> subscripts and arrays."""
    arrays, lists, rest = [], [], list(operands)
    while len(rest) >= 2:
        arrays.append(rest.pop(0))
        lists.append(rest.pop(0))
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def text(labels: Any) -> str:
        return "".join("..." if k is Ellipsis else letters[operator.index(k)] for k in labels)

    out = ",".join(map(text, lists))
    return (f"{out}->{text(rest[0])}" if rest else out), arrays


def parse_einsum(subscripts: str, ranks: Sequence[int]) -> tuple[list[list[Any]], list[Any]]:
    """The labels of each operand's axes and of the result's. An ellipsis stands for labels (-k, ..., -1), aligned at the right.

    ValueError for subscripts that do not fit the operands."""
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum: {len(terms)} subscripts for {len(ranks)} operands, in {subscripts!r}")
    labels: list[list[Any]] = []
    widest = 0
    for term, rank in zip(terms, ranks, strict=True):
        head, dots, tail = term.partition("...")
        if "." in head or "." in tail:
            raise ValueError(f"einsum: an ellipsis is three dots, once in the result, got {output!r}")
        if not all(c.isalpha() for c in head + tail):
            raise ValueError(f"einsum: characters of subscripts must be letters, got {term!r}")
        extra = rank - len(head) - len(tail)
        if extra < 0 or (extra and not dots):
            raise ValueError(f"einsum: operand of rank {rank} does not fit the subscripts {term!r}")
        widest = max(widest, extra)
        labels.append([*head, *range(-extra, 0), *tail])
    if not arrow:
        flat = [c for term in labels for c in term if isinstance(c, str)]
        return labels, [*range(-widest, 0), *sorted(c for c in set(flat) if flat.count(c) == 1)]
    head, dots, tail = output.partition("...")
    if "." in head or "." in tail:
        raise ValueError(f"einsum: an ellipsis is three dots, once in a term, got {term!r}")
    known = {c for term in labels for c in term}
    result: list[Any] = [*head, *(range(-widest, 0) if dots else ()), *tail]
    for c in result:
        if c not in known:
            raise ValueError(f"einsum: the result's label {c!r} occurs in no operand, in {subscripts!r}")
        if result.count(c) > 1:
            raise ValueError(f"einsum: the result's label {c!r} occurs twice, in {subscripts!r}")
    return labels, result


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Sums of products by Einstein's notation. More than two operands are contracted pairwise, in an order that opt_einsum finds.

    >>> jnp.einsum('ij,j->i', jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    no_out("einsum", out)
    if isinstance(subscripts, str):
        arrays = list(operands)
    else:
        subscripts, arrays = _parse_interleaved((subscripts, *operands))
    check_arraylike("einsum", *arrays)
    if not arrays:
        raise ValueError("einsum: there are no operands")
    preferred = None if preferred_element_type is None else check_dtype(preferred_element_type, "einsum")
    xs = promoted("einsum", *arrays)
    if xs[0].aval.dtype == dtypes.bool_:
        xs = [strong(x) for x in xs]
    result_dtype = xs[0].aval.dtype if preferred is None else preferred
    labels, result = parse_einsum(subscripts, [x.ndim for x in xs])
    sizes = _label_sizes(xs, labels)
    steps: list[tuple[int, ...]]
    if len(xs) <= 2:
        steps = [tuple(range(len(xs)))]
    else:
        steps = contraction_order(labels, result, sizes, optimize)
    terms = list(zip(xs, labels, strict=True))
    for step in steps:
        chosen = [terms[k] for k in step]
        terms = [t for k, t in enumerate(terms) if k not in step]
        kept = set(result).union(*(t for _, t in terms)) if terms else set(result)
        if len(chosen) == 1:
            terms.append(_single(*chosen[0], kept))
            continue
        if len(chosen) > 2:
            raise NotImplementedError(
                f"jax.numpy.einsum does not support simultaneous contraction of 3 or more operands, which the path {steps} asks for"
            )
        (x, left), (y, right) = chosen
        terms.append(_pair(x, left, y, right, kept, precision, result_dtype))
    (x, left), *_ = terms
    x, left = _single(x, left, set(result))
    x = lax.transpose(x, [left.index(c) for c in result]) if left != result else x
    return convert(x, result_dtype, x.aval.weak_type)


def _label_sizes(xs: Sequence[Array], labels: Sequence[Sequence[Any]]) -> dict[Any, int]:
    sizes: dict[Any, int] = {}
    for k, (x, term) in enumerate(zip(xs, labels, strict=True)):
        for c, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(c, n) != n:
                if sizes[c] == 1:
                    sizes[c] = n
                elif n != 1:
                    raise ValueError(f"einsum: label {c!r} has size {sizes[c]} in earlier operands and {n} in operand {k}")
    return sizes


def _single(x: Array, labels: Sequence[Any], kept: set[Any]) -> tuple[Array, list[Any]]:
    """Diagonals of repeated labels taken, and labels nobody needs summed over."""
    labels = list(labels)
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            mask_shape = tuple(x.shape[k] if k in (i, j) else 1 for k in range(x.ndim))
            row, column = lax.broadcasted_iota(dtypes.int32, mask_shape, i), lax.broadcasted_iota(dtypes.int32, mask_shape, j)
            mask = lax.broadcast_in_dim(p.eq_p(row, column), x.shape, range(x.ndim))
            x = e.where(mask, x, e.const(0, x.aval.dtype))
            x = _sum(x, (i,))
            labels.pop(i)
    unneeded = tuple(k for k, c in enumerate(labels) if c not in kept)
    if unneeded:
        x = _sum(x, unneeded)
        labels = [c for k, c in enumerate(labels) if k not in unneeded]
    return x, labels


def _sum(x: Array, axes: Axes) -> Array:
    return lax.reduce_or(x, axes) if x.aval.dtype == dtypes.bool_ else lax.reduce_sum(x, axes)


def _pair(
    x: Array, left: Sequence[Any], y: Array, right: Sequence[Any], kept: set[Any], precision: Any, dtype: Any
) -> tuple[Array, list[Any]]:
    """The contraction of two operands over the labels nobody else needs."""
    x, left = _single(x, left, kept | set(right))
    y, right = _single(y, right, kept | set(left))
    # an axis of size 1 that stands for a larger one is no axis at all
    x, left = _drop_ones(x, left, y, right)
    y, right = _drop_ones(y, right, x, left)
    x, left = _single(x, left, kept | set(right))
    y, right = _single(y, right, kept | set(left))
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in kept]
    summed = [c for c in shared if c not in kept]
    # the sides in the order that leaves the least to transpose are left to the compiler's flags
    numbers = (
        (tuple(left.index(c) for c in summed), tuple(right.index(c) for c in summed)),
        (tuple(left.index(c) for c in batch), tuple(right.index(c) for c in batch)),
    )
    out = lax.dot_general(x, y, numbers, precision, dtype)
    labels = [*batch, *(c for c in left if c not in shared), *(c for c in right if c not in shared)]
    return out, labels


def _drop_ones(x: Array, labels: Sequence[Any], y: Array, others: Sequence[Any]) -> tuple[Array, list[Any]]:
    drop = [k for k, c in enumerate(labels) if x.shape[k] == 1 and c in others and y.shape[list(others).index(c)] != 1]
    return (lax.squeeze(x, drop) if drop else x), [c for k, c in enumerate(labels) if k not in drop]


def contraction_order(
    labels: Sequence[Sequence[Any]], result: Sequence[Any], sizes: dict[Any, int], optimize: Any
) -> list[tuple[int, ...]]:
    """Which operands to contract after one another: positions in the list of what is left, results going to its end."""
    if any(isinstance(n, UnknownSize) for n in sizes.values()):  # which order is best depends
        return [(0, 1)] * (len(labels) - 1)
    import opt_einsum  # noqa: PLC0415  heavy: only contractions of three and more operands need it

    names = {c: opt_einsum.get_symbol(k) for k, c in enumerate(sizes)}
    text = ",".join("".join(names[c] for c in dict.fromkeys(term)) for term in labels) + "->" + "".join(names[c] for c in result)
    shapes = [tuple(sizes[c] for c in dict.fromkeys(term)) for term in labels]
    if optimize is True or optimize == "auto":
        optimize = "optimal" if len(labels) <= 5 else "auto"
    elif optimize is False:
        return [(0, 1)] * (len(labels) - 1)
    path, _ = opt_einsum.contract_path(text, *shapes, shapes=True, optimize=optimize)
    return [tuple(step) for step in path]


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list[tuple[int, ...]], Any]:
    """The order in which `einsum` contracts, and opt_einsum's report on it."""
    import opt_einsum  # noqa: PLC0415  heavy: only contractions of three and more operands need it

    if not isinstance(subscripts, str):
        subscripts, operands = _parse_interleaved((subscripts, *operands))
    if isinstance(optimize, bool):
        optimize = "optimal" if optimize else [tuple(range(len(operands)))]
    shapes = [as_array("einsum_path", x, k).shape for k, x in enumerate(operands)]
    return opt_einsum.contract_path(subscripts, *shapes, shapes=True, optimize=optimize)
