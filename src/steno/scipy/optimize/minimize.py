"""`minimize` and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from steno import lax, numpy as jnp
from steno.core import dtypes
from steno.gradients import value_and_grad
from steno.numpy.operands import as_array
from steno.scipy.optimize import quasi_newton

Array = Any
LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


class OptimizeResults(NamedTuple):
    """What `minimize` found.

    x: the solution (n,); success: whether the gradient became small enough; status: 0: it did, 1: too many iterations, 2: too many
    evaluations of the function, 3: of its gradient, 4: the function decreased too little, 5: the line search failed; fun, jac: the
    function's value and gradient at x; hess_inv: the approximate inverse of the Hessian, None for L-BFGS; nfev, njev, nit: the numbers of
    evaluations of the function and its gradient, and of iterations."""

    x: Array
    success: Any
    status: Any
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., Any],
    x0: Array,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of the scalar `fun(x, *args)` near x0, a vector (n,) of real numbers.

    method "BFGS", with the options maxiter (200 n), gtol (1e-5: the norm of the gradient to be reached), norm (infinity) and
    line_search_maxiter (10); or "l-bfgs-experimental-do-not-rely-on-this", with maxiter, norm, gtol, maxcor (10: pairs of vectors that
    stand for the Hessian), ftol (2.220446049250313e-09: the relative decrease of the function below which it ends), maxfun, maxgrad and
    maxls (20). tol: gtol, unless the options have it. Vectors of complex numbers are minimized as vectors of twice as many real ones
    (hess_inv is then theirs). It can be traced and differentiated in forward mode.
    ValueError for other methods and shapes; TypeError for args that are no tuple, unknown options and integers."""
    if not isinstance(args, tuple):
        raise TypeError(f"minimize: the args of the function must be a tuple, got {args!r}")
    settings = dict(options or {})
    if tol is not None:
        settings.setdefault("gtol", tol)
    name = method.lower()
    if name not in ("bfgs", LBFGS):
        raise ValueError(f"minimize: method must be 'BFGS' or {LBFGS!r}, got {method!r}")
    x = as_array("minimize", x0)
    if not dtypes.is_inexact(x.dtype):
        raise TypeError(f"minimize: x0 must be of floating point or complex numbers, got dtype {dtypes.name(x.dtype)}")
    if x.ndim != 1:
        raise ValueError(f"minimize: x0 must be a vector, got shape {x.shape}")
    x = jnp.asarray(x, x.dtype)
    solver = quasi_newton.bfgs if name == "bfgs" else quasi_newton.l_bfgs
    if dtypes.is_complex(x.dtype):
        n = x.shape[0]

        def joined(v: Array) -> Array:
            return lax.complex(v[:n], v[n:])

        found = solver(value_and_grad(lambda v: fun(joined(v), *args)), jnp.concatenate([x.real, x.imag]), **settings)
        point, gradient = joined(found.x), jnp.conj(joined(found.gradient))
    else:
        found = solver(value_and_grad(lambda v: fun(v, *args)), x, **settings)
        point, gradient = found.x, found.gradient
    success = jnp.asarray(found.status == quasi_newton.CONVERGED, bool)
    return OptimizeResults(
        point, success, found.status, found.value, gradient, found.inverse, found.evaluations, found.evaluations, found.iterations
    )
