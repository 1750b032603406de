"""`steno run FILE [ARGS...]` (or `python -m steno run ...`): runs a program written for JAX on steno, unchanged.
`steno bench FILE:FUNCTION`: times a function (`steno.bench`)."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import traceback
from types import TracebackType

from steno import asjax
from steno.version import __version__

USAGE = """usage: steno run FILE [ARGS...]        run FILE as __main__, with `import jax` meaning steno
       steno run -m MODULE [ARGS...]   the same for a module
       steno bench FILE:FUNCTION       time a function of FILE; steno bench --help says more
       steno --version"""


def main(argv: list[str] | None = None) -> int:
    """The exit status. What the program itself raises or exits with is the process's."""
    args = sys.argv[1:] if argv is None else argv
    if args[:1] == ["--version"]:
        print(f"steno {__version__}, with the interface of JAX {asjax.JAX_VERSION}")
        return 0
    if args[:1] == ["run"] and len(args) > 1 and args[1] != "-m":
        return run_file(args[1], args[2:])
    if args[:2] == ["run", "-m"] and len(args) > 2:
        return run_module(args[2], args[3:])
    if args[:1] == ["bench"]:
        return importlib.import_module("steno.bench").main(args[1:])
    print(USAGE, file=sys.stdout if args[:1] in (["-h"], ["--help"]) else sys.stderr)
    return 0 if args[:1] in (["-h"], ["--help"]) else 2


def run_file(path: str, args: list[str]) -> int:
    """Runs a file as Python would: `sys.argv`, `sys.path[0]` and `__main__` are the program's."""
    if not os.path.exists(path):
        print(f"steno run: can't open file {path!r}: no such file", file=sys.stderr)
        return 2
    asjax.install()
    sys.argv = [path, *args]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    try:
        runpy.run_path(path, run_name="__main__")
    except Exception as err:
        _print_from(err, os.path.abspath(path))
        return 1
    return 0


def run_module(name: str, args: list[str]) -> int:
    """Runs a module as `python -m` would."""
    asjax.install()
    sys.argv = [name, *args]
    sys.path[0] = os.getcwd()
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def _print_from(err: BaseException, path: str) -> None:
    """Prints the traceback from the program's first frame on."""
    tb: TracebackType | None = err.__traceback__
    while tb is not None and os.path.abspath(tb.tb_frame.f_code.co_filename) != path:
        tb = tb.tb_next
    traceback.print_exception(type(err), err, tb if tb is not None else err.__traceback__)


if __name__ == "__main__":
    sys.exit(main())
