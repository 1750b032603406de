"""Scopes, loops and branches of one kernel function's text, and in which scope an expression belongs.

A function is a nest of *scopes*: 0 its entry, 1 one outer point, from 2 on the loops of the stage at hand. Every Expr is written once, in
the outermost scope that has the loop variables it uses, so invariant code is outside its loops by construction; a scope's text precedes
that of the loops inside it. Inside a vector loop an Expr *varies* if its lanes may differ: then it is a vector, otherwise a scalar.

An Index is known in a vector loop by its scalar value in lane 0 and its constant *lane offsets*: all zero (uniform), 0, 1, 2, ...
(contiguous) or any other pattern; None if there is no such constant pattern.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

from steno.compiler.emit_ops import Declarations, Writer
from steno.compiler.target import Target
from steno.ir.expr import Expr, children, topological
from steno.ir.index import Atom, FloorDiv, Index, LoopVar, Value
from steno.ir.loops import Buffer


@final
class Scope:
    """Straight-line text, possibly with inner loops and skipped regions, and the values known in it. `label`: the present basic block."""

    __slots__ = ("bounds", "header", "label", "lines", "memo")

    def __init__(self, header: str | None = None) -> None:
        self.lines: list[str] = []
        self.memo: dict[Any, Any] = {}
        self.header = header
        self.label = header
        self.bounds: tuple[str, str | int, str | int, int] | None = None


@final
class Bound:
    """A loop variable's scope and value; the value in lane 0 if it is the vector variable. `align`: the value is a multiple of it."""

    __slots__ = ("align", "depth", "value")

    def __init__(self, depth: int, value: str | int, align: int = 1) -> None:
        self.depth, self.value, self.align = depth, value, align


@final
class IndexFacts:
    __slots__ = ("depth", "epoch", "index", "lanes", "uses")

    def __init__(self, index: Index) -> None:
        self.index = index
        self.epoch = -1
        self.depth = 0
        self.lanes: tuple[int, ...] | None = None
        self.uses = False  # the vector variable


class Scopes(Writer):
    """The abstract writer of a function's text; `Code` adds values and memory. `lanes`: the vector width of the stage at hand."""

    def __init__(self, target: Target, declarations: Declarations, pinned: frozenset[Buffer]) -> None:
        super().__init__(declarations, target)
        self.scopes = [Scope()]
        self.scopes[0].label = "entry"
        self.lines = self.scopes[0].lines
        self.labels = 0
        self.pinned = pinned  # written in this kernel: their elements are read where the program reads them
        self.variables: dict[LoopVar, Bound] = {}
        self.locals: dict[str, tuple[int, str, bool]] = {}  # depth, value, whether it varies
        self.written: frozenset[Buffer] = frozenset()  # by the stage at hand
        self.innermost = 1
        self.lanes = 1
        self.vector_variable: LoopVar | None = None
        self.mask: str | None = None  # of the present vector; None: all lanes exist
        self.depth: dict[Expr, int] = {}
        self.varies: dict[Expr, bool] = {}
        self.uses: dict[Expr, bool] = {}  # the vector variable
        self.epoch = 0
        self._facts: dict[Index, IndexFacts] = {}
        self._by_id: dict[int, IndexFacts] = {}
        self._alive: list[Index] = []
        self._rare_seen = False
        self._nodes: dict[tuple[Expr, ...], list[Expr]] = {}

    # ---- scopes and loops ----

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def open(self) -> Scope:
        """A scope without a loop: its text follows the parent's at `close`."""
        scope = Scope()
        self.scopes.append(scope)
        self.lines = scope.lines
        return scope

    def close(self) -> None:
        scope = self.scopes.pop()
        parent = self.scopes[-1]
        parent.lines += scope.lines
        if scope.label is not None:
            self.label_of(parent)
            parent.label = scope.label
        self.lines = parent.lines

    def open_loop(self, start: str | int, end: str | int, step: int = 1) -> str:
        """for v = start, start + step, ... < end. At least one iteration, unless closed with `may_be_empty`. Returns v."""
        scope = Scope(self.label())
        v = self.name()
        scope.bounds = (v, start, end, step)
        self.scopes.append(scope)
        self.lines = scope.lines
        return v

    def close_loop(self, carried: Sequence[tuple[str, str, str, str]] = (), may_be_empty: bool = False) -> None:
        """carried: (name, type, first value, next value) of values that go round. After a loop that may be empty the names hold the
        outcome; after another one the next values do."""
        scope = self.scopes.pop()
        parent = self.scopes[-1]
        self.lines = out = parent.lines
        assert scope.bounds is not None and scope.header is not None and scope.label is not None
        v, start, end, step = scope.bounds
        before, after, following = self.label_of(parent), self.label(), self.name()
        top = self.label() if may_be_empty else scope.header
        out.append(f"  br label %{top}")
        out.append(f"{top}:")
        out.append(f"  {v} = phi i64 [ {start}, %{before} ], [ {following}, %{scope.label} ]")
        for name, t, first, last in carried:
            out.append(f"  {name} = phi {t} [ {first}, %{before} ], [ {last}, %{scope.label} ]")
        if may_be_empty:
            more = self.op(f"icmp slt i64 {v}, {end}")
            out.append(f"  br i1 {more}, label %{scope.header}, label %{after}")
            out.append(f"{scope.header}:")
        out += scope.lines
        out.append(f"  {following} = add nsw i64 {v}, {step}")
        if may_be_empty:
            out.append(f"  br label %{top}")
        else:
            more = self.op(f"icmp slt i64 {following}, {end}")
            out.append(f"  br i1 {more}, label %{top}, label %{after}")
        out.append(f"{after}:")
        parent.label = after

    def label_of(self, scope: Scope) -> str:
        """The basic block that the scope's text is in now; a scope without a loop begins one only when it needs a name."""
        if scope.label is None:
            scope.label = self.label()
            scope.lines[:0] = [f"  br label %{scope.label}", f"{scope.label}:"]
        return scope.label

    def unlikely(self, condition: str, common: str, t: str, region: Callable[[], str]) -> str:
        """condition ? region() : common, by a branch in the present scope; `region` writes text and returns a value."""
        scope = self.scopes[self._scope_of_lines()]
        before = self.label_of(scope)
        inside, after = self.label(), self.label()
        self.say(f"br i1 {condition}, label %{inside}, label %{after}, !prof !0")
        self.lines.append(f"{inside}:")
        scope.label = inside
        known = len(scope.memo)
        value = region()
        self.lines = scope.lines
        for key in list(scope.memo)[known:]:
            del scope.memo[key]  # does not dominate what follows
        end = scope.label
        self.say(f"br label %{after}")
        self.lines.append(f"{after}:")
        scope.label = after
        return self.op(f"phi {t} [ {common}, %{before} ], [ {value}, %{end} ]")

    def _scope_of_lines(self) -> int:
        return next(k for k in range(len(self.scopes) - 1, -1, -1) if self.scopes[k].lines is self.lines)

    def when(self, condition: str, act: Callable[[], None]) -> None:
        """if condition: act(), in the innermost scope."""
        scope = self.scopes[-1]
        self.label_of(scope)
        inside, after = self.label(), self.label()
        self.say(f"br i1 {condition}, label %{inside}, label %{after}")
        self.lines.append(f"{inside}:")
        scope.label = inside
        act()
        self.lines = scope.lines
        self.say(f"br label %{after}")
        self.lines.append(f"{after}:")
        scope.label = after

    # ---- which scope, which lanes ----

    def begin(
        self, roots: Sequence[Expr], lanes: int, variable: LoopVar | None, innermost: int, written: frozenset[Buffer] = frozenset()
    ) -> None:
        """Places everything that `roots` need, the loop variables being bound. `written`: by the stage at hand."""
        self.lanes, self.vector_variable, self.innermost, self.written = lanes, variable, innermost, written
        self.mask = None
        self.epoch += 1
        self.depth, self.varies, self.uses = {}, {}, {}
        self._rare_seen = False
        for e in self.nodes(roots):
            self._place(e)
            self._rare_seen = self._rare_seen or e.op == "rare"

    def order(self, roots: Sequence[Expr]) -> list[Expr]:
        """What `run` must write for `roots`, operands first."""
        return self.without_rare(list(roots), set()) if self._rare_seen else self.nodes(roots)

    def nodes(self, roots: Sequence[Expr]) -> list[Expr]:
        """`topological(roots)`, once."""
        key = tuple(roots)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = topological(key)
        return found

    def _place(self, e: Expr) -> None:
        op = e.op
        depth, varies, uses = 0, False, False
        if op == "load":
            buffer, offset, guard = e.attr
            f = self.facts(offset)
            depth, uses = f.depth, f.uses
            varies = f.lanes is None or any(f.lanes)
            if guard is not None:
                depth, uses, varies = max(depth, self.depth[guard]), uses or self.uses[guard], varies or self.varies[guard]
            if buffer in self.pinned:
                depth = self.innermost if buffer in self.written else max(depth, 1)
        elif op == "index":
            f = self.facts(e.attr)
            depth, uses = f.depth, f.uses
            varies = f.lanes is None or any(f.lanes)
        elif op == "local":
            depth, _, varies = self.locals[e.attr]
            uses = varies
        else:
            for a in e.args:
                d = self.depth[a]
                if d > depth:
                    depth = d
                varies = varies or self.varies[a]
                uses = uses or self.uses[a]
        self.depth[e], self.varies[e], self.uses[e] = depth, varies, uses

    def without_rare(self, roots: list[Expr], known: set[Expr]) -> list[Expr]:
        """An order of what `roots` need, without what only third arguments of `rare` need and what is `known`."""
        main: set[Expr] = set()
        stack = [r for r in roots if r not in known]
        while stack:
            e = stack.pop()
            if e not in main:
                main.add(e)
                below = e.args[:2] if e.op == "rare" else children(e)
                stack += [c for c in below if c not in main and c not in known]

        def needs(e: Expr) -> list[Expr]:
            if e.op != "rare":
                return [c for c in children(e) if c in main]
            out = [c for c in e.args[:2] if c in main]
            # of the third argument: where it meets what is computed anyway
            inner, seen = [e.args[2]], {e.args[2]}
            while inner:
                c = inner.pop()
                if c in main:
                    out.append(c)
                    continue
                below = [x for x in children(c) if x not in seen and x not in known]
                seen.update(below)
                inner += below
            return out

        order: dict[Expr, None] = {}
        for root in roots:
            todo = [(root, False)] if root in main else []
            while todo:
                e, ready = todo.pop()
                if ready:
                    order[e] = None
                elif e not in order:
                    todo.append((e, True))
                    todo += [(c, False) for c in needs(e) if c not in order]
        return list(order)

    def facts(self, index: Index) -> IndexFacts:
        f = self._by_id.get(id(index))
        if f is None:
            f = self._facts.get(index)
            if f is None:
                f = self._facts[index] = IndexFacts(index)
            self._by_id[id(index)] = f
            self._alive.append(index)  # its id stays its own
        if f.epoch != self.epoch:
            f.epoch = self.epoch
            f.depth = max((self.atom_depth(a) for a, _ in f.index.terms), default=0)
            f.uses = any(self.atom_uses(a) for a, _ in f.index.terms)
            f.lanes = self._lane_offsets(f.index) if f.uses else (0,) * self.lanes
        return f

    def atom_depth(self, a: Atom) -> int:
        if isinstance(a, LoopVar):
            return self.variables[a].depth
        if isinstance(a, Value):
            return self._expr_depth(a.expr)
        return self.facts(a.index).depth

    def _expr_depth(self, e: Expr) -> int:
        if e not in self.depth:
            self._place_all(e)
        return self.depth[e]

    def _place_all(self, e: Expr) -> None:
        for x in topological((e,)):
            if x not in self.depth:
                self._place(x)

    def atom_uses(self, a: Atom) -> bool:
        if isinstance(a, LoopVar):
            return a is self.vector_variable
        if isinstance(a, Value):
            self._expr_depth(a.expr)
            return self.uses[a.expr]
        return self.facts(a.index).uses

    def _lane_offsets(self, index: Index) -> tuple[int, ...] | None:
        total = [0] * self.lanes
        for a, c in index.terms:
            one = self.atom_offsets(a)
            if one is None:
                return None
            if any(one):
                total = [t + c * o for t, o in zip(total, one, strict=True)]
        return tuple(total)

    def atom_offsets(self, a: Atom) -> tuple[int, ...] | None:
        """Divisions have a constant pattern if the remainder of lane 0 is known modulo the divisor, or if it is known modulo a factor g of
        the divisor and the lanes stay within one multiple of g."""
        if isinstance(a, LoopVar):
            return tuple(range(self.lanes)) if a is self.vector_variable else (0,) * self.lanes
        if isinstance(a, Value):
            return None if self.varies[a.expr] else (0,) * self.lanes
        f = self.facts(a.index)
        if f.lanes is None or not any(f.lanes):
            return f.lanes
        g = a.divisor
        for atom, c in a.index.terms:
            g = math.gcd(g, c * (self.variables[atom].align if isinstance(atom, LoopVar) else 1))
        r = a.index.const % g
        at = [r + o for o in f.lanes]
        if g == a.divisor:
            if isinstance(a, FloorDiv):
                return tuple(x // g for x in at)
            return tuple(x % g - r for x in at)
        if min(at) >= 0 and max(at) < g:
            return (0,) * self.lanes if isinstance(a, FloorDiv) else f.lanes
        return None
