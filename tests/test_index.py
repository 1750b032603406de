"""Index arithmetic: what simplifies, and that nothing changes in value."""

from __future__ import annotations

import itertools

from hypothesis import given, settings, strategies as st

from steno.ir.index import FloorDiv, Index, LoopVar, Mod, linear, row_major, unlinear, var


def value(i: Index, at: dict[LoopVar, int]) -> int:
    total = i.const
    for atom, c in i.terms:
        if isinstance(atom, LoopVar):
            x = at[atom]
        elif isinstance(atom, FloorDiv):
            x = value(atom.index, at) // atom.divisor
        else:
            assert isinstance(atom, Mod)
            x = value(atom.index, at) % atom.divisor
        total += c * x
    return total


def test_positions_rejoin():
    for shape in [(200, 200), (3, 5, 7), (2, 3, 4, 5), (6, 1, 4), (5,)]:
        size = 1
        for n in shape:
            size *= n
        r = var(LoopVar("r", size))
        assert linear(unlinear(r, shape), shape) == r


def test_division_with_bounds():
    i, j = LoopVar("i", 10), LoopVar("j", 3)
    position = var(i) * 3 + var(j)
    assert position // 3 == var(i) and position % 3 == var(j)
    assert (position + 30) // 3 == var(i) + 10
    assert row_major((2, 3, 4)) == (12, 4, 1)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_arithmetic_keeps_values_and_bounds(data) -> None:
    variables = [LoopVar(f"v{k}", data.draw(st.integers(1, 5))) for k in range(2)]
    points = [dict(zip(variables, p, strict=True)) for p in itertools.product(*(range(v.extent) for v in variables))]
    pool = [(var(v), [p[v] for p in points]) for v in variables] + [(Index(2), [2] * len(points))]
    for _ in range(data.draw(st.integers(1, 8))):
        a, x = data.draw(st.sampled_from(pool))
        b, y = data.draw(st.sampled_from(pool))
        k = data.draw(st.integers(1, 6))
        made = data.draw(
            st.sampled_from(
                [
                    (a + b, [p + q for p, q in zip(x, y, strict=True)]),
                    (a - b, [p - q for p, q in zip(x, y, strict=True)]),
                    (a * k, [p * k for p in x]),
                    (a // k, [p // k for p in x]),
                    (a % k, [p % k for p in x]),
                    ((a // k) * k + a % k, x),
                ]
            )
        )
        index, want = made
        assert [value(index, p) for p in points] == want
        assert all(index.lo <= w <= index.hi for w in want)
        pool.append(made)
