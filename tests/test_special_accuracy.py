"""The errors of `scipy.special` and `nn` and of their derivatives against multiple precision, within the bounds that docs/special.md shows
beside errors at more arguments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import special_reference as reference

import steno

# computed as far as float32 shows: the others are rounded from float64, which `test_scipy_special.py::test_types` sees
SINGLE = {
    "betainc", "digamma", "entr", "erf", "erfc", "erfinv", "expit", "gammainc", "gammaincc", "gammaln", "i0", "i0e", "i1", "i1e",
    "log_ndtr", "log_softmax", "logsumexp", "multigammaln", "ndtr", "softmax", "xlog1py", "xlogy",
}  # fmt: skip
POINTS = 12


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with steno.enable_x64(True), np.errstate(all="ignore"):
        yield


def check(errors: np.ndarray, bound: float, xs: list[np.ndarray], what: str) -> None:
    k = int(np.argmax(errors))
    assert errors[k] <= bound, f"{what}: {errors[k]:.3g} ulp at {[float(x[k]) for x in xs]}"


@pytest.mark.parametrize("name", [*reference.SPECIAL, *reference.NN])
def test_errors(name: str):
    case = reference.SPECIAL.get(name) or reference.NN[name]
    function = reference.function(name)
    kinds = [(np.float64, case.double)]
    if name in SINGLE or name in reference.NN:
        kinds.append((np.float32, case.single))
    for dtype, bound in kinds:
        xs = reference.arguments(case, dtype, POINTS, seed=3)
        got = np.asarray(function(*xs))
        assert got.dtype == dtype
        check(reference.ulps(got, reference.exact_values(case.exact, xs), case.floor), bound, xs, f"{name} in {np.dtype(dtype).name}")
    which = [k for k, b in enumerate(case.slopes) if b is not None]
    xs = reference.arguments(case, np.float64, POINTS, seed=4, regions=slice(1))
    for k, got in zip(which, reference.slopes(name, which)(*xs), strict=True):
        want = reference.exact_values(case.slope(k), xs)
        check(reference.ulps(np.asarray(got), want, case.slope_floor), case.slopes[k], xs, f"{name}, derivative by operand {k}")


def test_functions_are_measured():
    """All of floats, but those whose results are exact, or made of measured ones."""
    others = {"bernoulli", "gammasgn", "fresnel", "sici", "wofz", "loggamma"}
    functions = {n for n in dir(reference.special) if not n.startswith("_") and callable(getattr(reference.special, n))}
    assert functions - others <= set(reference.SPECIAL)
