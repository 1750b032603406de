"""JAX's `numpy.linalg`: linear algebra on the matrices in the last two axes. Its parts are imported when they are first used."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(
    __name__,
    {
        "determinants": ("det", "slogdet"),
        "factors": ("eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"),
        "least_squares": ("lstsq", "pinv"),
        "norms": ("cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"),
        "positive": ("cholesky",),
        "products": (
            "cross", "diagonal", "matmul", "matrix_power", "matrix_transpose", "multi_dot", "outer", "tensordot", "trace", "vecdot",
        ),
        "systems": ("inv", "solve", "tensorinv", "tensorsolve"),
    },
)  # fmt: skip
