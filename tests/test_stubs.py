"""The `.pyi` files of the faces say what is there; `make lint` holds programs against them (`tests/typing`)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import steno

TOOL = Path(__file__).resolve().parent.parent / "tools" / "make_stubs.py"
_spec = importlib.util.spec_from_file_location("make_stubs", TOOL)
assert _spec is not None and _spec.loader is not None
make_stubs = importlib.util.module_from_spec(_spec)
sys.modules["make_stubs"] = make_stubs
_spec.loader.exec_module(make_stubs)


def test_stubs_are_up_to_date():
    stale = []
    for name in make_stubs.faces():
        path = make_stubs.path_of(name)
        if not path.exists() or path.read_text() != make_stubs.Stub(importlib.import_module(name)).text():
            stale.append(str(path))
    assert not stale, "make stubs"


def test_the_package_says_that_it_has_types():
    assert (Path(steno.__file__).parent / "py.typed").exists()
    assert len(make_stubs.faces()) > 40
