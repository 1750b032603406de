"""Draws what the other benchmarks measured: PNG and SVG.

    python benchmarks/plot.py --ratios compare.json [--roofline roofline.json] [--out DIR]

ratios.png and .svg: for each workload the speed against JAX's, steady state and first call. roofline.png and .svg: fractions of the
machine's limits. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  after the choice of how to draw

COLORS = {"steady": "#2a6fbb", "first": "#e0912f"}
TITLES = {"steady": "steady state", "first": "first call"}


def ratios(found: dict[str, Any]) -> Any:
    """One line for each workload, the fastest on top; the line at 1 is JAX."""
    rows = sorted(found["rows"].items(), key=lambda item: item[1]["steady"])
    figure, axes = plt.subplots(figsize=(8, 0.26 * len(rows) + 1.6), layout="constrained")
    places = range(len(rows))
    for k, (kind, color) in enumerate(COLORS.items()):
        values = [r[kind] for _, r in rows]
        mean = found[kind]
        offset = 0.2 - 0.4 * k
        label = f"{TITLES[kind]} (geometric mean {mean:.2f})"
        axes.barh([p + offset for p in places], [v - 1 for v in values], 0.38, left=1, color=color, label=label)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axes.set_yticks(list(places), [n for n, _ in rows], fontsize=8)
    axes.set_xlabel("times as fast as JAX")
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="x", which="both", linewidth=0.3)
    figure.legend(loc="outside upper center", ncols=2, fontsize=8)
    return figure


def roofline(found: dict[str, Any]) -> Any:
    """Products by size on the left, passes over memory on the right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for n, by_size in found["products"].items():
        left.plot([int(s) for s in by_size], list(by_size.values()), marker="o", label=f"{n} thread{'s' if int(n) > 1 else ''}")
    left.set_xscale("log", base=2)
    left.set(xlabel="n", ylabel="of the peak of multiply-adds", title="products of n x n float32", ylim=(0, 1.05))
    names = list(dict.fromkeys(name for by_name in found["passes"].values() for name in by_name))
    count = max(len(found["passes"]), 1)
    for k, (n, by_name) in enumerate(found["passes"].items()):
        at = [p + (k - (count - 1) / 2) * 0.8 / count for p in range(len(names))]
        right.barh(at, [by_name.get(name, 0) for name in names], 0.8 / count, label=f"{n} thread{'s' if int(n) > 1 else ''}")
    right.set_yticks(range(len(names)), names)
    right.set(xlabel="of the bandwidth for the same mix", title="passes over memory")
    for axes in (left, right):
        axes.grid(linewidth=0.3)
        axes.legend(fontsize=8)
    return figure


def save(figure: Any, folder: Path, name: str) -> None:
    for kind in ("png", "svg"):
        path = folder / f"{name}.{kind}"
        figure.savefig(path, dpi=150)
        print(path)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ratios", help="what compare.py --json wrote")
    parser.add_argument("--roofline", help="what roofline.py --json wrote")
    parser.add_argument("--out", default=".", metavar="DIR")
    o = parser.parse_args()
    folder = Path(o.out)
    folder.mkdir(parents=True, exist_ok=True)
    for path, draw, name in ((o.ratios, ratios, "ratios"), (o.roofline, roofline, "roofline")):
        if path:
            save(draw(json.loads(Path(path).read_text())), folder, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
