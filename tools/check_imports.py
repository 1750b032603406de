"""Checks that imports point one way: a file of `src/steno` imports only what stands at or before its own layer.

usage: check_imports.py [ROOT]      prints each violation; exit status 1 if there is one
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

# Each layer may import itself and the layers before it.
LAYERS = (
    ("_native",),
    ("core",),
    ("ir",),
    ("ops.structural", "ops.samples"),
    ("transforms",),
    ("ops",),
    ("compiler",),
    ("runtime",),
    ("backends",),
)
FACES = len(LAYERS)  # everything else


def layer(module: str) -> int:
    """The layer of a module name below `steno.`; the longest prefix decides."""
    best, length = FACES, -1
    for k, names in enumerate(LAYERS):
        for n in names:
            if (module == n or module.startswith(n + ".")) and len(n) > length:
                best, length = k, len(n)
    return best


def imported(tree: ast.AST, package: str) -> list[tuple[int, str]]:
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out += [(node.lineno, a.name) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise SystemExit(f"{package}: relative import in line {node.lineno}")
            out.append((node.lineno, node.module or ""))
            out += [(node.lineno, f"{node.module}.{a.name}") for a in node.names]
    return [(line, name[len("steno.") :]) for line, name in out if name.startswith("steno.")]


def main(root: Path) -> int:
    source = root / "src" / "steno"
    modules = {".".join(p.relative_to(source).with_suffix("").parts).removesuffix(".__init__") for p in source.rglob("*.py")} | {"_native"}
    bad = 0
    for path in sorted(source.rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        own = layer(name)
        for line, other in imported(ast.parse(path.read_text()), name):
            if other in modules and layer(other) > own:
                print(f"{path.relative_to(root)}:{line}: steno.{name} must not import steno.{other}, which stands above it")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent))
