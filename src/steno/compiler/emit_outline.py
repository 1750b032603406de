"""Functions that expressions call: what an `outline` node stands for, written once for each number of lanes."""

from __future__ import annotations

from collections.abc import Sequence

from steno.compiler.emit_code import Code
from steno.compiler.emit_ops import OPS, Writer, integers, typed
from steno.ir.expr import Expr, outlined, topological


def outline(w: Writer, e: Expr, lanes: int, a: Sequence[str]) -> str:
    """A call of the function that computes it."""
    arguments = ", ".join(f"{typed(x.dtype, lanes)} {v}" for x, v in zip(e.args, a, strict=True))
    return w.op(f"call {typed(e.dtype, lanes)} @{_function(w, e, lanes)}({arguments})")


def _function(w: Writer, e: Expr, lanes: int) -> str:
    """Its name; it is written if it is not there yet. Of more lanes than one register has of its widest values, halves are computed by
    calls: LLVM would split each value, and this is the slowest thing it does."""
    name = f"{e.attr}.{lanes}"
    if name in w.declarations.functions:
        return name
    body, leaves = outlined(e)
    names = {leaf: f"%x{k}" for k, leaf in enumerate(leaves)}
    inner = Code(w.target, w.declarations, frozenset())
    half = lanes // 2
    if lanes * max(n.dtype.itemsize for n in topological([body])) > w.target.vector_bytes:
        function, parts = _function(w, e, half), []
        for begin in (0, half):
            which = f"<{half} x i32> {integers(range(begin, begin + half), 32)}"
            pieces = [
                inner.op(f"shufflevector {typed(x.dtype, lanes)} {v}, {typed(x.dtype, lanes)} poison, {which}") for x, v in names.items()
            ]
            arguments = ", ".join(f"{typed(x.dtype, half)} {v}" for x, v in zip(leaves, pieces, strict=True))
            parts.append(inner.op(f"call {typed(e.dtype, half)} @{function}({arguments})"))
        both = ", ".join(f"{typed(e.dtype, half)} {v}" for v in parts)
        result = inner.op(f"shufflevector {both}, <{lanes} x i32> {integers(range(lanes), 32)}")
    else:
        (result,) = inner.inline(inner.without_rare([body], set()), [body], names, lanes)
    parameters = ", ".join(f"{typed(leaf.dtype, lanes)} {v}" for leaf, v in names.items())
    w.declarations.functions[name] = "\n".join(
        [f"define hidden {typed(e.dtype, lanes)} @{name}({parameters}) #0 {{", "entry:", *inner.scopes[0].lines,
         f"  ret {typed(e.dtype, lanes)} {result}", "}"]
    )  # fmt: skip
    return name


OPS["outline"] = outline
