"""The public names of JAX's modules: each is here, or there is a reason why it is not, and the AttributeError says it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import steno
from steno.core.absent import REASONS, documentation

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(steno.__file__).parents[1])  # what is tested, installed or not
PYTHON = Path(os.environ.get("STENO_JAX_PYTHON", ROOT / ".venv-jax" / "bin" / "python"))
MODULES = (
    "", "tree", "dtypes", "errors", "debug", "stages", "sharding", "monitoring", "profiler", "dlpack", "typing", "export", "extend",
    "extend.core", "extend.linear_util", "extend.random", "extend.backend", "extend.source_info_util", "extend.sharding", "core",
    "interpreters", "interpreters.ad", "interpreters.batching", "interpreters.mlir", "interpreters.partial_eval", "interpreters.xla",
    "interpreters.pxla", "api_util", "ad_checkpoint", "custom_derivatives", "custom_batching", "flatten_util", "distributed",
    "experimental.layout", "experimental.serialize_executable", "experimental.pjit", "lax.linalg", "numpy.linalg", "scipy.linalg",
    "scipy.special", "scipy.stats",
    *("scipy.stats." + name for name in (
        "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gennorm", "geom", "gumbel_l",
        "gumbel_r",
        "laplace", "logistic", "multinomial", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t", "truncnorm", "uniform",
        "vonmises", "wrapcauchy",
    )),
)  # fmt: skip
# what JAX's modules show because they import it
IMPORTED = {"annotations", "Any", "Callable", "Sequence"}
LATER = {"image"}  # packages that are written elsewhere

LIST = """
import importlib, inspect, json, sys, warnings
warnings.simplefilter("ignore")
out = {}
for name in json.loads(sys.argv[1]):
    module = importlib.import_module("jax" + ("." + name if name else ""))
    names = [n for n in {*dir(module), *getattr(module, "__all__", ())} if not n.startswith("_")]
    foreign = lambda x: inspect.ismodule(x) and not x.__name__.startswith("jax.")
    inside = lambda x: inspect.ismodule(x) and x.__name__.startswith("jax._src")
    kept = [n for n in names if n not in vars(module) or not (foreign(vars(module)[n]) or inside(vars(module)[n]))]
    out[name] = sorted(kept)
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def jax_names() -> dict[str, list[str]]:
    if not PYTHON.exists():
        pytest.skip("no interpreter with JAX (STENO_JAX_PYTHON)")
    done = subprocess.run([str(PYTHON), "-c", LIST, json.dumps(MODULES)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def module(name: str):
    return importlib.import_module("steno" + (f".{name}" if name else ""))


def test_every_name_is_here_or_explained(jax_names):
    missing = []
    for name, names in jax_names.items():
        for n in names:
            if n in IMPORTED or (name == "" and n in LATER) or hasattr(module(name), n):
                continue
            if f"{name}.{n}".lstrip(".") not in REASONS:
                missing.append(f"{name}.{n}")
    assert not missing


def test_reasons_are_for_what_is_not_here():
    for full in REASONS:
        name, _, n = full.rpartition(".")
        try:
            owner = module(name)
        except ModuleNotFoundError:
            assert name in REASONS, full
            continue
        assert not hasattr(owner, n), f"{full} is here, and core/absent.py has a reason for its absence"


@pytest.mark.parametrize("full", ["interpreters.ad.jvp", "ffi", "sharding.auto_axes", "export.symbolic_shape"])
def test_the_error_says_why(full):
    name, _, n = full.rpartition(".")
    with pytest.raises(AttributeError) as caught:
        getattr(module(name), n)
    assert str(caught.value).endswith(f"has no attribute {n!r}: {REASONS[full]}")


def test_names_that_share_modules_stay_what_they_are():
    # the first use of one name imports its module, which must not take the place of another name
    for n in ("shard_map", "pmap", "vmap", "export", "profiler", "reshard"):
        getattr(steno, n)
    assert callable(steno.pmap) and callable(steno.shard_map) and callable(steno.export.export)


def test_the_table_is_up_to_date():
    assert documentation() in (ROOT / "docs" / "absent.md").read_text(), "docs/absent.md: write steno.core.absent.documentation() into it"


def test_modules_that_are_not_here_say_why():
    program = "import steno.asjax; steno.asjax.install(); import jax.experimental.mosaic"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": PACKAGE}, timeout=60)
    assert done.stderr.strip().endswith(f"steno has no module 'steno.experimental.mosaic': {REASONS['experimental.mosaic']}")
