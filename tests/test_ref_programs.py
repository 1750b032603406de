"""Random programs over references, loops, branches and calls: compiled, mapped and differentiated, against the same program in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import steno
import steno.numpy as jnp
from steno import lax

ROWS, COLUMNS = 4, 3

# index ::= row | (row, column) | slice | array        row, column ::= a number | "i", the innermost loop's counter
rows = st.one_of(st.integers(-ROWS, ROWS - 1), st.just("i"))
columns = st.one_of(st.integers(-COLUMNS, COLUMNS - 1), st.just("i"))
indices = st.one_of(
    rows,
    st.tuples(rows, columns),
    st.just(slice(1, 3)),
    st.tuples(st.just(slice(None, None, 2)), columns),
    st.just(...),
    st.just(np.array([2, 0])),
    st.tuples(st.just(np.array([1, 3, 2])), columns),
)
views = st.one_of(st.none(), st.just(slice(0, 4)), st.just(np.array([3, 1, 0, 2])))
names = st.sampled_from("ab")
factors = st.sampled_from([0.5, -0.25, 1.25])


def statements(depth: int) -> st.SearchStrategy[list[Any]]:
    simple = st.one_of(
        st.tuples(st.just("set"), names, views, indices, names, factors),
        st.tuples(st.just("add"), names, indices, names, factors),
        st.tuples(st.just("swap"), names, indices, factors),
    )
    if depth == 0:
        return st.lists(simple, min_size=1, max_size=3)
    inner = statements(depth - 1)
    nested = st.one_of(
        st.tuples(st.just("fori"), st.integers(0, 3), inner),
        st.tuples(st.just("scan"), names, inner),
        st.tuples(st.just("while"), st.integers(0, 3), inner),
        st.tuples(st.just("cond"), names, inner, inner),
        st.tuples(st.just("jit"), inner),
        st.tuples(st.just("new"), names, inner),
    )
    return st.lists(st.one_of(simple, nested), min_size=1, max_size=3)


def resolve(index: Any, i: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(resolve(k, i) for k in index)
    return i if isinstance(index, str) else index


class Steno:
    """Runs statements on references. `i` is at most 2, so it is in range everywhere."""

    def __init__(self, reverse_mode: bool) -> None:
        self.reverse_mode = reverse_mode

    def run(self, refs: dict[str, Any], todo: list[Any], i: Any) -> None:
        for s in todo:
            getattr(self, s[0])(refs, i, *s[1:])

    def set(self, refs: Any, i: Any, name: str, view: Any, index: Any, source: str, factor: float) -> None:
        target = refs[name] if view is None else refs[name].at[view]
        index = resolve(index, i)
        target[index] = jnp.sin(refs[source][index]) * factor

    def add(self, refs: Any, i: Any, name: str, index: Any, source: str, factor: float) -> None:
        index = resolve(index, i)
        steno.ref.addupdate(refs[name], index, refs[source][index] * factor)

    def swap(self, refs: Any, i: Any, name: str, index: Any, factor: float) -> None:
        index = resolve(index, i)
        old = steno.ref.swap(refs[name], index, refs[name][index] * factor)
        refs[name][0] += jnp.sum(old)

    def fori(self, refs: Any, i: Any, n: int, inner: list[Any]) -> None:
        lax.fori_loop(0, n, lambda k, c: self.run(refs, inner, k), None)

    def scan(self, refs: Any, i: Any, name: str, inner: list[Any]) -> None:
        """Over the rows of another reference, the counter going down."""
        other = steno.new_ref(refs[name][:3])

        def body(c: Any, rows: Any) -> Any:
            k, row = rows
            row[...] += refs["a"][k]
            self.run(refs, inner, k)
            return c, row[0]

        _, firsts = lax.scan(body, None, (jnp.arange(3), other), reverse=True)
        refs[name][0] = other[1] + firsts

    def while_(self, refs: Any, i: Any, n: int, inner: list[Any]) -> None:
        if self.reverse_mode:
            return self.fori(refs, i, n, inner)
        lax.while_loop(lambda k: k < n, lambda k: (self.run(refs, inner, k), k + 1)[1], 0)

    def cond(self, refs: Any, i: Any, name: str, yes: list[Any], no: list[Any]) -> None:
        lax.cond(refs[name][0, 0] > 0.1, lambda: self.run(refs, yes, i), lambda: self.run(refs, no, i))

    def jit(self, refs: Any, i: Any, inner: list[Any]) -> None:
        steno.jit(lambda i: self.run(refs, inner, i))(i)

    def new(self, refs: Any, i: Any, name: str, inner: list[Any]) -> None:
        other = {**refs, name: steno.new_ref(refs[name][...] * 0.5)}
        self.run(other, inner, i)
        refs[name][1] = other[name][2]


setattr(Steno, "while", Steno.while_)


class Numpy:
    """The same on arrays that are changed."""

    def run(self, refs: dict[str, np.ndarray], todo: list[Any], i: int) -> None:
        for s in todo:
            getattr(self, s[0])(refs, i, *s[1:])

    def set(self, refs: Any, i: int, name: str, view: Any, index: Any, source: str, factor: float) -> None:
        index = resolve(index, i)
        value = np.sin(refs[source][index]) * factor
        if view is None:
            refs[name][index] = value
        else:
            part = refs[name][view].copy()
            part[index] = value
            refs[name][view] = part

    def add(self, refs: Any, i: int, name: str, index: Any, source: str, factor: float) -> None:
        index = resolve(index, i)
        np.add.at(refs[name], index, refs[source][index] * factor)

    def swap(self, refs: Any, i: int, name: str, index: Any, factor: float) -> None:
        index = resolve(index, i)
        old = refs[name][index].copy()
        refs[name][index] = old * factor
        refs[name][0] += old.sum()

    def fori(self, refs: Any, i: int, n: int, inner: list[Any]) -> None:
        for k in range(n):
            self.run(refs, inner, k)

    def scan(self, refs: Any, i: int, name: str, inner: list[Any]) -> None:
        other, firsts = refs[name][:3].copy(), np.zeros(3)
        for k in (2, 1, 0):
            other[k] += refs["a"][k]
            self.run(refs, inner, k)
            firsts[k] = other[k, 0]
        refs[name][0] = other[1] + firsts

    def while_(self, refs: Any, i: int, n: int, inner: list[Any]) -> None:
        self.fori(refs, i, n, inner)

    def cond(self, refs: Any, i: int, name: str, yes: list[Any], no: list[Any]) -> None:
        self.run(refs, yes if refs[name][0, 0] > 0.1 else no, i)

    def jit(self, refs: Any, i: int, inner: list[Any]) -> None:
        self.run(refs, inner, i)

    def new(self, refs: Any, i: int, name: str, inner: list[Any]) -> None:
        other = {**refs, name: refs[name] * 0.5}
        self.run(other, inner, i)
        refs[name][1] = other[name][2]


setattr(Numpy, "while", Numpy.while_)

A = np.linspace(-1, 1, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
B = np.cos(np.arange(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)


def expected(todo: list[Any], a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    refs = {"a": a.copy(), "b": b.copy()}
    Numpy().run(refs, todo, 1)
    return refs["a"], refs["b"]


def function(todo: list[Any], reverse_mode: bool = False) -> Any:
    def f(a: Any, b: Any) -> Any:
        refs = {"a": steno.new_ref(a), "b": steno.new_ref(b)}
        Steno(reverse_mode).run(refs, todo, 1)
        return refs["a"][...], steno.freeze(refs["b"])

    return f


def same(got: Any, want: Any, tolerance: float = 1e-6) -> None:
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("around", ["jit", "eager", "passed", "vmap"])
@given(todo=statements(2))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_values(around: str, todo: list[Any]) -> None:
    with steno.enable_x64(True):
        want = expected(todo, A, B)
        f = function(todo)
        if around == "jit":
            same(steno.jit(f)(A, B), want)
        elif around == "eager":
            same(f(A, B), want)
        elif around == "passed":
            refs = {"a": steno.new_ref(A), "b": steno.new_ref(B)}
            steno.jit(lambda refs: Steno(False).run(refs, todo, 1))(refs)
            same((refs["a"][...], refs["b"][...]), want)
        else:
            batches = [np.stack([x, -x, x * 0.5]) for x in (A, B)]
            want = zip(*(expected(todo, a, b) for a, b in zip(*batches, strict=True)), strict=True)
            same(steno.jit(steno.vmap(f))(*batches), [np.stack(w) for w in want])


@given(todo=statements(1))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_derivatives(todo: list[Any]) -> None:
    """Forward mode against differences, reverse mode against forward mode."""
    with steno.enable_x64(True):
        f = function(todo, reverse_mode=True)
        da, db = np.sin(A * 3), np.cos(B * 2)
        _, forward = steno.jit(lambda a, b: steno.jvp(f, (a, b), (da, db)))(A, B)
        h = 1e-6
        high, low = expected(todo, A + h * da, B + h * db), expected(todo, A - h * da, B - h * db)
        middle = expected(todo, A, B)
        smooth = all(np.allclose(u + v, 2 * m, atol=1e-7) for u, v, m in zip(high, low, middle, strict=True))  # no branch changed
        if smooth:
            same(forward, [(u - v) / (2 * h) for u, v in zip(high, low, strict=True)], 1e-5)
        _, pull = steno.vjp(f, A, B)
        ga, gb = pull((jnp.asarray(B), jnp.asarray(A)))
        np.testing.assert_allclose(np.sum(ga * da) + np.sum(gb * db), np.sum(forward[0] * B) + np.sum(forward[1] * A), rtol=1e-8, atol=1e-8)
