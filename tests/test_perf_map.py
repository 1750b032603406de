"""The map of compiled code for perf: every function of a program, under a name that says what it computes, where its code is."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import lax
from steno.compiler import perf_map
from steno.core.config import perf_map as knob

LINE = re.compile(r"([0-9a-f]+) ([0-9a-f]+) (\S.*)")


def softmax(x):
    e = snp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture
def mapped(tmp_path, monkeypatch):
    """Compiles under the knob; gives a reader of the map: (address, size, name) of each line."""
    monkeypatch.setattr(perf_map, "FOLDER", tmp_path)
    with knob(True):
        yield lambda: [(int(a, 16), int(n, 16), name) for a, n, name in map(parsed, perf_map.path().read_text().splitlines())]


def parsed(line):
    m = LINE.fullmatch(line)
    assert m, line
    return m.groups()


def compiled(f, *args):
    return steno.jit(f).lower(*args).compile().runtime_executable().compiled


def test_kernels_are_named_where_their_code_is(mapped):
    program = compiled(lambda x, w: softmax(x) @ w, np.ones((64, 32), np.float32), np.ones((32, 64), np.float32))
    lines = mapped()
    (image,) = program.linked.objects
    expected = {name: (offset, size) for name, offset, size in perf_map.functions(image)}
    base = program.linked.address - expected["entry"][0]
    assert {(a, n) for a, n, _ in lines} == {(base + offset, size) for offset, size in expected.values()}
    (name,) = [n for _, _, n in lines if "reduce_max" in n]
    assert name == "<lambda>/reduce_max_broadcast_in_dim_sub_exp_reduce_sum_div:float32[64,32]"
    assert [a for a, _, n in lines if n == "<lambda>/entry"] == [program.linked.address]


def test_the_address_is_that_of_the_code(mapped):
    program = compiled(lambda x, y: x + y, np.ones(64, np.float32), np.ones(64, np.float32))
    (address, size) = next((a, n) for a, n, name in mapped() if name == "<lambda>/add:float32[64]")
    assert ctypes.string_at(address, size) in program.linked.objects[0]  # nothing in it is relocated


def test_functions_do_not_overlap_and_loops_have_names(mapped):
    def f(x):
        y = lax.scan(lambda c, r: (snp.sin(c) + r, c.sum()), x[0], x)[1]
        return y, lax.fori_loop(0, 9, lambda i, a: a * 0.5 + i, 1.0), x.at[1].set(2.0)

    keep = compiled(f, np.ones((50, 40), np.float32)), compiled(softmax, np.ones((70, 500), np.float32))
    lines = sorted(mapped())
    assert all(a + n <= b for (a, n, _), (b, _, _) in zip(lines, lines[1:], strict=False))
    names = [name for _, _, name in lines]
    assert any(n.startswith("f/program_of_") for n in names) and any(n.startswith("f/loop_of_") for n in names)
    assert any("update" in n and n.startswith("f/") for n in names) and any(n.startswith("softmax/") for n in names)
    assert all(keep)


def test_a_large_program_is_one_object(mapped):
    def f(x):
        return [snp.tanh(x * k).sum(axis=k % 2) for k in range(12)]

    program = compiled(f, np.ones((30, 20), np.float32))
    assert len(program.linked.objects) == 1
    assert sum(name.startswith("f/") for _, _, name in mapped()) == len(list(perf_map.functions(program.linked.objects[0])))


def test_no_map_is_written_unless_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(perf_map, "FOLDER", tmp_path)
    program = compiled(lambda x: snp.exp(x) + 1, np.ones(7, np.float32))
    assert not perf_map.path().exists()
    (kernel,) = program.program.statements
    assert kernel.name == "add"


def test_another_ones_file_is_not_written(mapped, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("")
    perf_map.path().symlink_to(victim)
    with pytest.warns(RuntimeWarning, match="no names for perf"):
        compiled(lambda x: snp.cos(x), np.ones(5, np.float32))
    assert victim.read_text() == ""


def test_environment_and_fork():
    code = """
import os, steno, steno.numpy as snp
steno.jit(lambda x: snp.exp(x))(1.0)
pid = os.fork()
if not pid:
    os._exit(0 if "exp" in open(f"/tmp/perf-{os.getpid()}.map").read() else 1)
print(pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.getpid())
"""
    env = os.environ | {"STENO_PERF_MAP": "1"}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    child, status, parent = map(int, out.stdout.split())
    paths = [Path(f"/tmp/perf-{pid}.map") for pid in (child, parent)]
    texts = [p.read_text() for p in paths]
    for p in paths:
        p.unlink()
    assert status == 0
    assert all("<lambda>/exp:float32[]" in t for t in texts)
