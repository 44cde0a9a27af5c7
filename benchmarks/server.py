"""How the language server does while somebody types: random edits, by a real client, over stdio.

    python benchmarks/server.py FILE ... [--edits 1000] [--pause 0.0] [--seed 0] [--preview]

Opens each file and edits it at random, in memory: a few characters are inserted or deleted, a line
is deleted, doubled or moved, a name becomes another one, a comment is written, the file is closed
and opened anew. Most edits are taken back soon, so that the text stays a program. After an edit the
client waits for the findings of the newest text, or for up to `--pause` seconds and then goes on.

Ends with 1 if the server crashed, said anything after the answer to the newest text, or says of a
text what a server does not say that has just been started. Prints for each file p50 and p95 of the
time from an edit to the findings of its text, in milliseconds, for all edits and for those after
which the text was Python and had not been there before, and the memory of the server and of its
worker, in MiB.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lsp_client import Client, client
from lsprotocol import types

_NAME = re.compile(r"\b[a-z_]{2,}\b")
_SCRAPS = (
    "x",
    "self.",
    "(",
    ")",
    ":",
    "\n",
    "    ",
    "# a comment",
    '"',
    "loss",
    "\U0001f600",
    "\t",
)
_QUIET = 0.3
"""Seconds for which nothing may be said after the last answer."""


@dataclass
class Figures:
    """What was measured of one file."""

    all: list[float] = field(default_factory=list)
    """Seconds from an edit to the findings."""
    sound: list[float] = field(default_factory=list)
    """Of those after which the text was Python, and one that had not been there before."""
    closings: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Of the server and of its worker, in MiB, before and after."""


class Typist:
    """Edits a text at random, and takes most edits back."""

    def __init__(self, text: str, seed: int) -> None:
        self._first = self.text = text
        self._back: list[str] = []
        self._random = random.Random(seed)
        self._edits: tuple[Callable[[str], str], ...] = (
            self._insert,
            self._delete,
            self._line,
            self._rename,
            self._comment,
        )

    def edit(self) -> None:
        """One more edit."""
        if self._back and self._random.random() < 0.5:
            self.text = self._back.pop()
            return
        if len(self._back) > 8:
            self._back, self.text = [], self._first
            return
        self._back.append(self.text)
        self.text = self._random.choice(self._edits)(self.text)

    def closes(self) -> bool:
        """Whether the file is to be closed and opened anew."""
        return self._random.random() < 0.02

    def _at(self, text: str) -> int:
        return self._random.randrange(len(text) + 1)

    def _insert(self, text: str) -> str:
        at = self._at(text)
        return text[:at] + self._random.choice(_SCRAPS) + text[at:]

    def _delete(self, text: str) -> str:
        at = self._at(text)
        return text[:at] + text[at + self._random.randrange(1, 8) :]

    def _line(self, text: str) -> str:
        lines = text.splitlines(keepends=True) or [""]
        at = self._random.randrange(len(lines))
        kept = lines[:at] + lines[at + 1 :]
        if self._random.random() < 0.3:
            return "".join(kept)
        to = self._random.choice((at, self._random.randrange(len(lines))))
        return "".join([*kept[:to], lines[at], *([lines[at]] if to == at else []), *kept[to:]])

    def _rename(self, text: str) -> str:
        names = sorted(set(_NAME.findall(text)))
        old, new = self._random.choice(names or [""]), self._random.choice(names or ["x"])
        count = self._random.choice((1, 0))
        return re.sub(rf"\b{old}\b", new, text, count=count) if old else text

    def _comment(self, text: str) -> str:
        lines = text.splitlines(keepends=True) or [""]
        at = self._random.randrange(len(lines))
        return "".join([*lines[:at], "# somebody writes something\n", *lines[at:]])


async def type_into(editor: Client, path: Path, text: str, options: argparse.Namespace) -> Figures:
    """Edit one file many times; what it took.

    Raises:
        AssertionError: something was said of a text that was not the newest any more.
    """
    figures, typist, version = Figures(), Typist(text, options.seed), 1
    before = {text}
    editor.open(path, text)
    await editor.found(path, 1)
    figures.memory.append(memory(editor))
    for _ in range(options.edits):
        if typist.closes():
            editor.close(path)
            editor.open(path, typist.text)
            version, figures.closings = 1, figures.closings + 1
        else:
            typist.edit()
            version += 1
            editor.change(path, version, typist.text)
        began = time.perf_counter()
        if options.pause:
            await asyncio.sleep(options.pause * random.random())
            continue
        await editor.found(path, version)
        took = time.perf_counter() - began
        figures.all.append(took)
        if typist.text not in before and _is_python(typist.text):
            figures.sound.append(took)
        before.add(typist.text)
    last = await editor.found(path, version)
    count = len(editor.published)
    await asyncio.sleep(_QUIET)
    assert len(editor.published) == count, "something was said after the last answer"
    assert _known(last) == _known(await fresh(path, typist.text, options)), "a stale finding"
    figures.memory.append(memory(editor))
    return figures


async def fresh(path: Path, text: str, options: argparse.Namespace) -> list[types.Diagnostic]:
    """What a server says of a text that has seen no other."""
    async with client(*_arguments(options)) as other:
        await other.begin(path.parent)
        other.open(path, text)
        return await other.found(path)


def _known(found: Sequence[types.Diagnostic]) -> list[tuple[object, ...]]:
    return [(each.code, str(each.range), each.message, each.severity) for each in found]


def _arguments(options: argparse.Namespace) -> list[str]:
    return ["--isolated", *(["--preview"] if options.preview else [])]


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def memory(editor: Client) -> tuple[float, float]:
    """Of the server, and of the process that works for it, in MiB; 0 where there is no /proc."""
    pid = editor.pid
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return _resident(pid), sum(_resident(int(child)) for task in tasks for child in _words(task))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _resident(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def _told(name: str, text: str, figures: Figures) -> str:
    def times(values: Sequence[float]) -> str:
        if len(values) < 2:
            return "-"
        cuts = statistics.quantiles(values, n=100, method="inclusive")
        return f"p50 {1e3 * cuts[49]:.0f} p95 {1e3 * cuts[94]:.0f} ({len(values)})"

    lines = text.count("\n")
    grown = " -> ".join(f"{server:.0f}+{worker:.0f}" for server, worker in figures.memory)
    return (
        f"{name} ({lines} lines): all {times(figures.all)}; sound {times(figures.sound)}; "
        f"{figures.closings} closings; MiB {grown}"
    )


async def measured(options: argparse.Namespace) -> None:
    """Edit all files, one after the other, with one server."""
    with tempfile.TemporaryDirectory() as folder:
        async with client(*_arguments(options)) as editor:
            await editor.begin(Path(folder))
            for number, name in enumerate(options.files):
                text = name.read_text(encoding="utf-8")
                path = Path(folder) / f"{number}.py"
                figures = await type_into(editor, path, text, options)
                print(_told(name.name, text, figures), flush=True)
                editor.close(path)
            assert await editor.end() == 0, "the server did not end well"


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    made.add_argument("files", nargs="+", type=Path, metavar="FILE")
    made.add_argument("--edits", type=int, default=1000)
    made.add_argument("--pause", type=float, default=0.0)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--preview", action="store_true")
    return made


def main() -> int:
    """Measure; the exit code."""
    try:
        asyncio.run(measured(parser().parse_args()))
    except (AssertionError, asyncio.TimeoutError, RuntimeError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
