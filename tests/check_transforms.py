"""What has to hold of every program: its compiled code, its derivatives and its maps agree with each other and with finite differences.

    check(random_program(seed))        raises Broken("gradient", "...") or whatever the program raised
    report(program, error)             the failure with the program shrunk, as source that runs

The reference backend (NumPy, op by op) evaluates a program and its transformations; the compiler has to agree with it; finite differences
are taken along one direction, in float64. At an honest tie, a point where the program is not smooth or steps by rounding, there is nothing
to compare: `Broken` is raised only if the program moves little with tiny changes of its inputs."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from random_transforms import Program, random_program, shrink

import steno
import steno.numpy as snp
from steno import lax
from steno.core.jaxpr import check_jaxpr

NAMESPACE = {"jax": steno, "jnp": snp, "lax": lax, "np": np}
LARGE = 1e6
STEP = 1e-4
Arrays = list[np.ndarray]


def rounded(x: np.ndarray, step: float) -> np.ndarray:
    return np.round(x / step) * step if step else x


class Broken(AssertionError):
    def __init__(self, what: str, message: str) -> None:
        super().__init__(f"{what}: {message}")
        self.what = what


@contextmanager
def backend(name: str) -> Iterator[None]:
    before = steno.config.steno_backend
    steno.config.update("steno_backend", name)
    try:
        yield
    finally:
        steno.config.update("steno_backend", before)


def arrays(tree: Any) -> Arrays:
    return [np.asarray(x) for x in steno.tree.leaves(tree)]


def tame(values: Sequence[np.ndarray]) -> bool:
    return all(np.all(np.abs(v) < LARGE) for v in values)  # no for NaN


def close(got: Sequence[np.ndarray], want: Sequence[np.ndarray], rtol: float) -> bool:
    return len(got) == len(want) and all(
        g.shape == w.shape and g.dtype == w.dtype and bool(np.all(np.abs(g - w) <= rtol * (1 + np.abs(w).max(initial=0.0))))
        for g, w in zip(got, want, strict=True)
    )


def dot(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    return float(sum(np.vdot(x, y) for x, y in zip(a, b, strict=True)))


@dataclass(frozen=True)
class Written:
    """A function, and float64 arrays where it is to be checked, instead of a random program."""

    f: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]
    mode: str = "both"
    seed: int = 1

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [x.shape for x in self.arguments]

    def function(self, namespace: Any) -> Callable[..., Any]:
        def leaves(*args: Any) -> tuple[Any, ...]:
            return tuple(y for y in steno.tree.leaves(self.f(*args)) if y.dtype == np.float64)

        return leaves


class Checker:
    """One program at one point."""

    def __init__(
        self, program: Program | Written, counts: collections.Counter[str] | None = None, quick: bool = False, compiling: bool = True
    ) -> None:
        self.program, self.quick, self.compiling = program, quick, compiling
        self.n_batch = 2 if quick else 3
        self.counts = collections.Counter() if counts is None else counts
        self.f = program.function(NAMESPACE)
        rng = self.rng = np.random.default_rng(program.seed)
        if isinstance(program, Written):
            self.x = list(program.arguments)
            factors = 1 + 0.1 * rng.random(self.n_batch)
            self.xs = [np.multiply.outer(factors, x) for x in self.x]
        else:
            step = 0.5 if program.seed % 8 == 0 else 0.0  # with ties
            self.x = [rounded(rng.standard_normal(s), step) for s in program.shapes]
            self.xs = [rounded(rng.standard_normal((self.n_batch, *s)), step) for s in program.shapes]
        self.t = [rng.standard_normal(s) for s in program.shapes]
        self.axes = tuple(None if len(self.x) > 1 and rng.random() < 0.25 else 0 for _ in self.x)
        if all(a is None for a in self.axes):
            self.axes = (0, *self.axes[1:])
        self.reverse, self.forward = program.mode != "forward", program.mode != "reverse"

    # what is compared

    def loss(self, *x: Any) -> Any:
        return sum(snp.vdot(w, y) for w, y in zip(self.weights, self.f(*x), strict=True))

    def grad(self, *x: Any) -> Any:
        return steno.grad(self.loss, tuple(range(len(self.x))))(*x)

    def jvp(self, *x: Any) -> Any:
        return steno.jvp(self.f, x, tuple(map(snp.asarray, self.t)))

    def second(self, *x: Any) -> Any:
        """The Hessian times t."""
        if self.forward:
            return steno.jvp(self.grad, x, tuple(map(snp.asarray, self.t)))[1]
        return steno.grad(lambda *x: sum(snp.vdot(t, g) for t, g in zip(self.t, self.grad(*x), strict=True)), tuple(range(len(x))))(*x)

    def second_forward(self, *x: Any) -> Any:
        return steno.jvp(lambda *x: self.jvp(*x)[1], x, tuple(map(snp.asarray, self.t)))[1]

    def at(self, step: float) -> list[Any]:
        return [snp.asarray(a + step * t) for a, t in zip(self.x, self.t, strict=True)]

    def smooth(self, f: Callable[..., Any]) -> tuple[bool, Arrays]:
        """The derivative of f along t by central differences, and whether f is smooth there: two step lengths agree on it, and the slopes
        on the two sides come closer as the step gets shorter."""
        here = arrays(f(*self.at(0.0)))
        slopes, gaps = [], []
        for h in (STEP, STEP / 4):
            a, b = arrays(f(*self.at(h))), arrays(f(*self.at(-h)))
            slopes.append([(p - q) / (2 * h) for p, q in zip(a, b, strict=True)])
            gaps.append([np.abs(p + q - 2 * o) / h for p, q, o in zip(a, b, here, strict=True)])
        best = [b + (b - a) / 15 for a, b in zip(*slopes, strict=True)]
        even = all(np.all(b <= 0.5 * a + 1e-6 * (1 + np.abs(o))) for a, b, o in zip(*gaps, here, strict=True))
        return bool(even) and tame(best) and close(*slopes, 1e-5), best

    def stable(self, f: Callable[..., Any], want: Arrays) -> bool:
        """Whether f moves little when its arguments are changed by a few units in the last place."""
        for k in range(4):
            moved = [a * (1 + 1e-14 * np.random.default_rng(k).standard_normal(a.shape)) for a in self.x]
            if not close(arrays(f(*map(snp.asarray, moved))), want, 1e-8):
                return False
        return True

    # the properties

    def run(self) -> None:
        """All properties; if `quick`, second derivatives of one program in four, and less of the compiled forms of each."""
        with backend("reference"):
            self.derivatives(not self.quick or self.program.seed % 4 == 1)
        if self.compiling and not self.wild:
            self.compiled(1 if self.quick else 3)

    def expect(self, what: str, got: Arrays, want: Arrays, f: Callable[..., Any] | None = None, rtol: float = 1e-9) -> None:
        if not tame(want):
            self.counts["large"] += 1
            return
        if close(got, want, rtol):
            return
        if f is not None:
            with backend("reference"):
                if not self.stable(f, want):
                    self.counts["at a tie"] += 1
                    return
        raise Broken(what, f"{[g.tolist() for g in got]} instead of {[w.tolist() for w in want]}")

    def derivatives(self, second: bool) -> None:
        x = [snp.asarray(a) for a in self.x]
        self.y = arrays(self.f(*x))
        self.wild = not tame(self.y)
        if any(y.dtype != np.float64 for y in self.y):
            raise Broken("dtype", str([y.dtype for y in self.y]))
        rng = self.rng
        self.weights = [rng.standard_normal(y.shape) for y in self.y]
        if self.wild:
            self.counts["large"] += 1
            return
        slope: Arrays = []
        derivative = self.grad if self.reverse else self.jvp
        check_jaxpr(steno.make_jaxpr(derivative)(*x))
        if self.forward:
            primal, tangent = map(arrays, self.jvp(*x))
            self.expect("primal of jvp", primal, self.y)
            is_smooth, slope = self.smooth(self.f)
            self.compare_slope("jvp against finite differences", is_smooth, tangent, slope, lambda *x: self.jvp(*x)[1])
            self.expect("jvp of jit", arrays(steno.jvp(steno.jit(self.f), tuple(x), tuple(map(snp.asarray, self.t)))[1]), tangent)
        if self.reverse:
            gradient = arrays(self.grad(*x))
            if self.forward:
                if tame(gradient) and tame(tangent):
                    a, b = dot(gradient, self.t), dot(self.weights, tangent)
                    size = 1 + sum(float(np.abs(g * t).sum()) for g, t in zip(gradient, self.t, strict=True))
                    if not abs(a - b) <= 1e-9 * size:
                        raise Broken("dot product of jvp and vjp", f"{a} != {b}")
            else:
                is_smooth, slope = self.smooth(self.loss)
                self.compare_slope("gradient against finite differences", is_smooth, [np.asarray(dot(gradient, self.t))], slope, self.along)
            self.expect("grad of jit", arrays(steno.grad(steno.jit(self.loss), tuple(range(len(x))))(*x)), gradient)
        self.vmap("vmap", self.f)
        if self.reverse:
            self.vmap("vmap of grad", self.grad)
        elif self.forward:
            self.vmap("vmap of jvp", self.jvp)
        if second:
            if self.reverse:
                product = arrays(self.second(*x))
                is_smooth, slope = self.smooth(self.grad)
                self.compare_slope("second derivative against finite differences", is_smooth, product, slope, self.second)
                if self.forward:
                    back = steno.grad(
                        lambda *x: sum(snp.vdot(t, g) for t, g in zip(self.t, self.grad(*x), strict=True)), tuple(range(len(x)))
                    )(*x)
                    if is_smooth:
                        self.expect("reverse over reverse", arrays(back), product, self.grad, 1e-8)
                    self.vmap("vmap of the second derivative", self.second)
            else:
                is_smooth, slope = self.smooth(lambda *x: self.jvp(*x)[1])
                second = arrays(self.second_forward(*x))
                self.compare_slope("jvp of jvp against finite differences", is_smooth, second, slope, self.second_forward)

    def along(self, *x: Any) -> Any:
        """The derivative along t, by the gradient."""
        return sum(snp.vdot(g, t) for g, t in zip(self.grad(*x), self.t, strict=True))

    def is_one_of_several(self, derivative: Callable[..., Any], got: Arrays) -> bool:
        """Whether the derivative is another one nearby: at the median of equal numbers, for instance, which is smooth along t and has, as
        the derivative, that of one of them."""
        for k in range(4):
            moved = [a + 1e-7 * np.random.default_rng(k).standard_normal(a.shape) for a in self.x]
            if not close(arrays(derivative(*map(snp.asarray, moved))), got, 1e-4):
                return True
        return False

    def compare_slope(self, what: str, is_smooth: bool, got: Arrays, slope: Arrays, derivative: Callable[..., Any]) -> None:
        if not is_smooth:
            self.counts["not smooth"] += 1
        elif not close(got, slope, 1e-4):
            if self.is_one_of_several(derivative, got):
                self.counts["at a tie"] += 1
                return
            raise Broken(what, f"{[g.tolist() for g in got]} instead of {[s.tolist() for s in slope]}")
        else:
            self.counts["smooth"] += 1

    def vmap(self, what: str, f: Callable[..., Any]) -> None:
        batch = [snp.asarray(xs if a == 0 else x) for xs, x, a in zip(self.xs, self.x, self.axes, strict=True)]
        whole = arrays(steno.vmap(f, self.axes)(*batch))
        single = [arrays(f(*[b[k] if a == 0 else b for b, a in zip(batch, self.axes, strict=True)])) for k in range(self.n_batch)]
        looped = [np.stack(rows) for rows in zip(*single, strict=True)]
        self.expect(f"{what} against a loop", whole, looped, lambda *x: steno.vmap(f, self.axes)(*batch))

    def compiled(self, count: int) -> None:
        """Some of the compiled forms, others for other programs."""
        x = [snp.asarray(a) for a in self.x]
        n = self.program.seed
        forms: list[tuple[str, Callable[..., Any]]] = []
        if self.reverse:
            forms += [
                ("jit of grad", self.grad),
                ("jit of vmap of grad", lambda *x: steno.vmap(self.grad, self.axes)(*self.batched(x))),
                ("jit of the second derivative", self.second),
                ("vmap of jit of grad", lambda *x: steno.vmap(steno.jit(self.grad), self.axes)(*self.batched(x))),
            ]
        if self.forward:
            forms += [("jit of jvp", self.jvp), ("jit of vmap of jvp", lambda *x: steno.vmap(self.jvp, self.axes)(*self.batched(x)))]
        if self.forward and not self.reverse:
            forms += [("jit of jvp of jvp", self.second_forward)]
        chosen = [forms[(n + k) % len(forms)] for k in range(count)]
        if not self.quick or n % 2:
            chosen.append(("jit", self.f))
        if n % (16 if self.quick else 4) == 0:
            chosen.append(("eager", self.f))
        for what, f in chosen:
            with backend("reference"):
                want = arrays(f(*x))
            run = f if what == "eager" or what.startswith("vmap") else steno.jit(f)
            self.expect(f"compiled {what}", arrays(run(*x)), want, f)

    def batched(self, x: Sequence[Any]) -> list[Any]:
        """The batch with the point as its first element."""
        return [snp.concatenate([a[None], xs[1:]]) if k == 0 else a for a, xs, k in zip(x, self.xs, self.axes, strict=True)]


def check(program: Program | Written, counts: collections.Counter[str] | None = None, **options: Any) -> None:
    """Raises Broken, or what the program or a transformation of it raised."""
    with steno.enable_x64(True), np.errstate(all="ignore"):
        Checker(program, counts, **options).run()


def kind(error: BaseException) -> str:
    return error.what if isinstance(error, Broken) else f"{type(error).__name__} {re.sub('[0-9]+', '', str(error))[:40]}"


def failure(program: Program, **options: Any) -> BaseException | None:
    try:
        check(program, **options)
    except Exception as e:
        return e
    return None


def report(program: Program, error: BaseException, tries: int = 400, **options: Any) -> str:
    """The failure of the smallest program like this one that fails in the same way."""
    wanted = kind(error)

    def fails(candidate: Program) -> bool:
        found = failure(candidate, **options)
        return found is not None and kind(found) == wanted

    small = shrink(program, fails, tries)
    final = failure(small, **options)
    return f"seed {program.seed} ({program.mode}): {type(final).__name__}: {str(final)[:600]}\n{small.source()}"


__all__ = ["Broken", "Written", "check", "failure", "kind", "random_program", "report"]
