"""JAX's `scipy.linalg`. Its parts are imported when they are first used."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(
    __name__,
    {
        "decompositions": (
            "cho_factor", "cho_solve", "cholesky", "det", "eigh", "eigh_tridiagonal", "hessenberg", "inv", "lu", "lu_factor", "lu_solve",
            "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_triangular", "svd",
        ),
        "functions": ("expm", "expm_frechet", "funm", "solve_sylvester", "sqrtm"),
        "special_matrices": (
            "block_diag", "circulant", "companion", "convolution_matrix", "dft", "fiedler", "fiedler_companion", "hadamard", "hankel",
            "helmert", "hilbert", "invhilbert", "invpascal", "leslie", "pascal", "toeplitz",
        ),
    },
)  # fmt: skip
