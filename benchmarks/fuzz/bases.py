"""The programs that a campaign starts from: those of the pages and examples, and its own.

An own program is a generator. ``«a|b|c»`` stands for one of its alternatives, and a line that
consists of an empty one is left out. Names are replaced by others that mean the same to a reader.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from amp_lint import registry
from amp_lint.handbook import pages
from fuzz import classes, functions, scripts

OWN = {**scripts.PROGRAMS, **classes.PROGRAMS, **functions.PROGRAMS}
_CHOICE = re.compile(r"«([^»]*)»")
_NAMES = {
    "scaler": ("scaler", "grad_scaler", "amp_scaler", "gs"),
    "optimizer": ("optimizer", "optim_", "opt_", "trainer_opt"),
    "model": ("model", "net_", "student"),
    "loss": ("loss", "total_loss", "objective"),
    "loader": ("loader", "dataloader", "batches"),
}


@dataclass(frozen=True)
class Base:
    """A program and where it comes from."""

    name: str
    text: str


@functools.cache
def known() -> tuple[Base, ...]:
    """The programs of the examples and pages, right and wrong, with the marks of the pages."""
    folder = Path(__file__).parents[2] / "examples"
    found = [Base(path.name, path.read_text("utf-8")) for path in sorted(folder.glob("*.py"))]
    for rule in registry.all_rules():
        page = pages.parse(registry.page(rule))
        fences = [fence for example in page.examples for fence in _fences(example)]
        found += [Base(f"{rule.code}:{fence.line}", fence.text) for fence in fences + page.silent]
    return tuple(found)


def _fences(example: pages.Example) -> list[pages.Fence]:
    return [f for f in (example.flagged, example.fixed, example.unsafe, *example.wrong) if f]


def own(name: str, random: random.Random) -> Base:
    """One of the programs that an own generator gives."""
    text = expanded(OWN[name].lstrip("\n"), random.choice)
    for word, names in _NAMES.items():
        if random.random() < 0.3:
            text = re.sub(rf"(?<!['\"\w]){word}(?!['\"\w])", random.choice(names), text)
    return Base(name, text)


def expanded(template: str, choose: Callable[[list[str]], str]) -> str:
    """A program with its choices made."""
    lines = []
    for line in template.splitlines(keepends=True):
        chosen = _CHOICE.sub(lambda match: choose(match[1].split("|")), line)
        if chosen == line or chosen.strip():
            lines.append(chosen)
    return "".join(lines)


def draw(random: random.Random) -> Base:
    """Any program: every second time one of the pages or examples."""
    if random.random() < 0.5:
        return random.choice(known())
    return own(random.choice(sorted(OWN)), random)


LAYOUTS: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "tabs": lambda text: re.sub(r"(?m)^(?: {4})+", _tabs, text).encode(),
    "two spaces": lambda text: re.sub(r"(?m)^(?: {4})+", _two_spaces, text).encode(),
    "form feeds": lambda text: text.replace("\n\n", "\n\f\n").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "no last line end": lambda text: text.rstrip().encode(),
    "trailing space": lambda text: re.sub(r"(?m)(?<=[:)])$", "  ", text).encode(),
    "Latin-1": lambda text: f"# coding: latin-1\n# \xe9\n{text}".encode("latin-1", "replace"),
    "old Mac": lambda text: text.replace("\n", "\r").encode(),
    "mixed line ends": lambda text: re.sub(r"\n(?=.*=)", "\r\n", text).encode(),
}


def _tabs(match: re.Match[str]) -> str:
    return "\t" * (len(match[0]) // 4)


def _two_spaces(match: re.Match[str]) -> str:
    return " " * (len(match[0]) // 2)


def layout(random: random.Random) -> str:
    """The name of a layout, every second time the plain one."""
    return "plain" if random.random() < 0.5 else random.choice(sorted(LAYOUTS))
