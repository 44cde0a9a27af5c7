"""Runs a script or a module as ``python`` would: the same ``__main__``, arguments and path."""

from __future__ import annotations

import builtins
import io
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Sequence, Set
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType

from amp_lint.run import import_path

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120


@dataclass(frozen=True, slots=True)
class Ending:
    """How a script ended."""

    code: int
    """Its exit code."""
    ended: bool = True
    """Whether it came to its end by itself: not by an error or by Ctrl-C."""
    error: BaseException | None = None
    """What has ended it, but for Ctrl-C."""


def run(what: str, arguments: Sequence[str], *, module: bool) -> Ending:
    """Run a file, or a module by its name, to its end, and that of its threads."""
    before = sys.argv, sys.path
    others = frozenset(threading.enumerate())
    sys.argv = [what, *arguments]
    first = os.getcwd() if module else os.path.dirname(os.path.abspath(what))  # noqa: PTH100, PTH109, PTH120
    sys.path = [first, *import_path.AT_START[1:]]
    sys.unraisablehook = sys.__unraisablehook__  # as the script would find it
    try:
        _start(what, module=module)
        _wait(others)
        return Ending(0)
    except SystemExit as error:
        code = _code(error.code)
        return Ending(code, error=error if code else None)
    except KeyboardInterrupt as error:
        _show(error)
        return Ending(INTERRUPTED, ended=False)
    except BaseException as error:
        _show(error)
        return Ending(1, ended=False, error=error)
    finally:
        sys.argv, sys.path = before


def _start(what: str, *, module: bool) -> None:
    if module:
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        _start_file(os.path.abspath(what))  # noqa: PTH100


def _start_file(path: str) -> None:
    """As `runpy.run_path`, which names things as python does not."""
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    main = ModuleType("__main__")
    main.__file__, main.__builtins__ = path, builtins  # type: ignore[attr-defined]
    main.__loader__ = SourceFileLoader("__main__", path)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = main
    try:
        exec(code, vars(main))
    finally:
        sys.modules["__main__"] = before


def _wait(others: Set[threading.Thread]) -> None:
    """Wait for threads of the script that Python would wait for; ``others`` are not its own."""
    for thread in threading.enumerate():
        if thread not in others and not thread.daemon:
            thread.join()


def _code(code: object) -> int:
    """The exit code that ``sys.exit`` means; what is no number is printed."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """Print an exception as Python does, from the first frame of the script on."""
    place = _without_ours(error.__traceback__)
    sys.stdout.flush()
    error = error.with_traceback(place)
    try:
        sys.excepthook(type(error), error, place)
    except Exception:  # the hook is the script's own
        traceback.print_exception(type(error), error, place)


def _without_ours(place: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package, through which watched calls go."""
    kept = []
    while place is not None:
        if not _is_ours(place):
            kept.append(place)
        place = place.tb_next
    last = None
    for each in reversed(kept):
        last = TracebackType(last, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return last


def _is_ours(place: TracebackType) -> bool:
    name = place.tb_frame.f_code.co_filename
    return name.startswith((_OURS, "<frozen runpy", runpy.__file__ or _OURS))
