"""`steno bench`: what it finds out of a function, what it says of faults; the machine's limits; the cost model."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import bench, lax, limits
from steno.compiler import cost
from steno.compiler.pipeline import estimated_ns

ROOT = Path(__file__).resolve().parent.parent
FILE = """
import functools
import jax
import jax.numpy as jnp

def step(x, w):
    return jnp.tanh(x @ w).sum(0)

def step_args():
    return jnp.ones((64, 32)), jnp.ones((32, 16))

@functools.partial(jax.jit, donate_argnums=0)
def give(x, *, by):
    return x * by

def give_args():
    return (jnp.ones(1000),), {"by": 2.0}

def branches(x):
    return x if x > 0 else -x

def args():
    return [jnp.float32(1.0)]

def wanting(x, y, z=1):
    return x

class Model:
    @staticmethod
    def plain():
        return jnp.ones(3) * 2

not_a_function = 3
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "asjax", type("AsJax", (), {"install": staticmethod(lambda: None)}))
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "a_model_to_time.py"
    path.write_text(FILE.replace("import jax.numpy as jnp", "import steno.numpy as jnp").replace("import jax\n", "import steno as jax\n"))
    yield path
    sys.modules.pop("a_model_to_time", None)


def options(target, **given):
    return bench.argparse.Namespace(
        **{"target": str(target), "args": None, "eager": False, "seconds": 0.02, "threads": 0, "limits": False, "measure": "all"} | given
    )


def test_a_function_is_taken_apart(file):
    found = json.loads(json.dumps(bench.measure(options(f"{file}:step"))))
    assert found["arguments"] == ["float32[64,32]", "float32[32,16]"] and found["how"] == "in steno.jit"
    first = found["first"]
    assert (
        first["total"] == pytest.approx(first["trace"] + first["compile"] + first["run"]) and first["compile"] > first["compile/llvm"] > 0
    )
    s = found["steady"]
    low, high = s["quartiles"]
    assert 0 < s["fastest"] <= low <= s["median"] <= high <= s["slowest"] and s["batches"] >= bench.LEAST and s["alone"] > 0
    w = found["work"]
    assert (w["read"], w["written"], w["arguments"], w["results"]) == (4 * (64 * 32 + 32 * 16), 64, 4 * (64 * 32 + 32 * 16), 64)
    assert w["flops"] >= 2 * 64 * 32 * 16 and w["statements"]["library call"] == 1 and w["statements"]["kernel"] >= 1
    assert w["peak"] == w["arguments"] + w["results"] + w["temporary"]
    text = bench.report("f.py:step", None, found)
    for part in ("trace", "compile", "each call", "quartiles", "memory", "work", "1 library call", "resident"):
        assert part in text


def test_donated_arguments_are_made_anew(file):
    found = bench.measure(options(f"{file}:give"))
    assert found["how"] == "jitted already" and found["work"]["shared"] == 4000 and found["work"]["peak"] == 4004
    found["limits"] = {"least": 1e-9}
    assert "so little to do that the time is that of a call" in bench.report("f.py:give", None, found)
    found["limits"] = {"least": 1e-6, "bandwidth": 1e10, "of bandwidth": 0.25, "threads": 1}
    assert "25% of 10 GB/s" in bench.report("f.py:give", found, found)


def test_a_function_without_arguments_and_without_jit(file):
    found = bench.measure(options(f"{file}:Model.plain", eager=True, args=None))
    assert found["how"] == "called as it is" and set(found["first"]) == {"total"} and "work" not in found
    assert "each call" in bench.report("f.py:Model.plain", None, found)


@pytest.mark.parametrize(
    ("target", "args", "message"),
    [
        ("step", None, "expected FILE:FUNCTION"),
        ("FILE:", None, "expected FILE:FUNCTION"),
        ("/nowhere/x.py:step", None, "there is no file '/nowhere/x.py'"),
        ("FILE:stepp", None, "has no function 'stepp'; did you mean 'step'?"),
        ("FILE:not_a_function", None, "is an object of type int, not a function"),
        ("FILE:step", "nothing", "--args nothing: .* has no function of that name"),
        ("FILE:step", "not_a_function", "has no function of that name"),
        ("FILE:step", "Model.plain", "has no function of that name"),
    ],
)  # fmt: skip
def test_faults_of_the_command_are_said(file, target, args, message):
    with pytest.raises(bench.Refused, match=message):
        bench.load(target.replace("FILE", str(file)), args)


def test_missing_and_wrong_arguments_are_said(file):
    text = file.read_text()
    file.write_text(text.replace("def args():", "def other():"))
    with pytest.raises(bench.Refused, match=r"wanting takes x, y: write a function wanting_args\(\)"):
        bench.load(f"{file}:wanting", None)
    sys.modules.pop("a_model_to_time")
    file.write_text(text.replace("return [jnp.float32(1.0)]", "return 1.0"))
    with pytest.raises(bench.Refused, match=r"args\(\) of .* must return a tuple of arguments .*, got an object of type float"):
        bench.load(f"{file}:branches", None)


def test_the_command(tmp_path):
    """Both processes, from the command line, on a file that imports jax."""
    path = tmp_path / "model.py"
    path.write_text(FILE)
    out = tmp_path / "found.json"
    command = [sys.executable, "-m", "steno", "bench", f"{path}:step", "--seconds", "0.02", "--no-limits", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cold cache" in done.stdout and "warm cache" in done.stdout
    found = json.loads(out.read_text())
    assert found["cold"]["first"]["compile"] > 0 and "steady" not in found["cold"] and found["warm"]["steady"]["median"] > 0


def test_errors_of_the_function_are_shown_from_its_file_on(file, tmp_path, capsys):
    for name, last in (("branches", "under jit; --eager times it without jit"), ("wanting", "under jit; --eager times it without jit")):
        assert bench.main([f"{file}:{name}", "--measure", "all", "--out", str(tmp_path / "out")]) == 2
        shown = capsys.readouterr().err
        assert shown.strip().endswith(f"steno bench: the error above came from calling the function {last}")
        sys.modules.pop("a_model_to_time")
        if name == "branches":
            assert shown.index("return x if x > 0") < shown.index("TracerBoolConversionError") and "bench.py" not in shown
    assert bench.main([f"{file}:nothing", "--measure", "all", "--out", "x"]) == 2
    assert "has no function 'nothing'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        bench.main(["x:y", "--seconds", "0"])


def test_units():
    assert [bench.seconds(t) for t in (2.5, 0.0123, 1.5e-5, 3e-7)] == ["2.500 s", "12.30 ms", "15.00 us", "300 ns"]
    assert [bench.size(n) for n in (12, 4096, 5e6, 2.5e9)] == ["12 B", "4.1 kB", "5 MB", "2.5 GB"]


# limits


def test_limits_are_measured(monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 0.002)
    for f in (limits.peak_flops, limits.bandwidth):
        f.cache_clear()
    try:
        assert limits.peak_flops("float32", 1) > limits.peak_flops("float64", 1) / 2 > 1e7
        for read, written in ((1 << 16, 0), (0, 1 << 16), (1 << 16, 1 << 15), (3, 1)):
            assert limits.bandwidth(read, written, 1) > 1e6
        with pytest.raises(ValueError, match="float32 or float64"):
            limits.peak_flops("int32")
        with pytest.raises(ValueError, match="bytes to read and to write"):
            limits.bandwidth(0, 0)
    finally:
        for f in (limits.peak_flops, limits.bandwidth):
            f.cache_clear()


@pytest.mark.parametrize(
    ("read", "written", "want"),
    [(8, 0, (1, 0)), (0, 8, (0, 1)), (8, 4, (2, 1)), (7, 7, (1, 1)), (1000, 1, (1, 0)), (1, 1000, (0, 1)), (5, 15, (1, 3))],
)  # fmt: skip
def test_mixes(read, written, want):
    assert limits.mix(read, written) == want


# the cost model


def programs():
    """Function, arguments, and its operations."""
    x = np.ones((200, 300), np.float32)
    yield lambda a, b: a @ b, (x, x.T), 2.0 * 200 * 200 * 300
    yield lambda a: snp.sort(a, 1), (x,), 200 * 300 * math.log2(300)
    yield lambda a: lax.fft(a.astype("complex64"), "fft", (300,)), (x,), 200 * 5 * 300 * math.log2(300)
    yield lambda a: lax.linalg.cholesky(a @ a.T), (x,), 200**3 / 3 + 2.0 * 200 * 200 * 300
    yield (
        lambda a, w: lax.conv_general_dilated(a, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        (np.ones((2, 100, 16), np.float32), np.ones((3, 16, 32), np.float32)), 2.0 * 2 * 100 * 32 * 16 * 3,
    )  # fmt: skip


@pytest.mark.parametrize("case", list(programs()))
def test_library_calls_know_their_work(case):
    f, args, operations = case
    compiled = steno.jit(f).lower(*args).compile()
    calls = [s for s in compiled.runtime_executable().compiled.program.statements if hasattr(s, "operations")]
    assert sum(s.operations for s in calls) == pytest.approx(operations)
    assert compiled.cost_analysis()["flops"] >= operations * 0.999
    ns = sum(cost.library_ns(s.symbol, s.operations, [(b.dtype, b.size) for b in s.buffers]) for s in calls)
    assert estimated_ns(compiled.runtime_executable().compiled.program) >= ns > cost.LIBRARY_NS


@pytest.mark.parametrize(("n", "heavy"), [(8, False), (32, False), (600, True)])
def test_products_are_queued_by_their_work(n, heavy):
    x = np.ones((n, n), np.float32)
    assert steno.jit(lambda a, b: a @ b).lower(x, x).compile().runtime_executable().native.heavy == heavy


def test_work_is_shared_out_by_the_model(monkeypatch):
    assert cost.grain(100, cost.PARALLEL_NS / 2) is None and cost.grain(1, 1e9) is None
    assert cost.grain(100, 10 * cost.PARALLEL_NS) == 5
    monkeypatch.setattr(cost, "PARALLEL_NS", 1.0)
    text = steno.jit(lambda x: x * 2 + 1).lower(np.ones(4096, np.float32)).as_text("llvm")
    assert "call void @steno_parallel_for" in text


def test_fitted_constants_are_written_in_place():
    spec = importlib.util.spec_from_file_location("fit_cost_model", ROOT / "tools" / "fit_cost_model.py")
    fit = importlib.util.module_from_spec(spec)
    path = [*sys.path]
    spec.loader.exec_module(fit)
    sys.path[:] = path
    text = fit.FILE.read_text()
    new = {
        "OPERATION_NS": 0.025, "PARALLEL_NS": 31000.0, "WEIGHT['div']": 7.5, "LIBRARY_OPERATION_NS['steno_gemm'][None]": 0.25,
        "LIBRARY_OPERATION_NS['steno_sort']['float32']": 0.3, "LAPACK_OPERATION_NS": 0.2,
    }  # fmt: skip
    for name, value in new.items():
        assert fit.present(name) > 0
        text = fit.replaced(text, name, value)
    made: dict = {}
    exec(compile(text, "cost.py", "exec"), made)
    assert made["OPERATION_NS"] == 0.025 and made["PARALLEL_NS"] == 31000 and made["WEIGHT"]["div"] == 7.5 and made["WEIGHT"]["sqrt"] == 6.0
    assert made["LIBRARY_OPERATION_NS"]["steno_gemm"] == {"float32": 0.008, "float64": 0.016, None: 0.25}
    assert made["LIBRARY_OPERATION_NS"]["steno_sort"]["float32"] == 0.3 and made["LAPACK_OPERATION_NS"] == 0.2
    for wrong in ("NOTHING", "WEIGHT['nothing']"):
        with pytest.raises(ValueError, match="has no"):
            fit.replaced(text, wrong, 1.0)
    assert fit.rounded(0.012345) == 0.012 and fit.rounded(23456.0) == 23000
