"""Loop programs: text out and in, the checker, the reference interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from random_loops import random_program, same

from steno.ir import interp_loops
from steno.ir.check_loops import InvalidProgram, check
from steno.ir.expr import Builder, Expr
from steno.ir.index import Index, LoopVar, var
from steno.ir.loops import Buffer, Fold, HostCall, Kernel, LibraryCall, MapStage, Program, RowReduce, Store, halving
from steno.ir.parse_loops import parse
from steno.ir.print_loops import show

F32, I32, B = np.dtype("float32"), np.dtype("int32"), np.dtype("bool")
KINDS = ["map_kernel", "row_kernel", "column_kernel", "running_kernel", "block_kernels"]

EXAMPLE = """program arena 192
input x float32[1000]
output y float32[10]
arena t float32[32] @ 64
kernel k cost 20000.0 outer i:10
  local row float32[100]
  map v:100
    %0 = load float32 x[100*i + v]
    %1 = const float32 0x1.8000000000000p+0
    %2 = mul float32 %0 %1
    row[v] = %2
  row r:100 -> s
    %3 = load float32 row[r]
    elements %3
    %4 = acc float32 0
    %5 = elt float32 0
    %6 = add float32 %4 %5
    %7 = const float32 0x0.0p+0
    fold %6 from %7
  map
    %8 = local float32 s
    y[i] = %8
call sort (x t) meta 3 1
host 0 (x y)
copy t -> t
"""


def test_text_of_the_example_round_trips():
    program = parse(EXAMPLE)
    check(program)
    assert show(program) == EXAMPLE


def test_the_example_runs():
    program = parse(EXAMPLE)
    calls = []
    x = np.arange(1000, dtype=np.float32)
    (y,) = interp_loops.run(program, [x], {"sort": lambda buffers, meta: calls.append(meta) or 0}, lambda k, buffers: calls.append(k) or 0)
    assert calls == [(3, 1), 0]
    assert np.allclose(y, 1.5 * x.reshape(10, 100).sum(1))


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs_round_trip(kind):
    for seed in range(12):
        program, inputs = random_program(seed, kind)
        check(program)
        again = parse(show(program))
        check(again)
        assert show(again) == show(program)
        if seed < 4:
            for a, b in zip(interp_loops.run(program, inputs), interp_loops.run(again, inputs), strict=True):
                assert same(a, b)


@pytest.mark.parametrize(
    "line",
    [
        "kernel",
        "bogus x",
        "copy x -> nowhere",
        "input x",
        "kernel k cost 1\n  map v:3\n    x[v] = %9",
        "kernel k cost 1\n  map v:3\n    %0 = load float32 x[w]",
    ],
)
def test_bad_text_names_the_line(line):
    with pytest.raises(SyntaxError, match="line"):
        parse(f"program arena 0\ninput x float32[3]\n{line}\n")


def _program(stores, vars_=(), buffers=(), outputs=()):
    return Program(tuple(buffers), tuple(outputs), (), (), 0, (Kernel("k", (), (MapStage(tuple(vars_), tuple(stores)),)),))


def test_checker_finds_faults():
    b = Builder()
    v, w = LoopVar("v", 8), LoopVar("w", 8)
    x, y = Buffer("x", F32, 8, "input"), Buffer("y", F32, 8, "output")
    good = b.load(x, var(v))
    check(_program([Store(y, var(v), good)], [v], [x], [y]))
    faults = {
        "not bound": [Store(y, var(w), good)],
        "stores int32": [Store(y, var(v), b.const(1, I32))],
        "may write": [Store(x, var(v), good)],
        "outside buffer": [Store(y, var(v) + 8, good)],
        "no op frob": [Store(y, var(v), Expr("frob", F32, (good,)))],
        "add : float32 of operands": [Store(y, var(v), Expr("add", F32, (good, b.const(1, I32))))],
        "guard of dtype float32": [Store(y, var(v), good, good)],
        "local s": [Store(y, var(v), b.local("s", F32))],
        "outside a fold": [Store(y, var(v), b.acc(0, F32))],
        "load of int32": [Store(y, var(v), b.convert(Expr("load", I32, (), (x, var(v), None)), F32))],
    }
    for message, stores in faults.items():
        with pytest.raises(InvalidProgram, match=message):
            check(_program(stores, [v], [x], [y]))
    with pytest.raises(InvalidProgram, match="arena of 10 bytes"):
        check(Program((), (), (Buffer("t", F32, 8, "arena"),), (0,), 10, ()))
    fold = Fold((b.const(0, F32),), (b.add(b.acc(0, F32), b.elt(0, F32)),))
    with pytest.raises(InvalidProgram, match="2 locals"):
        check(Program((x,), (y,), (), (), 0, (Kernel("k", (), (RowReduce(v, (good,), fold, ("s", "t")),)),)))


def test_interpreter_checks_indices():
    b = Builder()
    v = LoopVar("v", 8)
    x, y = Buffer("x", F32, 4, "input"), Buffer("y", F32, 8, "output")
    with pytest.raises(IndexError, match="element 4 of buffer x"):
        interp_loops.run(_program([Store(y, var(v), b.load(x, var(v)))], [v], [x], [y]), [np.zeros(4, F32)])
    with pytest.raises(RuntimeError, match="same element of y"):
        interp_loops.run(_program([Store(y, Index(0), b.const(1, F32))], [v], [x], [y]), [np.zeros(4, F32)])


def test_status_ends_the_program():
    x = Buffer("x", F32, 4, "input")
    for s in (LibraryCall("f", (x,), ()), HostCall(0, (x,))):
        with pytest.raises(RuntimeError, match="status 3"):
            interp_loops.run(Program((x,), (), (), (), 0, (s,)), [np.zeros(4, F32)], {"f": lambda buffers, meta: 3}, lambda k, buffers: 3)


def test_halving_visits_everything_once():
    for n in range(1, 70):
        seen = [{k} for k in range(n)]
        for i, j in halving(n):
            assert not seen[i] & seen[j]
            seen[i] |= seen[j]
        assert seen[0] == set(range(n))


def test_values_precede_stores_at_a_point():
    """(x, y) = (y, x), element by element."""
    b = Builder()
    v = LoopVar("v", 4)
    x, y = Buffer("x", F32, 4, "output"), Buffer("y", F32, 4, "output")
    stores = [Store(x, var(v), b.load(y, var(v))), Store(y, var(v), b.load(x, var(v)))]
    out = interp_loops.run(_program(stores, [v], [x, y], [x, y]), [np.arange(4, dtype=F32), np.ones(4, F32)])
    assert out[0].tolist() == [1, 1, 1, 1] and out[1].tolist() == [0, 1, 2, 3]
