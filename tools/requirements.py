"""Prints what pyproject.toml says must be installed to build and run this checkout, one requirement a line.

usage: requirements.py [EXTRA...]      the extras are tables of `project.optional-dependencies`
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def main(extras: list[str]) -> None:
    data = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())
    project = data["project"]
    optional = (r for extra in extras for r in project["optional-dependencies"][extra])
    print(*data["build-system"]["requires"], *project["dependencies"], *optional, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
