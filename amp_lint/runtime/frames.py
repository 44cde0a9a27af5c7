"""Which call of the user's code is running: one walk over the frames, remembered by call site."""

from __future__ import annotations

import enum
import functools
import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple


class Place(NamedTuple):
    """A call in the code. There is one object for each call site while a run is watched."""

    file: str
    row: int
    """From 1."""
    column: int | None = None
    """In bytes of UTF-8, from 0; None before Python 3.11."""
    end_row: int | None = None
    end_column: int | None = None
    function: str = ""


NOWHERE = Place("", 0)
"""Where no code but that of torch and of Python is running."""


class _Owner(enum.Enum):
    """Whose code it is."""

    NOBODY = enum.auto()
    """torch, Python and this package, which events always go through."""
    LIBRARY = enum.auto()
    PROJECT = enum.auto()


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120
_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple({_PATHS["purelib"] + os.sep, _PATHS["platlib"] + os.sep})
_SKIPPED = (f"torch{os.sep}", "typing_extensions.py")
"""What stands between the user's call and the patched function."""
_INTERACTIVE = ("<stdin>", "<ipython")
_MOST = 10_000
"""Call sites that are remembered."""
_MOST_CALLERS = 8
"""Calls that lead to one."""
_Sites = dict[tuple[int, int], tuple[CodeType, Place]]
_places: _Sites = {}
"""Calls in the code of the project."""
_library_places: _Sites = {}
_owners: dict[int, tuple[CodeType, _Owner]] = {}
"""By the ids of code objects, which are kept: equal ones may come from different files."""


def here(depth: int = 1) -> Place:
    """The innermost call of the project; of a library, where no project's code is running.

    ``depth``: frames of the caller to leave out.
    """
    return _innermost(sys._getframe(depth))


def within(thread: int) -> Place:
    """The same of another thread, by its number."""
    return _innermost(sys._current_frames().get(thread))


def _innermost(frame: FrameType | None) -> Place:
    library: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        site = _places.get((id(code), frame.f_lasti))
        if site is not None:
            return site[1]
        known = _owners.get(id(code))
        owner = known[1] if known is not None else _owner(code)
        if owner is _Owner.PROJECT:
            return _place(frame)
        if owner is _Owner.LIBRARY and library is None:
            library = frame
        frame = frame.f_back
    return _place(library, _library_places) if library is not None else NOWHERE


def callers() -> tuple[Place, ...]:
    """The calls of the project that have led to the one which `here` gives, the innermost first."""
    found: list[Place] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) <= _MOST_CALLERS:
        if is_of_project(frame.f_code):
            found.append(_place(frame))
        frame = frame.f_back
    return tuple(found[1:])


def raised(traceback: TracebackType | None) -> Place:
    """Where an exception has left the code of the project: its innermost call."""
    found = NOWHERE
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_of_project(code):
            found = _located(code, traceback.tb_lasti, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def is_of_project(code: CodeType) -> bool:
    """Whether it is the user's: not of torch, Python, this package or any library."""
    known = _owners.get(id(code))
    return (known[1] if known is not None else _owner(code)) is _Owner.PROJECT


def _place(frame: FrameType, known: _Sites = _places) -> Place:
    code = frame.f_code
    site = (id(code), frame.f_lasti)
    found = known.get(site)
    if found is None:
        if len(known) >= _MOST:
            known.clear()
        found = known[site] = code, _located(code, frame.f_lasti, frame.f_lineno)
    return found[1]


def _located(code: CodeType, instruction: int, row: int) -> Place:
    if sys.version_info >= (3, 11):
        exact = next(islice(code.co_positions(), instruction // 2, None), None)
        if exact is not None and exact[0] is not None:
            first, last, column, end = exact
            return Place(code.co_filename, first or row, column, last, end, code.co_name)
    return Place(code.co_filename, row, function=code.co_name)


def project_files(folders: Iterable[str]) -> list[str]:
    """The files in some folders that were imported, or in which something was watched."""
    imported = [_own(module).get("__file__") for module in [*sys.modules.values()]]
    named = [name for name in imported if isinstance(name, str) and os.path.isabs(name)]  # noqa: PTH117
    named += [place.file for _, place in _places.values()]
    inside = tuple(os.path.join(folder, "") for folder in folders)  # noqa: PTH118
    own = (name for name in dict.fromkeys(named) if _owned(name) is _Owner.PROJECT)
    return [name for name in own if name.endswith(".py") and name.startswith(inside)]


def _own(module: object) -> Mapping[str, object]:
    """What a module has; to ask for more would import what is imported when it is first used."""
    return getattr(module, "__dict__", {})


def _owner(code: CodeType) -> _Owner:
    if len(_owners) >= _MOST:
        _owners.clear()
    owner = _owned(code.co_filename)
    _owners[id(code)] = code, owner
    return owner


def _owned(name: str) -> _Owner:
    if name.startswith("<"):
        return _Owner.PROJECT if name.startswith(_INTERACTIVE) else _Owner.NOBODY
    if name.startswith(_libraries()):
        skipped = tuple(folder + each for folder in _libraries() for each in _SKIPPED)
        return _Owner.NOBODY if name.startswith(skipped) else _Owner.LIBRARY
    if name.startswith((_PACKAGE, _PATHS["stdlib"] + os.sep)):
        return _Owner.NOBODY
    return _Owner.PROJECT


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Where packages are installed; also that of torch, which may be another place."""
    import torch

    return (*_LIBRARIES, os.path.dirname(os.path.dirname(torch.__file__)) + os.sep)  # noqa: PTH120
