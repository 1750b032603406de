"""`debug.breakpoint` and `live_arrays`."""

from __future__ import annotations

import io

import pytest

import steno
import steno.numpy as snp
from steno import lax

WORDS = "of the module"


def _answers(commands, make, *args, **options):
    """What the prompt answers to the commands in a function made by `make(breakpoint)`."""
    stdin, stdout = io.StringIO("".join(c + "\n" for c in commands)), io.StringIO()

    def stop(**more):
        return steno.debug.breakpoint(stdin=stdin, stdout=stdout, num_frames=4, **options, **more)

    make(stop)(*args)
    steno.effects_barrier()
    entered, *answers = stdout.getvalue().split("(jdb) ")
    assert entered == "Entering jdb:\n"
    return [a.removesuffix("\n") for a in answers]


def _function(stop):
    def f(x):
        y = x + 1.0
        kept = {"a": (y, 3), "words": "inner"}
        stop()
        return y * kept["a"][0]

    return f


EAGER = {"eager": lambda f: f, "jit": steno.jit, "grad": steno.grad, "jit of grad": lambda f: steno.jit(steno.grad(f))}


@pytest.mark.parametrize("name", EAGER)
def test_values_of_variables(name):
    got = _answers(["u", "p x, y", "kept['words'], WORDS", "p z", "pp kept", "", "c"], lambda b: EAGER[name](_function(b)), snp.float32(2))
    assert got[1:4] == [
        "(Array(2., dtype=float32), Array(3., dtype=float32))", "('inner', 'of the module')", "*** NameError: name 'z' is not defined",
    ]  # fmt: skip
    assert got[4:] == ["{'a': (Array(3., dtype=float32), 3), 'words': 'inner'}", "", ""]


def test_once_for_each_element():
    got = _answers(["u", "p y", "c"] * 2, lambda b: steno.vmap(_function(b)), snp.arange(2.0))
    assert [a.split("\n")[0] for a in got if a.startswith("Array")] == ["Array(1., dtype=float32)", "Array(2., dtype=float32)"]


def test_source_and_frames():
    listing, outer, again, trace, top, _ = _answers(["u", "u", "d", "bt", "d", "c"], lambda b: lambda x: _function(b)(x), 1.0)
    assert listing.split("\n")[0].startswith(f"> {__file__}(") and "->          stop()" in listing.split("\n")
    assert "lambda x: _function(b)(x)" in outer and again == listing
    assert trace.startswith("Traceback:\n  File") and trace.rstrip().endswith("num_frames=4, **options, **more)")
    assert "return steno.debug.breakpoint" in top
    assert _answers(["d", "c"], _function, 1.0)[0] == "At bottommost frame."


def test_ends():
    with pytest.raises(SystemExit):
        _answers(["q"], _function, 1.0)
    with pytest.raises(SystemExit):
        _answers([], lambda b: steno.jit(_function(b)), 1.0)
    with pytest.raises(ValueError, match="backend"):
        steno.debug.breakpoint(backend="web")


def test_loops_and_tokens():
    def loop(stop):
        def body(c, x):
            stop(ordered=True)
            return c + x, None

        return steno.jit(lambda xs: lax.scan(body, 0.0, xs)[0])

    got = _answers(["u", "c", "c"], loop, snp.arange(2.0))
    assert got[-1] == "" and len(got) == 3 and "stop(ordered=True)" in got[0]

    out = []
    got = _answers(["c"], lambda stop: lambda x: out.append(steno.jit(lambda v: stop(token=v * 2))(x)), snp.float32(3))
    assert float(out[0]) == 6


def test_keys_without_an_order():
    class Key:
        pass

    def make(stop):
        def f(x):
            table = {Key(): x, Key(): 1}
            stop()
            return len(table)

        return f

    assert _answers(["u", "p len(table), x", "c"], make, 2.0)[1] == "(2, 2.0)"


def test_live_arrays():
    class Holder:
        pass

    holder = Holder()
    holder.value = (snp.full(3, 1.5), {"inner": snp.full(3, 2.5)})
    local = snp.full(3, 3.5)
    mine = lambda: sorted(float(x[0]) for x in steno.live_arrays() if x.shape == (3,) and float(x[0]) in (1.5, 2.5, 3.5))  # noqa: E731
    assert mine() == [1.5, 2.5, 3.5]
    local.delete()
    assert mine() == [1.5, 2.5]
    holder.value = None
    assert mine() == [] and all(x is not local for x in steno.live_arrays("cpu"))
    with pytest.raises(RuntimeError, match="tpu"):
        steno.live_arrays("tpu")
