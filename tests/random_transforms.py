"""Random differentiable programs over `jax jnp lax np`, as source text, with a shrinker.

    program = random_program(seed)
    print(program.source())             a function `program(v0, v1)` of float64 arrays that returns a tuple of float64 arrays
    f = program.function(namespace)     the function itself
    small = shrink(program, fails)      the smallest program found for which `fails(program)` still holds

A program is a tree of blocks. A block is a function: parameters, steps, results; a step computes one or several named values by an
expression over earlier values (of its own block or of those around it) and over the blocks nested in the step, which are written as
functions before it. Values are kept small (by tanh, sin and the like), so that finite differences are good; `Program.mode` says which
derivatives there are: loops of unknown length have no transpose, functions with a vjp of their own no jvp.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Shape = tuple[int, ...]
MAX_SIZE = 48


@dataclass(frozen=True)
class Value:
    name: str
    shape: Shape

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Step:
    """`targets = text`, after the functions of `blocks` and the lines `before` that set them up."""

    targets: tuple[Value, ...]
    text: str
    blocks: tuple[Block, ...] = ()
    before: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        for b in self.blocks:
            yield from b.lines()
        yield from self.before
        yield f"{', '.join(map(str, self.targets))} = {self.text}"


@dataclass(frozen=True)
class Block:
    """`results`: names of values, or literals in their place."""

    name: str
    parameters: tuple[Value, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    returns: str = "{}"  # the form of what is returned

    def lines(self) -> Iterator[str]:
        yield f"def {self.name}({', '.join(map(str, self.parameters))}):"
        for s in self.steps:
            yield from (f"    {line}" for line in s.lines())
        yield f"    return {self.returns.format(', '.join(self.results))}"


@dataclass(frozen=True)
class Program:
    seed: int
    mode: str  # "both", "forward" or "reverse": the derivatives there are
    block: Block

    @property
    def shapes(self) -> list[Shape]:
        return [v.shape for v in self.block.parameters]

    def source(self) -> str:
        return "\n".join(self.block.lines()) + "\n"

    def function(self, namespace: Mapping[str, Any]) -> Callable[..., Any]:
        names = dict(namespace)
        exec(compile(self.source(), f"<program {self.seed}>", "exec"), names)
        return names[self.block.name]


SMOOTH = """
jnp.sin({a})
jnp.cos({a}) * 0.7
jnp.tanh({a})
jnp.arctan({a})
jnp.exp(jnp.sin({a}))
jnp.log1p({a} * {a})
jnp.sqrt({a} * {a} + 0.5)
lax.rsqrt({a} * {a} + 0.5)
jnp.square(jnp.sin({a}))
-{a}
1.5 - {a}
jnp.expm1(jnp.tanh({a}))
jnp.sinh(jnp.tanh({a}))
jnp.cosh(jnp.tanh({a}))
jnp.tan(jnp.sin({a}))
jnp.arcsinh({a})
jnp.arccosh(1.5 + {a} * {a})
jnp.arctanh(0.8 * jnp.sin({a}))
jnp.arcsin(0.8 * jnp.sin({a}))
jnp.arccos(0.8 * jnp.cos({a}))
lax.erf({a})
lax.erfc({a})
lax.erf_inv(0.8 * jnp.sin({a}))
lax.lgamma(1.5 + jnp.square(jnp.tanh({a})))
lax.digamma(1.5 + jnp.square(jnp.tanh({a})))
1.0 / (1.5 + jnp.cos({a}))
jnp.cbrt({a} * {a} + 0.4)
(jnp.abs({a}) + 0.5) ** 1.3
jnp.sin({a}) ** 3
(1.2 + jnp.cos({a})) ** -2
jnp.sinc({a})
jax.nn.softplus({a})
jax.nn.gelu({a})
jax.nn.silu({a})
jax.nn.sigmoid({a})
lax.bessel_i0e({a})
lax.bessel_i1e({a})
jnp.exp2(jnp.tanh({a}))
jnp.log2({a} * {a} + 0.6)
jnp.real(jnp.exp(1j * {a}))
jnp.abs({a} + 2j)
jnp.imag(lax.complex({a}, jnp.sin({a})) ** 2) * 0.3
jnp.angle(1.5 + jnp.tanh({a}) + 0.5j * {a})
lax.integer_pow(jnp.tanh({a}), 4)
lax.convert_element_type({a}, jnp.complex128).real * 0.9
""".strip().splitlines()
ROUGH = """
jnp.abs({a})
jax.nn.relu({a})
jnp.clip({a}, -0.7, 0.9)
{a} - jnp.floor({a})
{a} * jnp.sign({a} - 0.1)
jax.nn.elu({a})
jax.nn.leaky_relu({a})
jnp.where({a} > 0.1, jnp.log(jnp.where({a} > 0.1, {a}, 1.0)), {a})
jnp.round({a} * 2.0) + {a}
jax.nn.relu6({a} * 3.0) * 0.4
lax.stop_gradient(jnp.float64(2.0)) * {a}
{a} % 0.7
""".strip().splitlines()
BINARY = """
{a} + {b}
{a} - {b}
{a} * {b}
jnp.sin({a}) * {b}
{a} / (1.2 + {b} * {b})
jnp.maximum({a}, {b})
jnp.minimum({a}, {b})
jnp.arctan2({a}, 1.5 + {b} * {b})
jnp.logaddexp({a}, {b})
jnp.hypot({a}, 1.0 + {b} * {b})
jnp.where({a} > {b}, {a}, {b} * 0.5)
jnp.where({a} > 0.0, jnp.tanh({a}), {b})
(jnp.abs({a}) + 0.5) ** jnp.sin({b})
jnp.fmod({a}, 1.3 + {b} * {b})
lax.select_n(jnp.broadcast_arrays({a}, {b})[0] < 0.2, *jnp.broadcast_arrays({a}, {b}))
jnp.select([{a} > 0.5, {b} > 0.2], [{a} * {b}, {b}], {a})
jnp.real(lax.complex(*jnp.broadcast_arrays({a}, {b})) * (0.6 + 0.8j))
""".strip().splitlines()
ALONG = """
jnp.sort({a}, axis={k})
jnp.cumsum({a}, axis={k}) * 0.5
jnp.cumprod(1.2 * jnp.tanh({a}), axis={k})
lax.cummax({a}, axis={k})
lax.cummin({a}, axis={k}, reverse=True)
lax.cumlogsumexp({a}, axis={k})
lax.cumsum({a}, axis={k}, reverse=True) * 0.5
jax.nn.softmax({a}, axis={k})
jax.nn.log_softmax({a}, axis={k}) * 0.5
jnp.flip({a}, axis={k})
jnp.roll({a}, 1, axis={k})
jnp.take_along_axis({a}, jnp.argsort(jnp.sin(3.0 * {a}), axis={k}), axis={k})
-jnp.sort(-{a}, axis={k})
lax.associative_scan(jnp.maximum, {a}, axis={k})
lax.associative_scan(jnp.multiply, jnp.sin({a}), axis={k}, reverse=True)
lax.associative_scan(lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]), (jnp.tanh({a}), {a}), axis={k})[1]
lax.sort((jnp.sin({a} * 2.0), {a}), dimension={k})[1]
jnp.repeat({a}, 2, axis={k}).take(jnp.arange({n}), axis={k})
jnp.moveaxis(jnp.moveaxis({a}, {k}, 0) * 0.8, 0, {k})
({a} - jnp.mean({a}, axis={k}, keepdims=True)) / jnp.sqrt(jnp.var({a}, axis={k}, keepdims=True) + 0.3)
jnp.max({a}, axis={k}, keepdims=True) - {a}
jnp.where(jnp.arange({n}).reshape({n_shape}) % 2 == 0, {a}, jnp.cos({a}))
jnp.concatenate([{a}, jnp.sin({a})], axis={k}).take(jnp.arange({n}) * 2, axis={k})
""".strip().splitlines()
REDUCTIONS = """
jnp.sum({a}, axis={k})
jnp.mean({a}, axis={k})
jnp.max({a}, axis={k})
jnp.min({a}, axis={k})
jnp.prod(1.3 * jnp.sin({a}), axis={k})
jnp.var({a}, axis={k})
jnp.sqrt(jnp.var({a}, axis={k}) + 0.05)
jax.nn.logsumexp({a}, axis={k})
jnp.sqrt(jnp.sum({a} * {a}, axis={k}) + 0.1)
jnp.median({a}, axis={k})
lax.reduce_prod(jnp.cos({a}), ({k},))
jnp.take({a}, jnp.argmax({a}) % {n}, axis={k})
lax.index_in_dim({a}, -1, {k}, keepdims=False)
lax.dynamic_index_in_dim({a}, jnp.int32(jnp.floor(jnp.sum({a}) * 2.0)), {k}, keepdims=False)
lax.reduce({a}, 0.1, lambda x, y: x + y, ({k},))
jnp.linalg.norm(jnp.exp(jnp.tanh({a})), axis={k})
jnp.ptp({a}, axis={k})
jnp.quantile({a}, 0.3, axis={k})
""".strip().splitlines()
UPDATES = """
{a}.at[{i}].set({b})
{a}.at[{i}].add({b})
{a}.at[{i}].multiply({b}, unique_indices=True)
{a}.at[{i}].max({b})
{a}.at[{i}].min({b})
{a}.at[jnp.int32(jnp.floor(jnp.sum({b}) * 3.0))].set({b})
{a}.at[jnp.int32(jnp.floor(jnp.sum({a}) * 3.0))].add({b}, mode="clip")
{a}.at[jnp.array([{i}, {j}, {i}])].add(jnp.stack([{b}, jnp.sin({b}), {b}]))
{a}.at[jnp.array([{i}])].mul({b}[None], unique_indices=True)
lax.dynamic_update_index_in_dim({a}, {b}, jnp.argmax({b}), 0)
{a}.at[jnp.array([{i}, 7]), ...].set({b}, mode="drop")
""".strip().splitlines()


class Maker:
    """Draws blocks by a `random.Random`."""

    def __init__(self, rng: random.Random, mode: str) -> None:
        self.r = rng
        self.mode = mode
        self.count = 0
        self.rows = rng.choice([2, 3, 4])
        self.columns = rng.choice([1, 2, 3, 5])

    # names

    def value(self, shape: Sequence[int]) -> Value:
        self.count += 1
        return Value(f"v{self.count - 1}", tuple(shape))

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count - 1}"

    # choices

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def pick(self, scope: Sequence[Value], rank: int = 0) -> Value | None:
        """A value of at least this rank, the later the likelier."""
        fit = [v for v in scope if len(v.shape) >= rank]
        return fit[max(self.r.randrange(len(fit)) for _ in range(3))] if fit else None

    def like(self, scope: Sequence[Value], shape: Shape) -> str:
        """An expression of this shape: a value, or one made so."""
        same = [v for v in scope if v.shape == shape]
        if same and self.chance(0.9):
            return self.r.choice(same).name
        scalars = [v for v in scope if v.shape == ()]
        if shape and scalars and self.chance(0.5):
            return f"jnp.full({shape}, {self.r.choice(scalars)})"
        v = self.r.choice(scope)
        size = 1
        for n in shape:
            size *= n
        return f"jnp.resize({v}, {shape})" if size else f"jnp.zeros({shape})"

    def partner(self, scope: Sequence[Value], shape: Shape) -> Value | None:
        """A value that broadcasts to this shape."""
        fit = [
            v for v in scope if len(v.shape) <= len(shape) and all(m in (1, n) for m, n in zip(v.shape[::-1], shape[::-1], strict=False))
        ]
        return self.r.choice(fit) if fit else None

    # steps of one value

    def step(self, scope: list[Value], depth: int) -> Step:
        kinds: list[tuple[int, Callable[..., Step | None]]] = [
            (5, self.unary), (5, self.binary), (3, self.along), (3, self.reduction), (4, self.move), (3, self.index), (3, self.product),
            (2, self.join),
        ]  # fmt: skip
        if depth:
            kinds += [(3, self.scan), (2, self.cond), (1, self.switch), (2, self.fori), (1, self.map), (1, self.call), (2, self.custom)]
            kinds += [(1, self.vmap), (1, self.grad)]
            if self.mode == "forward":
                kinds += [(4, self.while_), (2, self.fori_dynamic)]
        while True:
            make = self.r.choices([k for _, k in kinds], [w for w, _ in kinds])[0]
            made = make(scope, depth) if make.__name__ in DEEP else make(scope)
            if made is not None:
                return made

    def put(self, shape: Sequence[int], text: str, *blocks: Block, before: Sequence[str] = ()) -> Step | None:
        size = 1
        for n in shape:
            size *= n
        if size > MAX_SIZE or len(shape) > 4:
            return None
        return Step((self.value(shape),), text, blocks, tuple(before))

    def unary(self, scope: list[Value]) -> Step | None:
        a = self.pick(scope)
        assert a is not None
        return self.put(a.shape, self.r.choice(SMOOTH if self.chance(0.7) else ROUGH).format(a=a))

    def binary(self, scope: list[Value]) -> Step | None:
        a = self.pick(scope)
        assert a is not None
        b = self.partner(scope, a.shape)
        x, y = (a, b) if self.chance(0.5) else (b, a)
        return self.put(a.shape, self.r.choice(BINARY).format(a=x, b=y))

    def along(self, scope: list[Value]) -> Step | None:
        a = self.pick(scope, 1)
        if a is None:
            return None
        k = self.r.randrange(len(a.shape))
        n_shape = tuple(-1 if j == k else 1 for j in range(len(a.shape)))
        return self.put(a.shape, self.r.choice(ALONG).format(a=a, k=k, n=a.shape[k], n_shape=n_shape))

    def reduction(self, scope: list[Value]) -> Step | None:
        a = self.pick(scope, 1)
        if a is None:
            return None
        k = self.r.randrange(len(a.shape))
        if self.chance(0.15):
            return self.put((), f"{self.r.choice(['jnp.sum', 'jnp.max', 'jnp.mean', 'jax.nn.logsumexp', 'jnp.var'])}({a})")
        return self.put([n for j, n in enumerate(a.shape) if j != k], self.r.choice(REDUCTIONS).format(a=a, k=k, n=a.shape[k]))

    def move(self, scope: list[Value]) -> Step | None:
        r = self.r
        a = self.pick(scope, 1)
        if a is None:
            return None
        s, k = a.shape, r.randrange(len(a.shape))
        kind = r.randrange(11)
        if kind == 0:
            p = list(range(len(s)))
            r.shuffle(p)
            return self.put([s[j] for j in p], f"jnp.transpose({a}, {tuple(p)})")
        if kind == 1:
            size = 1
            for n in s:
                size *= n
            shape = r.choice([(size,), (1, size), (size, 1), *[(n, size // n) for n in (2, 3, 4) if size % n == 0]])
            return self.put(shape, f"{a}.reshape({shape})")
        if kind == 2:
            low, high, inner = r.choice([0, 1, 2, -1]), r.choice([0, 1, -1]), r.choice([0, 0, 1])
            n = s[k] + low + high + max(s[k] - 1, 0) * inner
            config = [(low, high, inner) if j == k else (0, 0, 0) for j in range(len(s))]
            if n < 1:
                return None
            return self.put([n if j == k else m for j, m in enumerate(s)], f"lax.pad({a}, jnp.float64(0.3), {config})")
        if kind == 3:
            mode = r.choice(["wrap", "edge", "reflect", "symmetric"])
            if s[k] < 2:
                return None
            widths = [(1, 1) if j == k else (0, 0) for j in range(len(s))]
            return self.put([n + 2 * (j == k) for j, n in enumerate(s)], f"jnp.pad({a}, {widths}, mode={mode!r})")
        if kind == 4:
            return self.put([*s[:k], 1, *s[k:]], f"jnp.expand_dims({a}, {k})")
        if kind == 5 and 1 in s:
            k = s.index(1)
            return self.put([*s[:k], *s[k + 1 :]], f"jnp.squeeze({a}, {k})")
        if kind == 6:
            return self.put([2, *s], f"jnp.broadcast_to({a}, {(2, *s)})")
        if kind == 7:
            start, step = r.randrange(s[k]), r.choice([1, 1, 2, -1])
            index = ", ".join([":"] * k + [f"{start}::{step}"])
            n = len(range(*slice(start, None, step).indices(s[k])))
            return self.put([n if j == k else m for j, m in enumerate(s)], f"{a}[{index}]")
        if kind == 8:
            return self.put([2 * n if j == k else n for j, n in enumerate(s)], f"jnp.repeat({a}, 2, axis={k})")
        if kind == 9 and len(s) >= 2:
            return self.put(s, f"jnp.{r.choice(['tril', 'triu'])}({a}, {r.choice([-1, 0, 1])})")
        if kind == 10 and len(s) == 2:
            return self.put([min(s)], f"jnp.diagonal({a})")
        return None

    def index(self, scope: list[Value]) -> Step | None:
        r = self.r
        a = self.pick(scope, 1)
        if a is None:
            return None
        s = a.shape
        kind = r.randrange(5)
        if kind == 0:
            at = [r.randrange(-s[0], s[0]) for _ in range(r.choice([1, 2, 3]))]
            return self.put([len(at), *s[1:]], f"{a}[jnp.array({at})]")
        if kind == 1:
            n = r.randint(1, s[0])
            starts = ", ".join([f"jnp.int32(jnp.floor(jnp.sum({a}) * 2.0))", *["0"] * (len(s) - 1)])
            return self.put([n, *s[1:]], f"lax.dynamic_slice({a}, ({starts},), {(n, *s[1:])})")
        if kind == 2 and len(s) >= 2:
            i, j = [r.randrange(s[0]) for _ in range(3)], [r.randrange(s[1]) for _ in range(3)]
            return self.put([3, *s[2:]], f"{a}[jnp.array({i}), jnp.array({j})]")
        if kind == 3:
            mode = r.choice(["clip", "wrap", "fill"])
            fill = ", fill_value=0.2" if mode == "fill" else ""
            return self.put([2, *s[1:]], f"jnp.take({a}, jnp.array([1, {s[0]}]), axis=0, mode={mode!r}{fill})")
        b = self.like(scope, s[1:])
        return self.put(s, r.choice(UPDATES).format(a=a, b=b, i=r.randrange(s[0]), j=r.randrange(s[0])))

    def product(self, scope: list[Value]) -> Step | None:
        r = self.r
        a, b = self.pick(scope, 1), self.pick(scope, 1)
        if a is None or b is None:
            return None
        pairs = [(i, j) for i, n in enumerate(a.shape) for j, m in enumerate(b.shape) if n == m]
        if not pairs or self.chance(0.1):
            return self.put([*a.shape, *b.shape], f"jnp.tensordot({a}, {b}, 0)")
        i, j = r.choice(pairs)
        others = [(k, m) for k, m in pairs if k != i and m != j]
        batch = [r.choice(others)] if others and self.chance(0.4) else []
        kept = [n for k, n in enumerate(a.shape) if k != i and k not in [x for x, _ in batch]]
        kept += [n for k, n in enumerate(b.shape) if k != j and k not in [x for _, x in batch]]
        numbers = (((i,), (j,)), (tuple(k for k, _ in batch), tuple(m for _, m in batch)))
        return self.put([*[a.shape[k] for k, _ in batch], *kept], f"lax.dot_general({a}, {b}, {numbers}) * 0.6")

    def join(self, scope: list[Value]) -> Step | None:
        a = self.pick(scope)
        assert a is not None
        b = self.like(scope, a.shape)
        if a.shape and self.chance(0.5):
            k = self.r.randrange(len(a.shape))
            return self.put([2 * n if j == k else n for j, n in enumerate(a.shape)], f"jnp.concatenate([{a}, {b}], axis={k})")
        k = self.r.randint(0, len(a.shape))
        return self.put([*a.shape[:k], 2, *a.shape[k:]], f"jnp.stack([{a}, {b}], axis={k})")

    # blocks

    def block(
        self,
        letter: str,
        shapes: Sequence[Shape],
        scope: Sequence[Value],
        depth: int,
        want: Sequence[Shape],
        returns: str = "{}",
        size: int = 0,
    ) -> Block:
        """A function of values of these shapes, that also reads values of `scope`, with results of the shapes wanted."""
        parameters = tuple(self.value(s) for s in shapes)
        inside = [*scope[-3:], *parameters]
        steps = []
        for _ in range(size or self.r.randint(1, 3)):
            s = self.step(inside or [self.value(())], depth - 1)
            steps.append(s)
            inside += s.targets
        used = {n for s in steps for n in names_in(s)}
        unused = [v for s in steps for v in s.targets if v.name not in used]
        results = []
        for s in want:
            v = next((v for v in reversed(unused) if v.shape == s), unused[-1] if unused else inside[-1])
            unused = [u for u in unused if u != v]
            text = v.name if v.shape == s else self.like([v], s)
            results.append(f"jnp.tanh({text})" if self.chance(0.7) else text)
        if unused:
            results[0] += "".join(f" + 0.1 * jnp.sum({u})" for u in unused)
        return Block(self.name(letter), parameters, tuple(steps), tuple(results), returns)

    def scan(self, scope: list[Value], depth: int) -> Step | None:
        r = self.r
        c = self.pick(scope)
        assert c is not None
        xs = r.choice([v for v in scope if v.shape] or [None])
        with_xs = xs is not None and self.chance(0.7)
        n = xs.shape[0] if with_xs and xs is not None else r.choice([1, 2, 3])
        row = xs.shape[1:] if with_xs and xs is not None else ()
        y = self.pick(scope)
        assert y is not None
        options = "".join([", reverse=True" if self.chance(0.3) else "", f", unroll={r.choice([2, 3])}" if self.chance(0.15) else ""])
        none = self.chance(0.15)  # no carry, or no stacked results
        if with_xs and none:
            b = self.block("body", [(), row][1:], scope, depth, [y.shape], "(None, {})")
            return self.scanned(b, [n, *y.shape], f"lax.scan(lambda _, x: {b.name}(x), None, {xs}{options})[1]")
        two = self.chance(0.25)
        carries = [c.shape, ()] if two else [c.shape]
        shapes = [*carries, row] if with_xs else carries
        init = f"({c}, jnp.float64(0.4))" if two else f"({c},)"
        inner = "*c, x" if with_xs else "*c"
        over = f"{xs}" if with_xs else f"None, length={n}"
        if none:
            b = self.block("body", shapes, scope, depth, carries, "(({},), None)")
            return self.scanned(b, c.shape, f"lax.scan(lambda c, x: {b.name}({inner}), {init}, {over}{options})[0][0]")
        b = self.block("body", shapes, scope, depth, [*carries, y.shape], "({})")
        call = f"lax.scan(lambda c, x: (lambda *t: (t[:-1], t[-1]))(*{b.name}({inner})), {init}, {over}{options})"
        if self.chance(0.2):
            call = call.replace("lax.scan(lambda c, x: ", "lax.scan(jax.checkpoint(lambda c, x: ", 1).replace(f", {init}", f"), {init}", 1)
        if self.chance(0.5):
            return self.scanned(b, [n, *y.shape], f"{call}[1]")
        return self.scanned(b, c.shape, f"{call}[0][0]")

    def scanned(self, block: Block, shape: Sequence[int], text: str) -> Step | None:
        return self.put(shape, text, block)

    def predicate(self, scope: Sequence[Value]) -> str:
        return f"jnp.sum({self.r.choice(scope)}) > {self.r.choice([0.0, 0.21, -0.4])}"

    def cond(self, scope: list[Value], depth: int) -> Step | None:
        a, y = self.pick(scope), self.pick(scope)
        assert a is not None and y is not None
        t, f = (self.block("branch", [a.shape], scope, depth, [y.shape]) for _ in range(2))
        return self.put(y.shape, f"lax.cond({self.predicate(scope)}, {t.name}, {f.name}, {a})", t, f)

    def switch(self, scope: list[Value], depth: int) -> Step | None:
        a, y = self.pick(scope), self.pick(scope)
        assert a is not None and y is not None
        branches = [self.block("branch", [a.shape], scope, depth, [y.shape]) for _ in range(3)]
        names = ", ".join(b.name for b in branches)
        return self.put(y.shape, f"lax.switch(jnp.int32(jnp.floor(jnp.sum({self.r.choice(scope)}) * 2.0)), [{names}], {a})", *branches)

    def fori(self, scope: list[Value], depth: int) -> Step | None:
        c = self.pick(scope)
        assert c is not None
        n = self.r.choice([0, 1, 2, 3])
        b = self.block("body", [(), c.shape], scope, depth, [c.shape])
        return self.put(c.shape, f"lax.fori_loop(0, {n}, lambda i, c: {b.name}(i * 0.3, c), {c})", b)

    def fori_dynamic(self, scope: list[Value], depth: int) -> Step | None:
        c = self.pick(scope)
        assert c is not None
        n = f"jnp.int32(jnp.clip(jnp.sum({self.r.choice(scope)}) * 2.0, 0.0, 3.0))"
        b = self.block("body", [(), c.shape], scope, depth, [c.shape])
        return self.put(c.shape, f"lax.fori_loop(0, {n}, lambda i, c: {b.name}(i * 0.3, c), {c})", b)

    def while_(self, scope: list[Value], depth: int) -> Step | None:
        c = self.pick(scope)
        assert c is not None
        b = self.block("body", [c.shape], scope, depth, [c.shape])
        also = self.r.choice(["", f" & (jnp.sum(c[1]) < {self.r.choice(scope)}.sum() + 1.0)", " & (jnp.max(c[1]) < 0.9)"])
        text = f"lax.while_loop(lambda c: (c[0] < {self.r.choice([1, 2, 3])}){also}, lambda c: (c[0] + 1, {b.name}(c[1])), (0, {c}))[1]"
        return self.put(c.shape, text, b)

    def map(self, scope: list[Value], depth: int) -> Step | None:
        xs, y = self.pick(scope, 1), self.pick(scope)
        if xs is None or y is None:
            return None
        b = self.block("f", [xs.shape[1:]], scope, depth, [y.shape])
        size = self.r.choice(["", ", batch_size=2"])
        return self.put([xs.shape[0], *y.shape], f"lax.map({b.name}, {xs}{size})", b)

    def vmap(self, scope: list[Value], depth: int) -> Step | None:
        xs, y = self.pick(scope, 1), self.pick(scope)
        if xs is None or y is None:
            return None
        k = self.r.randrange(len(xs.shape))
        b = self.block("f", [xs.shape[:k] + xs.shape[k + 1 :]], scope, depth, [y.shape])
        at = self.r.randint(0, len(y.shape))
        shape = [*y.shape[:at], xs.shape[k], *y.shape[at:]]
        return self.put(shape, f"jax.vmap({b.name}, in_axes={k}, out_axes={at})({xs})", b)

    def call(self, scope: list[Value], depth: int) -> Step | None:
        a, y = self.pick(scope), self.pick(scope)
        assert a is not None and y is not None
        b = self.block("f", [a.shape], scope, depth, [y.shape])
        wrap = self.r.choice(["jax.jit", "jax.jit", "jax.checkpoint", "jax.named_call", "jax.remat"])
        if wrap == "jax.checkpoint" and self.chance(0.5):
            policy = self.r.choice(["dots_saveable", "everything_saveable", "nothing_saveable"])
            return self.put(y.shape, f"jax.checkpoint({b.name}, policy=jax.checkpoint_policies.{policy})({a})", b)
        return self.put(y.shape, f"{wrap}({b.name})({a})", b)

    def custom(self, scope: list[Value], depth: int) -> Step | None:
        """A function with a derivative rule that is right. It closes over nothing."""
        a, b, y = self.pick(scope), self.pick(scope), self.pick(scope)
        assert a is not None and b is not None and y is not None
        body = self.block("f", [a.shape, b.shape], [], depth, [y.shape])
        g = self.name("g")
        if self.mode == "reverse" and self.chance(0.8):
            rules = f"{g}.defvjp(lambda *p: jax.vjp({body.name}, *p), lambda back, ct: back(ct))"
            kind = "custom_vjp"
        else:
            rules = f"{g}.defjvp(lambda p, t: jax.jvp({body.name}, p, t))"
            kind = "custom_jvp"
        call = self.r.choice([g, g, f"jax.jit({g})"])
        return self.put(y.shape, f"{call}({a}, {b})", body, before=(f"{g} = jax.{kind}({body.name})", rules))

    def grad(self, scope: list[Value], depth: int) -> Step | None:
        """A derivative inside the program."""
        a, y = self.pick(scope), self.pick(scope)
        assert a is not None and y is not None
        mode, self.mode = self.mode, "both"
        try:
            b = self.block("f", [a.shape], scope, depth, [y.shape], size=self.r.choice([1, 2]))
        finally:
            self.mode = mode
        kind = self.r.randrange(3)
        if kind == 0:
            return self.put(a.shape, f"jnp.tanh(jax.grad(lambda t: jnp.sum({b.name}(t)))({a}))", b)
        if kind == 1:
            return self.put(y.shape, f"jnp.tanh(jax.jvp({b.name}, ({a},), ({self.like(scope, a.shape)},))[1])", b)
        return self.put(y.shape, f"jnp.tanh(jax.linearize({b.name}, {a})[1]({self.like(scope, a.shape)}))", b)


DEEP = {"scan", "cond", "switch", "fori", "fori_dynamic", "while_", "map", "vmap", "call", "custom", "grad"}


def random_program(seed: int, size: int = 7) -> Program:
    """The program of this seed, of up to so many steps in its outermost block."""
    rng = random.Random(seed)
    mode = rng.choices(["both", "forward", "reverse"], [6, 2, 2])[0]
    m = Maker(rng, mode)
    sides = [(), (m.rows,), (m.rows, m.columns), (m.columns, m.rows), (2, m.rows, m.columns)]
    shapes = [rng.choice(sides) for _ in range(rng.choice([1, 2, 2, 3]))]
    parameters = tuple(m.value(s) for s in shapes)
    scope, steps = list(parameters), []
    for _ in range(rng.randint(2, size)):
        s = m.step(scope, rng.choice([0, 1, 1, 2, 2, 3]))
        steps.append(s)
        scope += s.targets
    used = {n for s in steps for n in names_in(s)}
    results = [v.name for s in steps for v in s.targets if v.name not in used] or [scope[-1].name]
    return Program(seed, mode, Block("program", parameters, tuple(steps), tuple(results[-3:]), "({},)"))


# shrinking


def names_in(step: Step) -> set[str]:
    """Names of values that a step reads or defines inside."""
    found = set(re.findall(r"\bv\d+\b", step.text))
    for b in step.blocks:
        for s in b.steps:
            found |= names_in(s)
        for r in b.results:
            found |= set(re.findall(r"\bv\d+\b", r))
    return found


def renamed_step(step: Step, name: str, text: str) -> Step:
    def sub(s: str) -> str:
        return re.sub(rf"\b{name}\b", text, s)

    return replace(
        step, text=sub(step.text), blocks=tuple(renamed(b, name, text) for b in step.blocks), before=tuple(map(sub, step.before))
    )


def renamed(block: Block, name: str, text: str) -> Block:
    results = tuple(re.sub(rf"\b{name}\b", text, r) for r in block.results)
    return replace(block, steps=tuple(renamed_step(s, name, text) for s in block.steps), results=results)


def constant(shape: Shape) -> str:
    return f"jnp.full({shape}, 0.7)" if shape else "jnp.float64(0.7)"


def smaller(block: Block, around: Sequence[Value], top: bool) -> Iterator[Block]:
    """Blocks with a step or a result less, or a smaller block inside."""
    if top:
        for k in range(len(block.results)):
            if len(block.results) > 1:
                yield replace(block, results=block.results[:k] + block.results[k + 1 :])
    for k in reversed(range(len(block.steps))):
        step = block.steps[k]
        before, after = block.steps[:k], block.steps[k + 1 :]
        known = [*around, *block.parameters, *[v for s in before for v in s.targets]]
        target = step.targets[0]
        choices = [v.name for v in reversed(known) if v.shape == target.shape][:2] + [constant(target.shape)]
        for text in choices:
            rest = replace(block, steps=before + after)
            yield renamed(rest, target.name, text)
        for j, inner in enumerate(step.blocks):
            for b in smaller(inner, known, False):
                blocks = step.blocks[:j] + (b,) + step.blocks[j + 1 :]
                yield replace(block, steps=(*before, replace(step, blocks=blocks), *after))
    if not top:
        for k, text in enumerate(block.results):
            simpler = [m[1] for m in [re.fullmatch(r"jnp.tanh\((.*?)\)", text)] if m] + [text.split(" + 0.1 *")[0]]
            yield from (replace(block, results=(*block.results[:k], t, *block.results[k + 1 :])) for t in simpler if t != text)


def without_dead(block: Block) -> Block:
    needed = set(re.findall(r"\bv\d+\b", " ".join(block.results)))
    kept = []
    for s in reversed(block.steps):
        if any(v.name in needed for v in s.targets):
            s = replace(s, blocks=tuple(map(without_dead, s.blocks)))
            kept.append(s)
            needed |= names_in(s)
    return replace(block, steps=tuple(reversed(kept)))


def shrink(program: Program, fails: Callable[[Program], bool], tries: int = 400) -> Program:
    """The smallest program found for which `fails` holds, by leaving out what can be left out."""
    smallest = program
    simple = replace(program, block=without_dead(program.block))
    if simple != program and fails(simple):
        smallest = simple
    progress = True
    while progress and tries > 0:
        progress = False
        for block in smaller(smallest.block, (), True):
            tries -= 1
            candidate = replace(smallest, block=without_dead(block))
            if candidate != smallest and fails(candidate):
                smallest, progress = candidate, True
                break
            if tries <= 0:
                break
    return smallest


__all__ = ["Block", "Maker", "Program", "Step", "Value", "random_program", "shrink"]
