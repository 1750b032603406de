"""Random programs under every transformation: eager = jit = reference, derivatives against finite differences and each other, maps against
loops. `tools/random_programs.py` runs any number of them with more properties each."""

from __future__ import annotations

import numpy as np
import pytest
from check_transforms import Broken, check, random_program, report
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from random_transforms import Block, Program, Step, Value, shrink


@pytest.mark.parametrize("part", range(5))
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 10**9))
def test_random_program(part: int, seed: int) -> None:
    """A failure is shrunk by what knows the programs, not by way of the seed."""
    program = random_program(5 * seed + part, 4)
    try:
        check(program, quick=True)
    except Exception as e:
        pytest.fail(report(program, e, 100, quick=True), pytrace=False)


def program(*steps: Step) -> Program:
    return Program(1, "both", Block("program", (Value("v0", (3,)),), steps, (steps[-1].targets[0].name,), "({},)"))


def test_a_wrong_derivative_is_found_and_shrunk() -> None:
    rules = ("g = jax.custom_jvp(f)", "g.defjvp(lambda p, t: (f(p[0]), t[0]))")
    body = Block("f", (Value("v3", (3,)),), (Step((Value("v4", (3,)),), "jnp.sin(v3)"),), ("v4",))
    wrong = program(
        Step((Value("v1", (3,)),), "jnp.cos(v0)"),
        Step((Value("v2", (3,)),), "v1 * 2.0"),
        Step((Value("v5", (3,)),), "g(v2)", (body,), rules),
        Step((Value("v6", (3,)),), "v5 + v1"),
    )
    with pytest.raises(Broken, match="jvp against finite differences") as found:
        check(wrong)
    text = report(wrong, found.value)
    assert "g(v0)" in text and "v6" not in text, text
    assert shrink(wrong, lambda p: "g(" in p.source()).source().count("\n") == 7


def test_ties_are_no_failures() -> None:
    check(program(Step((Value("v1", (3,)),), "jnp.abs(v0 - v0) * jnp.floor(v0 / v0)")))


def test_programs_are_the_same_for_the_same_seed_and_of_all_kinds() -> None:
    sources = [random_program(seed).source() for seed in range(200)]
    assert sources == [random_program(seed).source() for seed in range(200)]
    text = "".join(sources)
    control = "scan cond switch while_loop fori_loop lax.map associative_scan custom_jvp custom_vjp checkpoint jax.jit jax.vmap jax.grad"
    assert not [w for w in f"{control} dot_general sort cum .at[".split() if w not in text]
    assert np.mean([s.count("\n") for s in sources]) > 8


@pytest.mark.parametrize("seed", [2333444934, 15520, 15877])
def test_programs_that_once_failed(seed):
    check(random_program(seed, 4), quick=True)
