"""experimental.sparse: every function is the dense one, in every layout; formats, derivatives, batches."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest
import scipy.sparse
from check_transforms import backend

import steno
from steno import lax, numpy as jnp, random
from steno.experimental import sparse
from steno.experimental.sparse import BCOO, BCSR, COO, CSC, CSR

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def by_numpy(request):
    """What is tested is composed of ops that are tested elsewhere: no need to compile them."""
    with backend("cpu" if "compiled" in request.node.name else "reference"), steno.numpy_rank_promotion("raise"):
        yield  # no function relies on promotions of rank


def dense(*shape):
    """Integers as floats, half of them 0: sums are exact."""
    return jnp.asarray(rng.integers(1, 9, shape) * rng.integers(0, 2, shape), jnp.float32)


def layouts(ndim):
    return [(b, d) for b in range(ndim + 1) for d in range(ndim + 1 - b)]


def stored(x, n_batch=0, n_dense=0, more=1):
    """x with `more` padding, its elements not in order."""
    mat = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    mat = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense, nse=mat.nse + more)
    order = rng.permutation(mat.nse)
    data, indices = (jnp.take(v, order, axis=n_batch) for v in (mat.data, mat.indices))
    return BCOO((data, indices), shape=x.shape, unique_indices=mat.n_sparse > 0)  # without sparse axes all elements are at one position


def same(mat, want):
    assert mat.shape == want.shape and mat.dtype == want.dtype
    np.testing.assert_array_equal(sparse.todense(mat), want)


SHAPE = (2, 3, 2)
X = dense(*SHAPE)
LAYOUTS = layouts(3)


@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_layouts(n_batch, n_dense):
    mat = stored(X, n_batch, n_dense)
    assert (mat.n_batch, mat.n_sparse, mat.n_dense) == (n_batch, 3 - n_batch - n_dense, n_dense)
    same(mat, X)
    same(mat.sort_indices(), X)
    twice = BCOO((jnp.concatenate([mat.data] * 2, n_batch), jnp.concatenate([mat.indices] * 2, n_batch)), shape=SHAPE)
    fewer = twice.sum_duplicates()
    same(fewer, 2 * X)
    assert fewer.nse == BCOO.fromdense(X, n_batch=n_batch, n_dense=n_dense).nse and fewer.unique_indices
    same(twice.sum_duplicates(nse=4 * mat.nse), 2 * X)
    np.testing.assert_array_equal(sparse.bcoo_extract(mat, X).todense(), X)
    for b, d in LAYOUTS:
        same(mat.update_layout(n_batch=b, n_dense=d, on_inefficient=None), X)


STRUCTURE = {
    "reduce_sum": lambda x: [lax.reduce_sum(x, axes) for axes in ((0,), (1,), (0, 2), (2,))],
    "rev": lambda x: [lax.rev(x, (0,)), lax.rev(x, (1, 2))],
    "slice": lambda x: [
        lax.slice(x, (0, 1, 1), (2, 3, 2)),
        lax.slice(x, (1, 0, 0), (2, 3, 2), (1, 2, 1)),
        lax.slice(x, (0, 1, 0), (2, 1, 2)),
    ],
    "dynamic_slice": lambda x: [lax.dynamic_slice(x, (1, 2, 0), (1, 2, 2)), lax.dynamic_slice(x, (-1, -2, -1), (1, 2, 1))],
    "broadcast_in_dim": lambda x: [lax.broadcast_in_dim(x, (2, 2, 3, 2, 2), (0, 2, 4)), lax.broadcast_in_dim(x, (3, 2, 3, 2), (1, 2, 3))],
    "squeeze": lambda x: [lax.squeeze(lax.broadcast_in_dim(x, (2, 1, 3, 1, 2), (0, 2, 4)), (1, 3))],
    "concatenate": lambda x: [lax.concatenate([x, x], k) for k in range(3)],
    "reshape": lambda x: [lax.reshape(x, (2, 6)), lax.reshape(x, (12,))],
}


@pytest.mark.parametrize("name", STRUCTURE)
@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_structure(name, n_batch, n_dense):
    if name == "reshape" and n_dense:
        pytest.skip("dense axes are not reshaped")
    got = sparse.sparsify(STRUCTURE[name])(stored(X, n_batch, n_dense))
    for mat, want in zip(got, STRUCTURE[name](X), strict=True):
        assert isinstance(mat, BCOO)
        same(mat, want)


def test_transposes():
    for n_batch, n_dense in LAYOUTS:
        mat = stored(X, n_batch, n_dense)
        for order in itertools.permutations(range(3)):
            kinds = [(k >= n_batch) + (k >= 3 - n_dense) for k in order]
            if kinds == sorted(kinds):
                same(mat.transpose(order), jnp.transpose(X, order))
            else:
                with pytest.raises(NotImplementedError):
                    mat.transpose(order)


def products():
    for n_batch, n_dense in LAYOUTS:
        end = 3 - n_dense
        for contracted in itertools.chain.from_iterable(itertools.combinations(range(end), k) for k in range(3)):
            for batch in itertools.chain.from_iterable(itertools.combinations(range(n_batch), k) for k in range(2)):
                if not set(batch) & set(contracted):
                    yield n_batch, n_dense, contracted, batch


def test_products_with_dense_arrays():
    for n_batch, n_dense, contracted, batch in products():
        mat = stored(X, n_batch, n_dense)
        other = dense(*(SHAPE[k] for k in (*contracted, *batch)), 2)
        c = len(contracted)
        numbers = ((contracted, tuple(range(c))), (batch, tuple(range(c, c + len(batch)))))
        same(sparse.bcoo_dot_general(mat, other, dimension_numbers=numbers), lax.dot_general(X, other, numbers))
        turned = tuple(pair[::-1] for pair in numbers)
        same(sparse.bcoo_dot_general(other, mat, dimension_numbers=turned), lax.dot_general(other, X, turned))


@pytest.mark.parametrize(("n_batch", "m_batch"), [(0, 0), (1, 0), (1, 1)])
def test_products_of_sparse_arrays(n_batch, m_batch):
    y = dense(2, 3, 4)
    for numbers in [(((1,), (1,)), ((), ())), (((1,), (1,)), ((0,), (0,))), (((0, 1), (0, 1)), ((), ()))]:
        if numbers[1][0] and not n_batch * m_batch:
            continue
        out = sparse.bcoo_dot_general(stored(X, n_batch), stored(y, m_batch), dimension_numbers=numbers)
        assert isinstance(out, BCOO)
        same(out, lax.dot_general(X, y, numbers))
    same(stored(X[0].T) @ stored(y[0]), X[0].T @ y[0])
    same(stored(X, n_batch) * stored(X + 1, m_batch), X * (X + 1))


def test_sampled_products():
    a, b = dense(3, 4), dense(4, 2)
    numbers = (((1,), (0,)), ((), ()))
    at = jnp.array([[0, 1], [2, 0], [3, 2]])
    got = sparse.bcoo_dot_general_sampled(a, b, at, dimension_numbers=numbers)
    np.testing.assert_array_equal(got, [(a @ b)[0, 1], (a @ b)[2, 0], 0])
    rows = jnp.array([[2], [0]])
    np.testing.assert_array_equal(sparse.bcoo_dot_general_sampled(a, b, rows, dimension_numbers=numbers), (a @ b)[jnp.array([2, 0])])


M = dense(3, 4)
FORMATS = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name):
    cls = FORMATS[name]
    mat = cls.fromdense(M)
    assert repr(mat) == f"{cls.__name__}(float32[3, 4], nse={mat.nse})" and mat.nse == (M != 0).sum()
    assert (mat.ndim, mat.size, len(mat), mat.dtype) == (2, 12, 3, jnp.float32)
    same(mat, M)
    same(mat.T, M.T)
    v, w = dense(4), dense(3, 2)
    same(mat @ v, M @ v)
    same(mat.T @ w, M.T @ w)
    same(v @ mat.T, v @ M.T)
    same(jnp.ones(3) @ mat, M.sum(0))
    same(2 * mat, 2 * M)
    same(-mat, -M)
    same(mat + mat, 2 * M)
    same(mat - mat, 0 * M)
    same(mat * (M + 1), M * (M + 1))
    same(mat + M, 2 * M)
    same(mat.sum(1), M.sum(1))
    assert mat.sum() == M.sum()
    leaves, tree = steno.tree.flatten(mat)
    same(steno.tree.unflatten(tree, leaves), M)
    same(steno.jit(lambda m: m)(mat), M)
    same(sparse.empty((2, 3), sparse_format=name), jnp.zeros((2, 3)))
    for n, m, k in ((3, 4, 0), (4, 3, 1), (3, 3, -2), (2, 2, 5)):
        same(sparse.eye(n, m, k, sparse_format=name), jnp.eye(n, m, k))
    with pytest.raises(TypeError):
        hash(mat)
    with pytest.raises(TypeError):
        jnp.sin(mat)


def test_functions_of_formats():
    v, w = dense(4), dense(4, 2)
    for cls, name in ((COO, "coo"), (CSR, "csr")):
        f = lambda what: getattr(sparse, f"{name}_{what}")  # noqa: E731, B023
        mat = f("fromdense")(M)
        assert isinstance(mat, cls)
        same(f("todense")(mat), M)
        same(f("matvec")(mat, v), M @ v)
        same(f("matmat")(mat, w), M @ w)
        same(f("matvec")(mat, M[:, 0], transpose=True), M.T @ M[:, 0])
    batched = sparse.bcsr_fromdense(X, n_batch=1)
    same(batched, X)
    same(sparse.bcsr_concatenate([batched, batched], dimension=1), jnp.concatenate([X, X], 1))
    same(sparse.bcsr_sum_duplicates(batched), X)
    np.testing.assert_array_equal(sparse.bcsr_extract(batched.indices, batched.indptr, X), batched.data)
    same(BCSR.from_bcoo(stored(M)), M)
    theirs = scipy.sparse.csr_matrix(np.asarray(M))
    same(BCOO.from_scipy_sparse(theirs), M)
    same(BCSR.from_scipy_sparse(theirs), M)


@pytest.mark.parametrize(
    "index", [0, -1, slice(1, None), (slice(None), 2), (slice(None, None, -2), slice(1, 3)), (..., 1), (None, 1), (1, 2), (slice(2, 2),)]
)
def test_parts(index):
    same(stored(M)[index], M[index])


def test_rows():
    for mat, row in zip(stored(M), M, strict=True):
        same(mat, row)


def test_sparsified_functions():
    mat, v = stored(M), dense(4)
    f = sparse.sparsify(lambda m, v: (jnp.sin(m) * 2 + jnp.square(m)) @ v)
    np.testing.assert_allclose(f(mat, v), (jnp.sin(M) * 2 + M * M) @ v, rtol=1e-6)
    same(sparse.sparsify(lambda m: lax.cond(m.sum() > 0, lambda m: m, lambda m: -m, m))(mat), M)
    same(sparse.sparsify(lambda m: lax.fori_loop(0, 3, lambda i, m: m * 2, m))(mat), 8 * M)
    same(sparse.sparsify(lambda m: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, -s[1]), (0, m))[1])(mat), M)
    same(sparse.sparsify(lambda m: steno.jit(lambda m: m / 2)(m))(mat), M / 2)
    same(sparse.sparsify(lambda m, d: m / d)(mat, M), jnp.where(M != 0, 1.0, 0))
    for f in (jnp.cos, lambda m: 1 / m, lambda m: lax.scan(lambda c, r: (c, 2 * r), 0, m)[1]):
        with pytest.raises(NotImplementedError):
            sparse.sparsify(f)(mat)


def test_derivatives():
    mat, w = stored(M), dense(4, 2)
    f = lambda m, w: ((m @ w) ** 2).sum()  # noqa: E731
    value, (by_mat, by_w) = sparse.value_and_grad(f, (0, 1))(mat, w)
    want = steno.grad(f, (0, 1))(M, w)
    assert value == f(M, w)
    same(by_mat, jnp.where(M != 0, want[0], 0))
    np.testing.assert_array_equal(by_w, want[1])
    same(sparse.grad(lambda m: f(m["a"], w))({"a": mat})["a"], jnp.where(M != 0, want[0], 0))
    for jacobian, dense_one in ((sparse.jacfwd, steno.jacfwd), (sparse.jacrev, steno.jacrev)):
        same(jacobian(lambda m: m @ w)(mat), jnp.where(M != 0, dense_one(lambda m: m @ w)(M), 0))
    # by the stored elements, and twice
    g = lambda d: f(BCOO((d, mat.indices), shape=M.shape), w)  # noqa: E731
    second = steno.hessian(g)(mat.data)
    np.testing.assert_allclose(second @ mat.data, steno.grad(g)(mat.data), rtol=1e-5)
    from_dense = lambda m: f(BCOO.fromdense(m, nse=12), w)  # noqa: E731
    np.testing.assert_array_equal(steno.grad(from_dense)(M), jnp.where(M != 0, want[0], 0))


def test_batches():
    v = dense(2)
    got = steno.vmap(lambda m: (m @ v, m.T))(stored(X, 1))
    same(got[0], X @ v)
    same(got[1], jnp.swapaxes(X, 1, 2))
    same(steno.vmap(lambda m: m @ v)(stored(X, 2)), X @ v)
    same(steno.vmap(lambda x: BCOO.fromdense(x, nse=4))(X[:, 0]), X[:, 0])
    for axis in (0, 1):
        extract = lambda m, x: sparse.bcoo_extract(m, x, assume_unique=False)  # noqa: E731
        same(steno.vmap(extract, in_axes=(axis, axis))(stored(X, 2), X), jnp.moveaxis(X, axis, 0))
    same(steno.vmap(lambda w: stored(M) @ w, in_axes=1, out_axes=1)(dense(4, 2) * 0 + 1), jnp.stack([M.sum(1)] * 2, 1))


def test_traced_programs_need_nse():
    with pytest.raises(steno.errors.ConcretizationTypeError):
        steno.jit(lambda m: BCOO.fromdense(m).todense())(M)
    with pytest.raises(steno.errors.ConcretizationTypeError):
        steno.jit(lambda m: m.sum_duplicates().todense())(stored(M))
    same(steno.jit(lambda m: m.sum_duplicates(nse=m.nse))(stored(M)), M)


@pytest.mark.parametrize("unique", [True, False])
def test_random_arrays(unique):
    mat = sparse.random_bcoo(random.key(0), (3, 4, 5), nse=0.3, n_batch=1, unique_indices=unique, dtype=jnp.float32)
    assert mat.shape == (3, 4, 5) and mat.nse == 6 and mat.n_batch == 1
    if unique:
        assert (mat.sum_duplicates().nse) == 6


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: BCOO((jnp.ones(2), jnp.ones((3, 1), int)), shape=(4,))),
        (ValueError, lambda: BCOO((jnp.ones(2), jnp.ones((2, 1), int)), shape=(4, 4))),
        (ValueError, lambda: BCSR((jnp.ones(2), jnp.ones(2, int), jnp.ones(3, int)), shape=(4, 4))),
        (ValueError, lambda: BCOO.fromdense(M, n_batch=2, n_dense=1)),
        (sparse.SparseEfficiencyError, lambda: stored(M).update_layout(n_batch=1)),
        (NotImplementedError, lambda: stored(M, n_dense=1) @ jnp.ones(4)),
        (TypeError, lambda: stored(M) @ jnp.ones(3)),
        (NotImplementedError, lambda: stored(M)[jnp.array([0, 1])]),
        (IndexError, lambda: stored(M)[5]),
        (ValueError, lambda: sparse.eye(3, sparse_format="dia")),
        (NotImplementedError, lambda: sparse.sparsify(jnp.sin, use_tracer=True)),
        (ValueError, lambda: sparse.random_bcoo(random.key(0), (2, 2), nse=5)),
    ],
)
def test_errors(error, call):
    with pytest.raises(error):
        call()


def test_compiled_products():
    mat, w = stored(M), dense(4, 2)
    same(steno.jit(operator.matmul)(mat, w), M @ w)
    same(steno.jit(steno.grad(lambda w: (mat @ w).sum()))(w), jnp.stack([M.sum(0)] * 2, 1))
