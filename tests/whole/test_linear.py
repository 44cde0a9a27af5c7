"""What reads bytes of users takes linear time, whatever they are."""

from __future__ import annotations

import ast
import importlib
import itertools
import os
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import amp_lint
from amp_lint import registry
from amp_lint.run import target
from amp_lint.sieve import Sieve
from amp_lint.syntax.docstrings import docstrings
from amp_lint.syntax.links import attachments, leads
from amp_lint.syntax.project import Links, imports
from amp_lint.text.noqa import Suppressions
from amp_lint.text.source import Source
from amp_lint.vocabulary import written

SIZE = 8_000
QUICK = 0.015
"""Seconds for `SIZE` characters: linear time takes a twentieth, quadratic twice as much."""
OURS = ("amp_lint.handbook.pages", "amp_lint.report.page", "amp_lint.verify.plot")
"""Modules that read nothing but texts of the project itself."""
EXTRAS = ("ray",)
"""Libraries that need not be there."""
_WORD = re.compile(r"[A-Za-z][a-z]+|\\?.", re.DOTALL)
MADE = {f"re.{name}" for name in ("compile", "findall", "finditer", "match", "search", "sub")}
_CHARACTERS = ("a", "_", "1", " ", "\n", ".", "(", "#")


def modules() -> list[str]:
    found = [info.name for info in pkgutil.walk_packages(amp_lint.__path__, "amp_lint.")]
    return [name for name in found if name not in OURS]


def contents(module: str) -> dict[str, object]:
    """What a module has; nothing, if it is for an extra that is not there."""
    try:
        return vars(importlib.import_module(module))
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        return {}


def patterns() -> dict[str, re.Pattern[str] | re.Pattern[bytes]]:
    """All that are kept in modules, by place."""
    named = {
        f"{module}.{name}": value
        for module in modules()
        for name, value in contents(module).items()
    }
    looks = {
        name: re.compile(value.pattern.encode())
        for name, value in named.items()
        if isinstance(value, written.Look)
    }
    return {name: value for name, value in named.items() if isinstance(value, re.Pattern)} | looks


PATTERNS = patterns()


def takes_long(function: Callable[[], object], limit: float = QUICK) -> bool:
    def seconds() -> float:
        started = time.process_time()
        function()
        return time.process_time() - started

    return all(seconds() > limit for _ in range(4))  # the machine may be busy with something else


def attacks(pattern: str) -> Iterator[str]:
    """Texts of words and characters of a pattern: a beginning, and what is repeated after it."""
    parts = {*_CHARACTERS, *(word.lstrip("\\") for word in _WORD.findall(pattern))} - {"", "w", "s"}
    words = sorted(part for part in parts if len(part) > 1)
    pairs = itertools.product(words, sorted(parts.difference(words)))
    for start, part in (
        *itertools.product(("", *words), sorted(parts)),
        *(("", a + b) for a, b in pairs),
    ):
        yield start + part * (SIZE // len(part)) + "\n!"


@pytest.mark.parametrize("place", PATTERNS)
def test_patterns(place: str) -> None:
    pattern = PATTERNS[place]
    as_bytes = isinstance(pattern.pattern, bytes)
    spelled = (
        str(pattern.pattern, "ascii") if isinstance(pattern.pattern, bytes) else pattern.pattern
    )
    search: Callable[[str | bytes], object] = pattern.findall  # type: ignore[assignment]
    for text in attacks(spelled):
        given = text.encode() if as_bytes else text
        assert not takes_long(lambda given=given: search(given)), text[:40]  # type: ignore[misc]


def test_patterns_are_kept_in_modules() -> None:
    """So that they are all tested here; but for those of a pattern, a name, or words of rules."""
    found = set()
    for name in modules():
        source = Path(str(contents(name).get("__file__", os.devnull))).read_text()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.FunctionDef, ast.Lambda)):
                calls = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
                found |= {name for call in calls if ast.unparse(call) in MADE}
    assert found == {
        "amp_lint.run.gitignore",
        "amp_lint.run.silence",
        "amp_lint.syntax.facts",
        "amp_lint.vocabulary.written",
    }


FRAGMENTS = (
    "\n", " ", "a", "1", "(", ")", "\\\n", ";", ",", "#", ":", "=", "[", "'", "from a import (",
    "from a import b\n", "import a, ", "    # x\n", "class A(", "class A:\n", "class A(B", "def f(",
    "# noqa", "# noqa: A1", "# flake8: noqa\n", "scaler", "autocast", "torch", "- torch=1\n",
    "- torch", "torch>=1\n", "[options]\n", "install_requires =\n", " --hash", "x::", "1.1,>",
    "x::\n\n ", ">>> x\n", "... y\n", "```py\n", "# noqa: AMP1, ",
)  # fmt: skip
SIEVE = Sieve(registry.all_rules())


def _target(text: str, folder: Path) -> None:
    for name in ("setup.cfg", "setup.py", "requirements.txt", "environment.yml"):
        (folder / name).write_text(text)
    for requirement in dict.fromkeys(text for text, _ in target.torch_requirements(folder)):
        target.lower_bound(requirement)


def _links(text: str, folder: Path) -> None:
    data = text.encode()
    importing = b"from a import A, B\nimport a\na.A()\n" + data
    leads(importing, Links((data,), {(0, "a"): 1}))
    attachments(importing, Links((data,), {(0, "a"): 1}))


READERS: dict[str, Callable[[str, Path], object]] = {
    "imports": lambda text, _: list(imports(text.encode())),
    "sieve": lambda text, _: SIEVE.by_bytes(text.encode()),
    "noqa": lambda text, _: [
        Suppressions(Source(text.encode(), "")).covers("A", n) for n in (1, 9)
    ],
    "idle": lambda text, _: list(Suppressions(Source(text.encode(), "")).directives()),
    "docs": lambda text, _: list(docstrings(Source(f'"""\n{text}\n"""'.encode(), ""))),
    "target": _target,
    "links": _links,
}


@pytest.mark.parametrize("reader", READERS)
def test_readers(reader: str, tmp_path: Path) -> None:
    """Half a second for 30,000 characters; quadratic time would be more."""
    read = READERS[reader]
    for number, (one, two) in enumerate(itertools.product(FRAGMENTS, FRAGMENTS)):
        if number % 7 == len(reader) or one == two:
            text = one + two * (30_000 // len(two))
            assert not takes_long(lambda text=text: read(text, tmp_path), 0.5), (one, two)  # type: ignore[misc]
