"""`compiler_options={"fast_math": True}`: results that may round otherwise, near those of the ops one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import lax

FAST = {"fast_math": True}
rng = np.random.default_rng(5)


def test_products_fuse_with_sums():
    def f(x, y, z):
        return x * y - z

    x, y = (rng.normal(size=1000).astype(np.float32) for _ in range(2))
    z = x * y
    exact = (x.astype(np.float64) * y - z).astype(np.float32)
    np.testing.assert_array_equal(steno.jit(f)(x, y, z), np.zeros_like(z))
    np.testing.assert_array_equal(steno.jit(f, compiler_options=FAST)(x, y, z), exact)
    np.testing.assert_array_equal(steno.jit(f)(x, y, z), np.zeros_like(z))  # a program of its own
    np.testing.assert_array_equal(steno.jit(f).lower(x, y, z).compile(FAST)(x, y, z), exact)


@pytest.mark.parametrize(
    "f", [snp.exp, snp.log1p, snp.tanh, snp.sin, lambda x: snp.sqrt(x) / (1 + x), steno.nn.softmax, lambda x: x / x.sum()]
)
def test_functions_stay_accurate(f):
    x = snp.asarray(np.abs(rng.normal(size=(40, 70)).astype(np.float32)) * 3)
    np.testing.assert_allclose(steno.jit(f, compiler_options=FAST)(x), f(x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("layout", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_products_of_bfloat16(layout):
    for m, n, k in [(1, 1, 1), (16, 16, 32), (33, 47, 100), (70, 530, 2100), (1, 100, 300), (100, 1, 300), (3, 4, 0)]:
        a, b = rng.normal(size=(m, k)), rng.normal(size=(k, n))
        x, y = (snp.asarray(v.T if t else v, "bfloat16") for v, t in zip((a, b), layout, strict=True))
        contract = ((0 if layout[0] else 1,), (1 if layout[1] else 0,))

        def f(x, y, contract=contract):
            return lax.dot_general(x, y, (contract, ((), ())), preferred_element_type=snp.float32)

        want = np.float64(x.T if layout[0] else x) @ np.float64(y.T if layout[1] else y)
        got = steno.jit(f, compiler_options=FAST)(x, y)
        scale = np.abs(np.float64(x)).max(initial=1) * np.abs(np.float64(y)).max(initial=1) * max(k, 1)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * scale, err_msg=f"{m} x {k} by {k} x {n}")
        np.testing.assert_array_equal(steno.jit(f)(x, y), f(x, y))


def test_without_a_matrix_unit():
    env = dict(os.environ, STENO_TARGET_FEATURES="avx2", PYTHONPATH=str(Path(steno.__file__).parents[1]))
    program = (
        "import numpy as np, steno, steno.numpy as snp; x = snp.asarray(np.arange(600.0).reshape(20, 30) % 17, 'bfloat16');"
        "y = steno.jit(lambda x: x @ x.T, compiler_options={'fast_math': True})(x);"
        "assert (np.float32(y) == np.float32(snp.asarray(np.float32(x) @ np.float32(x).T, 'bfloat16'))).all()"
    )
    if os.uname().machine != "x86_64":
        pytest.skip("other instructions")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
