"""`debug.breakpoint`: a prompt at a point of a program, with the values that the variables of the functions around it have there."""

from __future__ import annotations

import cmd
import inspect
import linecache
import pprint
import sys
import textwrap
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import IO, Any, Final, final

from steno._native import ArrayImpl
from steno.core import source
from steno.core.record import record
from steno.core.trace import Tracer
from steno.tree_util import tree_flatten, tree_unflatten

_CONTEXT: Final = 3
"""Lines that are listed before and after the present one."""


@final
@record(frozen=True)
class Frame:
    """A function that was running when the breakpoint was reached, with the values of its variables."""

    file: str
    first: int
    """The first line of the function."""
    line: int
    variables: dict[str, Any]
    module: dict[str, Any]

    def evaluate(self, expression: str) -> Any:
        return eval(expression, self.module | self.variables)

    def listing(self) -> str:
        """The lines around the present one, which has an arrow."""
        lines = linecache.getlines(self.file, self.module)
        end = self.first + len(inspect.getblock(lines[self.first - 1 :])) - 1 if self.first > 1 else len(lines)
        first, last = max(self.line - _CONTEXT, self.first, 1), min(self.line + _CONTEXT, end)
        block = textwrap.dedent("".join(lines[first - 1 : last])).split("\n")
        shown = [f"{'->' if first + k == self.line else '  '}      {text}".rstrip() for k, text in enumerate(block)]
        return "\n".join([f"> {self.file}({self.line})", *shown])

    def place(self) -> str:
        return f'  File "{self.file}", line {self.line}\n    {linecache.getline(self.file, self.line, self.module).strip()}'


@final
class Captured:
    """The frames around a breakpoint, their arrays apart: `arrays`, which are passed to the program's callback, are put back by
    `frames(arrays)`."""

    def __init__(self, frame: FrameType | None, filter_frames: bool, limit: int | None) -> None:
        self.arrays: list[Any] = []
        self._parts: list[tuple[str, int, int, dict[str, Any], list[Any], Any, list[int]]] = []
        while frame is not None and (limit is None or len(self._parts) < limit):
            code = frame.f_code
            if not filter_frames or source.is_user_code(code):
                leaves, tree = tree_flatten({name: x if _is_tree(x) else _Opaque(x) for name, x in frame.f_locals.items()})
                moving = [k for k, x in enumerate(leaves) if _varies(x)]
                self.arrays += [leaves[k] for k in moving]
                kept = [None if _varies(x) else x for x in leaves]
                self._parts.append((code.co_filename, code.co_firstlineno, frame.f_lineno, frame.f_globals, kept, tree, moving))
            frame = frame.f_back

    def frames(self, arrays: Sequence[Any]) -> list[Frame]:
        """Innermost first."""
        values = iter(arrays)
        out = []
        for file, first, line, module, kept, tree, moving in self._parts:
            leaves = list(kept)
            for k in moving:
                leaves[k] = next(values)
            variables = {name: x.value if type(x) is _Opaque else x for name, x in tree_unflatten(tree, leaves).items()}
            out.append(Frame(file, first, line, variables, module))
        return out


@final
class _Opaque:
    """A variable whose value cannot be taken apart."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _is_tree(x: Any) -> bool:
    try:
        tree_flatten(x)
    except (TypeError, ValueError):  # a dict of keys without an order
        return False
    return True


def _varies(x: Any) -> bool:
    """Whether a value is an array, or stands for one that will be known."""
    return isinstance(x, ArrayImpl) or (isinstance(x, Tracer) and not x._trace.is_over())


@final
class Prompt(cmd.Cmd):
    """The debugger's prompt. What is no command is an expression, which is evaluated in the present frame and printed."""

    prompt = "(jdb) "

    def __init__(self, frames: list[Frame], stdin: IO[str] | None, stdout: IO[str] | None) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames, self.at = frames, 0

    def run(self) -> None:
        """Reads commands until one says to go on."""
        self._say("Entering jdb:")
        self.cmdloop()

    def _say(self, text: str) -> None:
        print(text, file=self.stdout)

    @property
    def frame(self) -> Frame:
        return self.frames[self.at]

    def emptyline(self) -> bool:
        return False

    def _value(self, expression: str, show: Any) -> None:
        try:
            self._say(show(self.frame.evaluate(expression)))
        except Exception as err:
            self._say("*** " + "".join(traceback.format_exception_only(err)).strip())

    def default(self, line: str) -> None:
        self._value(line, repr)

    def do_p(self, arg: str) -> None:
        """p expression
        Evaluates the expression and prints its value."""
        self._value(arg, repr)

    def do_pp(self, arg: str) -> None:
        """pp expression
        Evaluates the expression and prints its value over several lines."""
        self._value(arg, pprint.pformat)

    def do_list(self, arg: str) -> None:
        """l(ist)
        Shows the source around the present line."""
        self._say(self.frame.listing())

    def do_bt(self, arg: str) -> None:
        """bt, w(here)
        Shows the calls that led here, the innermost last."""
        self._say("\n".join(["Traceback:", *(f.place() for f in reversed(self.frames))]))

    def _move(self, step: int) -> None:
        to = self.at + step
        if 0 <= to < len(self.frames):
            self.at = to
            self._say(self.frame.listing())
        else:
            self._say("At topmost frame." if step > 0 else "At bottommost frame.")

    def do_up(self, arg: str) -> None:
        """u(p)
        Goes to the calling function."""
        self._move(1)

    def do_down(self, arg: str) -> None:
        """d(own)
        Goes to the called function."""
        self._move(-1)

    def do_continue(self, arg: str) -> bool:
        """c(ont(inue))
        The program goes on."""
        return True

    def do_quit(self, arg: str) -> bool:
        """q(uit), exit
        Ends the process: raises SystemExit."""
        sys.exit(0)

    do_l = do_list
    do_w = do_where = do_bt
    do_u, do_d = do_up, do_down
    do_c = do_cont = do_continue
    do_q = do_exit = do_EOF = do_quit


@final
class Breakpoint:
    """The callback of a breakpoint, a function of the captured arrays."""

    def __init__(self, captured: Captured, stdin: IO[str] | None, stdout: IO[str] | None) -> None:
        self.captured, self.stdin, self.stdout = captured, stdin, stdout

    def __call__(self, arrays: Sequence[Any]) -> None:
        Prompt(self.captured.frames(arrays), self.stdin, self.stdout).run()


def captured_from(depth: int, filter_frames: bool, limit: int | None) -> Captured:
    """The frames from the one so many calls up."""
    frame = inspect.currentframe()
    for _ in range(depth + 1):
        frame = frame.f_back if frame is not None else None
    return Captured(frame, filter_frames, limit)
