"""Derivatives, maps, custom rules and checkpoint: values, dtypes, weak types and errors of the real JAX."""

from __future__ import annotations

import numpy as np
import pytest
import transform_tables as tables
from peer import NO_JAX, Expr, Failure, Leaf, Outcome, compare_all, differences, peer, run_here

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

RUN = "(lambda names: (exec(code, names), names['out'])[1])(dict(jax=jax, jnp=jnp, lax=lax, np=np, **variables))"


def lines(table: str) -> list[str]:
    return [line for line in table.strip().splitlines() if line]


def block(source: str) -> Expr:
    """Statements that set `out`."""
    return Expr(RUN, code=source.strip(), variables=tables.VARIABLES)


def calls(table: str) -> list[Expr]:
    return [Expr(line, **tables.VARIABLES) for line in lines(table)]


@pytest.mark.parametrize("table", ["DERIVATIVES", "MAPS", "REMAT"])
def test_programs(table: str) -> None:
    compare_all(calls(getattr(tables, table)), rtol=1e-4, atol=1e-5)


def test_collectives() -> None:
    mapped = [Expr(f"jax.vmap(lambda x: ({line}), axis_name='i')(w)", **tables.VARIABLES) for line in lines(tables.COLLECTIVES)]
    compare_all(mapped, rtol=1e-4, atol=1e-5)


def test_collectives_jitted() -> None:
    mapped = [Expr(f"jax.jit(jax.vmap(lambda x: ({line}), axis_name='i'))(w)", **tables.VARIABLES) for line in lines(tables.COLLECTIVES)]
    compare_all(mapped, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", range(len(tables.CUSTOM)))
def test_custom_rules(k: int) -> None:
    """Weak types aside: rules give what they give."""
    call = block(tables.CUSTOM[k])
    server = peer()
    assert server is not None
    got, want = arrays(run_here([call])[0]), arrays(server.call(call))
    assert not isinstance(got, Failure), got
    found = differences(got, want, rtol=1e-4, atol=1e-5, weak=False)
    assert not found, "\n".join([tables.CUSTOM[k], *found])


def arrays(outcome: Outcome) -> Outcome:
    """Python's numbers as arrays: what functions return may be either."""
    if isinstance(outcome, tuple):
        inner = outcome[1]
        return outcome[0], {k: arrays(v) for k, v in inner.items()} if isinstance(inner, dict) else [arrays(v) for v in inner]
    if isinstance(outcome, Leaf) and outcome.kind == "python" and type(outcome.value) in (int, float):
        value = np.float32(outcome.value) if type(outcome.value) is float else np.int32(outcome.value)
        return Leaf("array", np.asarray(value), value.dtype.name, True, ())
    return outcome


FIRST = "f = jax.custom_jvp(lambda x: {'a': x})\ng = jax.custom_vjp(lambda x: {'a': x})\n"


def test_custom_rules_that_are_wrong() -> None:
    sources = []
    for line in tables.CUSTOM_ERRORS:
        rest = "" if "out =" in line else f"\nout = jax.grad(lambda x: {line[0]}(x)['a'])(1.)"
        sources.append(FIRST + line.replace("; ", "\n") + rest)
    check_errors([block(s) for s in sources])


def test_errors() -> None:
    check_errors(calls(tables.ERRORS))


def check_errors(programs: list[Expr]) -> None:
    """Both sides fail, here with JAX's class (or a subclass) and a message that begins like JAX's, if JAX's says something."""
    server = peer()
    assert server is not None
    found = []
    for call, want, got in zip(programs, server.batch(programs), run_here(programs), strict=True):
        assert isinstance(want, Failure), f"{call} works in JAX: {want}"
        wanted = "TypeError" if want.name == "InvalidInputException" else want.name  # the former is JAX's own affair
        if not isinstance(got, Failure) or wanted not in got.bases:
            found.append(f"{call}\n  {got!r}\n  JAX: {want.name}: {want.message[:200]}")
        elif not got.message:
            found.append(f"{call}: no message")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("table", ["DERIVATIVES", "MAPS", "REMAT"])
def test_jit_changes_nothing(table: str) -> None:
    """The same programs as one compiled program each; those whose result is no tree of arrays, or that branch in Python, aside."""
    sources = [
        s for s in lines(getattr(tables, table)) if not any(w in s for w in ("'text'", "if x > 0", "int(x)", "[0])\n", "None)", "key"))
    ]
    names = ", ".join(tables.VARIABLES)
    plain = run_here([Expr(s, **tables.VARIABLES) for s in sources])
    jitted = run_here([Expr(f"jax.jit(lambda {names}: {s})({names})", **tables.VARIABLES) for s in sources])
    for source, a, b in zip(sources, plain, jitted, strict=True):
        if isinstance(b, Failure) and "float0" in b.message:
            continue
        assert _close(a, b), f"{source}\n  {a!r}\n  jitted: {b!r}"


def _close(a: Outcome, b: Outcome) -> bool:
    if isinstance(a, Failure) or isinstance(b, Failure):
        return False
    if isinstance(a, tuple):
        if isinstance(b, tuple) and a[0] != b[0]:
            return False
        keys = list(a[1]) if a[0] == "dict" else range(len(a[1]))
        return isinstance(b, tuple) and all(_close(a[1][k], b[1][k]) for k in keys)
    if a.kind == "python" or a.value.dtype.names:  # numbers become arrays; float0 holds nothing
        return True
    return a.dtype == b.dtype and bool(np.allclose(a.value, b.value, rtol=1e-5, atol=1e-6, equal_nan=True))
