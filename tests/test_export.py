"""Programs as bytes, profiles, dlpack, and what the process runs on."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections import namedtuple

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import export, lax, nn, profiler
from steno.experimental import serialize_executable

TABLE = np.arange(3.0, dtype=np.float32)
X = np.array([0.5, 1.0, -2.0], np.float32)


def everything(x, d):
    """A scan, a cond, a function with a derivative of its own, a constant, a sort, random numbers."""
    total, _ = lax.scan(lambda c, y: (c * nn.relu(y) + TABLE.sum(), c), x.sum(), snp.stack([x, x + 1]).sum(1))
    return {
        "r": snp.where(x > 0, snp.sin(x) @ d["a"], 0.0) + total * snp.asarray(TABLE),
        "k": lax.cond(total > 0, lambda v: v + 1, lambda v: v * 2, x),
        "z": snp.sort(x)[::-1],
        "n": steno.random.normal(steno.random.key(0), (2,)),
    }


def test_round_trip():
    d = {"a": np.eye(3, dtype=np.float32)}
    exported = export.export(steno.jit(everything))(X, d)
    loaded = export.deserialize(exported.serialize())
    want = steno.jit(everything)(X, d)
    for program in (exported, loaded):
        got = program.call(X, d)
        assert got.keys() == want.keys()
        for k in want:
            np.testing.assert_array_equal(got[k], want[k])
    assert loaded.fun_name == "everything" and loaded.platforms == ("cpu",) and loaded.in_tree == exported.in_tree
    assert [a.str_short() for a in loaded.in_avals] == ["float32[3]", "float32[3,3]"]
    np.testing.assert_array_equal(steno.jit(lambda x: loaded.call(x, d)["z"] * 2)(X), want["z"] * 2)
    assert steno.vmap(lambda x: loaded.call(x, d)["k"])(np.stack([X, X])).shape == (2, 3)


def test_derivatives_are_exported_on_request():
    f = steno.jit(lambda x: nn.relu(x).sum() + (x**3).sum())
    exported = export.export(f)(X)
    assert not export.deserialize(exported.serialize()).has_vjp()
    with pytest.raises(ValueError, match="vjp_order"):
        export.deserialize(exported.serialize()).vjp()
    loaded = export.deserialize(exported.serialize(vjp_order=1))
    (g,) = loaded.vjp().call(X, np.float32(1))
    np.testing.assert_allclose(g, steno.grad(f)(X), rtol=1e-6)


def test_a_function_s_own_derivative_is_the_one_that_is_exported():
    @steno.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * 100,))
    loaded = export.deserialize(export.export(steno.jit(f))(1.0).serialize(vjp_order=1))
    assert loaded.call(1.0) == 2
    assert loaded.vjp().call(1.0, 1.0)[0] == 100


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: export.export(lambda x: x), ValueError, "result of jit"),
        (lambda: export.export(steno.jit(abs), platforms=("tpu",)), NotImplementedError, "tpu"),
        (lambda: export.export(steno.jit(abs))(1.0).call(1), ValueError, "exported for float32"),
        (lambda: export.export(steno.jit(abs))(1.0).call(1.0, 2.0), ValueError, "structure"),
        (lambda: export.export(steno.jit(abs))(1.0).mlir_module(), NotImplementedError, "jaxpr"),
        (lambda: export.deserialize(b"something"), ValueError, "not made by"),
        (lambda: export.deserialize(export._MAGIC + pickle.dumps(Evil())), pickle.UnpicklingError, "system"),
        (lambda: export.deserialize(export._MAGIC + pickle.dumps(everything)), pickle.UnpicklingError, "everything"),
        (
            lambda: export.export(steno.jit(lambda x: steno.pure_callback(abs, x, x)))(1.0).serialize(),
            NotImplementedError,
            "Python function",
        ),
        (lambda: profiler.stop_trace(), RuntimeError, "no recording"),
    ],
)  # fmt: skip
def test_misuse(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_nodes_of_classes_are_registered_first():
    blob = export.export(steno.jit(lambda p: Pair(p.b, p.a)))(Pair(1.0, 2.0)).serialize()
    with pytest.raises(pickle.UnpicklingError, match="Pair"):
        export.deserialize(blob)
    export.register_namedtuple_serialization(Pair, serialized_name="pair")
    try:
        assert export.deserialize(blob).call(Pair(1.0, 2.0)) == Pair(2.0, 1.0)
        with pytest.raises(ValueError, match="registered already"):
            export.register_namedtuple_serialization(Pair, serialized_name="pair")
    finally:
        export._trees.clear()


def test_compiled_programs_as_bytes():
    compiled = steno.jit(lambda x, k: {"a": x * 2 + k["z"]}).lower(X, {"z": 1.0}).compile()
    loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
    np.testing.assert_array_equal(loaded(X, {"z": 1.0})["a"], X * 2 + 1)
    ref = steno.new_ref(0)

    def changes(x):
        ref[...] += x

    with pytest.raises(ValueError, match="mutable"):
        serialize_executable.serialize(steno.jit(changes).lower(1).compile())


def test_a_recording_is_a_chrome_trace(tmp_path):
    @profiler.annotate_function
    def step(x):
        return steno.jit(lambda x: x * 3 + 1)(x)

    with profiler.trace(tmp_path):
        with pytest.raises(RuntimeError, match="goes on"):
            profiler.start_trace(tmp_path)
        with profiler.StepTraceAnnotation("train", step_num=7):
            step(1.0)
    (file,) = tmp_path.rglob("*.trace.json.gz")
    events = json.loads(gzip.open(file).read())["traceEvents"]
    names = {e["name"]: e for e in events}
    assert names["train"]["args"] == {"step_num": "7"} and any("step" in n for n in names)
    assert any(n.startswith("backend_compile_duration") for n in names)
    assert all(e["ph"] == "X" and e["dur"] >= 0 for e in events)


def test_dlpack():
    x = snp.arange(3.0)
    np.testing.assert_array_equal(steno.dlpack.from_dlpack(x), x)
    assert steno.dlpack.is_supported_dtype("float32") and not steno.dlpack.is_supported_dtype(steno.random.key(0).dtype)


def test_environment():
    text = steno.print_environment_info(return_string=True)
    assert text is not None and steno.__version__ in text and np.__version__ in text
