"""``--watch``: lint again whenever a file changes, until Ctrl-C."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from amp_lint import report
from amp_lint.run import streams, target
from amp_lint.run.choice import ConfigError
from amp_lint.run.discover import Discovery
from amp_lint.run.session import CLEAN, LintOptions, Session
from amp_lint.run.settings_file import FILES
from amp_lint.text.files import absolute, is_checkout

PAUSE = 0.5
"""Seconds between two looks at the files."""
SHARE = 20
"""So many times as long as a look takes is the pause, if that is more: 5 % of one core."""
_CLEAR = "\033[H\033[2J\033[3J"

_Stat: TypeAlias = "tuple[int, int, int] | None"
"""Time, size and inode of a file; None, if it is not there."""


@dataclass(frozen=True, slots=True)
class _State:
    """What decides what a round shows, as far as the file system tells one state from another."""

    linted: dict[Path, _Stat]
    governing: dict[Path, _Stat]
    """Settings, and what says which torch the project requires."""


def watch(options: LintOptions) -> int:
    """Lint, and again after each change, until Ctrl-C; the exit code.

    Raises:
        ConfigError: an option is wrong, or makes no sense with ``--watch``.
    """
    _refuse(options)
    first: Session | None = Session(options)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            before = _state(options)
            started = time.monotonic()
            _clear()
            written = _lint(options, first)
            first = None
            if streams.is_broken(sys.stdout):
                return CLEAN  # nobody sees what comes; what is wrong with it is told at the end
            _tell(time.monotonic() - started, len(before.linted))
            gc.collect()
            _wait(options, _after(before, written))
    if not options.quiet:
        print("stopped watching", file=sys.stderr)
    return CLEAN


def _refuse(options: LintOptions) -> None:
    """Refuse what is for one run, not for people, or not there from the first.

    Raises:
        ConfigError: such an option or path is given.
    """
    given = {
        "stdin": options.stdin,
        "--add-noqa": options.add_noqa,
        "--diff": options.diff,
        "--prove": options.prove,
        "--output-file": options.output_file is not None,
        "--show-files": options.show_files,
        "--show-settings": options.show_settings,
        "--write-baseline": options.write_baseline is not None,
        f"--output-format={options.output_format}": options.output_format not in report.FOR_PEOPLE,
    }
    if wrong := [name for name, is_given in given.items() if is_given]:
        raise ConfigError(
            f"command line: --watch shows findings again and again; leave out {wrong[0]}"
        )
    if missing := [path for path in options.paths if not os.path.lexists(path)]:
        raise ConfigError(f"{missing[0]}: does not exist; check the path")


def _lint(options: LintOptions, session: Session | None) -> dict[str, bytes]:
    """One round, and what it has written; an error in settings ends it, and no other."""
    written: dict[str, bytes] = {}
    try:
        session = session or Session(options)
        session.run()
        written = session.written
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
    sys.stdout.flush()
    return written


def _clear() -> None:
    """Empty the terminal, where there is one: what is on it is of the last round."""
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        sys.stdout.write(_CLEAR)


def _tell(seconds: float, count: int) -> None:
    clock, files = time.strftime("%H:%M:%S"), f"{count} file{'s' * (count != 1)}"
    print(
        f"[{clock}] linted in {seconds:.1f} s; watching {files}, Ctrl-C ends",
        file=sys.stderr,
        flush=True,
    )


def _after(before: _State, written: Mapping[str, bytes]) -> _State:
    """What there was before a round, and what the round has written: all else is a change."""
    linted = dict(before.linted)
    for name, data in written.items():
        path = absolute(Path(name))
        status = _stat(path)
        with contextlib.suppress(OSError):
            if path.read_bytes() == data:
                linted[path] = status
    return replace(before, linted=linted)


def _wait(options: LintOptions, before: _State) -> None:
    """Return when the files are others than before."""
    pause = PAUSE
    while True:
        time.sleep(pause)
        started = time.process_time()
        if _state(options) != before:
            return
        pause = max(PAUSE, SHARE * (time.process_time() - started))


def _state(options: LintOptions) -> _State:
    """What there is now."""
    try:
        settings = options.settings(lambda problem: None)
        discovery = Discovery(
            settings, lambda path, what: None, force_exclude=options.force_exclude
        )
        paths = map(Path, options.paths or ["."])
        found = [absolute(each.path) for each in discovery.files(paths)]
    except ConfigError:
        found = []
    named = [Path(each) for each in (options.baseline, *(options.config or ())) if each]
    governing = {path for folder in {each.parent for each in found} for path in _settings(folder)}
    return _State(_stats(found), _stats((*named, *governing)))


def _settings(folder: Path) -> Iterator[Path]:
    """The files that may govern those of a directory."""
    for above in (folder, *folder.parents):
        yield from (above / name for name in FILES)
        yield from (path for path, _ in target.sources(above))
        if is_checkout(above):
            return


def _stats(paths: Iterable[Path]) -> dict[Path, _Stat]:
    return {path: _stat(path) for path in paths}


def _stat(path: Path) -> _Stat:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
