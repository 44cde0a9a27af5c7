"""Where modules are imported from: never from the code that is looked at.

The working directory and the directories that ``PYTHONPATH`` names may hold anything, a
``signal.py`` or a package ``torch``, which Python would take for its own. Hence this module itself
imports nothing before it has looked at them that Python has not imported when it starts.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

AT_START = sys.path[:]
"""What Python has put there."""
NEEDED = ("libcst", "packaging", *["tomli"] * (sys.version_info < (3, 11)))
"""What linting imports beside itself."""


def isolate(needed: Iterable[str] = NEEDED) -> None:
    """Take the working directory and ``PYTHONPATH`` out of ``sys.path``.

    A directory of ``PYTHONPATH`` stays, as the last, if one of the packages ``needed`` is nowhere
    else: that is how some tools hand out packages.
    """
    here = {"", _absolute("")}
    named = {*map(_absolute, _python_path())} - here
    safe = [entry for entry in sys.path if _absolute(entry) not in here | named]
    rest = [entry for entry in sys.path if _absolute(entry) in named]
    sys.path[:] = safe
    missing = [name for name in needed if rest and not _is_in(safe, name)]
    sys.path += [entry for entry in rest if any(_is_in([entry], name) for name in missing)]


class Isolated:
    """A context in which `isolate` is in force."""

    def __init__(self, needed: Iterable[str] = NEEDED) -> None:
        self._needed = needed

    def __enter__(self) -> None:
        self._before = sys.path[:]
        isolate(self._needed)

    def __exit__(self, *_: object) -> None:
        sys.path[:] = self._before


def trusted(needed: Iterable[str] = NEEDED) -> list[str]:
    """What ``sys.path`` would be after `isolate`."""
    with Isolated(needed):
        return sys.path[:]


def kept(needed: Iterable[str] = NEEDED) -> list[str]:
    """What of ``PYTHONPATH`` is in `trusted`."""
    safe = {*map(_absolute, trusted(needed))}
    return [entry for entry in map(_absolute, filter(None, _python_path())) if entry in safe]


def _python_path() -> list[str]:
    named = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    return named.split(os.pathsep)


def _absolute(entry: str) -> str:
    """``entry`` from the root; as it is where the working directory was deleted."""
    try:
        return os.path.abspath(entry)  # noqa: PTH100
    except OSError:
        return entry


def _is_in(entries: list[str], name: str) -> bool:
    """Whether a package or module is in one of some directories."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, entries)
    return spec is not None and spec.loader is not None and spec.origin is not None
